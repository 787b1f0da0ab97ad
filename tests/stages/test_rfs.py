"""RFS: tables, and get_rps_cpu with them (receive.md 3.1 to 3.4, observed-many-cpus.md 2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.errors import ConfigError
from tests.strategies.xps import hashes

FLOW = 0xABCD1230  # a hash; the low 3 bits are a CPU's of 8
NO_CPU = 0xFFFF
UP = [1] * 8
IDLE = [0] * 8


def tables(engine, sock_entries=64, rxq_entries=(16,), ncpus=8, **more):
    return engine("rfs").Rfs(sock_entries, list(rxq_entries), ncpus, **more)


def choose(rfs, hash_value=FLOW, *, rxq=0, cpus=(), online=UP, heads=IDLE):
    return rfs.choose(rxq, hash_value, list(cpus), list(online), list(heads))


def cpu_of(rfs, hash_value=FLOW, **more):
    return choose(rfs, hash_value, **more)[0]


def queued(rfs, cpu, tail, hash_value=FLOW):
    """The flow's application is on *cpu*, and a packet of it is the last in that CPU's backlog."""
    rfs.record(hash_value, cpu)
    chosen, slot = choose(rfs, hash_value)
    assert chosen == cpu
    rfs.note_tail(0, slot, tail)
    return slot


def test_r_3_1_sizes_are_rounded_up_to_powers_of_two(engine):
    rfs = tables(engine, 100, (3, 5, 1, 0, 4097))

    assert len(rfs.table()) == 128
    assert [len(rfs.flows(queue)[0]) for queue in range(5)] == [4, 8, 1, 0, 8192]


def test_r_3_1_fresh_entries_name_no_cpu(engine):
    rfs = tables(engine, 4, (2,))

    assert rfs.table().tolist() == [NO_CPU] * 4
    assert [column.tolist() for column in rfs.flows(0)] == [[NO_CPU] * 2, [0, 0]]


@pytest.mark.parametrize(("ncpus", "mask"), [(1, 0), (2, 1), (8, 7), (12, 15), (16, 15), (17, 31)])
def test_r_3_1_the_low_bits_of_an_entry_are_as_many_as_cpus_need(engine, ncpus, mask):
    """With 12 CPUs 15, as a 12-CPU kernel showed."""
    rfs = tables(engine, 1, ncpus=ncpus)
    rfs.record(0xFFFFFFFF, 0)

    assert rfs.table().tolist() == [0xFFFFFFFF & ~mask]


def test_r_3_1_the_hash_32_place_of_a_flow(engine):
    """The golden ratio's high bits, on 6.18."""
    rfs = tables(engine, 64, (8, 1 << 16))
    rfs.record(1, 3)

    assert choose(rfs, 1) == (3, 0x61C88647 >> 29)
    assert choose(rfs, 1, rxq=1) == (3, 0x61C88647 >> 16)


def test_r_3_1_the_low_bits_place_of_a_flow(engine):
    """The hash's low bits, on 6.12."""
    rfs = tables(engine, 64, (8,), low_bits=True)
    rfs.record(FLOW | 5, 3)

    assert choose(rfs, FLOW | 5) == (3, 5)


@pytest.mark.parametrize("low_bits", [False, True])
def test_r_3_1_a_table_of_one_has_one_place(engine, low_bits):
    """In C the shift by 32 would be undefined."""
    rfs = tables(engine, 1, (1,), low_bits=low_bits)
    rfs.record(0xFFFFFFFF, 3)

    assert choose(rfs, 0xFFFFFFFF) == (3, 0)


def test_r_3_2_a_read_brings_the_flow_to_its_cpu(engine):
    rfs = tables(engine)

    assert cpu_of(rfs) == -1
    rfs.record(FLOW, 5)
    assert cpu_of(rfs) == 5
    assert rfs.table()[FLOW & 63] == FLOW & ~7 | 5


def test_r_3_2_the_last_one_has_a_shared_entry(engine):
    """The other flow falls back: the upper bits of its hash differ."""
    rfs = tables(engine, 32)
    first, second = 0x10000008, 0x20000008
    rfs.record(first, 3)
    rfs.record(second, 4)

    assert (cpu_of(rfs, first), cpu_of(rfs, second)) == (-1, 4)


def test_r_3_2_a_socket_that_received_nothing_hashed_records_nothing(engine):
    rfs = tables(engine, 1)
    rfs.record(0, 3)

    assert rfs.table().tolist() == [NO_CPU]


def test_r_3_2_without_a_global_table_nothing_is_recorded(engine):
    rfs = tables(engine, 0)
    rfs.record(FLOW, 3)

    assert rfs.table().tolist() == []
    assert cpu_of(rfs) == -1


def test_r_3_2_forget_empties_the_entry_whoever_has_it(engine):
    rfs = tables(engine, 1)
    rfs.record(FLOW, 3)
    rfs.forget(0)
    assert cpu_of(rfs) == 3
    rfs.forget(0x77777777)

    assert rfs.table().tolist() == [NO_CPU]
    assert cpu_of(rfs) == -1


def test_r_3_3_2_a_map_or_a_flow_table_asks_for_the_hash(engine):
    rfs = tables(engine, 64, (0, 8))

    assert [rfs.asks_hash(0, []), rfs.asks_hash(0, [1]), rfs.asks_hash(1, [])] == [
        False,
        True,
        True,
    ]


def test_r_3_3_3_a_packet_without_a_hash_is_not_steered(engine):
    rfs = tables(engine, 1)
    rfs.record(FLOW, 3)

    assert choose(rfs, 0, cpus=[2]) == (-1, -1)


@pytest.mark.parametrize(("sock_entries", "rxq_entries"), [(0, 16), (64, 0), (0, 0)])
def test_r_3_3_4_tables_both_are_needed(engine, sock_entries, rxq_entries):
    """With one of them only: plain RPS."""
    rfs = tables(engine, sock_entries, (rxq_entries,))
    rfs.record(FLOW, 3)

    assert choose(rfs, cpus=[6]) == (6, -1)
    assert choose(rfs) == (-1, -1)


def test_r_3_3_4_an_entry_of_another_flow_leaves_it_to_the_map(engine):
    rfs = tables(engine, 32)
    rfs.record(FLOW ^ 0x80000000, 3)

    assert choose(rfs, cpus=[6]) == (6, -1)


def test_r_3_3_4_low_bits_that_hold_the_cpu_are_not_compared(engine):
    """Two flows that differ in them only, in a table so small that they share the entry."""
    rfs = tables(engine, 4)
    rfs.record(FLOW, 3)

    assert cpu_of(rfs, FLOW + 4) == 3


def test_r_3_3_5_a_flow_stays_where_its_reader_is(engine):
    rfs = tables(engine)
    slot = queued(rfs, 2, tail=9)

    assert choose(rfs) == (2, slot)
    assert rfs.flows(0)[1][slot] == 9


def test_r_3_3_5_none_a_fresh_flow_goes_at_once(engine):
    rfs = tables(engine)
    rfs.record(FLOW, 6)
    heads = [2**31 + 5] * 8  # would be long before a tail of 0

    assert cpu_of(rfs, heads=heads) == 6


def test_r_3_3_5_done_a_flow_waits_until_its_packets_are_done(engine):
    rfs = tables(engine)
    slot = queued(rfs, 2, tail=9)
    rfs.record(FLOW, 5)

    assert choose(rfs, heads=[0, 0, 8, 0, 0, 0, 0, 0]) == (2, slot)
    assert choose(rfs, heads=[0, 0, 9, 0, 0, 0, 0, 0]) == (5, slot)


def test_r_3_3_5_done_counters_wrap(engine):
    rfs = tables(engine)
    queued(rfs, 2, tail=3)
    rfs.record(FLOW, 5)

    assert cpu_of(rfs, heads=[0, 0, 2**32 - 1, 0, 0, 0, 0, 0]) == 2  # four are waiting
    assert cpu_of(rfs, heads=[0, 0, 2**31 + 3, 0, 0, 0, 0, 0]) == 2  # the farthest behind
    assert cpu_of(rfs, heads=[0, 0, 2**31 + 2, 0, 0, 0, 0, 0]) == 5  # the farthest ahead


def test_r_3_3_5_offline_a_flow_leaves_a_cpu_that_has_gone(engine):
    rfs = tables(engine)
    queued(rfs, 2, tail=9)
    rfs.record(FLOW, 5)

    assert cpu_of(rfs, online=[1, 1, 0, 1, 1, 1, 1, 1]) == 5


def test_r_3_3_6_the_reader_s_cpu_is_offline(engine):
    """Hash 1050007546, read on CPU 2: while that is offline, processed where it came in."""
    rfs = tables(engine)
    rfs.record(1050007546, 2)
    without_2 = [1, 1, 0, 1, 1, 1, 1, 1]

    assert cpu_of(rfs, 1050007546) == 2
    assert choose(rfs, 1050007546, online=without_2) == (-1, -1)
    assert choose(rfs, 1050007546, online=without_2, cpus=[7]) == (7, -1)
    assert cpu_of(rfs, 1050007546) == 2


def test_r_3_4_a_move_starts_at_the_new_cpu_s_head(engine):
    rfs = tables(engine)
    slot = queued(rfs, 2, tail=9)
    rfs.record(FLOW, 5)
    heads = [0, 0, 9, 0, 0, 1234, 0, 0]

    assert choose(rfs, heads=heads) == (5, slot)
    assert [int(column[slot]) for column in rfs.flows(0)] == [5, 1234]
    # Its packet was dropped: no tail was noted, and nothing keeps the flow there.
    rfs.record(FLOW, 6)
    assert cpu_of(rfs, heads=heads) == 6


def test_r_3_4_an_entry_nobody_wrote_can_name_a_cpu_that_is_not_there(engine):
    """0xffff fits a hash of those bits: of 5 CPUs the eighth is named; the map is asked."""
    rfs = tables(engine, 1, ncpus=5)
    answer = rfs.choose(0, 0xFFF9, [1], [1] * 5, [77] * 5)

    assert answer == (1, -1)
    cpus, tails = rfs.flows(0)
    assert sorted(set(cpus.tolist())) == [7, NO_CPU]
    assert set(tails.tolist()) == {0}
    # Nothing keeps it there.
    rfs.record(0xFFF9, 4)
    assert rfs.choose(0, 0xFFF9, [1], [1] * 5, [77] * 5)[0] == 4


def test_flows_of_one_place_are_kept_together(engine):
    """A full place holds back every flow of it: only in-order delivery is promised."""
    rfs = tables(engine, 1 << 16, (1,))
    queued(rfs, 2, tail=9)
    other = FLOW + 0x100
    rfs.record(other, 5)

    assert cpu_of(rfs, other) == 2


def test_a_tail_is_noted_for_flows_that_rfs_chose_for_only(engine):
    rfs = tables(engine, 64, (2, 0))
    rfs.note_tail(0, -1, 7)
    rfs.note_tail(1, -1, 7)

    assert rfs.flows(0)[1].tolist() == [0, 0]


REFUSED = {
    "ncpus": (lambda rfs: rfs.Rfs(1, [1], 0), r"rfs: ncpus: got 0; allowed: 1\.\.65535"),
    "sock_entries": (lambda rfs: rfs.Rfs(2**29 + 1, [], 1), r"rfs: sock_entries: got 536870913"),
    "rxq_entries": (lambda rfs: rfs.Rfs(1, [1, -1], 1), r"rfs: rxq_entries\[1\]: got -1"),
    "rxq": (
        lambda rfs: rfs.rfs_cpus(rfs.Rfs(1, [1], 1), 1, [5], [], [1], [0]),
        r"rfs: rxq: got 1; allowed: rx queues 0\.\.0",
    ),
    "online": (
        lambda rfs: rfs.rfs_cpus(rfs.Rfs(1, [1], 2), 0, [5], [], [1, 1], [0]),
        "rfs: online, heads: got 2 and 1; allowed: 2 entries",
    ),
    "cpus": (
        lambda rfs: rfs.rfs_cpus(rfs.Rfs(1, [1], 2), 0, [5], [2], [1, 1], [0, 0]),
        r"rfs: cpus: got 2; allowed: CPUs 0\.\.1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_one_line(engine, name):
    call, message = REFUSED[name]

    with pytest.raises(ConfigError, match=message):
        call(engine("rfs"))


def test_the_core_never_leaves_its_tables():
    from emu._core import rfs as core

    held = core.Rfs(4, [2, 0], 3)
    for call in (
        lambda: held.record(5, 3),
        lambda: held.note_tail(2, 0, 1),
        lambda: held.flows(-1),
        lambda: held.asks_hash(2, []),
    ):
        with pytest.raises(ConfigError, match="rfs: "):
            call()
    held.note_tail(0, 2**31 - 1, 7)  # no such place: some place of the table
    held.note_tail(1, 2**31 - 1, 7)

    assert sorted(held.flows(0)[1].tolist()) == [0, 7]


@given(
    sizes=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    ncpus=st.integers(1, 9),
    low_bits=st.booleans(),
    data=st.data(),
)
def test_core_and_reference_agree(sizes, ncpus, low_bits, data):
    """Any hashes, heads and tails."""
    from emu._core import rfs as core
    from emu.ref import rfs as ref

    both = [module.Rfs(sizes[0], [sizes[1]], ncpus, low_bits) for module in (core, ref)]
    cpu_ids = st.integers(0, ncpus - 1)
    for hash_value, cpu in data.draw(st.lists(st.tuples(hashes(), cpu_ids), max_size=8)):
        for rfs in both:
            rfs.record(hash_value, cpu)
    one_each = {"min_size": ncpus, "max_size": ncpus}
    cpus = np.array(sorted(data.draw(st.sets(cpu_ids))), dtype=np.uint16)
    asked = np.array(data.draw(st.lists(hashes(), max_size=12)), dtype=np.uint32)
    for tail in data.draw(st.lists(hashes(), min_size=1, max_size=3)):
        online = np.array(data.draw(st.lists(st.integers(0, 1), **one_each)), dtype=np.uint8)
        heads = np.array(data.draw(st.lists(hashes(), **one_each)), dtype=np.uint32)
        (cpu, slot), (ref_cpu, ref_slot) = (
            module.rfs_cpus(rfs, 0, asked, cpus, online, heads)
            for module, rfs in zip((core, ref), both, strict=True)
        )
        assert cpu.dtype == ref_cpu.dtype == slot.dtype == ref_slot.dtype == np.int32
        assert (cpu.tolist(), slot.tolist()) == (ref_cpu.tolist(), ref_slot.tolist())
        assert all(chosen == -1 or online[chosen] for chosen in cpu.tolist())
        for rfs in both:
            rfs.note_tail(0, int(slot[0]) if len(slot) else -1, tail)
    assert both[0].table().tolist() == both[1].table().tolist()
    for left, right in zip(both[0].flows(0), both[1].flows(0), strict=True):
        assert left.tolist() == right.tolist()


@given(st.integers(0, 40), hashes(), st.integers(0, 3), st.booleans())
def test_without_tables_it_is_plain_rps(size, hash_value, ncpus_of_map, global_one):
    """RFS with one of its two tables missing says what the RPS stage says."""
    from emu._core import rfs, rps

    held = rfs.Rfs(size if global_one else 0, [0 if global_one else size], 4)
    held.record(hash_value, 1)
    asked = np.array([hash_value], dtype=np.uint32)
    cpus, online = np.arange(ncpus_of_map, dtype=np.uint16), np.array([1, 0, 1, 1], dtype=np.uint8)

    cpu, slot = rfs.rfs_cpus(held, 0, asked, cpus, online, np.zeros(4, dtype=np.uint32))

    assert (cpu.tolist(), slot.tolist()) == (rps.rps_cpus(cpus, online, asked).tolist(), [-1])
