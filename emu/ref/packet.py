"""The reference's view of a packet table: plain Python values, one packet at a time."""

from __future__ import annotations

from functools import cached_property

from emu.model.packets import Packets


class PacketView:
    """Columns of a table as Python lists, made when first asked for."""

    def __init__(self, packets: Packets) -> None:
        self.packets = packets

    def __len__(self) -> int:
        return len(self.packets)

    def __getattr__(self, name: str) -> list[int]:
        if name.startswith("_") or name == "packets":
            raise AttributeError(name)
        column: list[int] = self.packets.columns[name].tolist()
        self.__dict__[name] = column  # found without this method from now on
        return column

    @cached_property
    def saddr_bytes(self) -> list[bytes]:
        """Source addresses: 4 or 16 network bytes, 16 zero bytes for no IP."""
        return self._addresses("saddr")

    @cached_property
    def daddr_bytes(self) -> list[bytes]:
        """Destination addresses, likewise."""
        return self._addresses("daddr")

    def _addresses(self, name: str) -> list[bytes]:
        raw = self.packets.columns[name].tobytes()
        return [
            raw[16 * row : 16 * row + (4 if family == 4 else 16)]
            for row, family in enumerate(self.family)
        ]
