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
        epoch_ns: wall-clock time of ``arrival_ps == 0``, nanoseconds since 1970.
        engine: ``"core"`` or ``"ref"``; both give the same table.

    Raises:
        ConfigError: an argument is not as said above.
        CoreNotBuilt: the compiled core is missing.
    """
    pieces = [bytes(frame) for frame in frames]
    cap_bytes = np.array([len(piece) for piece in pieces], dtype=np.uint32)
    frame_off = np.zeros(len(pieces), dtype=np.int64)
    np.cumsum(cap_bytes[:-1], out=frame_off[1:])
    return from_blob(
        np.frombuffer(b"".join(pieces), dtype=np.uint8),
        frame_off,
        cap_bytes,
        cap_bytes if wire_bytes is None else wire_bytes,
        arrival_ps=arrival_ps,
        nic=nic,
        link=spread("link", named("link", link, LINKS), len(pieces), "u1"),
        vlan_accel=vlan_accel,
        ip_summed=named("ip_summed", ip_summed, IP_SUMMED),
        csum_level=csum_level,
        skb_hash=skb_hash,
        hash_type=named("hash_type", hash_type, HASH_TYPES),
        epoch_ns=epoch_ns,
        engine=engine,
    )


dissect = from_frames


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
    ip_summed: ArrayLike = 0,
    csum_level: ArrayLike = 0,
    skb_hash: ArrayLike = 0,
    hash_type: ArrayLike = 0,
    epoch_ns: int = 0,
    engine: str = "core",
) -> Packets:
    """Make a packet table of frames that lie in one array, as a capture's do; nothing is copied.

    Args:
        blob: uint8[b], the octets; the table keeps it and makes it read-only.
        frame_off: int64[n], where each frame begins.
        cap_bytes: uint32[n], octets kept of each.
        wire_bytes: uint32[n], octets each had on the wire.
        link: 0 Ethernet, 1 raw IP.
        ip_summed: `dtypes.IpSummed` codes.
        hash_type: `dtypes.HashType` codes.

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
    given = {
        "ip_summed": ip_summed,
        "csum_level": csum_level,
        "skb_hash": skb_hash,
        "hash_type": hash_type,
    }
    for name, value in given.items():
        columns[name] = spread(name, value, rows, columns[name].dtype.str[1:])
    if vlan_accel:
        blob = accelerate(columns, blob)
    return Packets(columns, flow_keys=flow_keys, blob=blob, epoch_ns=epoch_ns)


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
    for name in ("cap_bytes", "wire_bytes", "l3_off", "l4_off"):
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
