"""TCP: the table of connections, then the listeners (SOCK-63..70).

Mirrors net/ipv4/inet_hashtables.c and net/ipv6/inet6_hashtables.c.
"""

from __future__ import annotations

from emu.dtypes import LookupStage
from emu.ref.lookup_sockets import TCP, Found, Query, Socket, device_accepts, mask_score
from emu.ref.lookup_table import SocketTables
from emu.ref.record import Recorder


def find_flow(tables: SocketTables, query: Query) -> Socket | None:
    """The socket connected to this very peer (SOCK-64, SOCK-72).

    Mirrors __inet_lookup_established and udp4_lib_lookup4.
    """
    key = (query.proto, query.daddr, query.dport, query.saddr, query.sport)
    for sk in tables.flows.get(key, ()):
        if device_accepts(sk, query.dif, tables.rec):
            return sk
    return None


def find_tcp(tables: SocketTables, query: Query) -> Found:
    """Look a TCP packet up (__inet_lookup)."""
    sk = find_flow(tables, query)
    if tables.rec.rule("SOCK-64", sk is not None):
        return Found(sk, LookupStage.ESTABLISHED, False, 0, 0)
    found = scan_listeners(tables, query, query.daddr)
    if tables.rec.rule("SOCK-63", found.sock is None):
        wildcard = scan_listeners(tables, query, query.any_address)
        stage = LookupStage.WILDCARD if wildcard.sock else LookupStage.NONE
        return wildcard._replace(
            stage=stage,
            scanned=found.scanned + wildcard.scanned,
            walked=found.walked + wildcard.walked,
        )
    return found._replace(stage=LookupStage.EXACT)


def scan_listeners(tables: SocketTables, query: Query, wanted: bytes) -> Found:
    """Walk the listeners of one address (inet_lhash2_lookup).

    The first group that is met wins (SOCK-66, SOCK-67).
    """
    rules, rec = tables.rules, tables.rec
    best, high, scanned, walked = None, 0, 0, 0
    for sk in tables.address_chain(TCP, wanted, query.dport):
        scanned += 1
        score = listener_score(sk, query, wanted, rules.mask_boost, rec)
        if not rec.rule("SOCK-66", score > high, score=score, high=high):
            continue
        if rec.rule("SOCK-57", sk.group is not None) and sk.group is not None:
            hash_value = query.forced_hash
            if hash_value is None:
                hash_value = rules.ehash(TCP, wanted, query.dport, query.saddr, query.sport)
            pick = sk.group.select(
                query,
                hash_value,
                cpu_aware=rules.cpu_aware,
                boost=rules.mask_boost,
                masks=True,
                rec=rec,
            )
            walked += pick.walked
            if pick.sock is not None:
                return Found(pick.sock, 0, len(pick.candidates) > 1, scanned, walked)
        best, high = sk, score
    return Found(best, 0, False, scanned, walked)


def listener_score(sk: Socket, query: Query, wanted: bytes, boost: bool, rec: Recorder) -> int:
    """How well a listener fits; -1 for not at all (SOCK-65; compute_score)."""
    view = sk.views.get(query.family)
    seen = rec.rule("SOCK-69", view is not None, family=query.family)
    fits = view is not None and seen and sk.lport == query.dport and view[0] == wanted
    if not rec.rule("SOCK-65", fits) or not device_accepts(sk, query.dif, rec):
        return -1
    from_mask = mask_score(sk, query.cpu, boost, rec)
    if from_mask is None:
        return -1
    score = 2 if sk.bound_dev else 1
    if query.family == 4 and sk.family == 4:
        score += 1
    if rec.rule("SOCK-41", sk.incoming_cpu == query.cpu, cpu=query.cpu):
        score += 1
    return score + from_mask
