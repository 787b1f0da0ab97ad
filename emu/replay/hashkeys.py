"""Recorded hashes of frames that differ in one field: which of them share a key (R-2.2, R-2.3)."""

from __future__ import annotations

from emu.intake import from_frames
from emu.replay.parts import Context, Part, Record, Result

# The kernel's key is hidden: under any other one the same frames have equal hashes.
KEY = bytes(range(16))


def replay_keys(record: Record, context: Context) -> Result:
    """Frames of one hash in the kernel have one here, and others another: over the whole file."""
    out = Result()
    frames = [bytes.fromhex(frame) for frame in record["frames"]]
    packets = from_frames(frames, engine=context.engine)
    hashes, types = context.module("flow_hash").flow_hash_packets(packets, KEY)
    ours_of: dict[int, int] = context.shared.setdefault("ours_of", {})
    theirs_of: dict[int, int] = context.shared.setdefault("theirs_of", {})
    for place in range(len(frames)):
        ours, theirs = int(hashes[place]), record["hash"][place]
        about = record["ctx"], record["l4"], place
        out.compare("frames of one hash", ours, ours_of.setdefault(theirs, ours), *about)
        out.compare("hash of equal frames", theirs_of.setdefault(ours, theirs), theirs, *about)
        covers_l4 = bool(types[place])
        out.compare("l4_hash", covers_l4, bool(record["l4_hash"][place]), *about)
    return out


def is_keys(record: Record) -> bool:
    return {"l4_hash", "frames", "hash", "ctx"} <= set(record)


PARTS = (Part("hashkeys", is_keys, replay_keys),)
