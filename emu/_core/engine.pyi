from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from emu._core.run_setup import RunSetup
from emu.model.plan import Array
from emu.model.run_plan import RunPlan

class Run(RunSetup):
    def __init__(
        self,
        plan: RunPlan,
        arrived: Mapping[str, Array],
        *,
        run_ahead: int = -1,
        trace_rows: int = 0,
    ) -> None: ...
    def advance(self, until_ps: int) -> int: ...
    def counters(self) -> dict[str, NDArray[np.int64]]: ...
    def take_samples(self) -> NDArray[np.int64]: ...
    def trace(self) -> NDArray[np.void]: ...
