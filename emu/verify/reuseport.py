"""Live decisions of SO_REUSEPORT groups over loopback.

The kernel's hash is hidden: groups of 1 to 16 sockets without anything else tell each flow's
interval, and group operations are then asked with it.
"""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

from emu.verify import links
from emu.verify.taps import Pinned

SO_ATTACH_REUSEPORT_CBPF, SO_INCOMING_CPU = 51, 49
LD_ABS_B, LD_W_ABS, RET_K, RET_A = 0x30, 0x20, 0x06, 0x16
AD_CPU = (-0x1000 + 36) & 0xFFFFFFFF
PORT, SIZES, FLOWS, WAIT = 9000, range(1, 17), 24, 1.0
HOST = {4: "127.0.0.1", 6: "::1"}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


def member(family: int) -> socket.socket:
    """A socket of the group, open."""
    out = socket.socket(FAMILY[family], socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == 6:
        out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    out.bind(("::" if family == 6 else "0.0.0.0", PORT))
    out.setblocking(False)
    return out


class Flow:
    """A sender: the flow's hash lies in [low, high)."""

    def __init__(self, family: int) -> None:
        self.family = family
        self.socket = socket.socket(FAMILY[family], socket.SOCK_DGRAM)
        self.socket.bind((HOST[family], 0))
        self.port = self.socket.getsockname()[1]
        self.low, self.high = 0, 1 << 32
        self.winners: dict[str, int] = {}

    def send(self, payload: bytes) -> None:
        self.socket.sendto(payload, (HOST[self.family], PORT))

    def learn(self, size: int, winner: int) -> None:
        """A group of that size chose that member."""
        self.winners[str(size)] = winner
        self.low = max(self.low, -(-(winner << 32) // size))
        self.high = min(self.high, -(-((winner + 1) << 32) // size))


def winner_of(members: dict[int, socket.socket]) -> int | None:
    """Who got the datagram, which is there already: loopback delivers before send returns."""
    for name, sock in members.items():
        try:
            sock.recv(64)
        except BlockingIOError:
            continue
        return name
    return None


def learn_flows(family: int) -> list[Flow]:
    """Flows with their intervals, from groups of growing size."""
    flows = [Flow(family) for _ in range(FLOWS)]
    members: dict[int, socket.socket] = {}
    try:
        for size in SIZES:
            members[size - 1] = member(family)
            for flow in flows:
                flow.send(b"x")
                winner = winner_of(members)
                if winner is None:
                    raise OSError("no socket of the group got the datagram")
                flow.learn(size, winner)
    finally:
        for sock in members.values():
            sock.close()
    return flows


def sizes_record(flow: Flow) -> dict[str, Any]:
    host = HOST[flow.family]
    return {
        "part": "sizes",
        "fam": flow.family,
        "proto": "udp",
        "src": host,
        "dst": host,
        "sport": flow.port,
        "dport": PORT,
        "h_lo": flow.low,
        "h_hi": flow.high,
        "consistent": flow.low < flow.high,
        "winners": flow.winners,
    }


def attach(sock: socket.socket, code: list[tuple[int, int]]) -> None:
    """Attach a classic BPF program to the socket's group."""
    import ctypes

    octets = b"".join(struct.pack("HBBI", op, 0, 0, value & 0xFFFFFFFF) for op, value in code)
    room = ctypes.create_string_buffer(octets, len(octets))
    program = struct.pack("HP", len(code), ctypes.addressof(room))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, program)


def program(name: str) -> list[tuple[int, int]]:
    """The program's code by the name that a record has."""
    if name == "cpu":
        return [(LD_W_ABS, AD_CPU), (RET_A, 0)]
    if name == "payload0":
        return [(LD_ABS_B, 0), (RET_A, 0)]
    return [(RET_K, int(name[3:]))]


class Group:
    """Sockets that come and go, as the array of the kernel's group holds them."""

    def __init__(self, family: int) -> None:
        self.family = family
        self.members: dict[int, socket.socket] = {}
        self.array: list[int] = []
        self.ops: list[list[Any]] = []
        self.next = 0

    def open(self) -> None:
        self.members[self.next] = member(self.family)
        self.array.append(self.next)
        self.ops.append(["open", self.next])
        self.next += 1

    def close_one(self, rng: random.Random) -> None:
        name = rng.choice(self.array)
        self.members.pop(name).close()
        last = self.array.pop()
        if last != name:
            self.array[self.array.index(name)] = last
        self.ops.append(["close", name])

    def set_cpu(self, rng: random.Random, cpus: list[int]) -> None:
        name, value = rng.choice(self.array), rng.choice([*cpus, -1])
        self.members[name].setsockopt(socket.SOL_SOCKET, SO_INCOMING_CPU, value)
        self.ops.append(["incoming_cpu", name, value])

    def set_program(self, rng: random.Random) -> None:
        name, code = rng.choice(self.array), rng.choice(["cpu", "payload0", "idx0", "idx2", "idx9"])
        attach(self.members[name], program(code))
        self.ops.append(["cbpf", name, code])

    def close(self) -> None:
        for sock in self.members.values():
            sock.close()


def ops_record(
    rng: random.Random, flows: list[Flow], cpus: list[int], number: int
) -> dict[str, Any]:
    """Random operations on a group, then packets of known flows from random CPUs."""
    group = Group(flows[0].family)
    try:
        for _ in range(rng.randrange(2, 7)):
            group.open()
        for _ in range(rng.randrange(8)):
            step = rng.random()
            if step < 0.3:
                group.open()
            elif step < 0.5 and len(group.array) > 1:
                group.close_one(rng)
            elif step < 0.9:
                group.set_cpu(rng, cpus)
            elif number % 3 == 0:
                group.set_program(rng)
        packets = [
            packet
            for flow in rng.sample(flows, 6)
            if (packet := packet_of(rng, flow, group, cpus)) is not None
        ]
    finally:
        group.close()
    return {
        "part": "ops",
        "case": f"verify-{number}",
        "fam": group.family,
        "proto": "udp",
        "ops": group.ops,
        "array": group.array,
        "packets": packets,
    }


def packet_of(
    rng: random.Random, flow: Flow, group: Group, cpus: list[int]
) -> dict[str, Any] | None:
    """One datagram; loopback's softirq runs on the sender's CPU."""
    cpu, payload = rng.choice(cpus), bytes([rng.choice([0, 1, 2, 3, 200])])
    with Pinned(cpu):
        flow.send(payload)
        winner = winner_of(group.members)
    host = HOST[flow.family]
    return {
        "src": host, "dst": host, "sport": flow.port, "cpu": cpu, "payload": payload.hex(),
        "h": [flow.low, flow.high], "winner": winner,
    }  # fmt: skip


def records(rng: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """Flows with what groups of 1 to 16 chose, then operations on groups."""
    links.ip("link", "set", "lo", "up")
    cpus = sorted(os.sched_getaffinity(0))
    flows = {family: learn_flows(family) for family in (4, 6)}
    told = [sizes_record(flow) for family in (4, 6) for flow in flows[family]]
    yield from told[:count]
    for number in range(count - len(told)):
        yield ops_record(rng, flows[rng.choice([4, 6])], cpus, number)
