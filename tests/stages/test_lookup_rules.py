"""The lookup's rules one by one: what each changes in the answer, in both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emu.dtypes import LookupStage, Prog, Secret, SockState
from tests.stages.test_lookup import BOUND, LISTEN, V4, V6, find
from tests.strategies.sockets import MASKS, config, packet_rows, socket_rows

TCP, UDP = 6, 17
ROWS = {TCP: LISTEN, UDP: BOUND}
EVEN_CPUS = 4  # a mask of tests.strategies.sockets.MASKS
PEER = {"state": SockState.ESTABLISHED, "faddr": "192.0.2.1", "fport": 1000}  # of V4's packet
BOTH = pytest.mark.parametrize("proto", [TCP, UDP])


def row(proto: int, laddr: str = "10.0.0.1", **fields: Any) -> dict[str, Any]:
    return {**ROWS[proto], "laddr": laddr, **fields}


def table_of(engine: Any, rows: list[dict[str, Any]], **cfg: int) -> Any:
    return engine("lookup").LookupTable(socket_rows(rows), MASKS, 2, config(**cfg))


def order_of(
    engine: Any, one: dict[str, Any], other: dict[str, Any], packet: dict[str, Any], **how: Any
) -> str:
    """Which of two sockets a packet finds whatever their order: "one", "other", or "newest"."""
    first = find(engine, [one, other], packet, **how)[0]
    second = find(engine, [other, one], packet, **how)[0]
    return {(0, 1): "one", (1, 0): "other", (1, 1): "newest"}[first, second]


@BOTH
def test_sock_25_a_socket_without_a_mask_fits_every_cpu_and_gains_nothing(
    engine: Any, proto: int
) -> None:
    plain, masked = row(proto), row(proto, mask_off=EVEN_CPUS)

    assert [find(engine, [plain], V4, proto=proto, cpu=cpu)[0] for cpu in (0, 1, 65)] == [0, 0, 0]
    assert order_of(engine, plain, masked, V4, proto=proto, cpu=0) == "newest"
    assert order_of(engine, plain, masked, V4, proto=proto, cpu=1) == "one"


@BOTH
def test_sock_28_a_boosting_mask_adds_to_the_score_and_rejects_nobody(
    engine: Any, proto: int
) -> None:
    plain, masked = row(proto), row(proto, mask_off=EVEN_CPUS)
    how = {"proto": proto, "mask_boost": 1}

    assert order_of(engine, masked, plain, V4, cpu=0, **how) == "one"
    assert order_of(engine, masked, plain, V4, cpu=1, **how) == "newest"
    assert find(engine, [masked], V4, cpu=1, **how)[0] == 0


@BOTH
@pytest.mark.parametrize("legacy", [0, 1])
@pytest.mark.parametrize(("packet", "laddr"), [(V4, "10.0.0.1"), (V6, "2001:db8::1")])
def test_sock_41_the_sockets_cpu_adds_to_the_score_and_rejects_nobody(
    engine: Any, proto: int, legacy: int, packet: dict[str, Any], laddr: str
) -> None:
    plain, here = row(proto, laddr), row(proto, laddr, incoming_cpu=1)
    how = {"proto": proto, "legacy": legacy}

    assert order_of(engine, here, plain, packet, cpu=1, **how) == "one"
    assert order_of(engine, here, plain, packet, cpu=0, **how) == "newest"
    assert find(engine, [here], packet, cpu=0, **how)[0] == 0


@BOTH
def test_sock_50_who_has_the_flag_is_in_a_group(engine: Any, proto: int) -> None:
    rows = [row(proto, reuseport=flag) for flag in (1, 0, 1, 0)]

    assert table_of(engine, rows).groups() == [[0, 2]]
    assert table_of(engine, rows, legacy=1).groups() == []
    assert table_of(engine, [row(TCP, reuseport=1, **PEER)]).groups() == []


@BOTH
def test_sock_57_a_socket_without_a_group_is_the_answer_itself(engine: Any, proto: int) -> None:
    alone = find(engine, [row(proto), row(proto)], V4, proto=proto, value=0)
    group = find(engine, [row(proto, reuseport=1)] * 2, V4, proto=proto, value=0)

    assert (alone[0], alone[1], alone[3]) == (1, 0, 0)  # the newest; no member was looked at
    assert (group[0], group[1], group[3]) == (0, Secret.EHASH, 1)


def test_sock_57_a_socket_that_left_its_group_is_asked_for_none(engine: Any) -> None:
    table = table_of(engine, [row(UDP, reuseport=1, faddr="192.0.2.1", fport=1000)] * 2)
    packets = packet_rows([V4], [b""])
    table.open(0, SockState.ESTABLISHED)
    table.open(0, SockState.BOUND)

    assert table.groups() == [[1]]
    assert table.find(packets, 0, 1, 0)[::3] == (1, 1)
    table.close(1)
    assert table.find(packets, 0, 1, 0)[::3] == (0, 0)


def test_sock_57_a_group_without_members_answers_nobody(engine: Any) -> None:
    hashes, cpus = np.array([0, 2**32 - 1], dtype=np.uint32), np.zeros(2, dtype=np.int32)

    answers = engine("reuseport").reuseport_select(hashes, cpus, np.zeros(0, dtype=np.int32))

    assert answers.tolist() == [-1, -1]


@BOTH
def test_sock_58_a_program_runs_for_packets_only(engine: Any, proto: int) -> None:
    fixed = row(proto, reuseport=1, prog_kind=Prog.FIXED, prog_value=2)
    table = table_of(engine, [fixed] * 4)
    packets = packet_rows([{**V4, "proto": proto, "sport": sport} for sport in range(1, 30)])

    ends = bytes([192, 0, 2, 1]), bytes([10, 0, 0, 1])
    found = [table.find(packets, i, 1, 0)[:2] for i in range(len(packets))]
    tuples = [table.find_tuple(proto, 4, *ends, sport, 80, 1, 0)[:2] for sport in range(1, 30)]

    assert set(found) == {(2, 0)}
    assert {sock for sock, _ in tuples} == {0, 1, 2, 3}
    assert {secrets for _, secrets in tuples} == {Secret.EHASH}


def test_sock_58_a_group_without_a_program_goes_by_the_hash(engine: Any) -> None:
    rows = [row(UDP, reuseport=1)] * 4

    found = [find(engine, rows, V4, proto=UDP, value=quarter << 30)[0] for quarter in range(4)]

    assert found == [0, 1, 2, 3]


def test_sock_65_a_listener_fits_by_port_address_family_and_device(engine: Any) -> None:
    any_v6 = row(TCP, "::")

    assert find(engine, [row(TCP)], V4)[0] == 0
    assert find(engine, [row(TCP, lport=80 + 64)], V4)[0] == -1
    assert find(engine, [row(TCP, "10.0.0.2")], V4)[0] == -1
    assert find(engine, [any_v6], V4)[0] == 0
    assert find(engine, [{**any_v6, "v6only": 1}], V4)[0] == -1
    assert find(engine, [row(TCP, "0.0.0.0")], V6)[0] == -1


def test_sock_65_device_family_and_cpu_score_one_each(engine: Any) -> None:
    four, six = row(TCP, "0.0.0.0"), row(TCP, "::")

    assert order_of(engine, four, six, V4) == "one"
    assert order_of(engine, {**four, "bound_dev": 1}, four, V4) == "one"
    assert order_of(engine, {**four, "incoming_cpu": 3}, four, V4, cpu=3) == "one"
    assert order_of(engine, four, {**six, "bound_dev": 1}, V4) == "newest"
    assert order_of(engine, four, {**six, "incoming_cpu": 3}, V4, cpu=3) == "newest"
    assert order_of(engine, four, {**six, "bound_dev": 1, "incoming_cpu": 3}, V4, cpu=3) == "other"


def test_sock_66_only_a_better_score_replaces_and_all_are_looked_at(engine: Any) -> None:
    plain, bound = row(TCP), row(TCP, bound_dev=1)

    assert find(engine, [plain, plain, plain], V4)[:3] == (2, 0, 3)
    assert find(engine, [plain, bound, plain], V4)[:3] == (1, 0, 3)


def test_sock_66_a_groups_answer_ends_the_scan(engine: Any) -> None:
    bound, shared = row(TCP, bound_dev=1), row(TCP, reuseport=1)

    assert find(engine, [bound, shared], V4) == (1, 0, 1, 1, LookupStage.EXACT)
    assert find(engine, [shared, bound], V4) == (1, 0, 2, 0, LookupStage.EXACT)


@BOTH
def test_sock_68_a_bound_socket_takes_its_devices_packets_only(engine: Any, proto: int) -> None:
    bound, free = row(proto, bound_dev=2), row(proto)

    assert [find(engine, [bound], V4, proto=proto, dif=dif)[0] for dif in (1, 2)] == [-1, 0]
    assert [find(engine, [free], V4, proto=proto, dif=dif)[0] for dif in (1, 2)] == [0, 0]


def test_sock_73_connecting_enters_the_table_unless_bound_to_any(engine: Any) -> None:
    there, anywhere = row(UDP, **PEER), row(UDP, "0.0.0.0", **PEER)

    assert find(engine, [there], V4, proto=UDP) == (0, 0, 0, 0, LookupStage.HASH4)
    assert find(engine, [anywhere], V4, proto=UDP) == (0, 0, 1, 0, LookupStage.WILDCARD)
    stays = find(engine, [there], V4, proto=UDP, udp_conn_stays=1)
    assert stays == (0, 0, 1, 0, LookupStage.EXACT)


@pytest.mark.parametrize(
    ("change", "packet"),
    [
        ({}, {"dport": 80 + 64}),
        ({}, {"daddr": "10.0.0.2"}),
        (PEER, {"saddr": "192.0.2.2"}),
        (PEER, {"sport": 1001}),
        ({"bound_dev": 2}, {}),
    ],
)
def test_sock_74_what_a_socket_has_set_must_be_the_packets(
    engine: Any, change: dict[str, Any], packet: dict[str, Any]
) -> None:
    how = {"proto": UDP, "udp_conn_stays": 1}
    fits = {**change, "bound_dev": min(change.get("bound_dev", 0), 1)}

    assert find(engine, [row(UDP, **fits)], V4, **how)[0] == 0
    assert find(engine, [row(UDP, **change)], {**V4, **packet}, **how)[0] == -1


def test_sock_74_four_points_each_for_peer_port_and_device_and_one_for_the_cpu(engine: Any) -> None:
    how = {"proto": UDP, "udp_conn_stays": 1, "cpu": 3}
    four, six = row(UDP, "0.0.0.0"), row(UDP, "::")
    here = {"incoming_cpu": 3}

    assert order_of(engine, four, six, V4, **how) == "one"
    assert order_of(engine, {**four, **here}, four, V4, **how) == "one"
    assert order_of(engine, four, {**six, **here}, V4, **how) == "newest"
    assert order_of(engine, {**four, "bound_dev": 1}, {**four, **here}, V4, **how) == "one"
    assert order_of(engine, {**four, **PEER}, {**four, "bound_dev": 1, **here}, V4, **how) == "one"


def test_sock_75_only_a_better_score_replaces_and_all_are_looked_at(engine: Any) -> None:
    plain, bound = row(UDP), row(UDP, bound_dev=1)

    assert find(engine, [plain, plain, plain], V4, proto=UDP)[:3] == (2, 0, 3)
    assert find(engine, [plain, bound, plain], V4, proto=UDP)[:3] == (1, 0, 3)


def test_sock_75_a_groups_answer_ends_the_scan_a_connected_socket_does_not(engine: Any) -> None:
    shared, bound = row(UDP, reuseport=1), row(UDP, bound_dev=1)
    how = {"proto": UDP, "udp_conn_stays": 1}

    assert find(engine, [bound, shared], V4, **how)[:4] == (1, 0, 1, 1)
    connected = row(UDP, reuseport=1, **PEER)
    assert find(engine, [shared, connected], V4, **how)[:4] == (1, 0, 2, 0)


@BOTH
def test_sock_79_in_a_legacy_chain_any_address_fits_and_the_exact_one_better(
    engine: Any, proto: int
) -> None:
    how = {"proto": proto, "legacy": 1}
    exact, anywhere = row(proto), row(proto, "0.0.0.0")

    assert order_of(engine, exact, anywhere, V4, **how) == "one"
    assert order_of(engine, exact, anywhere, {**V4, "daddr": "10.0.0.9"}, **how) == "other"
    assert find(engine, [exact], {**V4, "daddr": "10.0.0.9"}, **how)[:3] == (-1, 0, 1)
    assert find(engine, [row(proto, lport=80 + 64)], V4, **how)[:3] == (-1, 0, 1)  # the same slot
    assert find(engine, [row(proto, bound_dev=2)], V4, **how)[:3] == (-1, 0, 1)
    assert order_of(engine, {**anywhere, "bound_dev": 1}, anywhere, V4, **how) == "one"


@BOTH
def test_sock_80_equals_share_with_a_leader_that_has_the_flag(engine: Any, proto: int) -> None:
    values = range(0, 2**32, 2**27 - 1)

    def answers(rows: list[dict[str, Any]]) -> set[tuple[int, ...]]:
        how = {"proto": proto, "legacy": 1}
        return {find(engine, rows, V4, value=value, **how)[:4] for value in values}

    sharing = answers([row(proto, reuseport=1)] * 4)
    assert {answer[0] for answer in sharing} == {0, 1, 2, 3}
    assert {answer[1:] for answer in sharing} == {(Secret.EHASH, 4, 4)}
    assert answers([row(proto)] * 4) == {(3, 0, 4, 0)}
    better = row(proto, reuseport=1, bound_dev=1)
    assert answers([better, *[row(proto, reuseport=1)] * 3]) == {(0, 0, 4, 1)}


def test_sock_83_a_full_ipv6_score_ends_the_scan_unless_it_may_share(engine: Any) -> None:
    plain = row(UDP, "2001:db8::1")
    peer = {**PEER, "faddr": V6["saddr"]}
    full = {**plain, **peer, "bound_dev": 1}
    how = {"proto": UDP, "legacy": 1, "cpu_aware": 0, "udp_slots": 1024}

    def scanned(rows: list[dict[str, Any]], **cfg: int) -> int:
        packet = {**V6, "sport": 1000}
        found = find(engine, rows, packet, **{**how, **cfg})
        assert found[0] == len(rows) - 1
        assert found[4] == LookupStage.EXACT
        return found[2]

    assert scanned([*[plain] * 11, full]) == 1
    assert scanned([*[plain] * 11, {**full, "reuseport": 1}]) == 12
    assert scanned([*[plain] * 11, {**full, "bound_dev": 0}]) == 12
    assert scanned([*[plain] * 11, full], mask_boost=1) == 12
    assert scanned([*[plain] * 11, full], cpu_aware=1) == 12
