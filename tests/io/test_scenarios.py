"""Scenario files: what they say, and every mistake as one line with its place."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

import emu
from emu.errors import ConfigError
from emu.io.overrides import merged
from emu.io.scenarios import ALSO_KEYS, TOP_LEVEL, Scenario, load_scenario, scenario_from_toml
from emu.io.toml import load_toml
from emu.io.workloads import MACHINE_KEYS
from emu.model.masks import CpuSet
from emu.model.published import Calibration, Published
from emu.model.workloads import OpenLoop, RequestResponse

ROOT = Path(__file__).parents[2]
BASE = """
title = "two queues"
[host]
hz = 1000
[host.topology]
cpus = 4
[[host.nic]]
name = "eth0"
rx_queues = 2
tx_queues = 2
rss = { key = "microsoft", udp_hash = "2tuple" }
[[host.nic]]
name = "eth1"
[[host.socket]]
name = "web"
count = 3
reuseport = true
[workload]
kind = "request-response"
flows = 8
"""
PUBLISHED = """
[[published]]
metric = "throughput"
unit = "K/s"
before = 996
after = 1234
"""


def scenario(text: str, folder: Path = Path()) -> Scenario:
    return scenario_from_toml(tomllib.loads(text), folder)


def refused(text: str, folder: Path = Path()) -> str:
    with pytest.raises(ConfigError) as caught:
        scenario(text, folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults() -> None:
    told = scenario(BASE)

    assert (told.title, told.text, told.seed, told.seeds) == ("two queues", "", 1, 1)
    assert (told.duration, told.warmup) == ("50ms", "10ms")
    (case,) = told.cases
    assert case.label == "main"
    assert case.before is case.after  # nothing changes: it need not run twice
    assert case.before.machine.name == "xeon-2015"
    assert case.before.workload == RequestResponse(flows=8)
    assert told.published == ()
    assert told.calibrate is None


def test_a_side_changes_what_it_names() -> None:
    (case,) = scenario(
        BASE
        + """
        [before.nic.eth0]
        xps_cpus = ["1", "2"]
        [after]
        hz = 250
        [after.nic.eth0]
        rss = { udp_hash = "4tuple" }
        [after.socket.web]
        cpu_mask = "3"
        [after.workload]
        response_bytes = 100
        [after.machine]
        khz = 2_000_000
        costs = { lock = 99 }
        """
    ).cases
    old, new = case.before, case.after

    assert (old.host.hz, new.host.hz) == (1000, 250)
    assert old.host.nic("eth0").xps_cpus == (CpuSet([0]), CpuSet([1]))
    assert new.host.nic("eth0").xps_cpus == ()
    assert new.host.nic("eth0").rss.udp_hash == "4tuple"
    assert new.host.nic("eth0").rss.key == old.host.nic("eth0").rss.key  # tables are merged
    assert {socket.cpu_mask for socket in new.host.sockets} == {CpuSet([0, 1])}
    assert {socket.cpu_mask for socket in old.host.sockets} == {None}
    assert (old.workload.response_bytes, new.workload.response_bytes) == (1, 100)
    assert (old.machine.khz, new.machine.khz) == (2_600_000, 2_000_000)
    assert new.machine.value("costs.lock") == 99
    assert new.machine.value("costs.wake") == old.machine.value("costs.wake")


def test_lists_replace_all_objects() -> None:
    (case,) = scenario(BASE + '[[after.socket]]\nname = "other"\n').cases

    assert [socket.name for socket in case.after.host.sockets] == ["other"]
    assert len(case.before.host.sockets) == 3


def test_variants_lie_over_the_main_case() -> None:
    told = scenario(
        BASE
        + """
        [after]
        hz = 250
        [[also]]
        label = "UDP"
        text = "as UDP"
        both = { workload = { proto = "udp" } }
        [[also]]
        label = "slow after"
        after = { hz = 100 }
        """
    )
    main, udp, slow = told.cases

    assert [case.label for case in told.cases] == ["main", "UDP", "slow after"]
    assert udp.text == "as UDP"
    assert udp.before.workload.proto == udp.after.workload.proto == "udp"
    assert (udp.before.host.hz, udp.after.host.hz) == (1000, 250)
    assert udp.before.host is main.before.host
    assert slow.before is main.before  # equal sides run once
    assert slow.after.host.hz == 100
    assert len(told.sides()) == 5


def test_secrets_are_redrawn_where_none_are_named() -> None:
    given = BASE.replace("[host.topology]", "[host.secrets]\nseed = 3\n[host.topology]")

    assert scenario(BASE).cases[0].before.redraw_secrets
    assert not scenario(given).cases[0].before.redraw_secrets


def test_files_are_relative_to_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text(emu.dump_host(scenario(BASE).cases[0].before.host))
    (tmp_path / "mine.toml").write_text(
        '[machine]\nname = "mine"\nbase = "xeon-2015"\nkhz = 3000000\n'
    )
    emu.write_pcap(tmp_path / "in.pcap", emu.generate(packets=7, local="10.0.0.1:80"))
    path = tmp_path / "scenario.toml"
    path.write_text(
        """
        title = "files"
        host = "web.toml"
        machine = "mine.toml"
        [workload]
        kind = "open-loop"
        pcap = "in.pcap"
        response_bytes = 100
        [after.nic.eth1]
        hw_hash = false
        """
    )

    (case,) = load_scenario(path).cases

    assert case.before.machine.khz == 3_000_000
    assert isinstance(case.before.workload, OpenLoop)
    assert len(case.before.workload.packets) == 7
    assert not case.after.host.nic("eth1").hw_hash
    assert case.after.workload is case.before.workload  # read once


def test_generated_packets() -> None:
    load = """
    [workload]
    kind = "open-loop"
    work_cycles = 100
    [workload.generate]
    packets = 50
    flows = 5
    payload_bytes = { 64 = 3, 1000 = 1 }
    client_ports = [1000, 2000]
    """

    (case,) = scenario(BASE[: BASE.index("[workload]")] + load).cases

    assert len(case.before.workload.packets) == 50
    assert set(case.before.workload.packets.payload_bytes.tolist()) == {64, 1000}
    assert case.before.workload.work_cycles == 100


def test_published_rows() -> None:
    told = scenario(BASE + PUBLISHED + '[calibrate]\nturnaround = "throughput"\n')

    (row,) = told.published
    assert (row.label, row.metric, row.before, row.after) == ("main", "throughput", 996, 1234)
    assert row.scale == 1000
    assert told.calibrate == Calibration(turnaround="throughput")
    assert told.calibrate.metrics == ("throughput",)


SHIPPED = [path for path in sorted(ROOT.glob("emu/scenarios/*.toml")) if "title" in load_toml(path)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_scenarios_load(path: Path) -> None:
    told = load_scenario(path)

    assert any(case.before is not case.after for case in told.cases)


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs" / "scenario.md").read_text()

    kinds = (RequestResponse, OpenLoop, Published, Calibration)
    names = {*TOP_LEVEL, *ALSO_KEYS, *MACHINE_KEYS, "before", "after", "also", "pcap", "generate"}
    names |= {field.name for kind in kinds for field in attrs.fields(kind)} - {"packets"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


WRONG: list[tuple[str, str, str]] = [
    # what is replaced, by what, and what the line has to say
    ('title = "two queues"', "", "title: got nothing"),
    ('title = "two queues"', 'titel = "x"', 'try "title"'),
    ('title = "two queues"', 'title = ""', "title: got ''"),
    (
        'title = "two queues"',
        'title = "x"\nseeds = 0',
        "seeds: got 0; allowed: a whole number from 1",
    ),
    ('title = "two queues"', 'title = "x"\nseed = -1', "seed: got -1"),
    (
        'title = "two queues"',
        'title = "x"\nduration = "0s"',
        "duration: got '0s'; allowed: a time above 0",
    ),
    ('title = "two queues"', 'title = "x"\nduration = 5', "duration: got 5; allowed: a duration"),
    ('title = "two queues"', 'title = "x"\nwarmup = "5"', "warmup: got '5'"),
    ('title = "two queues"', 'title = "x"\nmachine = "xeon-2016"', 'try "xeon-2015"'),
    ('title = "two queues"', 'title = "x"\nmachine = 5', "machine: got 5; allowed: a table"),
    ("cpus = 4", "cpus = 0", "host.topology.cpus: got 0"),
    ("rx_queues = 2", "rx_quues = 2", "host.nic[0]: got key 'rx_quues'"),
    ("count = 3", 'threads = ""', "at least one CPU"),
    ("flows = 8", "flows = 0", "workload.flows: got 0"),
    ("flows = 8", "", "workload.flows: got nothing"),
    ("flows = 8", 'flows = 8\nturnaround = "-1us"', "workload.turnaround"),
    ('kind = "request-response"', 'kind = "request"', 'try "request-response"'),
    ('kind = "request-response"', "", "workload.kind: got nothing"),
    ('kind = "request-response"', 'kind = "open-loop"', "workload: got key 'flows'"),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_mistakes_of_the_base(old: str, new: str, said: str) -> None:
    assert said in refused(BASE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[after.nic.eth0]\nrps_cpus = "1f"', "after.nic.eth0.rps_cpus: got '1f' (EOVERFLOW)"),
        (
            '[after.nic.eth2]\nrps_cpus = "1"',
            'after.nic.eth2: got no nic of that name; allowed: "eth0", "eth1"',
        ),
        ("[after.socket.webb]\nuid = 1", 'try "web"'),
        ("[after.nic.eth1]\nrx_quues = 1", "after.nic.eth1: got key 'rx_quues'"),
        ("[after.nic]\neth0 = 5", "after.nic.eth0: got 5; allowed: a table"),
        ("[after]\nhertz = 5", "after: got key 'hertz'"),
        ("[after]\nhz = 5", "after.hz: got 5"),
        ("[before.workload]\nflows = 0", "before.workload.flows: got 0"),
        ("[before.workload]\nflow = 9", "before.workload: got key 'flow'"),
        ("[after]\nworkload = 5", "after.workload: got 5; allowed: a table"),
        ("[after.machine]\ncosts = { lock = 0 }", "after.machine.costs.lock: got 0"),
        ("[after.machine]\ncosts = { lock = -1.5 }", "after.machine.costs.lock: got -1.5"),
        ("[after.machine]\ncosts = { locks = 5 }", 'try "lock"'),
        ("[after.machine]\nkhz = 0", "after.machine.khz: got 0"),
        ("[after.machine]\ncosts = 5", "after.machine.costs: got 5; allowed: a table"),
        ('[[also]]\nlable = "x"', "also[0]: got key 'lable'"),
        ("[[also]]\ntext = 'x'", "also[0].label: got nothing"),
        ("[[also]]\nlabel = 'main'", "also[0].label: got 'main'"),
        ("[[also]]\nlabel = 'x'\nafter = { hz = 5 }", "also[0].after.hz: got 5"),
        (
            "[[also]]\nlabel = 'x'\nboth = { workload = { flows = 0 } }",
            "also[0].both.workload.flows",
        ),
        ("also = 5", "also"),
        ("[published]", "published: got {}; allowed: a list"),
        (PUBLISHED.replace("K/s", "KPS"), 'published[0].unit: got \'KPS\'; allowed: "/s", "K/s"'),
        (PUBLISHED.replace("throughput", "rate"), "published[0].metric: got 'rate'"),
        (PUBLISHED.replace("996", "0"), "published[0].before: got 0"),
        (PUBLISHED.replace("after = 1234", ""), "published[0].after: got nothing"),
        (PUBLISHED + 'label = "mian"', 'try "main"'),
        (
            PUBLISHED + '[calibrate]\nsoftware_factor = "cpu"',
            "calibrate: got 'cpu', of which 'main' has no row",
        ),
        (PUBLISHED + "[calibrate]", "calibrate.software_factor"),
        (
            PUBLISHED + '[calibrate]\nsoftware_factor = "throughput"\nturnaround = "throughput"',
            "one figure cannot fit both",
        ),
        (PUBLISHED + '[calibrate]\nturnaround = "p50"', "calibrate.turnaround: got 'p50'"),
    ],
)
def test_mistakes_of_the_rest(more: str, said: str) -> None:
    text = more + "\n" + BASE if more.startswith("also") else BASE + more

    assert said in refused(text)


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ("", "workload: got neither pcap nor generate"),
        ('pcap = "a"\ngenerate = { packets = 1 }', "workload: got both pcap and generate"),
        ('pcap = "none.pcap"', "none.pcap: got No such file or directory"),
        ("pcap = 5", "workload.pcap: got 5; allowed: text"),
        ("generate = { flows = 5 }", "workload.generate.packets: got nothing"),
        ("generate = { packets = 0 }", "got an empty table"),
        ("generate = { packets = 1, flows = 0 }", "workload.generate.flows: got 0"),
        (
            "generate = { packets = 1, payload_bytes = { x = 1 } }",
            "workload.generate.payload_bytes",
        ),
        ("generate = { packets = 1 }\nresponse_bytes = 0", "workload.response_bytes: got 0"),
    ],
)
def test_mistakes_of_an_open_loop(load: str, said: str) -> None:
    head = BASE[: BASE.index("[workload]")]

    assert said in refused(f'{head}[workload]\nkind = "open-loop"\n{load}')


def test_a_mistake_names_the_file(tmp_path: Path) -> None:
    path, host = tmp_path / "scenario.toml", tmp_path / "web.toml"
    path.write_text(BASE.replace("cpus = 4", "cpus = 0"))
    with pytest.raises(ConfigError, match=r"scenario.toml: host.topology.cpus: got 0"):
        load_scenario(path)

    text = 'title = "x"\nhost = "web.toml"\n' + BASE[BASE.index("[workload]") :]
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"web.toml: got No such file"):
        load_scenario(path)
    host.write_text("[topology]\ncpus = -1\n")
    with pytest.raises(ConfigError, match=r"web.toml: topology.cpus: got -1"):
        load_scenario(path)
    path.write_text("title = ")
    with pytest.raises(ConfigError, match=r"scenario.toml: got no TOML"):
        load_scenario(path)
    with pytest.raises(ConfigError, match="got No such file"):
        load_scenario(tmp_path / "none.toml")


def test_merging_changes_neither_table() -> None:
    base: dict[str, Any] = {"a": {"b": 1, "c": [1]}, "d": 1}
    over = {"a": {"b": 2}, "d": {"e": 1}}

    assert merged(base, over) == {"a": {"b": 2, "c": [1]}, "d": {"e": 1}}
    assert base == {"a": {"b": 1, "c": [1]}, "d": 1}


JUNK: list[Any] = [
    *(0, -1, 2**70, 1.5, float("nan"), float("inf"), True, "", "x", "0", "1,2", "-5us"),
    *([], [[]], [0], ["x"], {}, {"x": 1}, {"name": 5}, [{}], [{"name": "eth0"}]),
]
FULL = (
    BASE.replace("hz = 1000", 'hz = 1000\naddresses = ["10.0.0.1"]')
    + """
    turnaround = "10us"
    [machine]
    name = "xeon-2015"
    costs = { lock = 30 }
    latencies = { ipi = "1us" }
    [before.nic.eth0]
    xps_cpus = ["1", "2"]
    [after.socket.web]
    cpu_mask = "3"
    [after.workload]
    work_cycles = 5
    [[also]]
    label = "x"
    both = { hz = 100 }
    [calibrate]
    turnaround = "throughput"
    """
    + PUBLISHED
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every value of a table is."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    below = [(*path, key) for key, _ in items]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, (dict, list)):
            below += places(inner, (*path, key))
    return below


@pytest.mark.parametrize("path", places(tomllib.loads(FULL)), ids=repr)
def test_junk_anywhere_is_taken_or_a_users_error(path: tuple[Any, ...]) -> None:
    for junk in JUNK:
        tables: Any = tomllib.loads(FULL)
        inside = tables
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = junk
        with suppress(ConfigError):
            scenario_from_toml(tables)
