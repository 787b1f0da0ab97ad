"""The main job: the four proposals, emu's own speed, and what is printed and written of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import emu
from emu.bench import cli, jobs, speed, timed
from emu.bench.experiments import EXPERIMENTS, Outcome, run_experiment
from emu.bench.shapes import SHAPED
from emu.bench.speed_engine import engine_steps
from emu.dtypes import STEER_STAGES
from emu.errors import ConfigError
from emu.model.costs import Machine

COLUMNS = 100


def outcome(name: str, engine: str = "core") -> Outcome:
    (experiment,) = (one for one in EXPERIMENTS if one.id == name)
    return run_experiment(experiment, seed=0, quick=True, engine=engine)


@pytest.mark.parametrize("name", [one.id for one in EXPERIMENTS])
def test_both_engines_give_the_same_numbers(name: str) -> None:
    assert outcome(name, "core") == outcome(name, "ref")


def test_a_cpu_mask_brings_every_packet_to_a_socket_of_its_node() -> None:
    result = outcome("incoming-cpu-mask")

    assert 0.4 < result.before["on_node_share"] < 0.6  # two nodes, and nobody looks
    assert result.after["on_node_share"] == 1.0
    assert result.before["sockets"] == result.after["sockets"] == 8


def test_xps_gives_each_cpu_its_queue_and_each_completion_its_sender() -> None:
    result = outcome("xps")

    assert result.before["cpus_per_tx_queue_mean"] > 8
    assert result.before["completed_elsewhere_share"] > 0.8
    assert result.after == {
        "cpus_per_tx_queue_mean": 1.0,
        "cpus_per_tx_queue_max": 1,
        "completed_elsewhere_share": 0.0,
    }


def test_gro_in_the_kthread_makes_fewer_skbs_on_every_cpu_of_the_map() -> None:
    result = outcome("cpumap-gro")

    assert set(result.before.values()) == {1.0}
    assert all(share < 0.3 for share in result.after.values())
    assert set(result.before) == set(result.after)


def test_a_named_cpu_takes_the_backlog_off_the_softirqs_cpu() -> None:
    result = outcome("sockmap-affinity")

    assert result.before == {"on_softirq_cpu_share": 1.0, "backlog_share_cpu6": 1.0}
    assert result.after == {"on_softirq_cpu_share": 0.0, "backlog_share_cpu7": 1.0}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little traffic and time that the numbers mean nothing, which nobody asks of them here."""
    monkeypatch.setattr(speed, "SIZES", {False: 4_000, True: 4_000})
    monkeypatch.setattr(speed, "REF_PACKETS", 500)
    monkeypatch.setattr(jobs, "DISSECTED", 500)
    monkeypatch.setattr(timed, "QUICK", 20)
    monkeypatch.setattr(timed, "QUICK_SEEDS", 2)
    monkeypatch.setattr(timed, "QUICK_TOLERANCE", 0.05)
    monkeypatch.setattr(
        timed, "SHAPES", {name: shapes[:1] for name, shapes in timed.SHAPES.items()}
    )


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["emu.bench", *arguments])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.mark.usefixtures("small")
def test_the_main_job_writes_what_its_page_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"

    assert run(monkeypatch, "--quick", "--seed", "3", "--json", str(target)) == 0

    shown = capsys.readouterr()
    written = json.loads(target.read_text())
    assert max(map(len, shown.out.splitlines())) <= COLUMNS
    steps = len(EXPERIMENTS) + speed.steps() + sum(map(timed.timed_steps, timed.TIMED))
    steps += engine_steps(timed.TIMED, SHAPED)
    assert f"[1/{steps}] incoming-cpu-mask" in shown.err
    assert f"[{steps}/{steps}] " in shown.err
    assert (written["schema"], written["version"], written["seed"]) == ("emu.bench", 2, 3)
    assert [one["id"] for one in written["decisions"]] == [one.id for one in EXPERIMENTS]
    assert all(one["before"] and one["after"] for one in written["decisions"])
    assert [one["id"] for one in written["experiments"]] == list(timed.TIMED)
    for one in written["experiments"]:
        check_timed(one)
    assert "published" in shown.out
    assert "fitted to the published before" in shown.out
    names = [row["name"] for row in written["speed"]]
    assert names == [*jobs.JOBS, "steer", "steer-zipf"]
    assert all(row["core_pps"] > 0 and row["ref_pps"] > 0 for row in written["speed"])
    assert all(row["decisions"] > 0 for row in written["speed"])
    labels = [f"{name}: {label}" for name in timed.TIMED for label in SHAPED[name]]
    assert [row["name"] for row in written["engine_speed"]] == labels
    assert all(value > 0 for row in written["engine_speed"] for value in list(row.values())[1:])
    for row in written["speed"][-2:]:
        assert set(row["counts"]) == set(STEER_STAGES)
        assert all(row["counts"].values()), "a stage had nothing to decide"


def check_timed(one: dict[str, Any]) -> None:
    """A timed experiment has what docs/bench-json.md says, and numbers that agree."""
    assert len(one["rows"]) == {"xps": 2, "incoming-cpu-mask": 20}[one["id"]]
    for row in one["rows"]:
        assert set(row) >= {"label", "metric", "unit", "published", "emulated", "calibrated"}
        assert row["metric"] in ("throughput", "cpu", "p50", "p90", "p99")
        assert row["verdict"]
        emulated, ratio = row["emulated"], row["ratio"]["emulated"]
        assert ratio == pytest.approx(emulated["after"] / emulated["before"])
        assert len(emulated["ci"]) == 2
        assert emulated["ci"][0] <= ratio <= emulated["ci"][1]
        if row["calibrated"]:
            assert emulated["before"] == pytest.approx(row["published"]["before"], rel=0.06)
    labels = list(dict.fromkeys(row["label"] for row in one["rows"]))
    assert list(one["fits"]) == labels
    assert [row["label"] for row in one["derived"]] == labels
    assert {name for row in one["rows"] for name in row["calibrated"]} == {
        name for fit in one["fits"].values() for name in fit["fitted"]
    }
    assert all(also["fit_of"] in labels for also in one["also"])
    assert len(one["also"]) > 3
    assert one["shapes"]
    assert all(shape["label"] in labels for shape in one["shapes"])


@pytest.mark.usefixtures("small")
def test_sensitivity_writes_what_its_page_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    few = ("costs.tcp_send", "costs.udp_send", "lines.dql")
    monkeypatch.setattr(Machine, "names", lambda machine: few)

    assert run(monkeypatch, "sensitivity", "--experiment=xps", "--quick", f"--json={target}") == 0

    shown = capsys.readouterr()
    written = json.loads(target.read_text())
    (one,) = written["experiments"]
    assert max(map(len, shown.out.splitlines())) <= COLUMNS
    assert "[1/3] costs.tcp_send" in shown.err
    assert (written["schema"], written["version"]) == ("emu.bench.sensitivity", 1)
    assert (one["id"], one["change"]) == ("xps", 0.3)
    rows = {row["name"]: row for row in one["rows"]}
    assert set(rows) == set(few)
    assert rows["costs.udp_send"]["low"] == rows["costs.udp_send"]["high"] == one["base"]
    assert [row["effect"] for row in one["rows"]] == sorted(
        (row["effect"] for row in one["rows"]), reverse=True
    )


def test_sensitivity_of_an_experiment_that_does_not_exist_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "sensitivity", "--experiment", "xsp") == 2

    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert '"xps", "incoming-cpu-mask"; try "xps"' in shown


def test_steer_writes_one_object_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pcap = tmp_path / "in.pcap"
    emu.write_pcap(pcap, emu.generate(packets=50, flows=5, local="10.0.0.1:80"))

    assert run(monkeypatch, "steer", "--pcap", str(pcap), "--json", "-") == 0

    written = json.loads(capsys.readouterr().out)
    assert written["schema"] == "emu.bench.steer"
    assert (written["pcap"], written["host"], written["engine"]) == (str(pcap), None, "core")
    assert written["totals"]["packets"] == written["totals"]["received"] == 50
    assert sum(row["packets"] for row in written["queues"]) == 50
    assert sum(row["packets"] for row in written["sockets"]) == 50


def test_steer_prints_tables_that_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pcap = tmp_path / "in.pcap"
    emu.write_pcap(pcap, emu.generate(packets=50, flows=5, local="10.0.0.1:443"))

    assert run(monkeypatch, "steer", "--pcap", str(pcap)) == 0

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= COLUMNS
    assert "met no socket" in shown


@pytest.mark.parametrize("option", ["--seed=5", "--json=x", "--quick", "--engine=ref"])
def test_an_option_in_front_of_steer_is_not_dropped(
    monkeypatch: pytest.MonkeyPatch, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, option, "steer", "--pcap", "in.pcap") == 2

    assert "in front of steer" in capsys.readouterr().err


def test_an_engine_that_does_not_exist_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--engine", "cores") == 2

    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(ConfigError, match='"core" or "ref"'):
        outcome("xps", "cores")
