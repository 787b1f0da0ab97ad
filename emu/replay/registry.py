"""Every part of the replay, and which a record is of."""

from __future__ import annotations

from emu.replay import (
    cpumap,
    gro,
    hashkeys,
    masks,
    reuseport,
    reuseport_mixed,
    rfs,
    rps,
    xps,
    xps_many,
)
from emu.replay import incoming_cpu as socket_cpu
from emu.replay.parts import Part, Record

# Records that say something of the recording itself.
SILENT_KINDS = ("meta", "end")

PARTS: tuple[Part, ...] = (
    *gro.PARTS,
    *cpumap.PARTS,
    *rps.PARTS,
    *rfs.PARTS,
    *hashkeys.PARTS,
    *masks.PARTS,
    *xps.PARTS,
    *xps_many.PARTS,
    *reuseport.PARTS,
    *reuseport_mixed.PARTS,
    *socket_cpu.PARTS,
)


def part_of(record: Record) -> Part | None:
    """The part of a record; None for a kind that nobody knows."""
    return next((part for part in PARTS if part.matches(record)), None)


def says_nothing(record: Record) -> bool:
    """Whether a record is about the recording, not about a decision."""
    return record.get("t") in SILENT_KINDS
