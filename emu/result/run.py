"""What a run measured: rates, shares and latencies over its seeds, and every counter of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from emu.model.run_plan import RunPlan
from emu.result.estimate import Estimate, mean_of
from emu.run_dtypes import COST_ONE, Ctx, Total
from emu.units import PS_PER_SECOND, format_duration_ps

if TYPE_CHECKING:
    from emu.model.host import Host
    from emu.result.run_tables import RunSummary

Array = NDArray[Any]
# Totals that say how much there is, not how much there was: a window cannot subtract them.
LEVELS = (Total.INSIDE, Total.TX_INSIDE)
PERCENTILES = (50, 90, 99)
METRICS = ("throughput", "cpu", "p50", "p90", "p99")


def window(before: dict[str, Array], after: dict[str, Array]) -> dict[str, Array]:
    """Counters of the time between two readings; what is inside right now stays as it is."""
    out = {name: after[name] - before[name] for name in after}
    out["totals"] = out["totals"].copy()
    for level in LEVELS:
        out["totals"][level] = after["totals"][level]
    return out


def nearest_rank(samples: Array, percent: float) -> int:
    """The smallest sample that at least that share of all samples does not exceed.

    Args:
        samples: ``int64[n]``, ascending, n > 0.
        percent: above 0, at most 100.
    """
    # Whole numbers: 0.9 * 10 is a little more than 9 in floating point.
    rank = -(-round(percent * 1000) * len(samples) // 100_000)
    return int(samples[max(rank, 1) - 1])


@attrs.frozen(kw_only=True, eq=False)
class Measured:
    """One seed's run.

    Attributes:
        seed: of its draws.
        counters: what each counter of the engine counted after the warm-up.
        whole: ``int64[len(Total)]``, totals since the start, warm-up included.
        samples_ps: ``int64[messages]``, latencies after the warm-up, ascending.
    """

    seed: int
    counters: dict[str, Array]
    whole: Array
    samples_ps: Array

    @property
    def messages(self) -> int:
        """Messages that ended after the warm-up."""
        return len(self.samples_ps)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RunResult:
    """The answer of `emu.run`. Numbers stand for the time after the warm-up.

    Attributes:
        host: the host that ran.
        plan: what the engine saw, of the first seed: kept to name queues, and to run it again.
        machine: name of the cost model.
        engine: ``"core"`` or ``"ref"``.
        software_factor: what base costs of software were multiplied with.
        duration_ps, warmup_ps: measured time, and the time before it that is cut off.
        measured: one entry per seed.
    """

    host: Host
    plan: RunPlan
    machine: str
    engine: str
    software_factor: float
    duration_ps: int
    warmup_ps: int
    measured: tuple[Measured, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in order."""
        return tuple(one.seed for one in self.measured)

    @property
    def messages(self) -> int:
        """Messages that ended, of all seeds."""
        return sum(one.messages for one in self.measured)

    @property
    def throughput(self) -> Estimate:
        """Messages per second."""
        rates = [one.messages * PS_PER_SECOND / self.duration_ps for one in self.measured]
        return mean_of(rates)

    @property
    def cpu(self) -> Estimate:
        """Busy share of all online CPUs, 0 to 1."""
        return mean_of([self.busy_ps(one) / self.capacity_ps for one in self.measured])

    @property
    def capacity_ps(self) -> int:
        """Time of all online CPUs in one seed's measured time."""
        return len(self.host.topology.online_cpus) * self.duration_ps

    def busy_ps(self, one: Measured) -> int:
        """Time of all CPUs that was not idle."""
        busy = one.counters["busy_ps"]
        return int(busy.sum() - busy[:, Ctx.IDLE].sum())

    @property
    def cpu_us_per_message(self) -> Estimate:
        """Busy microseconds of all CPUs for one message; no value without messages."""
        return mean_of(
            [
                self.busy_ps(one) / one.messages / 10**6 if one.messages else None
                for one in self.measured
            ]
        )

    @property
    def cycles_per_us(self) -> float:
        """The clock of the machine."""
        return self.plan.ps_den * 10**6 / (self.plan.ps_num * COST_ONE)

    @property
    def samples_ps(self) -> Array:
        """``int64[messages]``, ascending: the latencies of all seeds."""
        joined = np.concatenate([one.samples_ps for one in self.measured])
        joined.sort()
        return joined

    def percentile_us(self, percent: float) -> Estimate:
        """Latency in microseconds: nearest rank, over the samples of all seeds."""
        if not self.messages:
            return Estimate(None)
        each = [
            nearest_rank(one.samples_ps, percent) / 10**6 for one in self.measured if one.messages
        ]
        return Estimate(nearest_rank(self.samples_ps, percent) / 10**6, tuple(each))

    @property
    def mean_us(self) -> Estimate:
        """Mean latency in microseconds over the samples of all seeds."""
        if not self.messages:
            return Estimate(None)
        sums = [int(one.samples_ps.sum()) for one in self.measured]
        each = [
            total / one.messages / 10**6
            for total, one in zip(sums, self.measured, strict=True)
            if one.messages
        ]
        return Estimate(sum(sums) / self.messages / 10**6, tuple(each))

    def metric(self, name: str) -> Estimate:
        """One of METRICS: messages per second, busy share, or latency in microseconds."""
        if name == "throughput":
            return self.throughput
        if name == "cpu":
            return self.cpu
        return self.percentile_us(int(name.removeprefix("p")))

    def total(self, name: str) -> Array:
        """A counter of the engine, summed over the seeds."""
        first, *more = (one.counters[name] for one in self.measured)
        return sum(more, first.copy())

    def summary(self) -> RunSummary:
        """Tables of everything that was counted; printing it draws them."""
        from emu.result.run_tables import summarize

        return summarize(self)

    def headline(self) -> dict[str, Estimate]:
        """The numbers that people compare first, by name."""
        out = {
            "throughput": self.throughput,
            "cpu": self.cpu,
            "cpu_us_per_message": self.cpu_us_per_message,
        }
        out |= {f"p{percent}": self.percentile_us(percent) for percent in PERCENTILES}
        return out | {"mean": self.mean_us}

    def to_json(self) -> dict[str, object]:
        """Plain values: docs/run-json.md, "A run"."""
        return {
            "machine": self.machine,
            "engine": self.engine,
            "software_factor": self.software_factor,
            "cycles_per_us": self.cycles_per_us,
            "seeds": list(self.seeds),
            "duration_ps": self.duration_ps,
            "warmup_ps": self.warmup_ps,
            "messages": self.messages,
            **{name: estimate.to_json() for name, estimate in self.headline().items()},
            **self.summary().to_json(),
        }

    def __repr__(self) -> str:
        seeds = f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        rate, share = self.throughput.value or 0.0, self.cpu.value or 0.0
        text = f"{rate:,.0f} messages/s at {share:.1%} CPU"
        if self.messages:
            middle, high = (self.percentile_us(percent).value for percent in (50, 99))
            text += f", p50 {middle:.1f} us, p99 {high:.1f} us"
        length = format_duration_ps(self.duration_ps)
        return f"<RunResult {text}; {self.machine}, {length}, {seeds}, {self.engine}>"
