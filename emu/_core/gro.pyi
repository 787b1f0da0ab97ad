from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from emu.model.packets import Packets

def check_polls(
    n: int,
    poll_counts: NDArray[np.int64],
    jiffies: NDArray[np.int64],
    columns: Mapping[str, NDArray[np.generic]],
) -> None: ...
def gro_packets(
    packets: Packets,
    poll_counts: NDArray[np.int64],
    jiffies: NDArray[np.int64],
    cfg: np.void,
    hash: NDArray[np.uint32],
    hash_type: NDArray[np.uint8],
    hz: int = 250,
) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.uint8]]: ...
