"""The trials of one calibration: what is tried, and how far it is from what was published."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log

import attrs

from emu.ask.fit import Fit, Trial
from emu.ask.roots import Box, Found
from emu.errors import ConfigError
from emu.model.costs import Machine
from emu.model.host import Host
from emu.model.published import Calibration
from emu.model.workloads import RequestResponse, durations_ps
from emu.timing import run
from emu.units import PS_PER_SECOND, format_duration_ps

FACTORS = (1 / 20, 20.0)
FACTOR_STEP = 2.0  # at most, up or down, from one run to the next
PAUSE_STEP = 0.4  # of the whole cycle
# First guesses of the derivatives. By the logarithm of the factor: base costs are about four fifths
# of all cycles, and a third of a client's cycle is time on the host. A pause counts in full.
BY_FACTOR, CYCLE_BY_FACTOR, CYCLE_BY_PAUSE = 0.8, 0.3, 1.0
PAUSE_UNIT_PS = 1000  # a fitted pause is a whole number of nanoseconds
FACTOR_DIGITS = 6

Tell = Callable[[str], None]


@attrs.frozen(kw_only=True)
class Runs:
    """How each trial runs: see `emu.run`."""

    machine: str | Machine
    seed: int
    seeds: int
    duration: str
    warmup: str
    engine: str
    redraw_secrets: bool


@attrs.define(kw_only=True, eq=False)
class Trying:
    """The trials of one calibration.

    Unknown numbers, in this order, as far as they are fitted: the logarithm of the factor; the mean
    pause as a share of the published cycle of a client.
    """

    host: Host
    workload: RequestResponse
    how: Calibration
    throughput: float | None
    cpu: float | None
    runs: Runs
    tell: Tell
    trials: list[Trial] = attrs.field(factory=list)

    @property
    def cycle_ps(self) -> float:
        """A client's whole cycle at the published rate (Little's law)."""
        assert self.throughput is not None
        return self.workload.flows * PS_PER_SECOND / self.throughput

    def declared_ps(self) -> tuple[int, int]:
        """The pause's fixed part and the mean of its drawn part, as the workload declares them."""
        times = durations_ps(self.workload)
        return times["turnaround"], times["turnaround_mean"]

    def first_guess(self, start: Fit | None) -> list[float]:
        """Where to begin."""
        factor = start.software_factor if start else 1.0
        pause = sum(self.declared_ps())
        if start is not None:
            pause = start.turnaround_ps + start.turnaround_mean_ps
        out = [log(factor)] if self.how.software_factor else []
        return [*out, pause / self.cycle_ps] if self.how.turnaround else out

    def slopes(self) -> list[list[float]]:
        """Guessed derivatives of `errors`."""
        if not self.how.turnaround:
            return [[BY_FACTOR]]
        if not self.how.software_factor:
            return [[CYCLE_BY_PAUSE]]
        return [[BY_FACTOR, 0.0], [CYCLE_BY_FACTOR, CYCLE_BY_PAUSE]]

    def box(self) -> Box:
        """Where to look."""
        low, high, step = [], [], []
        if self.how.software_factor:
            low.append(log(FACTORS[0]))
            high.append(log(FACTORS[1]))
            step.append(log(FACTOR_STEP))
        if self.how.turnaround:
            low.append(0.0)
            high.append(1.0)
            step.append(PAUSE_STEP)
        return Box(low=low, high=high, step=step)

    def numbers(self, at: tuple[float, ...]) -> tuple[float, RequestResponse]:
        """The factor and the workload at that place, rounded as the answer has them."""
        factor, workload = 1.0, self.workload
        if self.how.software_factor:
            factor = round(exp(at[0]), FACTOR_DIGITS)
        if self.how.turnaround:
            workload = self.with_pause(at[-1] * self.cycle_ps)
        return factor, workload

    def with_pause(self, pause_ps: float) -> RequestResponse:
        """The workload with that mean pause; its two parts keep their proportion."""
        fixed, mean = self.declared_ps()
        share = fixed / (fixed + mean) if fixed + mean else 1.0
        return attrs.evolve(
            self.workload,
            turnaround=whole_pause(pause_ps * share),
            turnaround_mean=whole_pause(pause_ps * (1 - share)),
        )

    def errors(self, at: tuple[float, ...]) -> tuple[float, ...]:
        """Run at that place: how far each fitted figure is from the published one, relatively."""
        factor, workload = self.numbers(at)
        how = attrs.asdict(self.runs, recurse=False)
        result = run(self.host, workload, software_factor=factor, **how)
        rate, busy = result.throughput.value, result.cpu.value
        if not rate or busy is None:
            allowed = "a measured time in which messages end"
            raise ConfigError("calibrate: duration", repr(self.runs.duration), allowed)
        out = []
        if self.how.software_factor == "throughput":
            assert self.throughput is not None
            out.append(log(self.throughput / rate))
        elif self.how.software_factor == "cpu":
            out.append(log(busy / self.wanted_cpu(rate)))
        if self.how.turnaround:
            assert self.throughput is not None
            out.append(self.throughput / rate - 1)
        times = durations_ps(workload)
        trial = Trial(
            software_factor=factor,
            pause_ps=times["turnaround"] + times["turnaround_mean"],
            throughput=rate,
            cpu=busy,
            error=max(map(abs, out)),
        )
        self.trials.append(trial)
        self.tell(
            f"trial {len(self.trials)}: factor {factor:.4f}, pause "
            f"{trial.pause_ps / 1e6:.2f}us: {rate:,.0f}/s at {busy:.2%} CPU"
        )
        return tuple(out)

    def wanted_cpu(self, rate: float) -> float:
        """The CPU use that this rate would have at the published CPU time of a message.

        With the pause fitted too the rate is still on its way to the published one: the time of
        one message hardly changes with it.
        """
        assert self.cpu is not None
        if self.how.turnaround and self.throughput is not None:
            return self.cpu * rate / self.throughput
        return self.cpu

    def answer(self, found: Found) -> Fit:
        """The best trial."""
        factor, workload = self.numbers(found.best.at)
        trial = self.trials[found.steps.index(found.best)]
        targets = {"throughput": self.throughput, "cpu": self.cpu}
        reached = {"throughput": trial.throughput, "cpu": trial.cpu}
        return Fit(
            software_factor=factor,
            workload=workload,
            fitted={
                name: metric
                for name in ("software_factor", "turnaround")
                if (metric := getattr(self.how, name))
            },
            targets={name: value for name, value in targets.items() if value is not None},
            reached={name: reached[name] for name in targets if targets[name] is not None},
            trials=tuple(self.trials),
            residual=found.best.size,
            converged=found.converged,
            note=self.note(found, trial),
        )

    def note(self, found: Found, trial: Trial) -> str:
        """Why it did not converge."""
        if found.converged:
            return ""
        text = f"not converged after {len(found.steps)} trials"
        if self.how.turnaround and trial.pause_ps == 0:
            return f"{text}: even without a pause the rate is below the published one"
        return text


def whole_pause(pause_ps: float) -> str:
    """A pause as a workload takes it."""
    return format_duration_ps(round(pause_ps / PAUSE_UNIT_PS) * PAUSE_UNIT_PS)
