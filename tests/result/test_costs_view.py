"""The cost model as it is printed and as JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from emu.model.costs import TABLES, Machine
from emu.model.host import Host
from emu.model.machines_toml import PRESETS, get_machine
from emu.model.nic import Nic
from emu.model.topology import Topology
from emu.result.costs_view import costs_json, pairs, print_costs
from emu.run_dtypes import COST_ONE

TWO_NODES = Topology.from_lists(
    cpus=8, nodes=["0-3", "4-7"], llcs=["0-1", "2-3", "4-5", "6-7"], offline="7"
)


def printed(host: Host | None, machine: Machine) -> str:
    out = io.StringIO()
    print_costs(host, machine, Console(file=out, width=100))
    return out.getvalue()


def host_of(topology: Topology) -> Host:
    return Host(topology=topology, nics=(Nic(name="eth0", rx_queues=1),))


def test_pairs_of_online_cpus() -> None:
    assert pairs(TWO_NODES) == {"same_cpu": 7, "same_llc": 3, "same_node": 6, "other_node": 12}
    assert sum(list(pairs(TWO_NODES).values())[1:]) == 7 * 6 // 2


def test_a_cpu_alone_has_no_pairs() -> None:
    assert pairs(Topology(cpus=1)) == {
        "same_cpu": 1,
        "same_llc": 0,
        "same_node": 0,
        "other_node": 0,
    }


@pytest.mark.parametrize("name", PRESETS)
def test_every_row_is_printed_with_its_source(name: str) -> None:
    machine = get_machine(name)
    text = printed(host_of(TWO_NODES), machine)
    words = "".join(text.replace("│", " ").split())

    assert all(len(line) <= 100 for line in text.splitlines())
    for row in machine.rows:
        assert row.name in text
        assert row.source.split()[0] in text
    for row in machine.of("machine"):
        assert "".join(row.source.split()) in words
    assert "other_node│12" in "".join(text.split())
    assert "timesthefactor" not in words


def test_brackets_in_a_source_are_text(tmp_path: object) -> None:
    machine = get_machine("xeon-2015")
    assert "[C2 (tx lock, owner," in printed(None, machine)
    assert "Pairs of this host" not in printed(None, machine)


def test_a_scaled_machine_says_so() -> None:
    assert "rows of software are times 1.25" in printed(None, get_machine("xeon-2015").scaled(1.25))


def test_json_has_every_row_and_what_a_run_charges() -> None:
    machine = get_machine("xeon-2024")
    out = json.loads(json.dumps(costs_json(host_of(TWO_NODES), machine)))

    assert [(row["table"], row["name"]) for row in out["rows"]] == [
        (table, name) for table, names in TABLES.items() for name in names
    ]
    rows = {f"{row['table']}.{row['name']}": row for row in out["rows"]}
    assert rows["transfer.other_node"]["charged_cycles"] == machine.transfer[3] / COST_ONE
    assert rows["stream.same_llc"]["charged_cycles"] == machine.stream[1] / COST_ONE
    assert rows["lines.skb_read"]["value"] == {"tcp": 4, "udp": 6}
    assert rows["costs.lock"]["ns"] == pytest.approx(12)
    assert rows["costs.lock"]["software"] is False
    assert rows["latencies.ipi"]["value"] == machine.ipi_ps
    assert out["distances"] == pairs(TWO_NODES)
    assert sum(out["solidity"].values()) == len(machine.rows)
    assert out["machine"]["name"] == "xeon-2024"
    assert "distances" not in costs_json(None, machine)
