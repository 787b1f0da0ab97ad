"""Live comparison: what it needs, what it leaves behind, and that it compares."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emu.errors import ConfigError
from emu.intake import from_frames
from emu.replay.registry import part_of
from emu.replay.run import replay_files
from emu.verify import bpf, needs, run
from emu.verify.frames import gro_case
from emu.verify.rps import format_words
from emu.verify.run import SHARES, CannotVerify, counts_of, verify, write_recording
from emu.verify.taps import octet_filter
from tests.signals import hears_ctrl_c

LACKING = needs.lacking()
live = pytest.mark.skipif(LACKING is not None, reason=f"live kernel: {LACKING}")
COMMAND = [sys.executable, "-m", "emu", "verify"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, check=False, timeout=200
    )


def left_behind() -> dict[str, object]:
    """What of the machine a run could have changed."""

    def said(*words: str) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    table = Path("/proc/sys/net/core/rps_sock_flow_entries")
    return {
        "links": said("ip", "-o", "link"),
        "namespaces": said("ip", "netns"),
        "mounts": Path("/proc/self/mounts").read_text(),
        "table": table.read_text() if table.exists() else None,
        "threads": sorted(
            name
            for process in Path("/proc").iterdir()
            if process.name.isdigit()
            for name in [comm_of(process)]
            if name.startswith(("napi/g", "cpumap/"))
        ),
    }


def comm_of(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""


def wait_until_gone(before: dict[str, object]) -> dict[str, object]:
    """The kernel takes namespaces down a little later."""
    after = left_behind()
    for _ in range(100):
        if after == before:
            break
        time.sleep(0.1)
        after = left_behind()
    return after


@live
def test_the_running_kernel_decides_the_same():
    before = left_behind()
    found = verify(cases=240, seed=3)

    assert [f for tally in found.report.tallies for f in tally.findings] == []
    assert not found.report.differs
    assert {"gro", "rps", "xps", "reuseport"} <= set(SHARES) - set(found.lacking)
    assert wait_until_gone(before) == before


@live
def test_a_rule_switched_off_is_found_and_named():
    done = command("--cases", "60", "--only", "gro", "--engine", "ref", "--assume", "GRO-30=false")

    assert done.returncode == 1
    assert "GRO-30 were not assumed to be false" in done.stdout


@live
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_stays_when_it_is_ended_in_the_middle(number):
    before = left_behind()
    with subprocess.Popen(
        [*COMMAND, "--cases", "40000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=hears_ctrl_c,
    ) as process:
        time.sleep(2.5)
        assert process.poll() is None
        os.kill(process.pid, number)
        process.wait(timeout=20)

    assert wait_until_gone(before) == before


@live
def test_a_recording_replays(tmp_path):
    target = tmp_path / "live.jsonl.gz"
    done = command("--cases", "120", "--record", str(target), "--json", str(tmp_path / "out.json"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert not replay_files([target]).differs
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["schema"] == "emu.verify"
    assert told["given"] == {"cases": 120, "seed": 1}


def test_who_is_not_root_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(CannotVerify, match="not root"):
        verify(cases=1)


def test_without_ip_there_is_nothing_to_ask(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs.shutil, "which", lambda name: None)

    assert "iproute2" in str(needs.lacking())


def test_without_veth_the_kernels_word_is_given(monkeypatch):
    monkeypatch.setattr(needs, "PROBE", ["sh", "-c", "echo no such thing >&2; exit 2"])

    assert needs.lacking_namespaces() == "no veth in a namespace of its own (no such thing)"
    monkeypatch.setattr(needs, "PROBE", ["/nonexistent/unshare"])
    assert "no namespaces" in str(needs.lacking_namespaces())


def test_status_77_when_nothing_can_run():
    """As somebody who may do nothing."""
    code = "import os, sys, emu.__main__; os.setgid(65534); os.setuid(65534); "
    code += "sys.argv[1:] = ['verify', '--cases', '1']; emu.__main__.main()"
    if os.geteuid() != 0:
        done = command()
    else:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
    if "Permission denied" in done.stderr or "ModuleNotFoundError" in done.stderr:
        pytest.skip("another user may not read this folder")

    assert done.returncode == 77
    assert done.stderr == "cannot verify here: not root\n"


def test_a_child_that_dies_is_one_line(monkeypatch):
    monkeypatch.setattr(run, "lacking", lambda: None)
    monkeypatch.setattr(run.sys, "executable", "/bin/false")

    with pytest.raises(ConfigError, match="ended"):
        verify(cases=1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "grow"], "gro"),
        (["--record", "/nonexistent/folder/file"], "a folder that exists"),
        (["--engine", "both2"], "core, ref or both"),
        (["--assume", "GRO-26"], "RULE=true"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(words, says):
    done = command(*words)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_cases_are_shared_among_parts():
    counts = counts_of(2200, [])

    assert set(counts) == set(SHARES)
    assert counts["gro"] == 2200 * SHARES["gro"] // sum(SHARES.values())
    assert counts_of(1, ["rps", "xps"]) == {"rps": 1, "xps": 1}


def test_equal_seeds_give_equal_cases():
    first, again = (gro_case(random.Random("1/gro")) for _ in range(2))

    assert first == again
    assert first != gro_case(random.Random("2/gro"))


def test_cases_have_all_kinds_of_frames():
    rng = random.Random(5)
    frames = [frame for _ in range(200) for frame in gro_case(rng)]
    packets = from_frames(frames)

    assert {4, 6} == set(packets.family.tolist())
    assert {4, 6, 17, 41} <= set(packets.ip_proto.tolist())
    assert len(set(packets.flags.tolist())) > 8


def test_a_recording_appears_whole_or_not_at_all(tmp_path):
    record = {"qm_in": 0, "masks": ["1"], "rxq": 0, "scpu": 0, "hash": 5, "cpu": 0, "cpus": 1}
    write_recording(tmp_path / "a.jsonl", [record])

    assert part_of(json.loads((tmp_path / "a.jsonl").read_text())).name == "rps"
    (tmp_path / "b").mkdir()
    with pytest.raises(ConfigError, match="--record"):
        write_recording(tmp_path / "b", [record])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b"]


def test_programs_are_laid_out_as_the_kernel_reads_them():
    code = bpf.redirect_to(7, 3)

    assert len(code) == 6 * 8
    assert code[:8] == bytes([0x18, 0x11, 0, 0, 7, 0, 0, 0])
    assert code[-8:] == bytes([0x95, 0, 0, 0, 0, 0, 0, 0])
    assert len(octet_filter(36, 8)) == 5 * 8


@pytest.mark.parametrize(
    ("mask", "written"),
    [("3", "3"), ("ffffffff", "ffffffff"), ("1" + "0" * 8, "00000001,00000000")],
)
def test_wide_masks_are_written_in_words(mask, written):
    assert format_words(mask) == written
