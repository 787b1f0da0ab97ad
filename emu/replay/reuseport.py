"""Recorded winners of SO_REUSEPORT groups on a kernel that hides its hash: intervals are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.dtypes import Prog, SockState
from emu.replay.lookup_rows import packet_rows, table_of
from emu.replay.masks import of_part
from emu.replay.parts import Context, Part, Record, Result

PROTO = {"udp": 17, "tcp": 6}
ANY = {4: "0.0.0.0", 6: "::"}
OPEN = {17: SockState.BOUND, 6: SockState.LISTEN}
PORT = 9000
# A hash from every share of groups of 1 to 16.
SHARES = sorted({-(-(k << 32) // n) for n in range(1, 17) for k in range(n)})


def group_rows(count: int, record: Record, **fields: Any) -> list[dict[str, Any]]:
    """Closed sockets of one wildcard group."""
    proto, family = PROTO[record["proto"]], record["fam"]
    row = {"family": family, "proto": proto, "laddr": ANY[family], "lport": PORT, "reuseport": 1}
    return [{**row, **fields} for _ in range(count)]


def replay_sizes(lookup: Any, record: Record, out: Result) -> None:
    """One flow at groups of 1 to 16: both ends of the interval must give every winner."""
    proto = PROTO[record["proto"]]
    packet = packet_rows(
        [
            {
                "proto": proto,
                "saddr": record["src"],
                "daddr": record["dst"],
                "sport": record["sport"],
                "dport": PORT,
            }
        ]
    )
    for size, winner in record["winners"].items():
        table = table_of(
            lookup, [{**row, "state": OPEN[proto]} for row in group_rows(int(size), record)]
        )
        for value in (record["h_lo"], record["h_hi"] - 1):
            out.compare("sizes", table.find(packet, 0, 1, 0, value)[0], winner, size, value)


def program_of(name: str, members: int) -> dict[str, int]:
    if name in ("cpu", "payload0"):
        return {"prog_kind": Prog.CPU if name == "cpu" else Prog.PAYLOAD, "prog_value": 0}
    value = {"max": -1, "last": members - 1}.get(name[3:])
    return {"prog_kind": Prog.FIXED, "prog_value": int(name[3:]) if value is None else value}


def attach(table: Any, sock: int, state: int) -> None:
    """Attach a program to a group: a member that brings it comes, as the last, and goes."""
    table.open(sock, state)
    table.close(sock)


def replay_ops(lookup: Any, record: Record, out: Result) -> None:
    """Open, close, SO_INCOMING_CPU and programs in random order, then packets."""
    proto = PROTO[record["proto"]]
    count = 1 + max(op[1] for op in record["ops"])
    rows = group_rows(count, record)
    members = 0
    for op in record["ops"]:
        members += {"open": 1, "close": -1}.get(op[0], 0)
        if op[0] == "cbpf":
            rows += group_rows(1, record, **program_of(op[2], members))
    table = table_of(lookup, rows)
    for name, sock, *value in record["ops"]:
        if name == "open":
            table.open(sock, OPEN[proto])
        elif name == "close":
            table.close(sock)
        elif name == "incoming_cpu":
            table.set_incoming_cpu(sock, value[0])
        else:
            attach(table, count, OPEN[proto])
            count += 1
    wanted = [record["array"]] if record["array"] else []
    out.compare("array", table.groups(), wanted, record["case"])
    rows = [
        {
            "proto": proto,
            "saddr": one["src"],
            "daddr": one["dst"],
            "sport": one["sport"],
            "dport": PORT,
        }
        for one in record["packets"]
    ]
    # A SYN has no payload: the program's load fails and it returns 0.
    payloads = [bytes.fromhex(one["payload"]) if proto == 17 else b"" for one in record["packets"]]
    packets = packet_rows(rows, payloads)
    for i, one in enumerate(record["packets"]):
        lowest, beyond = one["h"]
        answers = {table.find(packets, i, 1, one["cpu"], h)[0] for h in (lowest, beyond - 1)}
        out.compare("ops", answers, {one["winner"]}, record["case"], i)


def replay_grow(lookup: Any, record: Record, out: Result) -> None:
    """Groups grow past 128 and 256 members: of one hash the winners of all sizes must follow."""
    for place, (source, sport, target) in enumerate(record["tuples"]):
        row = {"saddr": source, "daddr": target, "sport": sport, "dport": record["dport"]}
        packet = packet_rows([row])
        shares = [(winners[place], size) for size, winners in record["winners"]]
        low = max(-(-(winner << 32) // size) for winner, size in shares)
        high = min(-(-((winner + 1) << 32) // size) for winner, size in shares)
        out.compare("grow: some hash gives all winners", low < high, True, place)
        for winner, size in shares if low < high else ():
            members = group_rows(size, {"proto": "udp", "fam": 4}, lport=record["dport"])
            table = table_of(lookup, [{**one, "state": SockState.BOUND} for one in members])
            out.compare("grow", table.find(packet, 0, 1, 0, low)[0], winner, size, place)


def replay_errors(lookup: Any, record: Record, out: Result) -> None:
    """What setsockopt answers; the model declares sockets, it has no calls that fail."""
    out.skip("system calls and their errors are not modelled", len(record["results"]))


def with_lookup(
    replay: Callable[[Any, Record, Result], None],
) -> Callable[[Record, Context], Result]:
    """A part that the socket lookup answers for."""

    def part(record: Record, context: Context) -> Result:
        out = Result()
        replay(context.module("lookup"), record, out)
        return out

    return part


PARTS = (
    Part("reuseport/sizes", of_part("sizes"), with_lookup(replay_sizes)),
    Part("reuseport/ops", of_part("ops"), with_lookup(replay_ops)),
    Part("reuseport/grow", of_part("grow"), with_lookup(replay_grow)),
    Part("reuseport/errors", of_part("errors"), with_lookup(replay_errors)),
)
