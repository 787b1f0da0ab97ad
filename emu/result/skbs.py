"""What GRO gave to the stack: one row per skb, and the octets of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.errors import ConfigError
from emu.model.packets import Packets
from emu.result.skb_frames import GSO_FRAGLIST, GSO_IPXIP, aggregate, read_headers
from emu.result.table import to_pandas

if TYPE_CHECKING:
    import pandas


@attrs.frozen(kw_only=True, eq=False)
class Skbs:
    """The answer of `emu.gro`.

    Attributes:
        packets: the packets that went in.
        table: ``SKB[m]``, the skbs in the order the stack got them.
        skb_of: ``int64[n]``, the row of *table* that each packet ended up in.
        result: ``uint8[n]``, what GRO answered for each packet (`dtypes.GroResult`).
    """

    packets: Packets
    table: NDArray[np.void]
    skb_of: NDArray[np.int64]
    result: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.table)

    def members(self) -> list[list[int]]:
        """The packets of each skb, in the order they were joined."""
        out: list[list[int]] = [[] for _ in range(len(self))]
        for packet, place in enumerate(self.skb_of.tolist()):
            out[place].append(packet)
        return out

    def frames(self) -> list[bytes]:
        """The octets of each skb from its link header on, as the kernel hands it up.

        A tag in metadata stays there, and so is not among the octets. A joined skb has the sum of
        its pseudo header in place of the TCP or UDP checksum, as `IpSummed.PARTIAL` says
        (receive.md 5.4).

        Raises:
            ConfigError: the table has not kept all octets of a packet.
        """
        columns = self.packets.columns
        kept_bytes = np.where(columns["frame_off"].astype(np.int64) < 0, 0, columns["cap_bytes"])
        cut = kept_bytes < columns["wire_bytes"].astype(np.int64)
        if cut.any():
            packet = int(np.argmax(cut))
            given = f"{kept_bytes[packet]} of {columns['wire_bytes'][packet]} octets"
            raise ConfigError(f"frames: packet {packet}", given, "packets kept whole")
        return [
            aggregate(
                [self.packets.frame(packet) for packet in members],
                int(row["gso_type"]),
                int(row["len_bytes"]),
            )
            for row, members in zip(self.table, self.members(), strict=True)
        ]

    def seglens(self) -> list[list[int]]:
        """Payload of each packet that is chained to a fraglist behind its first, in octets."""
        out = []
        for row, members in zip(self.table, self.members(), strict=True):
            frames = [self.packets.frame(packet) for packet in members]
            chained = frames[1:] if row["gso_type"] & GSO_FRAGLIST else []
            in_tunnel = bool(row["gso_type"] & GSO_IPXIP)
            out.append([len(f) - read_headers(f, in_tunnel).payload for f in chained])
        return out

    def to_pandas(self) -> pandas.DataFrame:
        """One row per skb. Raises ConfigError when pandas is not installed."""
        names = [name for name in dtypes.SKB.names or () if name != "pad"]
        return to_pandas({name: self.table[name] for name in names})
