"""Socket lookup for TCP and UDP, in the array form of today and the chain form of 3.9 to 4.4.

One netns, no L3 master devices. Not here: eBPF programs (SOCK-60), migration of requests (SOCK-71),
delivery of multicast to several sockets (SOCK-78), TCP's request and timewait sockets, and the data
path's own writes of SO_INCOMING_CPU (SOCK-42).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import SOCKET, Secret, SockState
from emu.errors import ConfigError
from emu.model.packets import Packets
from emu.ref import bits
from emu.ref.lookup_legacy import find_legacy
from emu.ref.lookup_sockets import TCP, UDP, Found, LookupRules, Query, mask_at, socket_of_row
from emu.ref.lookup_table import SocketTables
from emu.ref.lookup_tcp import find_tcp
from emu.ref.lookup_udp import find_udp
from emu.ref.record import SILENT, Recorder
from emu.ref.reuseport import reuseport_select

__all__ = ["LookupTable", "lookup_packets", "reuseport_select"]

Answer = tuple[int, int, int, int, int]  # socket, Secret bits, scanned, walked, LookupStage
Answers = tuple[
    NDArray[np.int32], NDArray[np.uint16], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint8]
]

STATES = {
    TCP: {SockState.CLOSED, SockState.LISTEN, SockState.ESTABLISHED},
    UDP: {SockState.CLOSED, SockState.BOUND, SockState.ESTABLISHED},
}


class LookupTable:
    """The sockets of a host, as packets find them.

    Attributes:
        sockets: ``SOCKET[s]``, an own copy; ``state``, ``incoming_cpu`` and ``mask_off``
            follow the operations.
    """

    def __init__(
        self,
        sockets: NDArray[np.void],
        masks: NDArray[np.uint64],
        mask_words: int,
        cfg: NDArray[np.void],
        rec: Recorder = SILENT,
    ) -> None:
        """Open every row whose state is not CLOSED, in order.

        Args:
            masks: CPU masks, *mask_words* words each, that ``mask_off`` points into.
            cfg: a ``LOOKUP_CFG`` record, or an array of one.

        Raises:
            ConfigError: a row, a mask or the configuration is out of range.
        """
        self.rules = LookupRules.of(cfg)
        self.tables = SocketTables(self.rules, rec)
        self.sockets = np.array(sockets, dtype=SOCKET)
        self.masks: list[int] = masks.tolist()
        self.mask_words = mask_words
        slots = self.rules.udp_slots
        if slots < 1 or slots & (slots - 1):
            raise ConfigError("lookup: udp_slots", str(slots), "a power of two")
        for index, row in enumerate(self.sockets):
            self._check_row(index, row)
        self._socks = [
            socket_of_row(index, row, self.masks, mask_words)
            for index, row in enumerate(self.sockets)
        ]
        states = [SockState(int(state)) for state in self.sockets["state"]]
        self.sockets["state"] = SockState.CLOSED
        for index, state in enumerate(states):
            self.open(index, state)

    def _check_row(self, index: int, row: np.void) -> None:
        if row["family"] not in (4, 6):
            raise ConfigError(f"socket {index}: family", str(row["family"]), "4 or 6")
        if row["proto"] not in STATES:
            raise ConfigError(f"socket {index}: proto", str(row["proto"]), "6 or 17")
        self._check_state(index, int(row["state"]))
        self._check_mask(index, int(row["mask_off"]))

    def _check_state(self, index: int, state: int) -> None:
        allowed = sorted(STATES[int(self.sockets[index]["proto"])])
        if state not in allowed:
            raise ConfigError(
                f"socket {index}: state", str(state), ", ".join(str(int(one)) for one in allowed)
            )

    def _check_mask(self, index: int, offset: int) -> None:
        if offset >= 0 and offset + self.mask_words > len(self.masks):
            raise ConfigError(
                f"socket {index}: mask_off", str(offset), "a mask's first word, or -1"
            )

    def _check_index(self, index: int) -> None:
        if not 0 <= index < len(self._socks):
            raise IndexError(f"no socket {index}")

    def open(self, s: int, state: int) -> None:
        """Bring a socket into a state: open, connect (UDP), disconnect (UDP), or close it.

        A socket whose group is full stays closed (SOCK-52).
        """
        self._check_index(s)
        self._check_state(s, state)
        sk, state = self._socks[s], SockState(state)
        if state == sk.state:
            return
        if sk.proto == UDP and SockState.CLOSED not in (state, sk.state):
            if state == SockState.ESTABLISHED:
                self.tables.connect(sk)
            else:
                self.tables.disconnect(sk)
        else:
            if sk.state != SockState.CLOSED:
                self.tables.close(sk)
            if state != SockState.CLOSED:
                self.tables.open(sk, state)
        self.sockets["state"][s] = sk.state

    def close(self, s: int) -> None:
        """Close a socket."""
        self.open(s, SockState.CLOSED)

    def set_incoming_cpu(self, s: int, cpu: int) -> None:
        """Set SO_INCOMING_CPU: any int (SOCK-40)."""
        self._check_index(s)
        self._socks[s].incoming_cpu = cpu
        self.sockets["incoming_cpu"][s] = cpu

    def set_mask(self, s: int, off: int) -> None:
        """Set the CPU mask by its first word; -1 clears it (SOCK-32)."""
        self._check_index(s)
        self._check_mask(s, off)
        self._socks[s].mask = mask_at(self.masks, self.mask_words, off)
        self.sockets["mask_off"][s] = off

    def groups(self) -> list[list[int]]:
        """The reuseport groups' members in their order; groups by their first members."""
        groups = {id(sk.group): sk.group for sk in self._socks if sk.group is not None}
        return sorted([sk.index for sk in group.socks] for group in groups.values())

    def find(self, packets: Packets, i: int, dif: int, cpu: int, hash: int | None = None) -> Answer:
        """Find the socket of packet *i*.

        Args:
            dif: the device's index (NIC index + 1).
            cpu: the CPU that processes the packet.
            hash: stands for the socket hash that chooses in groups, whatever the secrets are.

        Returns:
            The socket (-1 none), Secret bits, sockets scored, group members looked at, LookupStage.
        """
        flags = int(packets.flags[i])
        family, proto = int(packets.family[i]), int(packets.ip_proto[i])
        if not flags & bits.HAS_PORTS or family not in (4, 6) or proto not in STATES:
            return -1, 0, 0, 0, 0
        width = 4 if family == 4 else 16
        query = Query(
            proto=proto,
            family=family,
            saddr=packets.saddr[i].astype("<u4").tobytes()[:width],
            daddr=packets.daddr[i].astype("<u4").tobytes()[:width],
            sport=int(packets.sport[i]),
            dport=int(packets.dport[i]),
            dif=dif,
            cpu=cpu,
            octet=payload_reader(packets, i, proto),
            forced_hash=hash,
        )
        return self._answer(query)

    def find_tuple(
        self,
        proto: int,
        family: int,
        saddr: bytes,
        daddr: bytes,
        sport: int,
        dport: int,
        dif: int,
        cpu: int,
    ) -> Answer:
        """Find the socket of a 4-tuple without a packet: programs do not run (SOCK-58).

        Addresses are network bytes.
        """
        return self._answer(Query(proto, family, saddr, daddr, sport, dport, dif, cpu))

    def find_all(self, packets: Packets, dif: NDArray[np.int32], cpu: NDArray[np.int32]) -> Answers:
        """Find the socket of every packet; see lookup_packets."""
        if len(dif) != len(packets) or len(cpu) != len(packets):
            raise ValueError("dif and cpu need an entry for each packet")
        rows = zip(dif.tolist(), cpu.tolist(), strict=True)
        answers = [self.find(packets, i, *row) for i, row in enumerate(rows)]
        columns = np.array(answers, dtype=np.int64).reshape(-1, 5).T
        return (
            columns[0].astype(np.int32),
            columns[1].astype(np.uint16),
            columns[2].astype(np.uint32),
            columns[3].astype(np.uint32),
            columns[4].astype(np.uint8),
        )

    def _answer(self, query: Query) -> Answer:
        if self.rules.legacy:
            found: Found = find_legacy(self.tables, query)
        else:
            found = (find_tcp if query.proto == TCP else find_udp)(self.tables, query)
        secrets = Secret.EHASH if found.hangs_on_hash else 0
        sock = -1 if found.sock is None else found.sock.index
        return sock, int(secrets), found.scanned, found.walked, int(found.stage)


def payload_reader(packets: Packets, i: int, proto: int) -> Callable[[int], int | None]:
    """A function that reads the octet at an offset behind the transport header (SOCK-59).

    None beyond the packet.
    """

    def octet(offset: int) -> int | None:
        start, l4_off, l3_off = (
            int(packets.frame_off[i]),
            int(packets.l4_off[i]),
            int(packets.l3_off[i]),
        )
        header = 8 if proto == UDP else (int(packets.tcp_w12[i]) >> 28) * 4
        ip_header = 0 if packets.family[i] == 4 else 40
        end = l3_off + ip_header + int(packets.ip_len[i])
        if proto == UDP:
            end = min(end, l4_off + int(packets.udp_len[i]))
        at = l4_off + header + offset
        if offset < 0 or start < 0 or at >= min(end, int(packets.cap_bytes[i])):
            return None
        return int(packets.blob[start + at])

    return octet


def lookup_packets(
    packets: Packets,
    sockets: NDArray[np.void],
    masks: NDArray[np.uint64],
    mask_words: int,
    cfg: NDArray[np.void],
    dif: NDArray[np.int32],
    cpu: NDArray[np.int32],
    rec: Recorder = SILENT,
) -> Answers:
    """Find the socket of every packet.

    Args:
        packets: n packets.
        sockets: ``SOCKET[s]``; those whose state is not CLOSED are opened in order.
        masks: ``uint64[...]``, CPU masks of *mask_words* words.
        cfg: ``LOOKUP_CFG`` record or array of one.
        dif: ``int32[n]``, device index (NIC index + 1).
        cpu: ``int32[n]``, the CPU that processes the packet.

    Returns:
        socket ``int32[n]`` (-1 none), Secret bits ``uint16[n]``, sockets scored
        ``uint32[n]``, group members looked at
        ``uint32[n]``, LookupStage ``uint8[n]``.

    Raises:
        ConfigError: a row, a mask or the configuration is out of range.
    """
    return LookupTable(sockets, masks, mask_words, cfg, rec).find_all(packets, dif, cpu)


def recorded_cpu(connected: bool, value: int, cpu: int, rec: Recorder = SILENT) -> int:
    """SO_INCOMING_CPU of a socket that a packet was delivered to (SOCK-42).

    Mirrors sk_incoming_cpu_update: the data path writes it on established TCP and connected UDP
    sockets, on no listener and no unconnected one.

    Args:
        connected: whether the socket is.
        value: SO_INCOMING_CPU before.
        cpu: the CPU that processed the packet.
    """
    return cpu if rec.rule("SOCK-42", connected, value=value, cpu=cpu) else value
