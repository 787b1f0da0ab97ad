"""UDP in today's form (SOCK-72..77).

Mirrors __udp4_lib_lookup and __udp6_lib_lookup in net/ipv4/udp.c and net/ipv6/udp.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from emu.dtypes import LookupStage
from emu.ref.lookup_sockets import UDP, Found, Query, Socket, device_accepts, mask_score
from emu.ref.lookup_table import SocketTables
from emu.ref.lookup_tcp import find_flow
from emu.ref.record import SILENT, Recorder
from emu.ref.reuseport import Group

QUIRK_PRIMARY_ONLY, QUIRK_HASH2_ONLY = 1, 2


def mask_counts(quirk: int, family: int, *, primary: bool, rec: Recorder) -> bool:
    """Whether a scan honours CPU masks.

    For IPv6 the historical patch had it in one of two scans (SOCK-29).
    """
    ignored = family == 6 and quirk == (QUIRK_HASH2_ONLY if primary else QUIRK_PRIMARY_ONLY)
    return not rec.rule("SOCK-29", ignored)


def find_udp(tables: SocketTables, query: Query) -> Found:
    """Look a UDP packet up."""
    rec = tables.rec
    sk = None if tables.rules.udp_conn_stays else find_flow(tables, query)
    if rec.rule("SOCK-72", sk is not None):
        return Found(sk, LookupStage.HASH4, False, 0, 0)
    scanned = walked = 0
    for wanted, stage in (
        (query.daddr, LookupStage.EXACT),
        (query.any_address, LookupStage.WILDCARD),
    ):
        found = scan_address(tables, query, wanted)
        scanned += found.scanned
        walked += found.walked
        if found.sock is not None:
            return found._replace(stage=stage, scanned=scanned, walked=walked)
    # A net for sockets that change their address at this moment; it finds nothing when
    # nothing races.
    chain = tables.port_chain(UDP, query.dport)
    masks = mask_counts(tables.rules.mask_v6_udp_quirk, query.family, primary=True, rec=rec)
    best, high = None, 0 if query.family == 4 else -1
    for sk in chain:
        score = udp_score(sk, query, query.daddr, tables.rules.mask_boost, masks, rec)
        if score > high:
            best, high = sk, score
    stage = LookupStage.PRIMARY if best else LookupStage.NONE
    return Found(best, stage, False, scanned + len(chain), walked)


def scan_address(tables: SocketTables, query: Query, wanted: bytes) -> Found:
    """Walk the sockets of one address, and say whether the answer hangs on the hash.

    Mirrors udp4_lib_lookup2.
    """
    hash_value = query.forced_hash
    if hash_value is None:
        hash_value = tables.rules.ehash(UDP, wanted, query.dport, query.saddr, query.sport)
    asked: list[Group] = []
    found = scan_with(tables, query, wanted, hash_value, asked, tables.rec)
    # Every other value of the hash that could matter: where a share of a group begins.
    outcomes = {found.sock}
    if any(group.has_conns for group in asked):
        groups = {sk.group for sk in tables.address_chain(UDP, wanted, query.dport) if sk.group}
        for value in share_starts(groups):
            outcomes.add(scan_with(tables, query, wanted, value, [], SILENT).sock)
        return found._replace(hangs_on_hash=len(outcomes) > 1)
    return found


def share_starts(groups: set[Group]) -> Iterator[int]:
    """The least hash of every share of every group."""
    for group in groups:
        for index in range(len(group.socks)):
            yield -(-(index << 32) // len(group.socks))


def scan_with(
    tables: SocketTables,
    query: Query,
    wanted: bytes,
    hash_value: int,
    asked: list[Group],
    rec: Recorder,
) -> Found:
    """Walk the sockets of one address with a hash.

    The groups that were asked are added to *asked*.
    """
    rules = tables.rules
    masks = mask_counts(rules.mask_v6_udp_quirk, query.family, primary=False, rec=rec)
    best, hangs, scanned, walked = None, False, 0, 0
    high = 0 if query.family == 4 else -1
    for sk in tables.address_chain(UDP, wanted, query.dport):
        scanned += 1
        score = udp_score(sk, query, wanted, rules.mask_boost, masks, rec)
        if not rec.rule("SOCK-75", score > high, score=score, high=high):
            continue
        best, high, hangs = sk, score, False
        if sk.connected:
            continue
        if not rec.rule("SOCK-57", sk.group is not None) or sk.group is None:
            continue
        asked.append(sk.group)
        pick = sk.group.select(
            query,
            hash_value,
            cpu_aware=rules.cpu_aware,
            boost=rules.mask_boost,
            masks=masks,
            rec=rec,
        )
        walked += pick.walked
        if pick.sock is None:
            continue
        best, hangs = pick.sock, len(pick.candidates) > 1
        if not rec.rule("SOCK-76", sk.group.has_conns):
            break
        scanned += 1
        high = max(high, udp_score(pick.sock, query, wanted, rules.mask_boost, masks, rec))
    return Found(best, 0, hangs, scanned, walked)


def udp_score(
    sk: Socket, query: Query, wanted: bytes, boost: bool, masks: bool, rec: Recorder
) -> int:
    """How well a socket fits; -1 for not at all (SOCK-74; compute_score)."""
    view = sk.views.get(query.family)
    if not rec.rule("SOCK-69", view is not None, family=query.family) or view is None:
        return -1
    local, foreign = view
    fits = (
        sk.lport == query.dport
        and local == wanted
        and foreign in (None, query.saddr)
        and sk.foreign_port in (0, query.sport)
    )
    if not rec.rule("SOCK-74", fits) or not device_accepts(sk, query.dif, rec):
        return -1
    from_mask = mask_score(sk, query.cpu, boost, rec) if masks else 0
    if from_mask is None:
        return -1
    points = (foreign is not None) + (sk.foreign_port != 0) + (sk.bound_dev != 0)
    score = points if query.family == 6 else (2 if sk.family == 4 else 1) + 4 * points
    if rec.rule("SOCK-41", sk.incoming_cpu == query.cpu, cpu=query.cpu):
        score += 1
    return score + from_mask
