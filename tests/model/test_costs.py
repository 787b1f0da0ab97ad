"""The cost model: presets are whole and sourced, sums agree with what was published, mistakes."""

from __future__ import annotations

import fnmatch
import tomllib
from decimal import Decimal
from pathlib import Path

import attrs
import numpy as np
import pytest

from emu.errors import ConfigError
from emu.model.costs import COSTS, HARDWARE, LATENCIES, LINES, NO_SOURCE, TABLES, Machine, Row
from emu.model.machines_toml import PRESETS, get_machine
from emu.run_dtypes import COST_ONE, DISTANCES, Cost, Latency, Touch

ROOT = Path(__file__).parent.parent.parent
BDW_GHZ = 3.8  # the machine of most published figures
LINES_WITHOUT_SOCKET_STATE = {"sock_tx_softirq", "sock_tx_send"}  # UDP: none


@pytest.fixture(params=PRESETS)
def preset(request: pytest.FixtureRequest) -> Machine:
    return get_machine(request.param)


@pytest.fixture
def xeon() -> Machine:
    return get_machine("xeon-2015")


def cycles(machine: Machine, *names: str) -> float:
    return float(sum(machine.value(f"costs.{name}") for name in names))


def test_presets_are_the_files_that_are_shipped() -> None:
    folder = ROOT / "emu" / "model" / "machines"
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = shipped["tool"]["setuptools"]["package-data"]["emu"]

    assert sorted(path.stem for path in folder.iterdir()) == sorted(PRESETS)
    for path in folder.iterdir():
        name = path.relative_to(ROOT / "emu").as_posix()
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name
        assert get_machine(path.stem).name == path.stem


def test_every_row_is_there_with_a_source_and_a_letter(preset: Machine) -> None:
    places = [row.place for row in preset.rows]

    assert places == [f"{table}.{name}" for table, names in TABLES.items() for name in names]
    for row in preset.rows:
        assert len(row.source) > 10, row.place
        assert row.source != NO_SOURCE, row.place
        assert row.solid in "ABCD", row.place
        assert row.unit, row.place
        assert bool(row.why) == (row.table == "lines"), row.place
        assert not any(word in row.source for word in ("\n", "shared/")), row.place


def test_tables_name_every_code() -> None:
    assert [Cost[name.upper()] for name in COSTS] == list(Cost)
    assert [Touch[name.upper()] for name in LINES] == list(Touch)
    assert {name.upper() for name in LATENCIES} < set(Latency.__members__)


def test_arrays_are_the_rows(preset: Machine) -> None:
    assert preset.costs.shape == (len(Cost),)
    assert preset.lines.shape == (len(Touch), 2)
    assert preset.costs[Cost.HARDIRQ] == preset.value("costs.hardirq") * COST_ONE
    assert tuple(preset.lines[Touch.SKB_READ]) == preset.value("lines.skb_read")
    for table in ("transfer", "stream"):
        array = getattr(preset, table)
        assert array.dtype == np.int64
        assert array[0] == 0
        for place, name in enumerate(DISTANCES[1:], 1):
            exact = preset.value(f"{table}.{name}") * preset.overlap * COST_ONE
            assert abs(array[place] - exact) <= Decimal("0.5")
    for array in (preset.costs, preset.transfer, preset.stream, preset.lines):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert (preset.costs >= 1).all()


def test_farther_is_never_cheaper(preset: Machine) -> None:
    for array in (preset.transfer, preset.stream):
        assert (np.diff(array) > 0).all()
    assert (preset.stream[1:] < preset.transfer[1:]).all()
    assert preset.costs[Cost.MAP_MISS_LOCAL] < preset.costs[Cost.MAP_MISS_REMOTE]


def test_transfers_are_the_published_ones() -> None:
    """M13 in cycles; M7-M10 in nanoseconds."""
    opteron, xeon, young = map(get_machine, PRESETS)

    assert opteron.value("transfer.same_llc") == 81
    assert opteron.value("transfer.same_node") == 161
    assert 172 <= opteron.value("transfer.other_node") <= 252
    for machine, low, high in ((xeon, 40.3, 42.3), (young, 45.1, 51.7)):
        assert low <= machine.nanoseconds(machine.value("transfer.same_llc")) <= high
        assert 113 < machine.nanoseconds(machine.value("transfer.other_node")) < 168


def test_a_remote_wake_up_takes_what_was_published(xeon: Machine) -> None:
    """L14: 2.4 to 4.4 us from the wake-up of an idle thread to its first instruction."""
    after_the_ipi = xeon.nanoseconds(cycles(xeon, "idle_exit", "ctx_switch")) + xeon.ipi_ps / 1000
    whole = after_the_ipi + xeon.nanoseconds(cycles(xeon, "wake", "ipi_send"))

    assert 2400 <= after_the_ipi < whole <= 4400


def test_a_wake_up_on_one_cpu_takes_less(xeon: Machine) -> None:
    """L14: 1.9 us with two system calls in it."""
    assert 1100 <= xeon.nanoseconds(cycles(xeon, "wake", "ctx_switch")) <= 1900


def test_a_lock_takes_13_9_ns(xeon: Machine) -> None:
    """L1."""
    assert xeon.nanoseconds(cycles(xeon, "lock")) == pytest.approx(13.9, abs=0.2)


def test_driver_and_skb(xeon: Machine) -> None:
    """R10: 122.5 ns, of it 8.7 ns in functions that other rows have."""
    ns = cycles(xeon, "driver_rx", "skb_free") / BDW_GHZ

    assert ns + 8.7 == pytest.approx(122.5, rel=0.01)


def test_udp_receive_path(xeon: Machine) -> None:
    """R8: 274-296 ns up to a lookup that finds nothing; a part of UDP_RX is before it."""
    before_udp = cycles(xeon, "driver_rx", "gro_pass", "ip_rx", "lookup", "skb_free") / BDW_GHZ
    with_all_of_udp = before_udp + cycles(xeon, "udp_rx") / BDW_GHZ

    assert 0.8 * 274 < before_udp < 296
    assert 274 < with_all_of_udp < 1.2 * 296


def test_ip_and_lookup(xeon: Machine) -> None:
    """R9: 123 ns, a third of UDP_RX in it."""
    ns = (cycles(xeon, "ip_rx", "lookup") + cycles(xeon, "udp_rx") / 3) / BDW_GHZ

    assert ns == pytest.approx(123, rel=0.03)


def test_udp_read_on_another_cpu(xeon: Machine) -> None:
    """R16: 432.6 ns with 18 bytes; lines at M7 under this preset's overlap."""
    lines = sum(xeon.value(f"lines.{name}")[1] for name in ("skb_read", "skb_free"))
    base = (cycles(xeon, "udp_recv", "skb_free") + 18 * 0.34) / BDW_GHZ

    assert base + lines * 41.3 * float(xeon.overlap) == pytest.approx(432.6, rel=0.01)


def test_tcp_send_to_doorbell(xeon: Machine) -> None:
    """T11: 1.0 to 1.5 us."""
    software = cycles(xeon, "tcp_send", "qdisc", "driver_tx") + 3 * cycles(xeon, "lock")
    ns = software / BDW_GHZ + xeon.nanoseconds(cycles(xeon, "doorbell"))

    assert 1000 <= ns <= 1500


def test_established_lookup(xeon: Machine) -> None:
    """R29: 20 to 60 ns."""
    assert 20 <= cycles(xeon, "lookup", "score") / BDW_GHZ <= 60


@pytest.mark.parametrize("name", ["ns_doorbell", "ns_recv_byte", "ns_ipi_handler"])
def test_times_of_the_machine_are_turned_with_its_own_clock(preset: Machine, name: str) -> None:
    """The same time on each preset: 39 ns (T3), 0.091 ns (R21), 0.41 us (L11)."""
    ns = {"ns_doorbell": 39, "ns_recv_byte": 0.091, "ns_ipi_handler": 410}[name]
    if (preset.name, name) == ("opteron-2010", "ns_recv_byte"):
        ns = 0.2
    found = preset.nanoseconds(cycles(preset, name.removeprefix("ns_")))

    assert found == pytest.approx(ns, rel=0.01)


def test_udp_has_no_send_side_lines(preset: Machine) -> None:
    none = {row.name for row in preset.of("lines") if 0 in row.value}

    assert none == LINES_WITHOUT_SOCKET_STATE
    assert all(row.value[0] > 0 for row in preset.of("lines"))


def test_scaling_touches_rows_of_software_only(preset: Machine) -> None:
    twice = preset.scaled(2)

    for cost in Cost:
        factor = 1 if cost in HARDWARE else 2
        assert abs(twice.costs[cost] - factor * preset.costs[cost]) <= 1, cost.name
    for name in ("transfer", "stream", "lines"):
        assert (getattr(twice, name) == getattr(preset, name)).all()
    for name in LATENCIES:
        assert getattr(twice, f"{name}_ps") == getattr(preset, f"{name}_ps")
    assert (twice.khz, twice.overlap) == (preset.khz, preset.overlap)
    assert twice.software_factor == 2
    assert twice.scaled(0.5).software_factor == 1
    assert (twice.scaled(0.5).costs == preset.costs).all()


def test_replace_changes_those_rows(xeon: Machine) -> None:
    other = xeon.replace(
        name="other",
        khz=3_000_000,
        overlap=1,
        costs={"lock": 55.5},
        transfer={"same_llc": 200},
        lines={"txq": (2, 3)},
        latencies={"ipi": "2us", "slice": 10**9},
    )

    assert (other.name, other.khz, other.ipi_ps, other.slice_ps) == (
        "other",
        3_000_000,
        2 * 10**6,
        10**9,
    )
    assert other.costs[Cost.LOCK] == 55.5 * COST_ONE
    assert other.transfer[1] == 200 * COST_ONE
    assert tuple(other.lines[Touch.TXQ]) == (2, 3)
    changed = [row.place for row in other.rows if row.source == NO_SOURCE]
    assert len(changed) == 7
    assert {row.solid for row in other.rows if row.source == NO_SOURCE} == {"D"}
    assert other.costs[Cost.WAKE] == xeon.costs[Cost.WAKE]
    assert xeon.costs[Cost.LOCK] == 36 * COST_ONE


def test_perturbing_changes_one_row(xeon: Machine) -> None:
    for place in xeon.names():
        more, less = xeon.perturbed(place, 1.3), xeon.perturbed(place, 0.7)
        for row, up, down in zip(xeon.rows, more.rows, less.rows, strict=True):
            if row.place != place or row.value == (0, 0):
                assert up == down == row
                continue
            assert up.value > row.value > down.value, place
            if not isinstance(row.value, tuple):
                assert float(up.value) == pytest.approx(float(row.value) * 1.3)


def test_perturbing_lines_changes_at_least_one_and_none_stay_none(xeon: Machine) -> None:
    assert xeon.perturbed("txq", 1.3).value("lines.txq") == (2, 2)
    assert xeon.perturbed("txq", 0.7).value("lines.txq") == (0, 0)
    assert xeon.perturbed("sock_tx_send", 1.3).value("lines.sock_tx_send") == (5, 0)
    assert xeon.perturbed("sock_rx_read", 2).value("lines.sock_rx_read") == (10, 6)
    assert xeon.perturbed("txq", 1).value("lines.txq") == (1, 1)
    assert xeon.perturbed("overlap", 2).overlap == 1


def test_a_cost_is_at_least_a_unit(xeon: Machine) -> None:
    tiny = xeon.replace(costs={"wake": 0.001}).scaled(0.001)

    assert tiny.costs[Cost.WAKE] == 1


MISTAKES = [
    (
        lambda m: m.scaled(0),
        "machine 'xeon-2015': software_factor: got 0; allowed: a number from 0.001 to 1000",
    ),
    (
        lambda m: m.scaled(float("nan")),
        "machine 'xeon-2015': software_factor: got nan; allowed: a number from 0.001 to 1000",
    ),
    (
        lambda m: m.perturbed("lock", "much"),
        "machine 'xeon-2015': factor: got 'much'; allowed: a number from 0.001 to 1000",
    ),
    (
        lambda m: m.perturbed("qdisc", 2),
        "machine 'xeon-2015': got row 'qdisc'; allowed: \"costs.qdisc\", \"lines.qdisc\"; "
        'try "costs.qdisc"',
    ),
    (
        lambda m: m.replace(cost={"lock": 1}),
        'machine \'xeon-2015\': got table \'cost\'; allowed: "costs", "transfer", "stream", '
        '"lines", "latencies"; try "costs"',
    ),
    (
        lambda m: m.replace(costs=3),
        "machine 'xeon-2015': costs: got 3; allowed: rows and values",
    ),
    (
        lambda m: m.replace(transfer={"same_lcc": 1}),
        "machine 'xeon-2015': transfer: got row 'same_lcc'; allowed: \"same_llc\", \"same_node\", "
        '"other_node"; try "same_llc"',
    ),
    (
        lambda m: m.replace(costs={"lock": -1}),
        "machine 'xeon-2015': costs.lock: got -1; allowed: cycles from 0.001 to 1000000000, "
        "at most three decimals",
    ),
    (
        lambda m: m.replace(latencies={"slice": 0}),
        "machine 'xeon-2015': latencies.slice: got 0; allowed: a duration such as \"1.5us\", "
        "1us to 1000s",
    ),
    (
        lambda m: m.replace(khz=0),
        "machine 'xeon-2015': machine.khz: got 0; allowed: a whole number of kHz from 1000 to "
        "100000000; try 2600000 for 2.6 GHz",
    ),
    (
        lambda m: m.replace(overlap=2),
        "machine 'xeon-2015': machine.overlap: got 2; allowed: a share from 0.001 to 1",
    ),
    (
        lambda m: m.replace(name=1),
        "machine 'xeon-2015': name: got 1; allowed: text that is not empty",
    ),
    (
        lambda m: m.scaled(1000).scaled(1000).scaled(1000),
        "machine 'xeon-2015': costs.hardirq: got 1200000000000 after a factor; allowed: at most "
        "1000000000000; try a smaller factor",
    ),
    (
        lambda m: m.replace(latencies={"ipi": "100s"}).perturbed("ipi", 1000),
        "machine 'xeon-2015': latencies.ipi: got 100000000000000000 after a factor; allowed: at "
        "most 10000000000000000; try a smaller factor",
    ),
    (
        lambda m: get_machine("xeon-2051"),
        'machine: got \'xeon-2051\'; allowed: "opteron-2010", "xeon-2015", "xeon-2024" or a TOML '
        'file; try "xeon-2015"',
    ),
    (
        lambda m: Machine(name="bare", title="", rows=m.rows[:-1]),
        "machine 'bare': latencies.map_residency: got nothing; allowed: a value; "
        'try base = "xeon-2015"',
    ),
]


@pytest.mark.parametrize(("do", "line"), MISTAKES, ids=[line[:60] for _, line in MISTAKES])
def test_mistakes(xeon: Machine, do, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        do(xeon)
    assert str(caught.value) == line


def test_an_unknown_row_has_the_nearest(xeon: Machine) -> None:
    with pytest.raises(ConfigError, match=r"got row 'lok'; .*; try \"lock\"$"):
        xeon.perturbed("lok", 1.3)


def test_it_is_frozen(xeon: Machine) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        xeon.khz = 1  # type: ignore[misc]
    assert isinstance(xeon.rows[0], Row)
