import numpy as np
from numpy.typing import ArrayLike, NDArray

def make_polls(
    queue: ArrayLike,
    arrival_ps: ArrayLike,
    rx_usecs_ps: ArrayLike,
    rx_frames: ArrayLike,
    *,
    weight: int = 64,
    jiffy_ps: int = ...,
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
]: ...
def sort_by_queue(
    queue: NDArray[np.int32], arrival_ps: NDArray[np.int64], queues: int
) -> NDArray[np.int64]: ...
def gather(
    packets: NDArray[np.int64],
    firsts: NDArray[np.int64],
    counts: NDArray[np.int32],
    new_firsts: NDArray[np.int64],
) -> NDArray[np.int64]: ...
