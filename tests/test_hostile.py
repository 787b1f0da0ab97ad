"""What a user can get wrong: one line and status 2, in both engines, and never a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import emu
from emu import dtypes
from emu.errors import ConfigError
from emu.model import ops

ENGINES = ("core", "ref")
HEADER = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
RECORD = bytes(8) + (60).to_bytes(4, "little") * 2 + bytes(60)


def bench(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emu.bench", *arguments]
    env = {**os.environ, **options.pop("env", {})}  # type: ignore[dict-item]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command,
        env=env,
        text=True,
        errors="surrogateescape",
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
        **options,
    )


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "one.pcap"
    path.write_bytes(HEADER + RECORD)
    return path


def refused(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode == 2, answer.stderr
    lines = answer.stderr.splitlines()
    assert len(lines) == 1, answer.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.parametrize("given", ["", "/", ".", "a" * 300, "nul\udcff/x"])
def test_a_json_file_that_cannot_be_is_one_line(capture: Path, given: str):
    assert "--json" in refused(bench("steer", "--pcap", str(capture), "--json", given))


def test_json_goes_through_a_link_and_leaves_no_part(capture: Path, tmp_path: Path):
    link, real = tmp_path / "link.json", tmp_path / "real.json"
    real.write_text("old")
    link.symlink_to(real)

    assert bench("steer", "--pcap", str(capture), "--json", str(link)).returncode == 0

    assert link.is_symlink()
    assert real.read_text().startswith("{")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "link.json",
        "one.pcap",
        "real.json",
    ]


def test_json_to_a_device_writes_to_it(capture: Path, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        assert bench("steer", "--pcap", str(capture), "--json", str(pipe)).returncode == 0
        assert os.read(reader, 1) == b"{"
        assert pipe.is_fifo()
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    "arguments",
    [["--seed", "-1"], ["steer"], ["stear"], ["--jsn", "x"], ["steer", "--pcap"]],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str]):
    assert "command line" in refused(bench(*arguments))


def test_a_full_disk_behind_standard_output_is_one_line(capture: Path):
    for extra in ([], ["--json", "-"]):
        with open("/dev/full", "w") as full:
            answer = bench("steer", "--pcap", str(capture), *extra, stdout=full)
        assert "standard output" in refused(answer)


def test_a_path_that_is_no_text_is_shown(capture: Path, tmp_path: Path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff.pcap")
    Path(path).write_bytes(capture.read_bytes())
    strict = {"PYTHONIOENCODING": "utf-8:strict"}

    answer = bench("steer", "--pcap", path, env=strict)

    assert answer.returncode == 0, answer.stderr


def test_a_host_nested_too_deep_is_refused(tmp_path: Path):
    path = tmp_path / "deep.toml"
    path.write_text("a=" + "[" * 5000)
    with pytest.raises(ConfigError, match="nested"):
        emu.load_host(path)


def packets(**columns: object) -> emu.Packets:
    made = emu.generate(packets=8, flows=2, proto="udp", local="10.0.0.1:80")
    full = {}
    for name, value in columns.items():
        full[name] = np.full_like(made.columns[name], value)
    return made.replace(**full)


def host(**fields: object) -> emu.Host:
    return emu.Host(
        topology=emu.Topology(cpus=4),
        nics=[emu.Nic(name="e", hw_hash=False, rps_cpus=[emu.CpuSet(15)])],
        sockets=[emu.Socket(name="s", proto="udp")],
        **fields,
    )


def test_places_whose_end_overflows_are_outside_the_blob():
    with pytest.raises(ValueError, match="frame_off"):
        packets(frame_off=2**63 - 10, cap_bytes=100)
    with pytest.raises(ValueError, match="opt_off"):
        packets(opt_off=2**63 - 10, tcp_w12=0xF0100000)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("column", ["family", "hash_type", "reason"])
def test_a_code_that_nothing_has_is_refused(engine: str, column: str):
    with pytest.raises(ConfigError, match=rf"packet 0: got {column}=99; allowed: 0"):
        emu.steer(host(), packets(**{column: 99}), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_flow_keys_of_no_length_are_refused(engine: str):
    keys = np.zeros(1, dtype=dtypes.FLOW_KEY)
    keys["len"] = 255
    made = packets()
    columns = {**made.columns, "flow_key": np.zeros(8, dtype=np.int32)}
    with pytest.raises(ConfigError, match="flow_keys"):
        emu.steer(host(), emu.Packets(columns, flow_keys=keys), engine=engine)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("family", 7),
        ("proto", 1),
        ("state", 2),
        ("prog_kind", 9),
        ("app_off", 4),
        ("app_off", 2**32 - 1),
        ("mask_off", 0),
        ("psock_target", 2**31 - 1),
        ("psock_target", -2),
        ("psock_cpu", 4),
    ],
)
def test_connection_rows_that_point_nowhere_are_refused(field: str, value: int):
    rows = emu.connections(packets())
    rows["has_psock"] = 1
    rows[field][1] = value
    with pytest.raises(ConfigError, match=rf"connections\[1\].{field}: got {value}"):
        emu.steer(host(connections=rows), packets())


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.CloseSocket(at_ps=2**63, socket="s"),
        lambda: ops.CloseSocket(at_ps=1.5, socket="s"),
        lambda: ops.CloseSocket(at_ps=0, socket=5),
        lambda: ops.SetIncomingCpu(at_ps=0, socket="s", cpu=2**31),
        lambda: ops.SetIncomingCpu(at_ps=0, socket="s", cpu=1.5),
        lambda: ops.SetCpuMask(at_ps=0, socket="s", mask="f"),
        lambda: ops.MoveThreads(at_ps=0, socket="s", threads=None),
        lambda: ops.WriteRpsCpus(at_ps=0, nic="e", queue=None, mask=emu.CpuSet(1)),
        lambda: ops.WriteXpsCpus(at_ps=0, nic="e", queue=0, mask=5),
        lambda: ops.WriteXpsRxqs(at_ps=0, nic=5, queue=0, mask=emu.CpuSet(1)),
    ],
)
def test_an_op_of_wrong_types_is_refused(make):
    with pytest.raises(ConfigError):
        make()


@pytest.mark.parametrize("engine", ENGINES)
def test_polls_that_are_none_are_refused(engine: str):
    table = {"order": np.arange(8), "first": [0], "count": [8], "time_ps": [0], "jiffy": [0]}
    with pytest.raises(ConfigError, match="polls"):
        emu.steer(host(), packets(), polls=[[1]], engine=engine)
    with pytest.raises(ConfigError, match="polls"):
        emu.Polls(queue=[[0]], **table)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("saddr", [1, 1, 0, 0]),
        ("daddr", [1, 0, 0, 1]),
        ("ethertype", 0),
        ("tcp_w12", 1),
        ("ip_summed", 4),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(engine: str, column: str, value: object):
    """No dissection makes such rows, and the engines would read them apart."""
    packets = emu.generate(packets=2, flows=1, proto="udp")
    changed = packets.columns[column].copy()
    changed[1] = value
    host = emu.Host(topology=emu.Topology(cpus=1), nics=(emu.Nic(name="eth0"),))

    with pytest.raises(ConfigError, match=f"packet 1: got {column}="):
        emu.steer(host, packets.replace(**{column: changed}), engine=engine)
    with pytest.raises(ConfigError, match=f"packet 1: got {column}="):
        emu.gro(packets.replace(**{column: changed}), engine=engine)


@pytest.mark.parametrize("index", ["a", 1.5, None, True, -1, 2])
def test_an_index_that_is_none_is_refused(index: object):
    packets = emu.generate(packets=2, flows=1)
    host = emu.Host(topology=emu.Topology(cpus=1), nics=(emu.Nic(name="eth0"),))

    with pytest.raises(ConfigError, match="explain"):
        emu.explain(host, packets, index)  # type: ignore[arg-type]


def test_a_json_target_that_cannot_be_is_refused_before_the_work(capture: Path):
    done = bench("steer", "--pcap", str(capture), "--json", "/no/such/folder/out.json")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: emu.CpuSet("4-7"),
        lambda: emu.CpuSet([1.5]),
        lambda: emu.CpuSet(None),
        lambda: emu.Polls.of_counts([1.5, 2.5]),
        lambda: emu.Polls.of_counts([2**31 - 1]),
        lambda: emu.Polls.of_counts([1], times_ps=[1.7]),
        lambda: emu.connections(emu.generate(packets=1, flows=1), threads=[-1]),
        lambda: emu.connections(emu.generate(packets=1, flows=1), threads=["a"]),
        lambda: emu.connections(emu.generate(packets=1, flows=1), threads=[1.5]),
        lambda: emu.steer(None, emu.generate(packets=1, flows=1)),
        lambda: emu.steer(host(), [b"frame"]),
    ],
)
def test_an_argument_of_another_kind_is_one_line(make):
    with pytest.raises(ConfigError) as refusal:
        make()
    assert "\n" not in str(refusal.value)
