import numpy as np
from numpy.typing import NDArray

def dissect_frames(
    blob: NDArray[np.uint8],
    frame_off: NDArray[np.int64],
    cap_bytes: NDArray[np.uint32],
    wire_bytes: NDArray[np.uint32],
    link: NDArray[np.uint8],
) -> tuple[dict[str, NDArray[np.generic]], NDArray[np.void]]: ...
def checksum(data: NDArray[np.uint8]) -> int: ...
