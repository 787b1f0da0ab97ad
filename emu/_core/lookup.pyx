"""Doors of the socket lookup; what they mean stands in emu/ref/lookup.py."""
import numpy as np

from emu.dtypes import LOOKUP_CFG, SOCKET
from emu.errors import ConfigError

from emu._core.lookup cimport (
    found_t,
    is_looked_up,
    lookup_cfg_t,
    lookup_close,
    lookup_free,
    lookup_init,
    lookup_open,
    lookup_packet,
    lookup_prefetch,
    lookup_prefetch_sock,
    lookup_set_incoming_cpu,
    lookup_set_mask,
    lookup_t,
    lookup_tuple,
    packet_ehash,
)
from emu._core.reuseport cimport group_t
from emu._core.types cimport i32, packets_t, socket_t, u8, u16, u32, u64

from emu._core.reuseport import reuseport_select

__all__ = ["LookupTable", "lookup_packets", "reuseport_select"]

STATES = {6: (0, 2, 3), 17: (0, 1, 3)}  # SockState by protocol

cdef enum:
    BATCH = 64         # packets whose table slots, then sockets, are fetched ahead of the lookups


def _check(sockets, mask_count, mask_words, cfg):
    """Raise unless every row can be opened."""
    slots = int(cfg["udp_slots"][0])
    if slots < 1 or slots & (slots - 1):
        raise ConfigError("lookup: udp_slots", str(slots), "a power of two")
    for field, allowed in (("family", (4, 6)), ("proto", (6, 17))):
        wrong = np.flatnonzero(~np.isin(sockets[field], allowed))
        if len(wrong):
            raise ConfigError(
                f"socket {wrong[0]}: {field}", str(sockets[field][wrong[0]]),
                f"{allowed[0]} or {allowed[1]}",
            )
    for proto, allowed in STATES.items():
        wrong = np.flatnonzero((sockets["proto"] == proto) & ~np.isin(sockets["state"], allowed))
        if len(wrong):
            _refuse_state(wrong[0], sockets["state"][wrong[0]], allowed)
    masked = sockets["mask_off"]
    wrong = np.flatnonzero((masked >= 0) & (masked > mask_count - mask_words))
    if len(wrong):
        _refuse_mask(wrong[0], masked[wrong[0]])


def _refuse_state(index, state, allowed):
    raise ConfigError(f"socket {index}: state", str(int(state)), ", ".join(map(str, allowed)))


def _refuse_mask(index, offset):
    raise ConfigError(f"socket {index}: mask_off", str(int(offset)), "a mask's first word, or -1")


cdef class LookupTable:
    """The sockets of a host, as packets find them."""

    cdef lookup_t table
    cdef object _masks_array
    cdef u64[::1] masks
    cdef u32 mask_words

    def __init__(self, sockets, masks, u32 mask_words, cfg):
        """Open every row whose state is not CLOSED, in order.

        Raises:
            ConfigError: a row, a mask or the configuration is out of range.
        """
        rows = np.ascontiguousarray(sockets, dtype=SOCKET)
        cfg = np.ascontiguousarray(np.atleast_1d(cfg), dtype=LOOKUP_CFG)
        _check(rows, len(masks), mask_words, cfg)
        # One word more, so that there is one to point at.
        self._masks_array = np.append(np.asarray(masks, dtype=np.uint64), np.uint64(0))
        self.masks = self._masks_array
        self.mask_words = mask_words
        cdef const u8[::1] cfg_bytes = cfg.view(np.uint8)
        cdef u32 n = len(rows)
        cdef const u8[::1] row_bytes = rows.view(np.uint8) if n else np.zeros(128, dtype=np.uint8)
        lookup_free(&self.table)
        if lookup_init(
            &self.table, <const socket_t *> &row_bytes[0], n, &self.masks[0], mask_words,
            <const lookup_cfg_t *> &cfg_bytes[0],
        ) < 0:
            raise MemoryError

    def __dealloc__(self):
        lookup_free(&self.table)

    cdef int _check_index(self, Py_ssize_t s) except -1:
        if s < 0 or s >= self.table.count:
            raise IndexError(f"no socket {s}")
        return 0

    @property
    def sockets(self):
        """``SOCKET[s]``, a copy: state, incoming_cpu and mask_off as the operations left them."""
        if not self.table.count:
            return np.zeros(0, dtype=SOCKET)
        cdef Py_ssize_t size = self.table.count * sizeof(socket_t)
        cdef const u8[::1] row_bytes = <const u8[:size]> <u8 *> self.table.socks
        return np.array(row_bytes).view(SOCKET)

    def open(self, Py_ssize_t s, int state):
        """Bring a socket into a state: open, connect (UDP), disconnect (UDP), or close it.

        A socket whose group is full stays closed (SOCK-52).
        """
        self._check_index(s)
        allowed = STATES[self.table.socks[s].proto]
        if state not in allowed:
            _refuse_state(s, state, allowed)
        if lookup_open(&self.table, <u32>s, <u8>state) < 0:
            raise MemoryError

    def close(self, Py_ssize_t s):
        """Close a socket."""
        self._check_index(s)
        lookup_close(&self.table, <u32>s)

    def set_incoming_cpu(self, Py_ssize_t s, i32 cpu):
        """Set SO_INCOMING_CPU: any int (SOCK-40)."""
        self._check_index(s)
        lookup_set_incoming_cpu(&self.table, <u32>s, cpu)

    def set_mask(self, Py_ssize_t s, i32 off):
        """Set the CPU mask by its first word; -1 clears it (SOCK-32)."""
        self._check_index(s)
        if off >= 0 and off + <Py_ssize_t>self.mask_words > self.masks.shape[0] - 1:
            _refuse_mask(s, off)
        lookup_set_mask(&self.table, <u32>s, off)

    def groups(self):
        """The reuseport groups' members in their order; groups by their first members."""
        cdef u32 number
        cdef u32 k
        cdef group_t *group
        out = []
        for number in range(self.table.groups_made):
            group = &self.table.groups[number]
            if group.used:
                out.append([group.socks[k] for k in range(group.count)])
        return sorted(out)

    def find(self, packets, Py_ssize_t i, i32 dif, u32 cpu, hash=None):
        """Find the socket of packet *i*.

        Args:
            dif: the device's index (NIC index + 1).
            cpu: the CPU that processes the packet.
            hash: stands for the socket hash that chooses in groups, whatever the secrets are.

        Returns:
            The socket (-1 none), Secret bits, sockets scored, group members looked at, LookupStage.
        """
        if i < 0 or i >= len(packets):
            raise IndexError(f"no packet {i}")
        cdef const u64[::1] addresses = packets.addresses
        cdef const u8[::1] blob = packets.blob
        if hash is not None:
            self.table.forced_hash = hash
            self.table.forced = 1
        cdef found_t found = lookup_packet(
            &self.table, <const packets_t *> &addresses[0], i, &blob[0] if blob.shape[0] else NULL,
            dif, cpu,
        )
        self.table.forced = 0
        return found.sock, found.secrets, found.scanned, found.walked, found.stage

    def find_tuple(
        self, u8 proto, u8 family, bytes saddr, bytes daddr, u16 sport, u16 dport, i32 dif, u32 cpu
    ):
        """Find the socket of a 4-tuple without a packet: programs do not run (SOCK-58).

        Addresses are network bytes.
        """
        if proto not in STATES or family not in (4, 6):
            raise ValueError("a 4-tuple is of TCP (6) or UDP (17) over IPv4 (4) or IPv6 (6)")
        if len(saddr) != len(daddr) or len(saddr) != (4 if family == 4 else 16):
            raise ValueError("an address has 4 bytes, an IPv6 one 16")
        cdef const u32[::1] source = np.frombuffer(saddr, dtype=np.uint32)
        cdef const u32[::1] target = np.frombuffer(daddr, dtype=np.uint32)
        cdef found_t found = lookup_tuple(
            &self.table, proto, family, &source[0], &target[0], sport, dport, dif, cpu
        )
        return found.sock, found.secrets, found.scanned, found.walked, found.stage

    def find_all(self, packets, const i32[::1] dif, const i32[::1] cpu):
        """Find the socket of every packet; see lookup_packets."""
        cdef Py_ssize_t n = len(packets)
        if dif.shape[0] != n or cpu.shape[0] != n:
            raise ValueError("dif and cpu need an entry for each packet")
        cdef const u64[::1] addresses = packets.addresses
        cdef const packets_t *p = <const packets_t *> &addresses[0]
        cdef const u8[::1] blob_view = packets.blob
        cdef const u8 *blob = &blob_view[0] if blob_view.shape[0] else NULL
        arrays = tuple(np.empty(n, dtype=kind) for kind in ("i4", "u2", "u4", "u4", "u1"))
        cdef i32[::1] sock = arrays[0]
        cdef u16[::1] secrets = arrays[1]
        cdef u32[::1] scanned = arrays[2]
        cdef u32[::1] walked = arrays[3]
        cdef u8[::1] stage = arrays[4]
        cdef lookup_t *t = &self.table
        cdef found_t found
        cdef Py_ssize_t i
        cdef Py_ssize_t first = 0
        cdef Py_ssize_t last
        with nogil:
            while first < n:
                last = min(n, first + <Py_ssize_t>BATCH)
                self._fetch(p, first, last)
                for i in range(first, last):
                    found = lookup_packet(t, p, i, blob, dif[i], <u32>cpu[i])
                    sock[i] = found.sock
                    secrets[i] = found.secrets
                    scanned[i] = found.scanned
                    walked[i] = found.walked
                    stage[i] = found.stage
                first = last
        return arrays

    cdef void _fetch(self, const packets_t *p, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Fetch the slots of a batch, and while the last are on their way, the sockets named."""
        cdef lookup_t *t = &self.table
        cdef Py_ssize_t i
        if t.established.count == 0 and t.connected.count == 0:
            return
        for i in range(first, last):
            lookup_prefetch(t, p, i)
        for i in range(first, last):
            if is_looked_up(p, i):
                lookup_prefetch_sock(t, p.ip_proto[i], packet_ehash(t, p, i))


def lookup_packets(packets, sockets, masks, u32 mask_words, cfg, dif, cpu):
    """Find the socket of every packet.

    Args:
        packets: n packets.
        sockets: ``SOCKET[s]``; those whose state is not CLOSED are opened in order.
        masks: ``uint64[...]``, CPU masks of *mask_words* words.
        cfg: ``LOOKUP_CFG`` record or array of one.
        dif: ``int32[n]``, device index (NIC index + 1).
        cpu: ``int32[n]``, the CPU that processes the packet.

    Returns:
        socket ``int32[n]`` (-1 none), Secret bits ``uint16[n]``, sockets scored ``uint32[n]``,
        group members looked at ``uint32[n]``, LookupStage ``uint8[n]``.

    Raises:
        ConfigError: a row, a mask or the configuration is out of range.
    """
    return LookupTable(sockets, masks, mask_words, cfg).find_all(packets, dif, cpu)


def recorded_cpu(bint connected, int value, int cpu):
    """SO_INCOMING_CPU of a socket that a packet was delivered to (SOCK-42).

    Mirrors sk_incoming_cpu_update: the data path writes it on established TCP and connected UDP
    sockets, on no listener and no unconnected one.

    Args:
        connected: whether the socket is.
        value: SO_INCOMING_CPU before.
        cpu: the CPU that processed the packet.
    """
    return cpu if connected else value
