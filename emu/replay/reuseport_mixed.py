"""Recorded winners among several groups, by address and device, and of groups on 8 CPUs."""

from __future__ import annotations

from typing import Any

from emu.dtypes import Prog, SockState
from emu.replay.lookup_rows import packet_rows, table_of
from emu.replay.masks import of_kind, of_part
from emu.replay.parts import Part, Record, Result
from emu.replay.reuseport import ANY, OPEN, PORT, PROTO, SHARES, attach, with_lookup

DEVICES = {None: 0, "lo": 1, "dmy0": 2}


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


def replay_mixed(lookup: Any, record: Record, out: Result) -> None:
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
        wanted = -1 if winner in ("refused", None) else winner
        out.compare("mixed", wanted if wanted in answers else answers, wanted, record["case"], i)


def replay_many_cpus(lookup: Any, record: Record, out: Result) -> None:
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
            wanted = -1 if winner is None else winner
            said = wanted if wanted in answers else answers
            out.compare(f"{record['mode']} packet", said, wanted, value, cpu)


def address_text(octets: str) -> str:
    raw = bytes.fromhex(octets)
    if len(raw) == 4:
        return ".".join(map(str, raw))
    return ":".join(octets[at : at + 4] for at in range(0, 32, 4))


def replay_misc(lookup: Any, record: Record, out: Result) -> None:
    """Groups of two sockets by address, family and device; the hash is not in the record."""
    groups = {
        "specific": [("10.9.0.1", 0, "spec"), ("0.0.0.0", 0, "any")],
        "[::] dual-stack": [("::", 0, "dual"), ("0.0.0.0", 0, "v4any")],
        "0.0.0.0 vs 0.0.0.0%tn0": [("0.0.0.0", 0, "plain"), ("0.0.0.0", 1, "dev")],
    }
    for case, ports, winners in record["rows"]:
        kind = next((kind for kind in groups if case.startswith(kind)), None)
        if kind is None:
            out.skip("no packets: migration, or what setsockopt answers")
            continue
        rows, names = [], []
        for address, device, name in groups[kind]:
            for member in range(1 if device else 2):
                rows.append(
                    {
                        "family": 6 if ":" in address else 4, "laddr": address, "lport": PORT,
                        "reuseport": 1, "bound_dev": device, "state": SockState.BOUND,
                    }
                )  # fmt: skip
                names.append(name if device else f"{name}{member}")
        table = table_of(lookup, rows)
        for port, winner in zip(ports, winners, strict=True):
            packet = {"saddr": "10.9.0.2", "daddr": "10.9.0.1", "sport": port, "dport": PORT}
            found = {table.find(packet_rows([packet]), 0, 1, 0, one)[0] for one in SHARES}
            said = {names[sock] for sock in found}
            out.compare("misc packet", winner if winner in said else said, winner, case, port)


PARTS = (
    Part("reuseport/mixed", of_part("mixed"), with_lookup(replay_mixed)),
    Part("manycpu/reuseport_udp", of_kind("reuseport_udp"), with_lookup(replay_many_cpus)),
    Part("manycpu/reuseport_tcp", of_kind("reuseport_tcp"), with_lookup(replay_many_cpus)),
    Part("manycpu/reuseport_misc", of_kind("reuseport_misc"), with_lookup(replay_misc)),
)
