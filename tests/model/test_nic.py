"""NICs: what is settled, what is refused."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.dtypes import RSS_FLOWS, RssField
from emu.errors import ConfigError
from emu.model.masks import CpuSet
from emu.model.nic import (
    MICROSOFT_KEY,
    SYMMETRIC_KEY,
    Cpumap,
    Gro,
    Nic,
    Rss,
    default_indirection,
)
from emu.model.topology import Topology
from tests.strategies.hosts import nics, rsses

FIELDS = {
    "s": RssField.IP_SRC,
    "d": RssField.IP_DST,
    "f": RssField.L4_B_0_1,
    "n": RssField.L4_B_2_3,
}


def message(kind, **fields):
    """The error line of a class that refuses these fields."""
    with pytest.raises(ConfigError) as caught:
        kind(**fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults():
    nic = Nic(name="eth0")
    assert (nic.rx_queues, nic.tx_queues, nic.rx_usecs, nic.rx_usecs_ps) == (1, 1, "10us", 10**7)
    assert nic.rss.indirection == (0,) * 128
    assert nic.rps_cpus == nic.xps_cpus == nic.xps_rxqs == nic.irq_cpus == ()
    assert nic.gro == Gro()
    assert nic.cpumap is None


@pytest.mark.parametrize(
    ("queues", "size"), [(1, 128), (3, 128), (128, 128), (129, 256), (3000, 4096)]
)
def test_the_default_table_goes_round(queues, size):
    table = Nic(name="a", rx_queues=queues).rss.indirection
    assert table == tuple(index % queues for index in range(size)) == default_indirection(queues)


def test_one_set_stands_for_every_queue_and_a_short_list_for_the_first():
    nic = Nic(name="a", rx_queues=3, tx_queues=2, rps_cpus=CpuSet([1]), xps_cpus=[CpuSet([0])])
    assert nic.rps_cpus == (CpuSet([1]),) * 3
    assert nic.xps_cpus == (CpuSet([0]), CpuSet())


@pytest.mark.parametrize(
    ("given", "text", "ps"),
    [
        (0, "0us", 0),
        (7, "7us", 7 * 10**6),
        ("0ns", "0us", 0),
        ("1500ns", "1500ns", 1_500_000),
        ("1.5us", "1500ns", 1_500_000),
        ("1000us", "1ms", 10**9),
    ],
)
def test_rx_usecs(given, text, ps):
    nic = Nic(name="a", rx_usecs=given)
    assert (nic.rx_usecs, nic.rx_usecs_ps) == (text, ps)


def test_keys():
    assert Rss(key="microsoft").key == MICROSOFT_KEY
    assert Rss(key="symmetric").key == SYMMETRIC_KEY == bytes.fromhex("6d5a" * 20)
    assert Rss(key=MICROSOFT_KEY.hex(":")).key == Rss(key=MICROSOFT_KEY.hex()).key == MICROSOFT_KEY
    assert Rss().key is None
    assert Rss(key=bytes(52)).key == bytes(52)


def test_hash_fields():
    assert Rss().fields() == tuple(
        sum(FIELDS[letter] for letter in ("sdfn" if flow[:3] in ("tcp", "udp") else "sd"))
        for flow in RSS_FLOWS
    )
    fields = dict(zip(RSS_FLOWS, Rss(udp_hash="2tuple").fields(), strict=True))
    assert fields["udp4"] == fields["udp6"] == FIELDS["s"] | FIELDS["d"]
    assert fields["tcp4"] == sum(FIELDS.values())
    rss = Rss(udp_hash="2tuple", hash_fields={"udp4": "nf", "tcp6": ""})
    fields = dict(zip(RSS_FLOWS, rss.fields(), strict=True))
    assert fields["udp4"] == FIELDS["f"] | FIELDS["n"]
    assert fields["tcp6"] == 0


@pytest.mark.parametrize(
    ("kind", "fields", "line"),
    [
        (Nic, {"name": "a b"}, "nic 'a b': name: got 'a b'; allowed: text that is not empty and"),
        (Nic, {"name": "a", "rx_queues": 0}, "nic 'a': rx_queues: got 0; allowed: a whole number"),
        (
            Nic,
            {"name": "a", "rx_queues": 2, "rps_cpus": [CpuSet([0])] * 3},
            "nic 'a': rps_cpus[2]: got '0'; allowed: rx queues 0..1; try rx_queues=3",
        ),
        (
            Nic,
            {"name": "a", "rps_cpus": ["f"]},
            "nic 'a': rps_cpus[0]: got 'f'; allowed: a CPU set for each queue",
        ),
        (Nic, {"name": "a", "rps_cpus": "f"}, "nic 'a': rps_cpus: got 'f'; allowed: a list with"),
        (
            Nic,
            {"name": "a", "xps_cpus": CpuSet([0])},
            "nic 'a': xps_cpus[0]: got '0'; allowed: none with 1 tx queue: the kernel",
        ),
        (
            Nic,
            {"name": "a", "xps_rxqs": CpuSet([1])},
            "nic 'a': xps_rxqs[0]: got '1'; allowed: rx queues 0..0",
        ),
        (
            Nic,
            {"name": "a", "rx_queues": 2, "irq_cpus": [0]},
            "nic 'a': irq_cpus: got 1 CPUs; allowed: one for each of the 2 rx queues",
        ),
        (Nic, {"name": "a", "irq_cpus": [-1]}, "nic 'a': irq_cpus[0]: got -1; allowed: a CPU"),
        (
            Nic,
            {"name": "a", "irq_cpus": [True]},
            "nic 'a': irq_cpus[0]: got True; allowed: a CPU for each queue",
        ),
        (
            Nic,
            {"name": "a", "rss": Rss(indirection=[0, 1])},
            "nic 'a': rss.indirection[1]: got 1; allowed: rx queues 0..0",
        ),
        (
            Nic,
            {"name": "a", "rx_usecs": "10"},
            "nic 'a': rx_usecs: got '10'; allowed: a number and",
        ),
        (
            Nic,
            {"name": "a", "rx_usecs": -1},
            "nic 'a': rx_usecs: got '-1us'; allowed: a number and",
        ),
        (Nic, {"name": "a", "rx_usecs": 0.5}, "nic 'a': rx_usecs: got 0.5; allowed: a duration"),
        (
            Nic,
            {"name": "a", "hw_hash": 1},
            "nic 'a': hw_hash: got 1; allowed: true or false; try true",
        ),
        (Nic, {"name": "a", "rss": None}, "nic 'a': rss: got None; allowed: an Rss"),
        (Rss, {"key": bytes(39)}, "rss: key: got 39 bytes; allowed: 40 to 52 bytes"),
        (Rss, {"key": "microsft"}, "rss: key: got 'microsft'; allowed: hex bytes"),
        (Rss, {"key": 5}, "rss: key: got 5; allowed: 40 to 52 bytes"),
        (
            Rss,
            {"indirection": [0, 1, 0]},
            "rss: indirection: got 3 entries; allowed: a power of two of entries, at most 65536; "
            "try 2 or 4 entries",
        ),
        (Rss, {"indirection": [-1]}, "rss: indirection[0]: got -1; allowed: an rx queue"),
        (Rss, {"indirection": 1}, "rss: indirection: got 1; allowed: a list of rx queues"),
        (
            Rss,
            {"hash_fields": {"upd4": "sd"}},
            'rss: hash_fields: got \'upd4\'; allowed: "tcp4", "udp4", "sctp4", "ip4", '
            '"tcp6", "udp6", "sctp6", "ip6"; try "udp4"',
        ),
        (
            Rss,
            {"hash_fields": {"ip6": "sdfn"}},
            "rss: hash_fields.ip6: got 'sdfn'; allowed: letters of \"sd\"",
        ),
        (
            Rss,
            {"hash_fields": {"tcp4": "ss"}},
            "rss: hash_fields.tcp4: got 'ss'; allowed: each letter once",
        ),
        (
            Rss,
            {"hash_fields": {"tcp4": "sdf"}, "input_xfrm": "symmetric-xor"},
            'rss: hash_fields.tcp4: got \'sdf\'; allowed: "sd", "sdfn", "fn" or ""',
        ),
        (Rss, {"hash_fields": "sd"}, "rss: hash_fields: got 'sd'; allowed: a table"),
        (
            Rss,
            {"udp_hash": "4-tuple"},
            'rss: udp_hash: got \'4-tuple\'; allowed: "2tuple", "4tuple"; try "4tuple"',
        ),
        (Gro, {"max_size": 2**20}, "gro: max_size: got 1048576; allowed: a whole number from 1 to"),
        (Cpumap, {"cpus": CpuSet()}, "cpumap: cpus: got ''; allowed: at least one CPU"),
        (
            Cpumap,
            {"cpus": CpuSet([1]), "rule": "fixed"},
            'cpumap: fixed: got nothing; allowed: a CPU of cpus (1) with rule="fixed"; try fixed=1',
        ),
        (
            Cpumap,
            {"cpus": CpuSet([1]), "rule": "fixed", "fixed": 0},
            "cpumap: fixed: got 0; allowed: a CPU of cpus (1)",
        ),
        (
            Cpumap,
            {"cpus": CpuSet([1]), "fixed": 1},
            'cpumap: fixed: got 1; allowed: none with rule="rx-queue"; try rule="fixed"',
        ),
        (Cpumap, {"cpus": CpuSet([1]), "qsize": 16385}, "cpumap: qsize: got 16385; allowed:"),
        (Cpumap, {"cpus": [1]}, "cpumap: cpus: got [1]; allowed: a CPU set"),
    ],
)
def test_mistakes(kind, fields, line):
    assert message(kind, **fields).startswith(line)


def test_replace_follows_ethtool():
    nic = Nic(
        name="a",
        rx_queues=4,
        tx_queues=4,
        irq_cpus=(3, 2, 1, 0),
        rps_cpus=[CpuSet([queue]) for queue in range(4)],
        xps_cpus=[CpuSet([queue]) for queue in range(4)],
    )
    fewer = nic.replace(rx_queues=2, tx_queues=3)
    assert fewer.rps_cpus == (CpuSet([0]), CpuSet([1]))
    assert fewer.xps_cpus == (CpuSet([0]), CpuSet([1]), CpuSet([2]))
    assert fewer.rss.indirection == default_indirection(2)
    assert fewer.irq_cpus == ()
    assert fewer.replace(rx_queues=3).rps_cpus == (CpuSet([0]), CpuSet([1]), CpuSet())
    assert nic.replace(rx_usecs=5).irq_cpus == (3, 2, 1, 0)
    with pytest.raises(ConfigError, match=r"rss.indirection\[3\]: got 3"):
        nic.replace(rss=Rss(indirection=[0, 1, 2, 3]), rx_queues=3)


def test_thousands_of_queues():
    masks = [CpuSet([queue % 256]) for queue in range(4000)]
    nic = Nic(name="a", rx_queues=4000, tx_queues=4000, rps_cpus=masks, xps_cpus=masks)
    assert len(nic.rss.indirection) == 4096
    assert attrs.evolve(nic, rx_frames=1).rps_cpus == tuple(masks)


@given(st.data())
def test_random_ones_are_whole(data):
    nic = data.draw(nics(Topology(cpus=5), "eth0"))
    assert all(queue < nic.rx_queues for queue in nic.rss.indirection)
    assert len(nic.rps_cpus) in (0, nic.rx_queues)
    assert len(nic.xps_cpus) in (0, nic.tx_queues)
    assert attrs.evolve(nic) == nic == nic.replace()


@given(rsses(3))
def test_field_sets_are_what_ethtool_letters_say(rss):
    for flow, bits in zip(RSS_FLOWS, rss.fields(), strict=True):
        assert bits == sum(FIELDS[letter] for letter in rss.letters(flow))
