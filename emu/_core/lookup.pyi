import numpy as np
from numpy.typing import NDArray

from emu._core.reuseport import reuseport_select as reuseport_select
from emu.model.packets import Packets

Answer = tuple[int, int, int, int, int]
Answers = tuple[
    NDArray[np.int32], NDArray[np.uint16], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint8]
]

class LookupTable:
    def __init__(
        self,
        sockets: NDArray[np.void],
        masks: NDArray[np.uint64],
        mask_words: int,
        cfg: NDArray[np.void],
    ) -> None: ...
    @property
    def sockets(self) -> NDArray[np.void]: ...
    def open(self, s: int, state: int) -> None: ...
    def close(self, s: int) -> None: ...
    def set_incoming_cpu(self, s: int, cpu: int) -> None: ...
    def set_mask(self, s: int, off: int) -> None: ...
    def groups(self) -> list[list[int]]: ...
    def find(
        self, packets: Packets, i: int, dif: int, cpu: int, hash: int | None = None
    ) -> Answer: ...
    def find_tuple(
        self,
        proto: int,
        family: int,
        saddr: bytes,
        daddr: bytes,
        sport: int,
        dport: int,
        dif: int,
        cpu: int,
    ) -> Answer: ...
    def find_all(
        self, packets: Packets, dif: NDArray[np.int32], cpu: NDArray[np.int32]
    ) -> Answers: ...

def lookup_packets(
    packets: Packets,
    sockets: NDArray[np.void],
    masks: NDArray[np.uint64],
    mask_words: int,
    cfg: NDArray[np.void],
    dif: NDArray[np.int32],
    cpu: NDArray[np.int32],
) -> Answers: ...
