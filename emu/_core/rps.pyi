import numpy as np
from numpy.typing import NDArray

def rps_queues(recorded: NDArray[np.int32], real_num_rx_queues: int) -> NDArray[np.int32]: ...
def rps_cpus(
    cpus: NDArray[np.uint16], online: NDArray[np.uint8], hash: NDArray[np.uint32]
) -> NDArray[np.int32]: ...
