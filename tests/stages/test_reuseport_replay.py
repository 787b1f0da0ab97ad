"""What live kernels chose, replayed.

Winners of 6.18.44 with intervals of the hidden hash, of 6.12.117 with the hash.

tests/data/reuseport-sample.jsonl.gz holds a sample of the recorded cases, thinned out evenly.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emu.dtypes import Prog, SockState
from tests.strategies.sockets import MASKS, config, packet_rows, socket_rows

SAMPLE = Path(__file__).parent.parent / "data" / "reuseport-sample.jsonl.gz"
PROTO = {"udp": 17, "tcp": 6}
DEVICES = {None: 0, "lo": 1, "dmy0": 2}
ANY = {4: "0.0.0.0", 6: "::"}
OPEN = {17: SockState.BOUND, 6: SockState.LISTEN}
PORT = 9000
# A hash from every share of groups of 1 to 16.
SHARES = sorted({-(-(k << 32) // n) for n in range(1, 17) for k in range(n)})

Record = dict[str, Any]
Verdict = tuple[str, bool]  # the part, and whether the model chose as the kernel did


def table_of(lookup: Any, rows: list[dict[str, Any]], **cfg: int) -> Any:
    return lookup.LookupTable(socket_rows(rows), MASKS, 2, config(**cfg))


def group_rows(count: int, record: Record, **fields: Any) -> list[dict[str, Any]]:
    """Closed sockets of one wildcard group."""
    proto, family = PROTO[record["proto"]], record["fam"]
    row = {"family": family, "proto": proto, "laddr": ANY[family], "lport": PORT, "reuseport": 1}
    return [{**row, **fields} for _ in range(count)]


def replay_sizes(lookup: Any, record: Record) -> Iterator[Verdict]:
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
            yield "sizes", table.find(packet, 0, 1, 0, value)[0] == winner


def program_of(name: str, members: int) -> dict[str, int]:
    if name in ("cpu", "payload0"):
        return {"prog_kind": Prog.CPU if name == "cpu" else Prog.PAYLOAD, "prog_value": 0}
    value = {"max": -1, "last": members - 1}.get(name[3:])
    return {"prog_kind": Prog.FIXED, "prog_value": int(name[3:]) if value is None else value}


def attach(table: Any, sock: int, state: int) -> None:
    """Attach a program to a group: a member that brings it comes, as the last, and goes."""
    table.open(sock, state)
    table.close(sock)


def replay_ops(lookup: Any, record: Record) -> Iterator[Verdict]:
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
    yield "array", table.groups() == ([record["array"]] if record["array"] else [])
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
        yield "ops", answers == {one["winner"]}


def mixed_table(lookup: Any, record: Record) -> Any:
    """Sockets of several addresses and devices, some connected.

    A second row stands for one whose address changed.
    """
    proto, family = PROTO[record["proto"]], record["fam"]
    rows: dict[int, dict[str, Any]] = {}
    steps: list[tuple[int, int]] = []
    moved: dict[int, int] = {}
    spec = [step for step in record["spec"] if step[1] is not None]
    base = 1 + max(step[1] for step in spec)
    for name, sock, *rest in spec:
        if name == "open":
            address, device, reuse = rest
            rows[sock] = {
                "family": family, "proto": proto, "lport": PORT, "reuseport": reuse,
                "laddr": address or ANY[family], "bound_dev": DEVICES[device],
            }  # fmt: skip
            steps.append((sock, OPEN[proto]))
            continue
        peer, port, local = rest
        if local.startswith("E"):  # connect failed
            continue
        target = sock
        if rows[sock]["laddr"] == ANY[family]:
            steps.append((sock, SockState.CLOSED))
            target = base + len(moved)
            moved[target] = sock
            rows[target] = {**rows[sock], "laddr": local, "reuseport": 0}
        rows[target].update(faddr=peer, fport=port)
        steps.append((target, SockState.ESTABLISHED))
    table = table_of(lookup, [rows.get(k, rows[min(rows)]) for k in range(1 + max(rows))])
    for sock, state in steps:
        table.open(sock, state)
    return table, moved


def replay_mixed(lookup: Any, record: Record) -> Iterator[Verdict]:
    """Several groups: the winner must be one that some hash gives."""
    proto = PROTO[record["proto"]]
    table, moved = mixed_table(lookup, record)
    rows = [
        {"proto": proto, "saddr": src, "daddr": dst, "sport": sport, "dport": PORT}
        for src, sport, dst, _ in record["packets"]
    ]
    packets = packet_rows(rows)
    for i, (*_, winner) in enumerate(record["packets"]):
        # A loopback packet to a device's own address counts as of that device.
        dif = DEVICES["dmy0" if rows[i]["daddr"] == "10.5.0.1" else "lo"]
        answers = {table.find(packets, i, dif, 0, value)[0] for value in SHARES}
        answers = {moved.get(sock, sock) for sock in answers}
        yield "mixed", (-1 if winner in ("refused", None) else winner) in answers


def replay_many_cpus(lookup: Any, record: Record) -> Iterator[Verdict]:
    """6.12 with 8 CPUs: every winner with the hash the kernel used.

    Where it was not logged, some hash must give it.
    """
    proto = PROTO[record["t"].removeprefix("reuseport_")]
    family = record["fam"]
    local, foreign = {4: ("10.9.0.1", "10.9.0.2"), 6: ("fd09::1", "fd09::2")}[family]
    count = 1 + max(op[1] for op in record["ops"] if op[0] == "add")
    row = {"proto": proto, "laddr": local, "lport": PORT, "reuseport": 1, "family": family}
    peers: dict[int, list[Any]] = {}
    for op in record["ops"]:
        if op[0] == "connect":
            peers.setdefault(op[1], op[2:])
    flows = record.get("flows", [])
    rows = [dict(row) for _ in range(count)] + [{**row, "prog_kind": Prog.CPU}]
    for sock, (peer, port) in peers.items():
        rows[sock].update(faddr=address_text(peer), fport=port)
    table = table_of(lookup, rows, udp_conn_stays=1, tcp_port_added=0)
    for op in record["ops"]:
        if op[0] == "add":
            table.set_incoming_cpu(op[1], -1 if op[2] is None else op[2])
            table.open(op[1], OPEN[proto])
        elif op[0] == "close":
            table.close(op[1])
        elif op[0] == "incpu":
            table.set_incoming_cpu(op[1], op[2])
        elif op[0] == "connect":
            if op[2:] != peers[op[1]]:
                return  # a row has one peer
            table.open(op[1], SockState.ESTABLISHED)
        elif op[0] == "cbpf_cpu":
            attach(table, count, OPEN[proto])
        elif op[0] == "disconnect":
            # The first socket was bound to port 0: it gives the port up.
            table.open(op[1], SockState.BOUND if op[1] else SockState.CLOSED)
        elif op[0] in "pc":
            if op[0] == "p":
                source, sport, cpu, value, winner = (
                    *map(flows[op[1]].__getitem__, (0, 1)),
                    op[6],
                    op[3],
                    op[5],
                )
                source = address_text(source)
            else:
                source, sport, cpu, value, winner = foreign, op[1], op[5], op[3], op[6]
            fields = {
                "proto": proto,
                "saddr": source,
                "daddr": local,
                "sport": sport,
                "dport": PORT,
            }
            packet = packet_rows([fields], [b""])
            answers = {
                table.find(packet, 0, 1, cpu, one)[0]
                for one in (SHARES if value is None else [value])
            }
            yield f"{record['t']} {record['mode']}", (-1 if winner is None else winner) in answers


def address_text(octets: str) -> str:
    raw = bytes.fromhex(octets)
    if len(raw) == 4:
        return ".".join(map(str, raw))
    return ":".join(octets[at : at + 4] for at in range(0, 32, 4))


REPLAY: dict[str, Callable[[Any, Record], Iterator[Verdict]]] = {
    "sizes": replay_sizes,
    "ops": replay_ops,
    "mixed": replay_mixed,
    "reuseport_udp": replay_many_cpus,
    "reuseport_tcp": replay_many_cpus,
}


def replay(lookup: Any, records: list[Record]) -> Counter[Verdict]:
    """How often each part agreed and did not."""
    verdicts: Counter[Verdict] = Counter()
    for record in records:
        kind = record.get("part") or record["t"]
        if kind in REPLAY:
            verdicts.update(REPLAY[kind](lookup, record))
    return verdicts


@pytest.mark.parametrize("kind", sorted(REPLAY))
def test_sock_44_replay_of_live_kernels(engine: Any, kind: str) -> None:
    with gzip.open(SAMPLE, "rt") as file:
        records = [json.loads(line) for line in file]
    verdicts = replay(
        engine("lookup"),
        [record for record in records if kind in (record.get("part"), record.get("t"))],
    )
    assert verdicts
    assert not [part for part, agrees in verdicts if not agrees], verdicts
