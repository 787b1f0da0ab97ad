"""The doors for frames: octets in, a packet table out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.dtypes import HashType, IpSummed, PacketFlag
from emu.engines import stage
from emu.errors import ConfigError
from emu.model.packets import Packets

LINKS = {"ethernet": 0, "raw-ip": 1}
IP_SUMMED = {member.name.lower(): int(member) for member in IpSummed}
HASH_TYPES = {member.name.lower().replace("_", "-"): int(member) for member in HashType}

Bytes = bytes | bytearray | memoryview
Array = NDArray[Any]


def from_frames(
    frames: Iterable[Bytes],
    *,
    arrival_ps: ArrayLike | None = None,
    nic: ArrayLike = 0,
    link: str | Sequence[str] = "ethernet",
    wire_bytes: ArrayLike | None = None,
    vlan_accel: bool = False,
    ip_summed: str | Sequence[str] = "none",
    csum_level: ArrayLike = 0,
    skb_hash: ArrayLike = 0,
    hash_type: str | Sequence[str] = "none",
    gso_type: ArrayLike = 0,
    gso_size: ArrayLike = 0,
    gso_segs: ArrayLike = 0,
    csum_start: ArrayLike = 0,
    csum_off: ArrayLike = 0,
    epoch_ns: int = 0,
    engine: str = "core",
) -> Packets:
    """Make a packet table of frames; `dissect` is the same door under its other name.

    No frame is dropped: the column ``reason`` (`dtypes.Reason`) tells what could not be read. One
    value for an argument stands for all frames, a sequence gives each its own.

    Args:
        frames: the octets of each, from its link header on, without FCS.
        arrival_ps: int64[n], picoseconds since the start of the input; all 0 if not given.
        nic: index of the NIC it arrived on.
        link: ``"ethernet"`` or ``"raw-ip"`` (the frame begins with its IP header).
        wire_bytes: octets on the wire where the capture kept less; the frame's own length if not
            given. A snapped frame counts as whole: its lengths are the wire's, its checksums good.
        vlan_accel: the NIC took the outermost tag out of the frame into metadata (rx-vlan-offload).
        ip_summed: ``"none"``, ``"unnecessary"``, ``"complete"``, ``"partial"``: what the
            driver says of checksums.
        csum_level: checksums verified beyond the first, with ``"unnecessary"``.
        skb_hash: a hash that is on the packet already; 0 = none.
        hash_type: ``"none"``, ``"l2"``, ``"l3"``, ``"l4"``, ``"sw"``, ``"sw-l4"``: what
            *skb_hash* covers.
        gso_type: raw SKB_GSO_* bits of a frame that is a GSO packet already.
        gso_size: payload of each of its segments; 0: it is no GSO packet.
        gso_segs: how many segments it has.
        csum_start: with ``"partial"``, where the sum begins, from the start of the frame.
        csum_off: where in that it goes.
        epoch_ns: wall-clock time of ``arrival_ps == 0``, nanoseconds since 1970.
        engine: ``"core"`` or ``"ref"``; both give the same table.

    Raises:
        ConfigError: an argument is not as said above.
        CoreNotBuilt: the compiled core is missing.
    """
    pieces = [bytes(frame) for frame in frames]
    cap_bytes = np.array([len(piece) for piece in pieces], dtype=np.uint32)
    return from_blob(
        np.frombuffer(b"".join(pieces), dtype=np.uint8),
        np.cumsum(cap_bytes, dtype=np.int64) - cap_bytes,
        cap_bytes,
        cap_bytes if wire_bytes is None else wire_bytes,
        arrival_ps=arrival_ps,
        nic=nic,
        link=spread("link", named("link", link, LINKS), len(pieces), "u1"),
        vlan_accel=vlan_accel,
        epoch_ns=epoch_ns,
        engine=engine,
        ip_summed=named("ip_summed", ip_summed, IP_SUMMED),
        hash_type=named("hash_type", hash_type, HASH_TYPES),
        **{"csum_level": csum_level, "skb_hash": skb_hash, "gso_type": gso_type},
        **{"gso_size": gso_size, "gso_segs": gso_segs},
        **{"csum_start": csum_start, "csum_off": csum_off},
    )


dissect = from_frames
IPIP = 4
IP_IN_IP = (IPIP, 41)


def from_blob(
    blob: NDArray[np.uint8],
    frame_off: ArrayLike,
    cap_bytes: ArrayLike,
    wire_bytes: ArrayLike,
    *,
    arrival_ps: ArrayLike | None = None,
    nic: ArrayLike = 0,
    link: ArrayLike = 0,
    vlan_accel: bool = False,
    epoch_ns: int = 0,
    engine: str = "core",
    **handed_up: ArrayLike,
) -> Packets:
    """Make a packet table of frames that lie in one array, as a capture's do; nothing is copied.

    Args:
        blob: uint8[b], the octets; the table keeps it and makes it read-only.
        frame_off: int64[n], where each frame begins.
        cap_bytes: uint32[n], octets kept of each.
        wire_bytes: uint32[n], octets each had on the wire.
        link: 0 Ethernet, 1 raw IP.
        handed_up: columns that no frame says, but the driver; `dtypes.IpSummed` and
            `dtypes.HashType` as codes.

    The other arguments and the errors are `from_frames`'s.
    """
    offsets = np.ascontiguousarray(frame_off, dtype=np.int64)
    rows = len(offsets)
    try:
        columns, flow_keys = stage(engine, "dissect").dissect_frames(
            np.ascontiguousarray(blob, dtype=np.uint8),
            offsets,
            spread("cap_bytes", cap_bytes, rows, "u4"),
            spread("wire_bytes", wire_bytes, rows, "u4"),
            spread("link", link, rows, "u1"),
        )
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(
            "frames", str(error), "frames inside the blob, kept <= on the wire"
        ) from error
    columns["arrival_ps"] = spread(
        "arrival_ps", 0 if arrival_ps is None else arrival_ps, rows, "i8"
    )
    columns["nic"] = spread("nic", nic, rows, "u2")
    for name, value in handed_up.items():
        columns[name] = spread(name, value, rows, columns[name].dtype.str[1:])
    columns["flags"][columns["gso_size"] > 0] |= np.uint16(PacketFlag.GSO)
    if vlan_accel:
        blob = accelerate(columns, blob)
    return Packets(columns, flow_keys=flow_keys, blob=blob, epoch_ns=epoch_ns)


def inner_packets(packets: Packets, engine: str = "core") -> tuple[Packets, NDArray[np.int32]]:
    """The packets that ride in IP in IP, each behind an Ethernet header made for it.

    Everything behind the outer IP header belongs to the inner packet, padding included: so GRO sees
    it. Packets whose octets were not kept have none.

    Returns:
        The table, and int32[n], the row of it that packet i carries; -1 none.
    """
    columns = packets.columns
    inner_of = np.full(len(packets), -1, dtype=np.int32)
    carries = np.isin(columns["ip_proto"], IP_IN_IP) & (columns["frame_off"] >= 0)
    carries &= (columns["flags"] & PacketFlag.TUNNEL != 0) & (columns["l4_off"] > 0)
    carries &= columns["cap_bytes"] >= columns["l4_off"]
    rows = np.flatnonzero(carries).tolist()
    inner_of[rows] = np.arange(len(rows), dtype=np.int32)
    frames, wire_bytes = [], []
    for row in rows:
        begin = int(columns["l4_off"][row])
        link = bytes(12) + (b"\x08\x00" if columns["ip_proto"][row] == IPIP else b"\x86\xdd")
        frames.append(link + packets.frame(row)[begin:])
        wire_bytes.append(len(link) + int(columns["wire_bytes"][row]) - begin)
    return from_frames(frames, wire_bytes=wire_bytes, engine=engine), inner_of


def accelerate(columns: dict[str, Array], blob: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Take the outermost tag of every tagged frame into metadata, as rx-vlan-offload does.

    The 12 octets of MAC addresses move up against the inner ethertype, in a copy of the blob. The
    flow-hash block is the same for both places of a tag, so the flow keys stay.
    """
    rows = np.flatnonzero(columns["vlan_tpid"])
    blob = blob.copy()
    starts = columns["frame_off"][rows]
    for start in starts.tolist():
        blob[start + 4 : start + 16] = blob[start : start + 12].copy()
    columns["frame_off"][rows] += 4
    for name in ("cap_bytes", "wire_bytes", "l3_off", "l4_off", "csum_start"):
        moved = columns[name][rows]
        columns[name][rows] = np.where(moved >= 4, moved - 4, 0)
    octets = np.zeros((len(rows), 16), dtype=np.uint8)
    octets[:, :14] = blob[(starts + 4)[:, None] + np.arange(14)]
    columns["mac"][rows] = octets.view("<u8")
    columns["flags"][rows] |= np.uint16(PacketFlag.VLAN_META)
    return blob


def named(where: str, value: str | Sequence[str], codes: dict[str, int]) -> int | list[int]:
    """The codes of names."""
    allowed = ", ".join(codes)
    if isinstance(value, str):
        if value not in codes:
            raise ConfigError(where, repr(value), allowed)
        return codes[value]
    unknown = [name for name in value if name not in codes]
    if unknown:
        raise ConfigError(where, repr(unknown[0]), allowed)
    return [codes[name] for name in value]


def spread(where: str, value: ArrayLike, rows: int, kind: str) -> Array:
    """One entry per frame, as a fresh array; numbers that do not fit are refused."""
    array = np.asarray(value)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != rows):
        raise ConfigError(
            where,
            f"an array of shape {array.shape}",
            f"one number, or one for each of {rows} frames",
        )
    if array.size == 0:
        return np.zeros(rows, dtype=kind)
    if array.dtype.kind not in "iu":
        raise ConfigError(where, f"{array.dtype} values", "integers")
    limits = np.iinfo(kind)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        raise ConfigError(where, low if low < limits.min else high, f"{limits.min} to {limits.max}")
    out: Array = np.empty(rows, dtype=kind)
    out[:] = array
    return out
