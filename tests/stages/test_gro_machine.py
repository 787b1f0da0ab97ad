"""GRO over time: any order of arrivals and flushes keeps the laws, and both engines agree."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import emu._core.gro
import emu.ref.gro
from emu.dtypes import GroResult
from emu.intake import from_frames
from emu.ref.gro_skb import GroConfig
from emu.ref.packet import PacketView
from tests.strategies.gro import (
    NAPI,
    PSH,
    coalesce,
    offloads,
    segment,
    streams,
    tagged,
    tunnels,
)

CONFIGS = st.fixed_dictionaries(
    {
        "max_size": st.sampled_from([65536, 500, 1]),
        "ipv4_max_size": st.sampled_from([65536, 500, 1]),
        "flush_timeout_ns": st.sampled_from([0, 0, 20_000]),
        "defer_hard_irqs": st.sampled_from([0, 0, 1, 2]),
        "enabled": st.sampled_from([1, 1, 1, 0]),
        "udp_forwarding": st.sampled_from([0, 1, 1]),
        "fraglist": st.sampled_from([0, 0, 1]),
        "fresh_skb": st.sampled_from([0, 0, 1]),
        "design": st.sampled_from([NAPI, NAPI, NAPI, 0, 1, 2]),
        **{
            name: st.sampled_from([0, 1])
            for name in (
                "vlan_module",
                "fixed_id_needs_df",
                "outer_id_unchecked",
                "cwr_masked",
                "cwr_merges",
                "old_gso_bits",
                "tcp_fraglist",
                "jumbo_header",
            )
        },
    }
)


@settings(max_examples=400)
@given(st.one_of(streams(), streams(), tunnels(), tagged()), CONFIGS, st.data())
def test_core_equals_reference(frames, cfg, data):
    intake = data.draw(offloads(len(frames)))
    intake["vlan_accel"] = data.draw(st.booleans())
    sock = data.draw(st.sampled_from([[0], [0, 0, 1], [0, 1, 2], [2]]))
    sock = data.draw(st.lists(st.sampled_from(sock), min_size=len(frames), max_size=len(frames)))
    hz = data.draw(st.sampled_from([250, 1000]))
    hashes = st.sampled_from([0, 0, 8, 8, 3, 2**32 - 1])
    intake["skb_hash"] = data.draw(st.lists(hashes, min_size=len(frames), max_size=len(frames)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(frames)), max_size=4)))
    polls = np.diff([0, *cuts, len(frames)]).tolist()
    jiffies = data.draw(st.lists(st.integers(0, 2), min_size=len(polls), max_size=len(polls)))
    packets = from_frames(frames, **intake)
    core, ref = (
        coalesce(module, packets, polls=polls, jiffies=jiffies, hz=hz, sock=sock, **cfg)
        for module in (emu._core.gro, emu.ref.gro)
    )

    assert core.table.tobytes() == ref.table.tobytes()
    assert core.skb_of.tolist() == ref.skb_of.tolist()
    assert core.result.tolist() == ref.result.tolist()


@given(streams(most=100), st.sampled_from([100, 250, 1000]), st.integers(0, 100))
def test_core_equals_reference_over_full_polls(frames, hz, more):
    packets = from_frames((frames * 200)[: 64 + more])
    answers = [
        coalesce(module, packets, polls=[64, more], jiffies=[1, 1], hz=hz, udp_forwarding=1)
        for module in (emu._core.gro, emu.ref.gro)
    ]

    assert answers[0].table.tobytes() == answers[1].table.tobytes()
    assert answers[0].skb_of.tolist() == answers[1].skb_of.tolist()


@given(streams())
def test_every_octet_arrives_once(frames):
    """Payload in = payload out, in the order of each skb's members."""
    skbs = coalesce(emu.ref.gro, frames, udp_forwarding=1)

    assert sorted(packet for group in skbs.members() for packet in group) == list(
        range(len(frames))
    )
    for skb, frame, group in zip(skbs.table, skbs.frames(), skbs.members(), strict=True):
        assert len(frame) == min(14, len(frame)) + skb["len_bytes"]
        payloads = [
            frames[at][len(frames[at]) - int(skbs.packets.payload_bytes[at]) :] for at in group
        ]
        assert len(group) == 1 or frame.endswith(b"".join(payloads))


class Flow:
    """What the model remembers of a flow: the packets of the held skb, by a law of three lines."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.next = 0


class GroMachine(RuleBasedStateMachine):
    """Streams that never stumble: a flow's held packet takes each next segment until it is put out.

    The model knows nothing of headers. It keeps, per bucket, the flows in the order they were held.
    """

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []
        self.hashes: list[int] = []
        self.polls = [0]
        self.jiffies = [0]
        self.buckets: list[list[int]] = [[] for _ in range(8)]
        self.flows: dict[int, Flow] = {}
        self.expected: list[list[int]] = []

    def put_out(self, flow: int) -> None:
        self.buckets[flow % 8].remove(flow)
        self.expected.append(self.flows[flow].held)
        self.flows[flow].held = []

    @rule(
        flow=st.integers(0, 30).map(lambda n: n * 4 % 31),
        last=st.sampled_from([False] * 7 + [True]),
    )
    def receive(self, flow: int, last: bool) -> None:
        state = self.flows.setdefault(flow, Flow())
        packet = len(self.frames)
        self.frames.append(segment(10, state.next, sport=2000 + flow, flags=PSH * last))
        self.hashes.append(flow)
        self.polls[-1] += 1
        state.next += 10
        if state.held:
            state.held.append(packet)
            if last:
                self.put_out(flow)
        elif last:
            self.expected.append([packet])
        else:
            bucket = self.buckets[flow % 8]
            if len(bucket) == 8:
                self.put_out(bucket[0])
            bucket.append(flow)
            state.held = [packet]

    @precondition(lambda self: self.polls[-1] < 64)
    @rule(later=st.integers(0, 1))
    def end_poll(self, later: int) -> None:
        self.flush()
        self.polls.append(0)
        self.jiffies.append(self.jiffies[-1] + later)

    @precondition(lambda self: self.polls[-1] >= 64)
    @rule()
    def end_full_poll(self) -> None:
        self.end_poll(1)

    def flush(self) -> None:
        for bucket in self.buckets:
            for flow in list(bucket):
                self.put_out(flow)

    @invariant()
    def buckets_hold_eight(self) -> None:
        assert all(len(bucket) <= 8 for bucket in self.buckets)

    def teardown(self) -> None:
        self.flush()
        intake = {"skb_hash": self.hashes} if self.frames else {}
        answers = [
            coalesce(module, self.frames, polls=self.polls, jiffies=self.jiffies, intake=intake)
            for module in (emu._core.gro, emu.ref.gro)
        ]
        for skbs in answers:
            assert skbs.members() == self.expected
            assert skbs.table["segs"].sum() == len(self.frames)
        assert answers[0].table.tobytes() == answers[1].table.tobytes()
        assert answers[0].result.tolist() == answers[1].result.tolist()


TestGroMachine = GroMachine.TestCase
TestGroMachine.settings = settings(max_examples=40, stateful_step_count=60, deadline=None)


@given(streams(), st.lists(st.booleans(), min_size=1, max_size=40))
def test_reference_object_keeps_its_laws(frames, flushes):
    """Packets in = packets delivered + packets held, after every step."""
    view, gro = PacketView(from_frames(frames)), emu.ref.gro.Gro(GroConfig(udp_forwarding=True))
    counts: Counter[GroResult] = Counter()
    for index in range(len(view)):
        result, skb = gro.receive(view, index, 0, 0, index // 8)
        counts[result] += 1
        assert index in skb.members
        if flushes[index % len(flushes)]:
            gro.flush(True, index // 8)
            gro.deliver()
        held = [one for bucket in gro.buckets for one in bucket]
        inside = sum(one.count for one in held) + sum(len(one.members) for one in gro.rx_list)
        assert inside == gro.entered == index + 1
        assert len(held) + len(gro.rx_list) == index + 1 - counts[GroResult.MERGED]
