"""Reuseport groups: single rules, and core against reference over random lives of sockets."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from emu._core import lookup as core
from emu._core import reuseport as core_reuseport
from emu.dtypes import Prog, SockState
from emu.ref import lookup as ref
from emu.ref import reuseport as ref_reuseport
from tests.strategies import sockets as draw
from tests.strategies.sockets import MASKS, config, packet_rows, socket_rows

PACKET = {"saddr": "192.0.2.1", "daddr": "10.0.0.1", "sport": 1000, "dport": 53}
QUARTERS = [k << 30 for k in range(4)]


def group(engine: Any, changes: list[dict[str, Any]], **cfg: int) -> Any:
    """A group of bound UDP sockets on 10.0.0.1:53."""
    row = {"laddr": "10.0.0.1", "lport": 53, "reuseport": 1, "state": SockState.BOUND}
    return engine("lookup").LookupTable(
        socket_rows([{**row, **change} for change in changes]), MASKS, 2, config(**cfg)
    )


def winners(
    table: Any, *, cpu: int = 0, hashes: list[int] = QUARTERS, payload: bytes = b""
) -> list[int]:
    packets = packet_rows([PACKET], [payload])
    return [table.find(packets, 0, 1, cpu, value)[0] for value in hashes]


def test_sock_44_plain_choice_is_the_high_half_of_the_product(engine: Any) -> None:
    assert winners(group(engine, [{}] * 4)) == [0, 1, 2, 3]


def test_sock_5_the_hash_is_scaled_by_its_high_end_and_is_no_modulus(engine: Any) -> None:
    hashes = [0, 0x55555555, 0x55555556, 0xAAAAAAAA, 0xAAAAAAAB, 0xFFFFFFFF]
    assert winners(group(engine, [{}] * 3), hashes=hashes) == [0, 0, 1, 1, 2, 2]


def test_sock_44_first_member_of_this_cpu(engine: Any) -> None:
    table = group(engine, [{"incoming_cpu": cpu} for cpu in (0, 0, 1, 1)])
    assert winners(table, cpu=0) == [0, 1, 0, 0]  # 3 : 1, SOCK-46
    assert winners(table, cpu=1) == [2, 2, 2, 3]
    assert winners(table, cpu=7) == [0, 1, 2, 3]


def test_sock_45_before_6_2_the_cpu_has_no_effect(engine: Any) -> None:
    table = group(engine, [{"incoming_cpu": cpu} for cpu in (0, 0, 1, 1)], cpu_aware=0)
    assert winners(table, cpu=1) == [0, 1, 2, 3]


def test_sock_53_last_takes_the_place(engine: Any) -> None:
    table = group(engine, [{}] * 5)
    table.close(1)
    assert table.groups() == [[0, 4, 2, 3]]
    table.open(1, SockState.BOUND)
    assert table.groups() == [[0, 4, 2, 3, 1]]


def test_sock_56_connecting_leaves_the_group(engine: Any) -> None:
    table = group(engine, [{"faddr": "192.0.2.2", "fport": 9}] * 3)
    table.open(0, SockState.ESTABLISHED)
    assert table.groups() == [[2, 1]]
    before = group(engine, [{"faddr": "192.0.2.2", "fport": 9}] * 3, udp_conn_stays=1)
    before.open(0, SockState.ESTABLISHED)
    assert before.groups() == [[0, 1, 2]]
    assert 0 not in winners(before)


def test_sock_51_a_joiner_behind_a_connected_socket_founds_a_second_group(engine: Any) -> None:
    table = group(engine, [{}, {"faddr": "192.0.2.2", "fport": 9}, {"state": SockState.CLOSED}])
    table.open(1, SockState.ESTABLISHED)
    table.open(2, SockState.BOUND)
    assert table.groups() == [[0], [1, 2]]


def test_sock_59_programs(engine: Any) -> None:
    fixed = group(engine, [{}] * 3 + [{"prog_kind": Prog.FIXED, "prog_value": 2}])
    assert winners(fixed) == [2, 2, 2, 2]
    beyond = group(engine, [{}] * 3 + [{"prog_kind": Prog.FIXED, "prog_value": 4}])
    assert winners(beyond) == [0, 1, 2, 3]
    cpu = group(engine, [{}] * 3 + [{"prog_kind": Prog.CPU}])
    assert winners(cpu, cpu=1) == [1, 1, 1, 1]
    assert winners(cpu, cpu=4) == [0, 1, 2, 3]


def test_sock_59_payload_octet(engine: Any) -> None:
    table = group(engine, [{}] * 3 + [{"prog_kind": Prog.PAYLOAD, "prog_value": 1}])
    assert winners(table, payload=b"\x00\x03") == [3, 3, 3, 3]
    assert winners(table, payload=b"\x00\x09") == [0, 1, 2, 3]
    assert winners(table, payload=b"\x03") == [0, 0, 0, 0]  # the load fails: the program returns 0


def test_sock_34_mask_inside_a_group(engine: Any) -> None:
    even, odd = {"mask_off": 4}, {"mask_off": 6}  # even CPUs; CPU 1
    table = group(engine, [even, odd, even, odd])
    assert winners(table, cpu=0) == [0, 2, 2, 0]
    assert winners(table, cpu=1) == [1, 1, 3, 3]
    assert winners(table, cpu=3) == [-1, -1, -1, -1]  # SOCK-27: nobody's CPU
    assert winners(group(engine, [even, odd, even, odd], mask_boost=1), cpu=3) == [0, 1, 2, 3]


def test_secret_only_when_the_hash_decided(engine: Any) -> None:
    packets = packet_rows([PACKET], [b""])
    table = group(engine, [{"incoming_cpu": 0}, {"incoming_cpu": 1}, {"incoming_cpu": 1}])
    assert table.find(packets, 0, 1, 0)[1] == 0
    assert table.find(packets, 0, 1, 1)[1] == 2
    assert table.find(packets, 0, 1, 9)[1] == 2
    assert group(engine, [{}]).find(packets, 0, 1, 0)[1] == 0


def test_sock_52_a_full_group_refuses(engine: Any) -> None:
    table = group(engine, [{}] * 32768 + [{"state": SockState.CLOSED}])
    table.open(32768, SockState.BOUND)
    assert table.sockets["state"][32768] == SockState.CLOSED


@given(
    st.lists(st.integers(-1, 3), max_size=9),
    st.lists(st.tuples(draw.U32S, st.integers(0, 3)), max_size=9),
    st.booleans(), st.integers(0, 511),
)  # fmt: skip
def test_sock_44_array_door_core_equals_reference(
    incoming: list[int], rows: list[tuple[int, int]], aware: bool, connected: int
) -> None:
    hashes = np.array([row[0] for row in rows], dtype=np.uint32)
    cpus = np.array([row[1] for row in rows], dtype=np.int32)
    states = np.array([connected >> k & 1 for k in range(len(incoming))], dtype=np.uint8)
    answers = [
        module.reuseport_select(
            hashes, cpus, np.array(incoming, dtype=np.int32), established=states, cpu_aware=aware
        ).tolist()
        for module in (core_reuseport, ref_reuseport)
    ]
    assert answers[0] == answers[1]


class GroupLives(RuleBasedStateMachine):
    """Sockets open, close, connect and change their CPUs.

    Both engines must agree on groups and winners.
    """

    @initialize(
        rows=st.lists(draw.sockets(closed=True), min_size=1, max_size=12),
        cfg=draw.configs(),
        packets=st.lists(draw.packets(), min_size=1, max_size=6),
    )
    def build(
        self, rows: list[dict[str, Any]], cfg: Any, packets: list[tuple[dict[str, Any], bytes]]
    ) -> None:
        self.protos = [row["proto"] for row in rows]
        table = socket_rows(rows)
        self.tables = [module.LookupTable(table, MASKS, 2, cfg) for module in (core, ref)]
        self.packets = packet_rows(
            [fields for fields, _ in packets], [payload for _, payload in packets]
        )

    @precondition(lambda self: hasattr(self, "tables"))
    @rule(sock=st.integers(0, 99), connect=st.booleans())
    def open(self, sock: int, connect: bool) -> None:
        sock %= len(self.protos)
        bound = SockState.LISTEN if self.protos[sock] == 6 else SockState.BOUND
        for table in self.tables:
            table.open(sock, SockState.ESTABLISHED if connect else bound)

    @precondition(lambda self: hasattr(self, "tables"))
    @rule(sock=st.integers(0, 99))
    def close(self, sock: int) -> None:
        for table in self.tables:
            table.close(sock % len(self.protos))

    @precondition(lambda self: hasattr(self, "tables"))
    @rule(sock=st.integers(0, 99), cpu=st.sampled_from([-1, 0, 1, 65, 1048576]))
    def set_incoming_cpu(self, sock: int, cpu: int) -> None:
        for table in self.tables:
            table.set_incoming_cpu(sock % len(self.protos), cpu)

    @precondition(lambda self: hasattr(self, "tables"))
    @rule(sock=st.integers(0, 99), mask=st.sampled_from([-1, 0, 2, 4, 6, 8]))
    def set_mask(self, sock: int, mask: int) -> None:
        for table in self.tables:
            table.set_mask(sock % len(self.protos), mask)

    @precondition(lambda self: hasattr(self, "tables"))
    @rule(dif=draw.DEVICES, cpu=draw.CPU_NUMBERS, value=st.none() | draw.U32S)
    def find(self, dif: int, cpu: int, value: int | None) -> None:
        for i in range(len(self.packets)):
            one, other = (table.find(self.packets, i, dif, cpu, value) for table in self.tables)
            assert one == other

    @invariant()
    def same_state(self) -> None:
        if hasattr(self, "tables"):
            one, other = self.tables
            assert one.groups() == other.groups()
            assert (one.sockets == other.sockets).all()


TestGroupLives = GroupLives.TestCase
TestGroupLives.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
