import numpy as np
from numpy.typing import NDArray

def reuseport_select(
    hash: NDArray[np.uint32],
    cpu: NDArray[np.int32],
    incoming_cpu: NDArray[np.int32],
    *,
    established: NDArray[np.uint8] | None = None,
    cpu_aware: bool = True,
) -> NDArray[np.int32]: ...
