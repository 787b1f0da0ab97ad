"""What a calibration found: the fitted numbers, what they were fitted to, and how it got there."""

from __future__ import annotations

import attrs

from emu.model.workloads import RequestResponse, durations_ps
from emu.units import format_duration_ps

NAMES = {"software_factor": "factor on software base costs", "turnaround": "clients' pause"}


@attrs.frozen(kw_only=True)
class Trial:
    """One run of a calibration.

    Attributes:
        software_factor: the factor that it tried.
        pause_ps: the clients' mean pause that it tried, fixed part and drawn part together.
        throughput: messages per second that came out.
        cpu: busy share that came out, 0 to 1.
        error: the largest relative error of what is fitted.
    """

    software_factor: float
    pause_ps: int
    throughput: float
    cpu: float
    error: float


@attrs.frozen(kw_only=True, eq=False)
class Fit:
    """The answer of `emu.calibrate`.

    Attributes:
        software_factor: for `emu.run`; 1 when it was not fitted.
        workload: the workload with the fitted pause.
        fitted: which numbers were fitted -> the metric each was fitted to.
        targets: metric -> the published figure (messages per second; busy share).
        reached: metric -> what the best trial has, for every metric that was given.
        trials: every run, in order.
        residual: the largest relative error that is left.
        converged: it is within the tolerance.
        note: why not, or what else there is to say; "" for nothing.
    """

    software_factor: float
    workload: RequestResponse
    fitted: dict[str, str]
    targets: dict[str, float]
    reached: dict[str, float]
    trials: tuple[Trial, ...]
    residual: float
    converged: bool
    note: str = ""

    @property
    def turnaround_ps(self) -> int:
        """Fixed part of the clients' pause."""
        return durations_ps(self.workload)["turnaround"]

    @property
    def turnaround_mean_ps(self) -> int:
        """Mean of the drawn part of it."""
        return durations_ps(self.workload)["turnaround_mean"]

    def numbers(self) -> str:
        """The fitted numbers in one line; those that stayed as they were say so."""
        pause = format_pause(self.turnaround_ps, self.turnaround_mean_ps)
        parts = []
        values = {"software_factor": f"{self.software_factor:.4f}", "turnaround": pause}
        for name, value in values.items():
            how = f"to {self.fitted[name]}" if name in self.fitted else "not fitted"
            parts.append(f"{NAMES[name]} {value} ({how})")
        return ", ".join(parts)

    def to_json(self) -> dict[str, object]:
        """Plain values: docs/bench-json.md, "A fit"."""
        return {
            "software_factor": self.software_factor,
            "turnaround_ps": self.turnaround_ps,
            "turnaround_mean_ps": self.turnaround_mean_ps,
            "fitted": dict(self.fitted),
            "targets": dict(self.targets),
            "reached": dict(self.reached),
            "residual": self.residual,
            "converged": self.converged,
            "note": self.note,
            "trials": [attrs.asdict(trial) for trial in self.trials],
        }


def format_pause(fixed_ps: int, mean_ps: int) -> str:
    """A pause as its two parts: ``20us + 20us drawn``."""
    fixed = format_duration_ps(fixed_ps)
    return f"{fixed} + {format_duration_ps(mean_ps)} drawn" if mean_ps else fixed
