"""What a run refuses because times, bytes or memory would leave their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emu.errors import ConfigError
from emu.model import checks
from emu.model.host import Host
from emu.model.packets import Packets
from emu.run_dtypes import COST_ONE, DISTANCES, Cost
from emu.units import format_duration_ps

if TYPE_CHECKING:
    from emu.model.costs import Machine

# One operation, line or byte. A step has up to a million of them, and as many interrupts may fall
# into it: all of that stays below 2**63 picoseconds.
MOST_OPERATION_PS = 10**12
MOST_DESCRIPTORS = 2**26  # of all tx rings: each takes memory from the start
MOST_FLOW_ENTRIES = 2**26  # of all RFS tables
MOST_FRAME_BYTES = 2**20  # twice what any GSO makes
MOST_LINK_PS = 2**61


def refuse_slow(machine: Machine) -> None:
    """Refuse a machine on which one operation takes longer than any step may.

    Raises:
        ConfigError: naming the row.
    """
    names = {"costs": [row.name.lower() for row in Cost], "transfer": DISTANCES}
    names["stream"] = DISTANCES
    most = MOST_OPERATION_PS * machine.khz * COST_ONE // 10**9
    for table, rows in names.items():
        for name, cost in zip(rows, getattr(machine, table).tolist(), strict=True):
            if cost > most:
                given = f"{cost / COST_ONE:.3f} cycles at {machine.khz} kHz"
                allowed = f"at most {format_duration_ps(MOST_OPERATION_PS)}"
                raise ConfigError(f"{checks.label(machine)}: {table}.{name}", given, allowed)


def refuse_rings(host: Host) -> None:
    """Refuse tx rings that together need memory without bounds.

    Raises:
        ConfigError: naming the NIC.
    """
    total = 0
    for nic in host.nics:
        total += nic.tx_queues * nic.tx_ring
        if total > MOST_DESCRIPTORS:
            given = f"{nic.tx_ring} for each of {nic.tx_queues} tx queues"
            allowed = f"at most {MOST_DESCRIPTORS} of all tx queues of the host"
            raise ConfigError(f"{checks.label(nic)}: tx_ring", given, allowed)


def refuse_flow_tables(host: Host) -> None:
    """Refuse RFS tables that together need memory without bounds; without RFS there are none.

    Raises:
        ConfigError: naming the NIC.
    """
    total = 0
    for nic in host.nics if host.rps_sock_flow_entries else ():
        total += nic.rx_queues * nic.rps_flow_cnt
        if total > MOST_FLOW_ENTRIES:
            given = f"{nic.rps_flow_cnt} for each of {nic.rx_queues} rx queues"
            allowed = f"at most {MOST_FLOW_ENTRIES} of all rx queues of the host"
            raise ConfigError(f"{checks.label(nic)}: rps_flow_cnt", given, allowed)


def refuse_long_frames(packets: Packets, slowest_ps: int) -> None:
    """Refuse frames that no device sends, and more of them than time has room for.

    Args:
        packets: of an open loop.
        slowest_ps: picoseconds of a byte on the host's slowest link.

    Raises:
        ConfigError: naming the first such packet, or the sum.
    """
    longest = int(np.argmax(packets.wire_bytes))
    if packets.wire_bytes[longest] > MOST_FRAME_BYTES:
        row = int(np.argmax(packets.wire_bytes > MOST_FRAME_BYTES))
        given = f"{packets.wire_bytes[row]} bytes on the wire"
        raise ConfigError(f"packet {row}", given, f"at most {MOST_FRAME_BYTES}")
    total = int(packets.wire_bytes.sum(dtype=np.int64)) + 1000 * len(packets)
    if total * slowest_ps > MOST_LINK_PS:
        given = f"{total} bytes for a link with {slowest_ps} ps for each"
        raise ConfigError("packets", given, f"at most {MOST_LINK_PS} ps on the slowest link")
