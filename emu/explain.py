"""Why one packet landed where it did: what the reference recorded while it decided.

Decides nothing itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import attrs

from emu.dtypes import PacketFlag, Reason, Secret
from emu.errors import ConfigError
from emu.model.host import Host
from emu.model.ops import Op
from emu.model.packets import Packets
from emu.model.polls import Polls
from emu.ref.record import Entry, Journal
from emu.result.decisions import Decisions
from emu.steering import decide, lowered
from emu.units import format_duration_ps

PROTOCOL_NAMES = {1: "ICMP", 6: "TCP", 17: "UDP", 47: "GRE", 50: "ESP", 58: "ICMPv6", 132: "SCTP"}
WIDTH = 100


@attrs.frozen(kw_only=True, eq=False)
class Explanation:
    """The journal of one packet; ``str()`` prints it.

    Attributes:
        packet: its row.
        entries: what the reference said, in order: rules with outcome and numbers, and notes.
        decisions: the whole steer that the packet was part of.
    """

    packet: int
    packets: Packets
    entries: list[Entry]
    decisions: Decisions

    def __str__(self) -> str:
        lines = [f"packet {self.packet}: {describe(self.packets, self.packet)}"]
        for entry in self.entries:
            lines.extend(format_entry(entry))
        secrets = Secret(int(self.decisions.arrays["secrets"][self.packet]))
        lines.append(f"  exact     {'yes' if not secrets else 'no: hangs on ' + names_of(secrets)}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Plain values, as ``--json`` prints them."""
        return {
            "packet": self.packet,
            "entries": [
                {
                    "kind": e.kind,
                    "name": e.name,
                    "said": e.said,
                    "facts": {k: str(v) for k, v in e.facts.items()},
                }
                for e in self.entries
            ],
            "secrets": names_of(Secret(int(self.decisions.arrays["secrets"][self.packet]))),
        }


def explain(
    host: Host,
    packets: Packets,
    index: int,
    *,
    ops: Sequence[Op] = (),
    polls: Polls | None = None,
) -> Explanation:
    """Steer the packets with the reference and keep what it says about packet *index*.

    Raises:
        ConfigError: no such packet, or what `emu.steer` raises.
    """
    if type(index) is not int or not 0 <= index < len(packets):
        allowed = f"0..{len(packets) - 1}" if len(packets) else "none: the table is empty"
        raise ConfigError("explain", f"packet {index!r}", allowed)
    journal = Journal(index)
    plan = lowered(host, packets, ops, "ref")
    decisions = decide(host, plan, polls, "ref", rec=journal)
    return Explanation(packet=index, packets=packets, entries=journal.entries, decisions=decisions)


def describe(packets: Packets, index: int) -> str:
    """One line about a packet: protocol, addresses, length, time."""
    when = format_duration_ps(int(packets.arrival_ps[index]))
    size = f"{int(packets.wire_bytes[index])} bytes at {when}"
    family = int(packets.family[index])
    reason = Reason(int(packets.reason[index]))
    if family == 0:
        what = f"ethertype {int(packets.ethertype[index]):#06x}"
        return f"{what}, {size}" + (f", not dissected: {reason.name}" if reason else "")
    source, target = (
        ipaddress.ip_address(packets.columns[name][index].tobytes()[: 4 if family == 4 else 16])
        for name in ("saddr", "daddr")
    )
    protocol = int(packets.ip_proto[index])
    name = PROTOCOL_NAMES.get(protocol, f"IP protocol {protocol}")
    if int(packets.flags[index]) & PacketFlag.HAS_PORTS:
        ends = f"{source}:{int(packets.sport[index])} > {target}:{int(packets.dport[index])}"
    else:
        ends = f"{source} > {target}"
    return f"{name} {ends}, {size}" + (f", not dissected: {reason.name}" if reason else "")


def format_entry(entry: Entry) -> list[str]:
    """A note as ``stage  sentence (numbers)``; a rule indented under the stage that asked it."""
    facts = ", ".join(f"{name} {value}" for name, value in entry.facts.items())
    if entry.kind == "note":
        text = f"  {entry.name:<9} {entry.said}"
    else:
        text = f"            {entry.name} {'holds' if entry.said else 'does not hold'}"
    if not facts:
        return [text]
    if len(text) + len(facts) + 3 <= WIDTH:
        return [f"{text} ({facts})"]
    return [text, f"            {facts}"]


def names_of(secrets: Secret) -> str:
    """The secrets' names, joined; empty for none."""
    return ", ".join(str(bit.name) for bit in Secret if bit in secrets)
