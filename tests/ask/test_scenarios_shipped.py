"""The shipped experiments load, and *after* is *before* with the proposal and nothing else."""

from __future__ import annotations

import attrs
import pytest

from emu.ask.scenarios import Setting, fit_label, fitted_labels, published_of, run_side
from emu.ask.sensitivity import same
from emu.bench.shapes import SHAPED, SHAPES, shape_cases
from emu.bench.timed import FOLDER, TIMED, load_timed, timed_setting, timed_steps
from emu.io.scenarios import Case
from emu.io.toml import load_toml
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.timing import prepare

MASK_LABELS = ["TCP IPv4", "TCP IPv6", "UDP IPv4", "UDP IPv6"]


def without(host: Host, *, xps: bool, mask: bool) -> Host:
    """The host without what a proposal adds."""
    nics = [attrs.evolve(nic, xps_cpus=()) if xps else nic for nic in host.nics]
    sockets = [attrs.evolve(one, cpu_mask=None) if mask else one for one in host.sockets]
    return host.replace(nics=nics, sockets=sockets)


def differs_by(case: Case, **what: bool) -> bool:
    """Whether *after* is *before* with that and nothing else."""
    return (
        case.before.host != case.after.host
        and case.before.host == without(case.after.host, **what)
        and case.before.workload == case.after.workload
        and case.before.machine is case.after.machine
    )


def test_xps_adds_a_queue_for_each_cpu_and_nothing_else() -> None:
    scenario = load_timed("xps")
    main = scenario.cases[0]

    assert differs_by(main, xps=True, mask=False)
    assert main.after.host.nics[0].xps_cpus == tuple(CpuSet([cpu]) for cpu in range(16))
    assert main.before.host.topology.nodes == 4
    assert main.before.workload.flows == 500
    for case in scenario.cases[-2:]:
        assert differs_by(case, xps=True, mask=False)
    rows = published_of(scenario, main.label)
    assert (rows["throughput"].before, rows["throughput"].after) == (996, 1234)


@pytest.mark.parametrize("place", range(8))
def test_the_mask_adds_a_mask_and_nothing_else(place: int) -> None:
    case = load_timed("incoming-cpu-mask").cases[place]
    label = MASK_LABELS[place % 4]

    assert case.label == label + (", kernel 6.18" if place >= 4 else "")
    assert differs_by(case, xps=False, mask=True)
    assert case.before.workload.proto == label[:3].lower()
    assert case.before.workload.family == int(label[-1])
    for socket in case.after.host.sockets:
        assert socket.proto == label[:3].lower()
        assert socket.threads == socket.cpu_mask, "taskset and mask are the same CPUs"


def test_every_mask_row_is_fitted_to_its_own_and_the_others_to_theirs() -> None:
    scenario = load_timed("incoming-cpu-mask")

    assert fitted_labels(scenario) == MASK_LABELS
    assert fit_label(scenario, "UDP IPv6, kernel 6.18") == "UDP IPv6"
    for label in MASK_LABELS:
        assert set(published_of(scenario, label)) == {"throughput", "cpu", "p50", "p90", "p99"}


@pytest.mark.parametrize("name", TIMED)
def test_every_case_and_shape_can_run(name: str) -> None:
    scenario = load_timed(name)
    tables = load_toml(FOLDER / f"{name}.toml")
    cases = list(scenario.cases)
    for label in SHAPED[name]:
        cases += shape_cases(tables, label, SHAPES[name])

    for case in cases:
        for side in (case.before, case.after):
            prepare(side.host, side.workload, machine=side.machine, seed=1)
    assert len({case.label for case in cases}) == len(cases)
    assert timed_steps(name) == len(cases) + len(fitted_labels(scenario))


@pytest.mark.parametrize(
    ("name", "label"),
    [("xps", "one tx queue per CPU"), *(("incoming-cpu-mask", label) for label in MASK_LABELS)],
)
def test_both_engines_measure_the_same(name: str, label: str) -> None:
    (case,) = (one for one in load_timed(name).cases if one.label == label)
    results = [
        run_side(case.after, None, Setting(seed=7, duration="300us", warmup="200us", engine=engine))
        for engine in ("core", "ref")
    ]

    assert results[0].messages > 100
    assert same(*results), f"emu.ask.scenarios.run_side: {name}, {label}, after, seed 7"


def test_quick_is_shorter() -> None:
    scenario = load_timed("xps")
    whole = timed_setting(scenario, seed=2, quick=False, engine="core")
    quick = timed_setting(scenario, seed=2, quick=True, engine="core")

    assert (whole.seed, whole.seeds, whole.duration) == (3, scenario.seeds, scenario.duration)
    assert (quick.seeds, quick.duration, quick.warmup) == (3, "5ms", "1250us")
