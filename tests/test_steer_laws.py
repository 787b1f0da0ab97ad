"""What holds for every steer: nothing is lost, indexes are in range, order is kept, exact is so."""

from __future__ import annotations

from collections import defaultdict
from ipaddress import ip_address
from random import Random

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.dtypes import Direction, Drop, GroResult, PacketFlag, Secret, TxOf
from emu.intake import from_frames
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic, Rss
from emu.model.packets import Packets
from emu.model.secrets import Secrets
from emu.model.sockets import Socket, Sockmap
from emu.model.topology import Topology
from emu.result.decisions import Decisions
from emu.steering import steer
from tests.strategies.hosts import LOCAL_V4, LOCAL_V6
from tests.strategies.traffic import (
    Flow,
    Maker,
    clean_traffic,
    lively_hosts,
    op_lists,
    table,
    tcp_frames,
    traffic,
    udp_frames,
    wrap,
)

# What an answer is, without the place that other packets' decisions gave it.
ANSWER = (
    "direction",
    "rx_hash_type",
    "rx_queue",
    "irq_cpu",
    "napi_cpu",
    "cpu",
    "socket",
    "app_cpu",
    "backlog_cpu",
    "tx_of",
    "tx_nic",
    "tx_queue",
    "completion_cpu",
    "drop",
)
# Whose packet comes first at a socket or a worker that remembers it: other polls (another RSS key)
# and other sockets (other hash secrets) change that for everyone, and no packet is marked for it.
REMEMBERED = ("backlog_cpu", "tx_queue", "completion_cpu")
SETTLED = tuple(name for name in ANSWER if name not in REMEMBERED)
NEVER_AN_SKB = (Drop.CPUMAP_RING_FULL, Drop.XDP_DROP)


def busy() -> tuple[Host, Packets]:
    """A host with addresses and many trains, always the same."""
    sockets = [
        Socket(name="web", reuseport=True, incoming_cpu=0),
        Socket(name="web2", reuseport=True, threads=CpuSet([1, 3])),
        Socket(name="dns", proto="udp", bind="0.0.0.0:53"),
        Socket(
            name="c",
            bind="10.0.0.1:443",
            peer="10.1.0.1:1024",
            sockmap=Sockmap(cpu=2, redirect="c"),
        ),
    ]
    nics = [
        Nic(name="eth0", rx_queues=4, tx_queues=4, rps_cpus=CpuSet([1, 2])),
        Nic(name="eth1", cpumap=Cpumap(cpus=CpuSet([2, 3]), rule="hash", qsize=8), tx_queues=2),
    ]
    host = Host(
        topology=Topology(cpus=4), nics=nics, sockets=sockets, addresses=(*LOCAL_V4, *LOCAL_V6)
    )
    maker = Maker(host, Random(1))
    return host, table([maker.train() for _ in range(80)])


def members_of(decisions: Decisions) -> dict[int, list[int]]:
    """The packets of each skb, in the order in which they were polled; a sent packet alone."""
    out: dict[int, list[int]] = defaultdict(list)
    skb = decisions.arrays["skb"]
    polled = decisions.polls.order.tolist()
    for packet in (*polled, *np.flatnonzero(decisions.arrays["rx_queue"] < 0).tolist()):
        if skb[packet] >= 0:
            out[int(skb[packet])].append(packet)
    return out


def law_no_packet_is_lost_and_none_is_in_two_skbs(host, packets, decisions):
    skb, drop = decisions.arrays["skb"], decisions.arrays["drop"]

    assert len(decisions) == len(packets)
    assert set(drop[skb < 0].tolist()) <= {int(reason) for reason in NEVER_AN_SKB}
    assert not np.isin(drop[skb >= 0], NEVER_AN_SKB).any()
    members = np.bincount(skb[skb >= 0], minlength=len(decisions.skbs))
    np.testing.assert_array_equal(members, decisions.skbs["segs"])
    assert len(decisions.skbs) == len(decisions.decided)
    received = np.flatnonzero(decisions.arrays["rx_queue"] >= 0)
    assert sorted(decisions.polls.order.tolist()) == received.tolist()


def law_an_skb_begins_with_its_first_packet(host, packets, decisions):
    members = members_of(decisions)

    for row, skb in enumerate(decisions.skbs):
        # A kthread takes packets in another order than the polls: there only membership holds.
        assert skb["first"] in members[row]
        if decisions.host.nics[decisions.arrays["nic"][skb["first"]]].cpumap is None:
            assert skb["first"] == members[row][0]
        assert (skb["gso_size"] == 0) == (skb["segs"] == 1) or skb["gso_size"] == 0
        joined = [decisions.arrays["gro"][packet] for packet in members[row]]
        assert joined.count(GroResult.MERGED) == len(joined) - 1


def law_every_index_is_in_range(host, packets, decisions):
    cpus, sockets = host.topology.cpus, len(host.sockets)
    for name in ("irq_cpu", "napi_cpu", "cpu", "app_cpu", "backlog_cpu", "completion_cpu"):
        column = decisions.column(name)
        assert ((column >= -1) & (column < cpus)).all(), name
    socket = decisions.column("socket")
    assert ((socket >= -1) & (socket < sockets)).all()
    rx = np.array([nic.rx_queues for nic in host.nics])[decisions.arrays["nic"]]
    assert (decisions.arrays["rx_queue"] >= -1).all()
    assert (decisions.arrays["rx_queue"] < rx).all()
    decided = decisions.decided
    sends = decided["tx_nic"] >= 0
    tx = np.array([nic.tx_queues for nic in host.nics])[decided["tx_nic"][sends]]
    assert (decided["tx_queue"][sends] >= 0).all()
    assert (decided["tx_queue"][sends] < tx).all()
    assert (decided["tx_queue"][~sends] == -1).all()
    assert (decisions.arrays["skb"] < len(decisions.skbs)).all()


def law_online_cpus_do_the_work(host, packets, decisions):
    online = np.array(host.topology.online)

    for name in ("irq_cpu", "napi_cpu", "cpu"):
        column = decisions.column(name)
        assert online[column[column >= 0]].all(), name


def law_the_tx_columns_agree_with_each_other(host, packets, decisions):

    for row in decisions.decided:
        if row["tx_queue"] < 0:
            assert row["completion_cpu"] == row["tx_nic"] == -1
            continue
        nic = host.nics[row["tx_nic"]]
        assert row["completion_cpu"] == nic.tx_irq_cpus[row["tx_queue"]]
        assert row["tx_of"] != TxOf.NOTHING
        assert row["drop"] == Drop.NONE
    for row in decisions.decided[decisions.decided["drop"] != Drop.NONE]:
        assert row["tx_queue"] == row["app_cpu"] == row["backlog_cpu"] == row["socket"] == -1


def law_direction_follows_from_the_addresses(host, packets, decisions):
    own = {ip_address(text).packed for text in host.addresses}
    decided = decisions.decided
    for packet, way in enumerate(decisions.arrays["direction"].tolist()):
        family = packets.family[packet]
        size = {0: 0, 4: 4, 6: 16}[int(family)]
        saddr = packets.saddr[packet].tobytes()[:size]
        daddr = packets.daddr[packet].tobytes()[:size]
        sent = bool(own) and saddr in own and daddr not in own
        if way == Direction.SENT:
            assert sent
        elif way == Direction.RECEIVED:
            assert not sent
            assert family
        elif way == Direction.FORWARDED:
            assert host.forwarding
            assert not {saddr, daddr} & own
        assert (way == Direction.SENT) == (decisions.arrays["rx_queue"][packet] < 0)
        skb = decisions.arrays["skb"][packet]
        assert skb < 0 or decided["direction"][skb] == way


def law_each_direction_ends_in_its_own_way(host, packets, decisions):
    ways = {
        Direction.RECEIVED: {TxOf.NOTHING, TxOf.REPLY, TxOf.REDIRECT},
        Direction.SENT: {TxOf.NOTHING, TxOf.SENT},
        Direction.FORWARDED: {TxOf.NOTHING, TxOf.FORWARD},
        Direction.OTHER: {TxOf.NOTHING},
    }
    for row in decisions.decided:
        assert TxOf(row["tx_of"]) in ways[Direction(row["direction"])]
        if row["direction"] == Direction.OTHER:
            assert row["drop"] != Drop.NONE
        if row["direction"] == Direction.FORWARDED and row["drop"] == Drop.NONE:
            assert row["tx_of"] == TxOf.FORWARD
            assert row["socket"] == -1
        if row["direction"] == Direction.RECEIVED and row["drop"] == Drop.NONE:
            assert row["socket"] >= 0


def flows_in_order(packets: Packets, decisions: Decisions) -> dict[bytes, list[int]]:
    """The received packets of each 5-tuple in the order of the polls; dropped ones left out."""
    out: dict[bytes, list[int]] = defaultdict(list)
    ports = int(PacketFlag.HAS_PORTS)
    for packet in decisions.polls.order.tolist():
        if decisions.arrays["skb"][packet] < 0 or not packets.flags[packet] & ports:
            continue
        key = (
            bytes([packets.family[packet], packets.ip_proto[packet]])
            + packets.saddr[packet].tobytes()
            + packets.daddr[packet].tobytes()
            + packets.sport[packet].tobytes()
            + packets.dport[packet].tobytes()
            + packets.nic[packet].tobytes()
        )
        out[key].append(packet)
    return out


@settings(max_examples=50)
@given(data=st.data())
def test_order_within_a_flow_is_kept(data):
    host = data.draw(lively_hosts())
    packets = data.draw(clean_traffic(host))
    decisions = steer(host, packets)

    for flow in flows_in_order(packets, decisions).values():
        assert flow == sorted(flow)
        if (packets.ip_proto[flow] == 17).all() and (packets.payload_bytes[flow] == 0).any():
            continue  # an empty datagram goes by what is held (GRO-40)
        skb = decisions.arrays["skb"][flow].tolist()
        # Delivered in order, and each skb's packets stand together.
        assert skb == sorted(skb)


def law_an_skb_holds_packets_of_one_flow(host, packets, decisions):
    for row, members in members_of(decisions).items():
        first = int(decisions.skbs["first"][row])
        cpumap = host.nics[packets.nic[first]].cpumap
        names = ["family", "ip_proto", "sport", "dport", "nic"]
        # A frame of a cpumap has lost a tag that was in metadata.
        for name in names if cpumap else [*names, "vlan_tci"]:
            column = packets.columns[name]
            assert (column[members] == column[first]).all(), name
        assert (packets.saddr[members] == packets.saddr[first]).all()
        assert (packets.daddr[members] == packets.daddr[first]).all()
        assert cpumap or len(set(decisions.arrays["rx_queue"][members].tolist())) == 1


def law_the_columns_of_packets_are_those_of_their_skbs(host, packets, decisions):
    columns = decisions.columns
    skb = decisions.arrays["skb"]
    has = skb >= 0

    assert {len(column) for column in columns.values()} == {len(packets)}
    for name in ("cpu", "socket", "tx_queue", "drop", "secrets"):
        np.testing.assert_array_equal(columns[name][has], decisions.decided[name][skb[has]])


def law_counts_are_those_of_the_decisions(host, packets, decisions):
    arrays, decided, counts = decisions.arrays, decisions.decided, decisions.counts
    is_cpumap = np.array([nic.cpumap is not None for nic in host.nics])[arrays["nic"]]
    received = arrays["rx_queue"] >= 0

    assert counts["rss"] == received.sum()
    assert counts["cpumap"] <= (received & is_cpumap).sum()
    assert counts["gro"] == (arrays["gro"] != GroResult.BYPASS).sum()
    looked_up = np.isin(decided["direction"], (Direction.RECEIVED, Direction.SENT)) & np.isin(
        decided["drop"], (Drop.NONE, Drop.NO_SOCKET)
    )
    assert counts["lookup"] == looked_up.sum()
    received_skbs = decided["direction"] == Direction.RECEIVED
    assert counts["reuseport"] == ((decided["walked"] > 0) & received_skbs).sum()
    assert counts["sockmap"] == (decided["backlog_cpu"] >= 0).sum()
    assert counts["xps"] == (decided["tx_queue"] >= 0).sum()


def other_secrets(secrets: Secrets, other: Secrets, bit: Secret) -> Secrets:
    """The secrets with those of one kind exchanged."""
    fields = {
        Secret.FLOW_HASH: ("flow_hash_key",),
        Secret.EHASH: (
            "tcp_ehash",
            "udp_ehash",
            "tcp6_ehash",
            "udp6_ehash",
            "tcp6_addr",
            "udp6_addr",
            "hash_mix",
        ),
        Secret.TXHASH: ("txhash_seed",),
        Secret.RSS_KEY: ("rss_key",),
    }[bit]
    return attrs.evolve(secrets, **{name: getattr(other, name) for name in fields})


def same_answers(
    left: Decisions,
    right: Decisions,
    rows: np.ndarray,
    packets: Packets,
    columns: tuple[str, ...] = ANSWER,
) -> None:
    """Fail with the first packet of *rows* whose answer is not the same."""
    for name in columns:
        mine, other = left.column(name)[rows], right.column(name)[rows]
        wrong = np.flatnonzero(mine != other)
        if len(wrong):
            packet = int(rows[wrong[0]])
            raise AssertionError(
                f"packet {packet} ({Secret(int(left.arrays['secrets'][packet]))!r}): {name} "
                f"{mine[wrong[0]]} became {other[wrong[0]]}, of {len(packets)} packets"
            )


@pytest.mark.parametrize("bit", [Secret.FLOW_HASH, Secret.EHASH, Secret.TXHASH, Secret.RSS_KEY])
@settings(max_examples=40)
@given(data=st.data())
def test_a_packet_hangs_on_no_secret_that_it_does_not_name(bit, data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host))
    seeds = data.draw(st.lists(st.integers(0, 2**16), min_size=1, max_size=3))
    before = steer(host, packets)
    free = np.flatnonzero((before.arrays["secrets"] & bit) == 0)

    for seed in seeds:
        secrets = other_secrets(host.secrets, Secrets.from_seed(seed), bit)
        after = steer(host.replace(secrets=secrets), packets)
        order_stays = bit in (Secret.FLOW_HASH, Secret.TXHASH)
        same_answers(before, after, free, packets, ANSWER if order_stays else SETTLED)
        assert not order_stays or ((after.arrays["secrets"][free] & bit) == 0).all()


@settings(max_examples=60)
@given(data=st.data())
def test_an_exact_decision_does_not_change_with_the_secrets(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host))
    before = steer(host, packets)
    exact = np.flatnonzero(before.arrays["secrets"] == 0)

    after = steer(host.replace(secrets=Secrets.from_seed(data.draw(st.integers(0, 99)))), packets)

    same_answers(before, after, exact, packets, SETTLED)


def law_the_summary_adds_up(host, packets, decisions):
    summary = decisions.summary()
    arrays, decided, segs = decisions.arrays, decisions.decided, decisions.skbs["segs"]

    ways = sum(summary.totals[way.name.lower()] for way in Direction)
    assert summary.totals["packets"] == ways == len(packets)
    assert summary.totals["skbs"] == len(decisions.skbs)
    received = int((arrays["rx_queue"] >= 0).sum())
    assert summary.queues["packets"].sum() == received == summary.cpus["irq"].sum()
    assert len(summary.queues) == sum(nic.rx_queues for nic in host.nics)
    assert summary.cpus["napi"].sum() == segs[decided["napi_cpu"] >= 0].sum()
    assert summary.cpus["protocol"].sum() == segs[decided["cpu"] >= 0].sum()
    assert summary.nodes["protocol"].sum() == summary.cpus["protocol"].sum()
    assert (summary.nodes["local"] <= summary.nodes["app"]).all()
    assert summary.drops["packets"].sum() == (arrays["drop"] != Drop.NONE).sum()
    assert summary.tx_queues["skbs"].sum() == (decided["tx_queue"] >= 0).sum()
    assert (summary.tx_queues["remote"] <= summary.tx_queues["skbs"]).all()
    exact = dict(zip(summary.secrets["secret"], summary.secrets["packets"], strict=True))
    assert exact.get("EXACT", 0) == (arrays["secrets"] == 0).sum()
    to_socket = (decided["socket"] >= 0) & (decided["direction"] == Direction.RECEIVED)
    assert summary.sockets["packets"].sum() == segs[to_socket].sum()


MEMORY_CASES = {}


def memory_case(bit, *, names=()):
    """A host and frames in which one packet's answer stands in another one's decision.

    names: what the last packet must name, beside what it must not hide.
    """

    def keep(make_case):
        MEMORY_CASES[make_case.__name__] = (make_case, bit, names)
        return make_case

    return keep


def one_nic(*sockets, **nic):
    """8 CPUs, both families, one NIC."""
    return Host(
        topology=Topology(cpus=8),
        nics=[Nic(name="eth0", **nic)],
        sockets=sockets,
        addresses=(*LOCAL_V4, *LOCAL_V6),
    )


WEB = Flow("10.1.0.1", 1024, "10.0.0.1", 80)
ONE_TO_ONE = [CpuSet([cpu]) for cpu in range(8)]


def linked(proto, name, bind, peer, **sockmap):
    return Socket(name=name, proto=proto, bind=bind, peer=peer, sockmap=Sockmap(**sockmap))


@memory_case(Secret.RSS_KEY, names=(Secret.RSS_KEY,))
def a_sent_packet_uses_the_rx_queue_that_its_socket_remembers():
    socket = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    host = one_nic(socket, rx_queues=4, tx_queues=4, xps_rxqs=ONE_TO_ONE[:4])
    return host, [tcp_frames(WEB, 1), tcp_frames(WEB, 1, back=True)]


@memory_case(Secret.RSS_KEY, names=(Secret(0),))
def without_xps_by_rx_queue_a_sent_packet_does_not_hang_on_the_key():
    socket = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    host = one_nic(socket, rx_queues=4, tx_queues=8, xps_cpus=ONE_TO_ONE)
    return host, [tcp_frames(WEB, 1), tcp_frames(WEB, 1, back=True)]


@memory_case(Secret.RSS_KEY, names=(Secret.RSS_KEY,))
def connected_udp_keeps_the_tx_queue_that_an_rx_queue_chose():
    socket = Socket(name="c", proto="udp", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    host = one_nic(socket, rx_queues=4, tx_queues=4, xps_rxqs=ONE_TO_ONE[:4])
    return host, [udp_frames(WEB, 1), udp_frames(WEB, 1, back=True)]


@memory_case(Secret.TXHASH, names=(Secret.TXHASH,))
def connected_udp_keeps_the_tx_queue_that_a_hash_chose():
    socket = Socket(name="c", proto="udp", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    host = one_nic(socket, tx_queues=4)
    return host, [udp_frames(WEB, 1), udp_frames(WEB, 1, back=True)]


def two_nics(queues, *sockets):
    """A host whose second NIC has as many tx queues as said, the first one 4."""
    return Host(
        topology=Topology(cpus=8),
        nics=[Nic(name="eth0", tx_queues=4), Nic(name="eth1", tx_queues=queues)],
        sockets=sockets,
        addresses=LOCAL_V4,
    )


@memory_case(Secret.TXHASH, names=(Secret.TXHASH,))
def a_tx_queue_outlives_an_answer_through_a_nic_of_one_queue():
    socket = Socket(name="c", proto="udp", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    return two_nics(1, socket), [udp_frames(WEB, 1)] * 3, [0, 1, 0]


@memory_case(Secret.TXHASH, names=(Secret.TXHASH,))
def a_tx_queue_that_another_nic_lacks_is_chosen_anew():
    socket = Socket(name="c", proto="udp", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    return two_nics(2, socket), [udp_frames(WEB, 1)] * 3, [0, 1, 0]


@memory_case(Secret.FLOW_HASH, names=(Secret.FLOW_HASH,))
def a_pending_worker_stays_where_a_secret_hash_brought_it():
    six = Flow("2001:db8:1::1", 1024, "2001:db8::1", 80)
    host = one_nic(
        linked("tcp", "in", "10.0.0.1:80", "10.1.0.1:1024", redirect="out"),
        linked("tcp", "out", "10.0.0.1:4000", "10.1.0.9:80"),
        linked("tcp", "in6", "[2001:db8::1]:80", "[2001:db8:1::1]:1024", redirect="out"),
        rps_cpus=CpuSet([2, 3]),
        rss=Rss(key="microsoft", hash_fields={"tcp6": "sd"}),
    )
    return host, [tcp_frames(six, 1) + tcp_frames(WEB, 1)]


@memory_case(Secret.FLOW_HASH, names=(Secret(0),))
def a_worker_with_a_named_cpu_hangs_on_nothing():
    six = Flow("2001:db8:1::1", 1024, "2001:db8::1", 80)
    host = one_nic(
        linked("tcp", "in", "10.0.0.1:80", "10.1.0.1:1024", redirect="out"),
        linked("tcp", "out", "10.0.0.1:4000", "10.1.0.9:80", cpu=5),
        linked("tcp", "in6", "[2001:db8::1]:80", "[2001:db8:1::1]:1024", redirect="out"),
        rps_cpus=CpuSet([2, 3]),
        rss=Rss(key="microsoft", hash_fields={"tcp6": "sd"}),
    )
    return host, [tcp_frames(six, 1) + tcp_frames(WEB, 1)]


@memory_case(Secret.FLOW_HASH, names=(Secret.FLOW_HASH,))
def connected_udp_keeps_the_tx_queue_of_the_worker_that_sent_first():
    host = one_nic(
        linked("udp", "in", "10.0.0.1:80", "10.1.0.1:1024", redirect="out"),
        linked("udp", "out", "10.0.0.1:4000", "10.1.0.9:80"),
        tx_queues=8,
        xps_cpus=ONE_TO_ONE,
        rps_cpus=CpuSet([2, 3]),
        rss=Rss(key="microsoft", udp_hash="2tuple"),
    )
    answer = Flow("10.1.0.9", 80, "10.0.0.1", 4000)
    return host, [udp_frames(WEB, 1), udp_frames(answer, 1, back=True)]


@memory_case(Secret.RSS_KEY, names=(Secret.RSS_KEY,))
def frames_without_a_hash_share_a_ring_with_those_that_the_key_brought():
    cpumap = Cpumap(cpus=CpuSet([6]), rule="fixed", fixed=6, qsize=8, design="plain")
    host = one_nic(cpumap=cpumap, rx_queues=2, rss=Rss(hash_fields={"ip4": ""}))
    flows = [Flow("10.1.0.1", 2000 + k, "10.0.0.1", 80) for k in range(14)]
    pings = [wrap(WEB.ends(), 1, bytes(8))] * 3
    return host, [[tcp_frames(path, 1)[0] for path in flows] + pings]


@pytest.mark.parametrize("case", MEMORY_CASES)
def test_what_is_remembered_keeps_what_it_hung_on(engine, case):
    make_case, bit, names = MEMORY_CASES[case]
    host, bursts, *nics = make_case()
    packets = from_frames(
        [frame for burst in bursts for frame in burst],
        arrival_ps=[at * 10**9 for at, burst in enumerate(bursts) for _ in burst],
        nic=nics[0] if nics else 0,
    )
    before = steer(host, packets, engine=engine.name)
    free = np.flatnonzero((before.arrays["secrets"] & bit) == 0)

    assert tuple(before.arrays["secrets"][-1:]) == names
    for seed in range(1, 12):
        secrets = other_secrets(host.secrets, Secrets.from_seed(seed), bit)
        after = steer(host.replace(secrets=secrets), packets, engine=engine.name)
        same_answers(before, after, free, packets)


LAWS = [law for name, law in sorted(globals().items()) if name.startswith("law_")]


@settings(max_examples=60)
@given(data=st.data())
def test_every_law_holds(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host))
    decisions = steer(host, packets, ops=data.draw(op_lists(host)))

    for law in LAWS:
        law(host, packets, decisions)


@pytest.mark.parametrize("law", LAWS)
def test_every_law_holds_in_both_engines(engine, law):
    host, packets = busy()

    law(host, packets, steer(host, packets, engine=engine.name))
