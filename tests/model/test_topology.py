"""Topologies: defaults, lists, limits."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given

from emu.errors import ConfigError
from emu.model.masks import CpuSet
from emu.model.topology import MAX_CPUS, Topology
from tests.strategies.hosts import topologies


@pytest.mark.parametrize("cpus", [1, 2, 64, 65, 256, 4096, MAX_CPUS])
def test_defaults(cpus):
    topology = Topology(cpus=cpus)
    assert topology.node_of == topology.llc_of == (0,) * cpus
    assert topology.core_of == topology.online_cpus == tuple(range(cpus))
    assert topology.nodes == 1
    assert topology.online_set == CpuSet((1 << cpus) - 1)


def test_lists_place_each_cpu():
    topology = Topology.from_lists(
        cpus=8,
        nodes=["0-3", "4-7"],
        llcs=["0-1", "2-3", "4-5", "6-7"],
        cores=["0,4", "1,5", "2,6", "3,7"],
        offline="3,5",
    )
    assert topology.node_of == (0, 0, 0, 0, 1, 1, 1, 1)
    assert topology.llc_of == (0, 0, 1, 1, 2, 2, 3, 3)
    assert topology.core_of == (0, 1, 2, 3, 0, 1, 2, 3)
    assert topology.online_cpus == (0, 1, 2, 4, 6, 7)
    assert (topology.online_list(), topology.online_list(False)) == ("0-2,4,6-7", "3,5")
    assert topology.nodes == 2


def test_a_cache_for_each_node_by_default():
    assert Topology.from_lists(cpus=4, nodes=["0,2", "1,3"]).llc_of == (0, 1, 0, 1)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"cpus": 0}, "topology: cpus: got 0; allowed: a whole number from 1 to 8192"),
        ({"cpus": True}, "topology: cpus: got True; allowed: a whole number from 1 to 8192"),
        (
            {"cpus": 2, "node_of": (0,)},
            "topology: node_of: got (0,); allowed: one entry for each of the 2 CPUs",
        ),
        (
            {"cpus": 2, "node_of": (0, -1)},
            "topology: node_of[1]: got -1; allowed: a whole number >= 0",
        ),
        ({"cpus": 1, "online": (1,)}, "topology: online[0]: got 1; allowed: true or false"),
        (
            {"cpus": 2, "online": (False, False)},
            "topology: offline: got '0-1'; allowed: at least one CPU online",
        ),
    ],
)
def test_mistakes(fields, line):
    with pytest.raises(ConfigError) as caught:
        Topology(**fields)
    assert str(caught.value) == line


def test_it_is_frozen():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Topology(cpus=1).cpus = 2  # type: ignore[misc]


@given(topologies())
def test_random_ones_are_whole(topology):
    for column in (topology.node_of, topology.llc_of, topology.core_of, topology.online):
        assert len(column) == topology.cpus
    assert topology.online_cpus
