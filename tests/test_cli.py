"""``python -m emu``: what it prints and writes; a mistake is one line and nothing is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from emu import __main__ as command
from emu.model.machines_toml import PRESETS
from tests.signals import hears_ctrl_c

COLUMNS = 100
SCENARIO = """
title = "more queues [bold]"
text = "said of [red]it"
machine = "xeon-2015"
seeds = 2
duration = "400us"
warmup = "200us"

[host]
addresses = ["10.0.0.1"]
[host.topology]
cpus = 2
[[host.nic]]
name = "eth0"
link_mbps = 1000
[[host.socket]]
name = "server"
bind = "0.0.0.0:12865"
threads = "0-1"
[workload]
kind = "request-response"
flows = 4

[after.nic.eth0]
rx_queues = 2
tx_queues = 2

[[also]]
label = "UDP"
both = { workload = { proto = "udp" }, socket = { server = { proto = "udp" } } }

[[published]]
metric = "throughput"
unit = "K/s"
before = 100
after = 150
"""
HEADLINE = ("throughput", "cpu", "cpu_us_per_message", "p50", "p90", "p99", "mean")


FITTED = (
    SCENARIO
    + """
[[published]]
label = "UDP"
metric = "throughput"
unit = "/s"
before = 60000
after = 90000

[calibrate]
turnaround = "throughput"
"""
)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setattr(sys, "argv", ["emu", *arguments])
    try:
        command.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


def test_a_run_prints_before_and_after(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "run", str(scenario), "--engine", "ref") == 0

    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines())) <= COLUMNS
    assert "more queues [bold]" in shown.out  # a title is no markup
    assert "said of [red]it" in shown.out
    for text in (
        "messages/s",
        "p99, us",
        "where the cycles went",
        "throughput, K/s",
        "100 -> 150",
        "1.500",
        "verdict",
        "also, nothing published",
    ):
        assert text in shown.out
    for text in ("where the cycles went", "IDLE", "largest changes", "seeds 1 to 2", "wake-ups"):
        assert text in shown.out
    assert "fitted" not in shown.out
    assert shown.err.splitlines() == ["[1/2] main", "[2/2] UDP"]


def test_json_is_what_its_page_says(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.json"
    options = ("--engine", "ref", "--seed", "5", "--json", str(target))

    assert run(monkeypatch, "run", str(scenario), *options) == 0

    told = json.loads(target.read_text())
    page = (Path(__file__).parents[1] / "docs" / "run-json.md").read_text()
    assert (told["schema"], told["version"]) == ("emu.run", 1)
    assert [case["label"] for case in told["cases"]] == ["main", "UDP"]
    before = told["cases"][0]["before"]
    assert before["seeds"] == [5, 6]
    assert (before["duration_ps"], before["warmup_ps"]) == (400 * 10**6, 200 * 10**6)
    assert before["conservation"]["lost"] == before["conservation"]["tx_lost"] == 0
    assert [
        name
        for name in (*told, *told["cases"][0], *before)
        if f"`{name}`" not in page and f"`cases[].{name}`" not in page and f"`.{name}`" not in page
    ] == []
    assert set(told["cases"][0]["ratios"]) == set(HEADLINE)
    (row,) = told["rows"]
    assert row["published"] == {"before": 100, "after": 150}
    assert row["ratio"]["published"] == 1.5
    assert row["emulated"]["before"] == pytest.approx(before["throughput"]["value"] / 1000)
    assert len(row["emulated"]["ci"]) == 2
    assert (told["fits"], told["derived"], row["calibrated"]) == ({}, [], [])
    assert [case["fit_of"] for case in told["cases"]] == [None, None]


def test_a_run_is_fitted_as_its_scenario_says(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(FITTED)
    target = scenario.with_name("out.json")

    assert run(monkeypatch, "run", str(scenario), "--engine", "ref", "--json", str(target)) == 0

    shown, told = capsys.readouterr(), json.loads(target.read_text())
    assert max(map(len, shown.out.splitlines())) <= COLUMNS
    steps = ("fit main", "fit UDP", "main", "UDP")
    assert shown.err.splitlines() == [f"[{k}/4] {name}" for k, name in enumerate(steps, 1)]
    assert shown.out.count("* fitted to the published before: factor on software") == 2
    assert "(to throughput)" in shown.out
    assert list(told["fits"]) == ["main", "UDP"]
    assert [case["fit_of"] for case in told["cases"]] == ["main", "UDP"]
    for row in told["rows"]:
        assert row["calibrated"] == ["turnaround"]
        error = row["emulated"]["before"] / row["published"]["before"] - 1
        fit = told["fits"][row["label"]]
        assert abs(error) == pytest.approx(fit["residual"], rel=0.1, abs=1e-4)
        assert fit["residual"] < 0.1
    pauses = [fit["turnaround_ps"] for fit in told["fits"].values()]
    assert pauses[0] != pauses[1]


def test_no_fit_leaves_the_scenario_as_it_stands(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for text, options in ((FITTED, ("--no-fit",)), (SCENARIO, ())):
        scenario.write_text(text)
        assert run(monkeypatch, "run", str(scenario), "--engine=ref", "--json", "-", *options) == 0
        answers.append(json.loads(capsys.readouterr().out))

    assert answers[0]["cases"] == answers[1]["cases"]
    assert answers[0]["fits"] == {}
    assert [row["calibrated"] for row in answers[0]["rows"]] == [[], []]
    assert (answers[0]["no_fit"], answers[1]["no_fit"]) == (True, False)


def test_a_fit_that_is_not_possible_is_one_line_at_its_place(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(FITTED)
    options = ("--engine=ref", "--duration", "1ns")

    assert run(monkeypatch, "run", str(scenario), *options) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"error: {scenario}: main: calibrate: duration: got '1ns'" in shown.err
    assert "Traceback" not in shown.err


def test_equal_calls_write_equal_json(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        options = ("--engine", "ref", "--json", str(tmp_path / name), "--quick")
        assert run(monkeypatch, "run", str(scenario), *options) == 0

    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text()


def test_the_command_line_goes_before_the_scenario(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--engine", "ref", "--seeds", "1", "--duration", "300us", "--json", "-")
    assert run(monkeypatch, "run", str(scenario), *options) == 0
    told = json.loads(capsys.readouterr().out)["cases"][0]["before"]
    assert (told["seeds"], told["duration_ps"]) == ([1], 300 * 10**6)
    assert told["throughput"]["ci"] is None

    scenario.write_text(SCENARIO.replace("seeds = 2", "seeds = 9"))
    assert run(monkeypatch, "run", str(scenario), "--engine=ref", "--quick", "--json", "-") == 0
    told = json.loads(capsys.readouterr().out)["cases"][0]["before"]
    assert (told["seeds"], told["duration_ps"]) == ([1, 2, 3], 100 * 10**6)
    assert told["warmup_ps"] == 50 * 10**6


def test_details_show_every_counter(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "run", str(scenario), "--engine=ref", "--quick", "--details") == 0

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= COLUMNS
    for text in ("softnet", "tx queues", "conservation", "UDP, after"):
        assert text in shown


def test_costs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = Path(__file__).parents[1] / "emu" / "scenarios" / "two-node.toml"

    assert run(monkeypatch, "costs", str(host), "--machine", PRESETS[0]) == 0
    shown = capsys.readouterr().out
    assert "ctx_switch" in shown
    assert "other_node" in shown

    assert run(monkeypatch, "costs", "--json", "-") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["version"], told["host"]) == ("emu.costs", 1, None)
    assert told["machine"]["name"] == "xeon-2015"


NAMED = 'machine = "xeon-2015"'


def machine(more: str) -> str:
    """The machine with something else in it."""
    return f'machine = {{ name = "xeon-2015", {more} }}'


WRONG = [
    # what is replaced, by what, what the line says
    ('threads = "0-1"', 'threads = ""', "at least one CPU"),
    ('threads = "0-1"', 'threads = "7"', "ERANGE"),
    ("flows = 4", "flows = 0", "workload.flows: got 0"),
    ("flows = 4", "flow = 4", 'try "flows"'),
    ("flows = 4", 'flows = 4\nserver = "10.0.0.1:9"', "main, before: flow 0: got no socket"),
    ('duration = "400us"', 'duration = "0s"', "duration: got '0s'"),
    ('duration = "400us"', 'duration = "soon"', "duration: got 'soon'"),
    (
        NAMED,
        machine("costs = { lock = 0 }"),
        "machine.costs.lock",
    ),
    (
        NAMED,
        machine("costs = { lock = -3 }"),
        "machine.costs.lock",
    ),
    (NAMED, machine("khz = 0"), "machine.khz"),
    (NAMED, 'machine = "pdp-11"', "machine: got 'pdp-11'"),
    ("seeds = 2", "seeds = 0", "seeds: got 0"),
    ("seeds = 2", "sheds = 2", 'try "seeds"'),
    ("rx_queues = 2", 'cpumap = { cpus = "0" }', "main, after: nic 'eth0': cpumap"),
    ("rx_queues = 2", "rx_queues = 0", "after.nic.eth0.rx_queues: got 0"),
    ("[after.nic.eth0]", "[after.nic.eth9]", "after.nic.eth9: got no nic of that name"),
    ("text =", "text", "no TOML"),
]
OPEN_LOOP = """
kind = "open-loop"
generate = { packets = 1000, rate_pps = 100_000_000, local = "10.0.0.1:12865" }
"""


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1, shown.err
    assert shown.err.startswith("error: ")
    return shown.err


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_a_bad_scenario_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    scenario: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    said: str,
) -> None:
    assert old in SCENARIO
    scenario.write_text(SCENARIO.replace(old, new, 1))
    target = scenario.with_name("out.json")

    assert run(monkeypatch, "run", str(scenario), "--engine=ref", "--json", str(target)) == 2

    line = refused(capsys)
    assert said in line
    assert f"error: {scenario}: " in line
    assert not target.exists()


def test_a_rate_beyond_the_link_is_one_line(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, end = SCENARIO.index("kind ="), SCENARIO.index("[after")
    head = SCENARIO[:begin] + OPEN_LOOP + SCENARIO[end:]
    scenario.write_text(head[: head.index("[[also]]")])
    target = scenario.with_name("out.json")

    assert run(monkeypatch, "run", str(scenario), "--engine=ref", "--json", str(target)) == 2

    assert "main, before: nic 'eth0': link_mbps: got 1000 for 1000 packets" in refused(capsys)
    assert not target.exists()


def test_an_open_loop_cannot_be_fitted(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, end = FITTED.index("kind ="), FITTED.index("[after")
    scenario.write_text(
        FITTED[:begin] + OPEN_LOOP + FITTED[end:].replace('{ proto = "udp" }', "{}")
    )

    assert run(monkeypatch, "run", str(scenario)) == 2

    assert "calibrate: got \"open-loop\" of 'main'" in refused(capsys)


def test_packets_that_end_early_are_told(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, end = SCENARIO.index("kind ="), SCENARIO.index("[after")
    load = OPEN_LOOP.replace("1000,", "100, payload_bytes = 10,").replace("100_", "1_")
    text = SCENARIO[:begin] + load + SCENARIO[end:]
    scenario.write_text(text[: text.index("[[also]]")])

    assert run(monkeypatch, "run", str(scenario), "--engine=ref") == 0

    assert "after: the last packet comes at 0.099 ms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "none.toml"), "none.toml: got No such file or directory"),
        (("run", "."), "Is a directory"),
        (("run",), "Missing argument"),
        (("walk",), "walk"),
        (("run", "SCENARIO", "--seeds", "0"), "--seeds"),
        (("run", "SCENARIO", "--seeds", "many"), "--seeds"),
        (("run", "SCENARIO", "--seed", "-1"), "--seed"),
        (("run", "SCENARIO", "--duration", "0s"), "--duration: got '0s'"),
        (("run", "SCENARIO", "--duration", "5"), "--duration: got '5'"),
        (("run", "SCENARIO", "--engine", "reff"), "engine: got 'reff'"),
        (("run", "SCENARIO", "--json", "/no/such/folder/x"), "--json"),
        (("costs", "none.toml"), "none.toml: got No such file"),
        (("costs", "--machine", "xeon-2016"), 'try "xeon-2015"'),
        (("costs", "--machine", "none.toml"), "none.toml"),
        (("costs", "--json", ""), "--json"),
    ],
)
def test_a_bad_command_line_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    scenario: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(scenario.parent)
    given = [str(scenario) if word == "SCENARIO" else word for word in arguments]

    assert run(monkeypatch, *given) == 2

    assert said in refused(capsys)


def test_a_file_that_is_not_text_is_one_line(
    monkeypatch: pytest.MonkeyPatch, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_bytes(b"title = '\xff'")

    assert run(monkeypatch, "run", str(scenario)) == 2

    assert "byte 0xff" in refused(capsys)


def test_the_module_runs_as_a_program(scenario: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", str(scenario), "--engine=ref", "--quick"],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "where the cycles went" in done.stdout


def test_too_little_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scenario: Path
) -> None:
    def none_left(*given: object) -> None:
        raise MemoryError

    monkeypatch.setattr(command, "load_scenario", none_left)

    assert run(monkeypatch, "run", str(scenario)) == 2

    assert "memory: got more than there is" in refused(capsys)


@pytest.mark.parametrize("time", ["--duration=3600s", "--warm-up"])
def test_ctrl_c_stops_a_long_run_soon(scenario: Path, time: str) -> None:
    """The engine runs without Python: it must come back now and then, in the warm-up too."""
    options = [time]
    if time == "--warm-up":
        text = scenario.read_text(encoding="utf-8")
        scenario.write_text(text.replace('warmup = "200us"', 'warmup = "3600s"'), encoding="utf-8")
        options = []
    with subprocess.Popen(
        [sys.executable, "-m", "emu", "run", str(scenario), "--seeds=1", "--no-fit", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hears_ctrl_c,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("[1/")
        sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            out, said = process.communicate(timeout=20)
        finally:
            process.kill()

    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert out == ""
