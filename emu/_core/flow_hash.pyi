import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.model.packets import Packets

def key_words(key16: bytes) -> NDArray[np.uint64]: ...
def siphash(key16: bytes, data: ArrayLike) -> NDArray[np.uint64]: ...
def flow_hash_packets(
    packets: Packets, key16: bytes
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]: ...
