"""The lookup of 3.9 to 4.4: whole chains are scanned, and equal scores share (SOCK-79..84).

With the CPU mask of the historical patch (SOCK-24), and with 4.4's point for SO_INCOMING_CPU when
the kernel is CPU aware.
"""

from __future__ import annotations

from emu.dtypes import LookupStage
from emu.ref.jhash import next_pseudo_random32, reciprocal_scale
from emu.ref.lookup_sockets import TCP, UDP, Found, Query, Socket, mask_score
from emu.ref.lookup_table import Chain, SocketTables
from emu.ref.lookup_tcp import find_flow
from emu.ref.lookup_udp import mask_counts

LONG_CHAIN = 10
MAX_V6_HASH2_SCORE = 3


def find_legacy(tables: SocketTables, query: Query) -> Found:
    """Look a packet up as a kernel without reuseport arrays does."""
    if query.proto == TCP:
        sk = find_flow(tables, query)
        if tables.rec.rule("SOCK-64", sk is not None):
            return Found(sk, LookupStage.ESTABLISHED, False, 0, 0)
    chain = tables.port_chain(query.proto, query.dport)
    scanned = 0
    if query.proto == UDP and tables.rec.rule(
        "SOCK-82", len(chain) > LONG_CHAIN, length=len(chain)
    ):
        for wanted, stage in (
            (query.daddr, LookupStage.EXACT),
            (query.any_address, LookupStage.WILDCARD),
        ):
            bucket = tables.address_chain(UDP, wanted, query.dport)
            if len(chain) < len(bucket):
                break
            found = scan_chain(tables, query, bucket, wanted)
            scanned += found.scanned
            if found.sock is not None:
                return found._replace(stage=stage, scanned=scanned)
        else:
            return Found(None, LookupStage.NONE, False, scanned, 0)
    found = scan_chain(tables, query, chain, None)
    stage = LookupStage.PRIMARY if found.sock else LookupStage.NONE
    return found._replace(stage=stage, scanned=scanned + found.scanned)


def scan_chain(tables: SocketTables, query: Query, chain: Chain, wanted: bytes | None) -> Found:
    """Walk a chain; *wanted* is the address of a UDP hash2 chain, None in a chain of one port.

    The best score leads. Its equals take part when the leader has SO_REUSEPORT: the n-th
    replaces the choice with chance 1/n, drawn from the socket hash (SOCK-80, SOCK-81).
    """
    rules, rec = tables.rules, tables.rec
    masks = query.proto == TCP or mask_counts(
        rules.mask_v6_udp_quirk, query.family, primary=wanted is None, rec=rec
    )
    # A bonus on the score would break this exit, and the kernel that brought one deleted it.
    exits_early = (
        wanted is not None and query.family == 6 and not (rules.mask_boost or rules.cpu_aware)
    )
    hashed_addr = query.daddr if wanted is None else wanted
    high = -1 if query.proto == UDP and query.family == 6 else 0
    best, matches, scanned, phash = None, 0, 0, 0
    for sk in chain:
        scanned += 1
        score = legacy_score(tables, sk, query, wanted, masks)
        if score > high:
            best, high, matches = sk, score, 0
            if rec.rule("SOCK-80", sk.reuseport):
                matches = 1
                phash = (
                    rules.ehash(query.proto, hashed_addr, query.dport, query.saddr, query.sport)
                    if query.forced_hash is None
                    else query.forced_hash
                )
            elif exits_early and rec.rule("SOCK-83", score == MAX_V6_HASH2_SCORE, score=score):
                break
        elif score == high and matches:
            matches += 1
            if rec.rule(
                "SOCK-81", reciprocal_scale(phash, matches) == 0, phash=phash, matches=matches
            ):
                best = sk
            phash = next_pseudo_random32(phash)
    return Found(best, 0, matches > 1, scanned, matches)


def legacy_score(
    tables: SocketTables, sk: Socket, query: Query, wanted: bytes | None, masks: bool
) -> int:
    """How well a socket fits; -1 for not at all (SOCK-79, SOCK-82).

    Mirrors compute_score and compute_score2.
    """
    rules, rec = tables.rules, tables.rec
    view = sk.views.get(query.family)
    if not rec.rule("SOCK-69", view is not None, family=query.family) or view is None:
        return -1
    local, foreign = view
    at_any = not any(local)
    # A chain of one port holds every address: a socket bound to any fits, one bound to this
    # address fits better.
    local_fits = local == wanted if wanted is not None else at_any or local == query.daddr
    fits = (
        sk.lport == query.dport
        and local_fits
        and foreign in (None, query.saddr)
        and sk.foreign_port in (0, query.sport)
        and sk.bound_dev in (0, query.dif)
    )
    if not rec.rule("SOCK-79", fits):
        return -1
    from_mask = mask_score(sk, query.cpu, rules.mask_boost, rec) if masks else 0
    if from_mask is None:
        return -1
    points = (foreign is not None) + (sk.foreign_port != 0) + (sk.bound_dev != 0)
    if wanted is None and not at_any:
        points += 1
    if query.family == 4:
        score = (2 if sk.family == 4 else 1) + 4 * points
    else:
        score = points + (query.proto == TCP)
    if rules.cpu_aware and rec.rule("SOCK-41", sk.incoming_cpu == query.cpu, cpu=query.cpu):
        score += 1
    return score + from_mask
