"""Sockets, packets to them and lookup configurations, from small pools so that they often meet."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import PacketFlag, Prog, SockState
from emu.model.packets import Packets

CPUS = 70  # two mask words
MASK_WORDS = 2
# The mask words 2 * k, 2 * k + 1 are mask k: none, all, even CPUs, CPU 1, CPUs 64 and up.
MASKS = np.array(
    [0, 0, 2**64 - 1, 2**64 - 1, 0x5555555555555555, 0x5555555555555555, 2, 0, 0, 2**64 - 1],
    dtype=np.uint64,
)

LOCAL = {
    4: ("0.0.0.0", "10.0.0.1", "10.0.0.2"),
    6: ("::", "2001:db8::1", "2001:db8::2", "::ffff:10.0.0.1"),
}
FOREIGN = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::7", "2001:db8::8", "::ffff:192.0.2.1")}
LOCAL_PORTS = (53, 80, 53 + 64)  # 53 and 117 share slots of small tables
FOREIGN_PORTS = (1000, 40000)


def words(address: str) -> list[int]:
    """Network bytes as four little-endian words."""
    packed = ipaddress.ip_address(address).packed.ljust(16, b"\0")
    return np.frombuffer(packed, dtype="<u4").tolist()


def socket_rows(rows: list[dict[str, Any]]) -> NDArray[np.void]:
    """``SOCKET[n]`` of dicts.

    Addresses as text, everything else by field name, the rest its usual default.
    """
    out = np.zeros(len(rows), dtype=dtypes.SOCKET)
    for row, fields in zip(out, rows, strict=True):
        row["family"], row["proto"], row["incoming_cpu"], row["mask_off"] = 4, 17, -1, -1
        row["psock_target"] = row["psock_cpu"] = -1
        for name, value in fields.items():
            row[name] = words(value) if isinstance(value, str) else value
        if "family" not in fields and ":" in fields.get("laddr", ""):
            row["family"] = 6
    return out


def packet_rows(rows: list[dict[str, Any]], payloads: list[bytes] | None = None) -> Packets:
    """Packets of dicts with saddr, daddr (text), sport, dport, proto.

    Payloads as bytes kept behind a header.
    """
    columns = dtypes.allocate(dtypes.PACKET_COLUMNS, len(rows))
    blob = bytearray()
    columns["flow_key"][:] = -1
    columns["opt_off"][:] = -1
    columns["frame_off"][:] = -1
    for i, fields in enumerate(rows):
        v6 = ":" in fields["saddr"]
        columns["family"][i], columns["ip_proto"][i] = 6 if v6 else 4, fields.get("proto", 17)
        columns["flags"][i] = PacketFlag.HAS_PORTS
        columns["saddr"][i], columns["daddr"][i] = words(fields["saddr"]), words(fields["daddr"])
        columns["sport"][i], columns["dport"][i] = fields["sport"], fields["dport"]
        if payloads is not None:
            header = 20 if fields.get("proto", 17) == 6 else 8
            ip_header = 40 if v6 else 20
            frame = bytes(14 + ip_header + header) + payloads[i]
            columns["l3_off"][i], columns["l4_off"][i] = 14, 14 + ip_header
            columns["ip_len"][i] = len(frame) - 14 - (40 if v6 else 0)
            columns["udp_len"][i] = header + len(payloads[i])
            columns["tcp_w12"][i] = 5 << 28
            columns["frame_off"][i], columns["cap_bytes"][i] = len(blob), len(frame)
            columns["wire_bytes"][i] = len(frame)
            blob += frame
    return Packets(columns, blob=np.frombuffer(bytes(blob), dtype=np.uint8))


def config(**fields: int) -> NDArray[np.void]:
    """``LOOKUP_CFG[1]`` of a 6.18 kernel, with changes."""
    out = np.zeros(1, dtype=dtypes.LOOKUP_CFG)
    values = {"cpu_aware": 1, "tcp_port_added": 1, "udp_slots": 64, "ncpus": CPUS, **fields}
    for name, value in values.items():
        out[name] = value
    return out


U32S = st.integers(0, 2**32 - 1)
FLAGS = st.integers(0, 1)


@st.composite
def configs(draw: st.DrawFn, *, legacy: int | None = None) -> NDArray[np.void]:
    """Any kernel, any secrets."""
    secrets = ("tcp4", "udp4", "tcp6", "udp6", "tcp6_addr", "udp6_addr")
    return config(
        **{f"{name}_secret": draw(U32S) for name in secrets},
        hash_mix=draw(U32S),
        legacy=draw(FLAGS) if legacy is None else legacy,
        mask_boost=draw(FLAGS),
        mask_v6_udp_quirk=draw(st.integers(0, 2)),
        cpu_aware=draw(FLAGS),
        tcp_port_added=draw(FLAGS),
        udp_conn_stays=draw(FLAGS),
        udp_slots=draw(st.sampled_from([1, 2, 64, 1024])),
    )


@st.composite
def sockets(draw: st.DrawFn, *, proto: int | None = None, closed: bool = False) -> dict[str, Any]:
    """A socket row's fields."""
    family = draw(st.sampled_from([4, 6]))
    proto = proto or draw(st.sampled_from([6, 17]))
    open_states = [SockState.LISTEN if proto == 6 else SockState.BOUND] * 3 + [
        SockState.ESTABLISHED
    ]
    return {
        "family": family,
        "proto": proto,
        "state": SockState.CLOSED
        if closed
        else draw(st.sampled_from([*open_states, SockState.CLOSED])),
        "v6only": draw(FLAGS),
        "reuseport": int(draw(st.integers(0, 3)) > 0),
        "prog_kind": draw(st.sampled_from([Prog.NONE] * 6 + [Prog.FIXED, Prog.CPU, Prog.PAYLOAD])),
        "prog_value": draw(st.integers(-1, 4)),
        "lport": draw(st.sampled_from(LOCAL_PORTS)),
        "fport": draw(st.sampled_from(FOREIGN_PORTS)),
        "laddr": draw(st.sampled_from(LOCAL[family])),
        "faddr": draw(st.sampled_from(FOREIGN[family])),
        "bound_dev": draw(st.sampled_from([0, 0, 0, 1, 2])),
        "incoming_cpu": draw(st.sampled_from([-1, -1, 0, 1, 65])),
        "mask_off": draw(st.sampled_from([-1, -1, -1, 0, 2, 4, 6, 8])),
        "uid": draw(st.sampled_from([0, 0, 0, 1000])),
    }


@st.composite
def packets(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """A packet's fields and payload."""
    family = draw(st.sampled_from([4, 6]))
    fields = {
        "proto": draw(st.sampled_from([6, 17])),
        "saddr": draw(st.sampled_from(FOREIGN[family])),
        "daddr": draw(st.sampled_from(LOCAL[family][1:])),
        "sport": draw(st.sampled_from(FOREIGN_PORTS)),
        "dport": draw(st.sampled_from(LOCAL_PORTS)),
    }
    return fields, draw(st.binary(max_size=3))


CPU_NUMBERS = st.sampled_from([0, 1, 2, 64, 65])
DEVICES = st.sampled_from([1, 2])
