from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class Rfs:
    def __init__(
        self,
        sock_entries: int,
        rxq_entries: Sequence[int] | NDArray[np.uint32],
        ncpus: int,
        low_bits: bool = False,
    ) -> None: ...
    def record(self, hash_value: int, cpu: int) -> None: ...
    def forget(self, hash_value: int) -> None: ...
    def asks_hash(self, rxq: int, cpus: Sequence[int]) -> bool: ...
    def choose(
        self,
        rxq: int,
        hash_value: int,
        cpus: Sequence[int] | NDArray[np.uint16],
        online: Sequence[int] | NDArray[np.uint8],
        heads: Sequence[int] | NDArray[np.uint32],
    ) -> tuple[int, int]: ...
    def note_tail(self, rxq: int, slot: int, tail: int) -> None: ...
    def table(self) -> NDArray[np.uint32]: ...
    def flows(self, rxq: int) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]: ...

def rfs_cpus(
    rfs: Rfs,
    rxq: int,
    hash: NDArray[np.uint32],
    cpus: NDArray[np.uint16],
    online: NDArray[np.uint8],
    heads: NDArray[np.uint32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
