"""Bits of the ``flags`` column as plain numbers: an enum's own ``&`` takes a microsecond."""

from __future__ import annotations

from emu.dtypes import PacketFlag

HAS_PORTS = int(PacketFlag.HAS_PORTS)
FRAGMENT = int(PacketFlag.FRAGMENT)
IP_CSUM_BAD = int(PacketFlag.IP_CSUM_BAD)
L4_CSUM_BAD = int(PacketFlag.L4_CSUM_BAD)
UDP_CSUM_ZERO = int(PacketFlag.UDP_CSUM_ZERO)
VLAN_META = int(PacketFlag.VLAN_META)
EXT_HEADERS = int(PacketFlag.EXT_HEADERS)
EXT_BYPASS = int(PacketFlag.EXT_BYPASS)
MALFORMED_LEN = int(PacketFlag.MALFORMED_LEN)
GSO = int(PacketFlag.GSO)
