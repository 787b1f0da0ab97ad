"""The door of timed runs: what it hands to an engine, what it cuts off, what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import emu
from emu import engines, timing
from emu.errors import ConfigError
from emu.model.generate import generate
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap
from emu.model.run_plan import RunPlan
from emu.model.secrets import Secrets
from emu.model.topology import Topology
from emu.model.workloads import OpenLoop, RequestResponse
from emu.run_dtypes import Ctx, Total
from tests.small_runs import HOST, LOAD, MACHINE, no_counts

MS = 10**9


class Clockwork:
    """An engine that ends a message each microsecond, with a latency that is its number in ns."""

    made: list[Clockwork] = []  # noqa: RUF012  (a new list for each test)

    def __init__(self, plan: RunPlan, arrived: dict[str, Any]) -> None:
        self.plan, self.until, self.told = plan, 0, 0
        self.stops: list[int] = []
        assert len(arrived["rx_queue"]) == len(plan.base.packets)
        Clockwork.made.append(self)

    def advance(self, until_ps: int) -> int:
        assert until_ps >= self.until
        self.until = until_ps
        self.stops.append(until_ps)
        return 0

    def counters(self) -> dict[str, Any]:
        out = no_counts(self.plan)
        out["busy_ps"][:, Ctx.IDLE] = self.until
        out["totals"][Total.ARRIVED] = out["totals"][Total.READ] = self.until // 10**6
        out["totals"][Total.INSIDE] = 5
        return out

    def take_samples(self) -> Any:
        first, self.told = self.told, self.until // 10**6
        return np.arange(first, self.told, dtype=np.int64)[::-1] * 1000


@pytest.fixture
def clockwork(monkeypatch: pytest.MonkeyPatch) -> list[Clockwork]:
    """Runs go through Clockwork; the list has one entry per run."""

    def stage(engine: str, name: str) -> Any:
        return SimpleNamespace(Run=Clockwork) if name == "engine" else engines.stage(engine, name)

    monkeypatch.setattr(timing, "stage", stage)
    Clockwork.made = []
    return Clockwork.made


def refused(match: str, *arguments: Any, **options: Any) -> str:
    """The run must be refused with one line."""
    with pytest.raises(ConfigError, match=match) as caught:
        emu.run(*(arguments or (HOST, LOAD)), **{"engine": "ref", **options})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_warm_up_is_cut(clockwork: list[Clockwork]) -> None:
    result = emu.run(HOST, LOAD, engine="ref", duration="3ms", warmup="2ms")

    (run,) = clockwork
    assert 2 * MS in run.stops
    assert run.stops[-1] == 5 * MS
    assert result.messages == 3000
    assert result.throughput.value == 1e6
    # Message 2000 is the first one behind the warm-up; samples come back in order.
    assert result.samples_ps[[0, -1]].tolist() == [2_000_000, 4_999_000]
    assert (np.diff(result.samples_ps) > 0).all()
    assert result.total("totals")[Total.ARRIVED] == 3000
    assert result.total("totals")[Total.INSIDE] == 5
    assert result.measured[0].whole[Total.ARRIVED] == 5000
    assert result.cpu.value == 0.0


def test_no_warm_up(clockwork: list[Clockwork]) -> None:
    assert emu.run(HOST, LOAD, engine="ref", duration="1us", warmup="0s").messages == 1
    assert clockwork[0].stops[0] == 0


def test_each_seed_has_a_plan_of_its_own(clockwork: list[Clockwork]) -> None:
    shares: list[float] = []

    result = emu.run(HOST, LOAD, engine="ref", seed=7, seeds=3, progress=shares.append)

    assert result.seeds == (7, 8, 9)
    assert [run.plan.seed for run in clockwork] == [7, 8, 9]
    ports = [tuple(run.plan.base.packets.sport.tolist()) for run in clockwork]
    assert len(set(ports)) == 3
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (3 * timing.SLICES, 1.0)
    assert result.throughput.half_width == 0.0


@pytest.mark.parametrize("redraw", [False, True])
def test_secrets_are_the_hosts_or_the_seeds(clockwork: list[Clockwork], redraw: bool) -> None:
    host = HOST.replace(secrets=Secrets.from_seed(99))

    emu.run(host, LOAD, engine="ref", seeds=2, duration="1ms", redraw_secrets=redraw)

    keys = {run.plan.base.flow_hash_key.tobytes() for run in clockwork}
    assert len(keys) == (2 if redraw else 1)
    assert (host.secrets.flow_hash_key in keys) is not redraw


def test_the_listener_that_a_steer_finds_accepts(clockwork: list[Clockwork]) -> None:
    emu.run(HOST, LOAD, engine="ref", duration="1ms")

    plan = clockwork[0].plan
    assert len(plan.sockets) == 1 + LOAD.flows
    assert (plan.sockets["thread_len"][1:] == 1).all()


def test_what_the_host_sends_does_not_arrive(clockwork: list[Clockwork]) -> None:
    mine = generate(packets=6, flows=2, local="10.0.0.1:12865")
    back = mine.replace(
        saddr=mine.daddr.copy(), daddr=mine.saddr.copy(), sport=mine.dport, dport=mine.sport
    )
    both = back.take(np.arange(6)).replace(
        **{
            name: np.concatenate([back.columns[name][:2], mine.columns[name][2:]])
            for name in ("saddr", "daddr", "sport", "dport")
        }
    )

    emu.run(HOST, OpenLoop(packets=both), engine="ref", duration="1ms")

    assert len(clockwork[0].plan.base.packets) == 4
    assert "all sent by the host" in refused("packets", HOST, OpenLoop(packets=back))


@pytest.mark.usefixtures("clockwork")
def test_the_software_factor_is_the_machines() -> None:
    result = emu.run(HOST, LOAD, engine="ref", software_factor=1.5, duration="1ms")
    scaled = emu.run(HOST, LOAD, engine="ref", machine=MACHINE.scaled(1.5), duration="1ms")

    assert result.software_factor == scaled.software_factor == 1.5
    assert result.plan.costs.tolist() == scaled.plan.costs.tolist()
    assert result.plan.costs.tolist() != MACHINE.costs.tolist()


@pytest.mark.parametrize("text", ["0s", "0ps", "7200s", "5", "", "-1ms", "fast"])
def test_a_duration_that_cannot_be_is_refused(text: str) -> None:
    assert "run: duration" in refused("duration", duration=text)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"duration": 5}, "run: duration: got 5"),
        ({"warmup": "9000s"}, "run: warmup"),
        ({"seeds": 0}, "run: seeds: got 0"),
        ({"seeds": True}, "run: seeds"),
        ({"seed": -1}, "run: seed: got -1"),
        ({"engine": "cor"}, '"core" or "ref"'),
        ({"machine": "xeon-2016"}, "xeon-2015"),
        ({"machine": 5}, "machine"),
        ({"software_factor": 0}, "software_factor"),
        ({"software_factor": -1.0}, "software_factor"),
        ({"software_factor": "fast"}, "software_factor"),
        ({"software_factor": True}, "software_factor: got True"),
        ({"software_factor": np.array([1, 2])}, "software_factor"),
        ({"software_factor": 10**5000}, "software_factor: got a number with thousands of digits"),
        ({"seed": np.int64(1)}, "run: seed"),
        ({"seed": 10**5000}, "run: seed: got a number with thousands of digits"),
        ({"engine": ["core"]}, "engine: got"),
        ({"engine": 10**5000}, "engine: got a number with thousands of digits"),
        ({"duration": "9" * 5000 + "s"}, "at most 40 characters"),
        ({"redraw_secrets": 1}, "run: redraw_secrets: got 1; allowed: True or False"),
        ({"progress": "yes"}, "run: progress: got 'yes'; allowed: a function"),
    ],
)
def test_arguments_that_cannot_be_are_refused(options: dict[str, Any], match: str) -> None:
    refused(match, **options)


def test_a_run_goes_on_in_pieces_of_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python sees a Ctrl-C between two calls of the engine only."""
    clock = [0.0]
    stops: list[int] = []
    work = SimpleNamespace(advance=lambda until: stops.append(until))
    monkeypatch.setattr(timing, "monotonic", lambda: clock[0])
    paced = timing.Paced(work)
    paced.advance(10**12)
    assert len(stops) < 150  # it takes no time: the pieces grow, but not without end
    assert np.diff(stops).max() == timing.MOST_PIECE_PS
    assert (stops[0], stops[-1]) == (timing.FIRST_PIECE_PS, 10**12)

    def slow(until: int) -> None:
        clock[0] += 2 * timing.MOMENT_SECONDS * (until - stops[-1]) / 10**9  # 5 ms are a second
        stops.append(until)

    work.advance = slow
    paced.advance(2 * 10**12)
    assert np.diff(stops[-200:]).max() <= 10**9
    assert stops == sorted(set(stops))


def test_too_little_memory_is_one_line(
    clockwork: list[Clockwork], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*given: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Clockwork, "__init__", none_left)
    refused("more memory than there is")


def test_hosts_and_workloads_that_do_not_fit_are_refused() -> None:
    refused("Host, and a RequestResponse", HOST, generate(packets=1))
    refused("Host, and a RequestResponse", "host", LOAD)
    assert "12866" in refused("no socket", HOST, RequestResponse(flows=2, server="10.0.0.1:12866"))
    refused("cpumap", HOST.replace_nic("eth0", cpumap=Cpumap(cpus=CpuSet([1]))), LOAD)
    slow = HOST.replace_nic("eth0", link_mbps=10)
    fast = generate(packets=1000, rate_pps=10_000_000, local="10.0.0.1:12865")
    refused("link_mbps", slow, OpenLoop(packets=fast))


@pytest.fixture(scope="module", params=["core", "ref"])
def real(request: pytest.FixtureRequest) -> Any:
    """A short real run of each engine."""
    return emu.run(
        HOST,
        RequestResponse(flows=8, request_bytes=64, response_bytes=64),
        engine=request.param,
        seeds=2,
        duration="2ms",
        warmup="500us",
    )


def test_a_real_run_loses_nothing_and_fills_its_time(real: Any) -> None:
    said = real.summary().conservation

    assert (said["lost"], said["tx_lost"]) == (0, 0)
    assert said["arrived"] > 100
    for one in real.measured:
        assert (one.counters["busy_ps"].sum(axis=1) == real.duration_ps).all()
        assert one.messages == one.counters["totals"][Total.SAMPLES]


def test_a_real_run_says_where_all_its_time_went(real: Any) -> None:
    """Busy time is what was charged and what was waited; a step may reach over either end."""
    plan, cut_ps = real.plan, 2 * 10 * 10**6
    for one in real.measured:
        busy = one.counters["busy_ps"][:, 1:].sum()
        charged = int(one.counters["cost"].sum()) * plan.ps_num // plan.ps_den
        waited = one.counters["locks"][:, 2].sum()
        assert abs(busy - charged - waited) < cut_ps * real.host.topology.cpus, one.seed


def test_a_real_closed_loop_obeys_littles_law(real: Any) -> None:
    """Clients = rate x cycle; what is under way at the ends is 8 of some hundred cycles."""
    clients = real.throughput.value * real.mean_us.value / 1e6

    assert clients == pytest.approx(8, rel=0.05), real


def test_both_engines_measure_the_same() -> None:
    one, other = (
        emu.run(HOST, LOAD, engine=name, duration="1ms", warmup="200us") for name in ("core", "ref")
    )

    for mine, theirs in zip(one.measured, other.measured, strict=True):
        assert mine.samples_ps.tolist() == theirs.samples_ps.tolist()
        for name, counted in mine.counters.items():
            assert np.array_equal(counted, theirs.counters[name]), name


def test_a_host_of_one_cpu_runs() -> None:
    host = Host(
        topology=Topology(cpus=1),
        nics=[emu.Nic(name="eth0")],
        sockets=[emu.Socket(name="server", bind="0.0.0.0:12865")],
    )

    result = emu.run(host, LOAD, engine="ref", duration="1ms", warmup="0s")

    assert result.messages > 10
