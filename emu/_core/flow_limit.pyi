import numpy as np
from numpy.typing import NDArray

def flow_limit_drops(
    hash: NDArray[np.uint32], table_len: int, low_bits: bool
) -> NDArray[np.uint8]: ...
