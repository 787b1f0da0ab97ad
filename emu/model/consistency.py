"""What dissection guarantees of a table, checked of tables that came another way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import HashType, IpSummed, Reason
from emu.errors import ConfigError
from emu.model.inputs import flow_keys
from emu.model.packets import Packets

FAMILIES = (0, 4, 6)
ETHERTYPE_OF = {4: 0x0800, 6: 0x86DD}
TCP = 6
LARGEST = {"hash_type": max(HashType), "reason": max(Reason), "ip_summed": max(IpSummed)}


def check_packets(packets: Packets) -> None:
    """Refuse rows that no dissection makes and that the engines could read apart.

    A table is immutable, so one look is enough.

    Raises:
        ConfigError: the first packet that contradicts itself, and how.
    """
    if packets.checked or len(packets) == 0:
        return
    flow_keys(packets)
    family = packets.family
    refuse("family", packets, ~np.isin(family, FAMILIES), "0, 4 or 6")
    for name, largest in LARGEST.items():
        refuse(name, packets, packets.columns[name] > largest, f"0..{int(largest)}")
    for version, ethertype in ETHERTYPE_OF.items():
        wrong = (family == version) & (packets.ethertype != ethertype)
        refuse("ethertype", packets, wrong, f"{ethertype} in a row of family {version}")
    carries_tcp = (packets.ip_proto == TCP) & (family != 0)
    refuse("tcp_w12", packets, (packets.tcp_w12 != 0) & ~carries_tcp, "0 without TCP")
    for name in ("saddr", "daddr"):
        words = packets.columns[name].view(np.uint64)
        longer = (words[:, 0] >> np.uint64(32) | words[:, 1]) != 0
        refuse(name, packets, longer & (family != 6), "words 1..3 zero without IPv6")
    packets.checked = True


def refuse(name: str, packets: Packets, wrong: NDArray[np.bool_], allowed: str) -> None:
    """One line about the first row that is wrong."""
    if wrong.any():
        row = int(np.argmax(wrong))
        value = packets.columns[name][row]
        given = f"{name}={value.tolist()}"
        raise ConfigError(f"packet {row}", given, allowed)
