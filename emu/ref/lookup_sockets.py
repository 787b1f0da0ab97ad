"""What the reference's socket lookup works on.

A socket, what is looked for, and how the kernel looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import Prog, SockState
from emu.ref.jhash import V4_ANY, V6_ANY, ehash, v4_of
from emu.ref.record import Recorder

if TYPE_CHECKING:
    from emu.ref.reuseport import Group

TCP, UDP = 6, 17


class Program(NamedTuple):
    """A group's classic BPF program."""

    kind: Prog
    value: int


@dataclass(slots=True, eq=False)
class Socket:
    """A socket as the lookup sees it."""

    index: int
    family: int = 4
    proto: int = UDP
    v6only: bool = False
    reuseport: bool = False
    laddr: bytes = V4_ANY
    lport: int = 0
    peer: tuple[bytes, int] = (V4_ANY, 0)  # whom it connects to
    bound_dev: int = 0
    uid: int = 0
    incoming_cpu: int = -1
    mask: int | None = None  # a set of CPUs, as bits
    program: Program | None = None
    state: SockState = SockState.CLOSED
    group: Group | None = None
    foreign_port: int = 0  # 0 unless connected
    # Local and foreign address as packets of a family see them (SOCK-69); no entry: they
    # cannot see the socket.
    views: dict[int, tuple[bytes, bytes | None]] = field(default_factory=dict)

    @property
    def bound_any(self) -> bool:
        return not any(self.laddr)

    @property
    def connected(self) -> bool:
        return self.state == SockState.ESTABLISHED

    def set_state(self, state: SockState) -> None:
        """Change the state, and with it what packets see of the socket."""
        self.state = state
        foreign, port = self.peer if self.connected else (None, 0)
        if foreign is not None and not any(foreign):
            foreign = None
        self.foreign_port = port
        self.views = {self.family: (self.laddr, foreign)}
        if self.family == 6 and not self.v6only:
            local = V4_ANY if self.laddr == V6_ANY else v4_of(self.laddr)
            foreign4 = None if foreign is None else v4_of(foreign)
            if local is not None and (foreign is None) == (foreign4 is None):
                self.views[4] = (local, foreign4)

    @property
    def flow(self) -> tuple[bytes, int, bytes, int]:
        """Its 4-tuple, local end first: of IPv4 when both addresses map IPv4 ones."""
        foreign, port = self.peer
        local4, foreign4 = v4_of(self.laddr), v4_of(foreign)
        if local4 is not None and foreign4 is not None:
            return local4, self.lport, foreign4, port
        return self.laddr, self.lport, foreign, port


def socket_of_row(index: int, row: np.void, masks: list[int], mask_words: int) -> Socket:
    """A SOCKET row as a closed socket."""
    width = 4 if row["family"] == 4 else 16
    kind = Prog(int(row["prog_kind"]))
    return Socket(
        index=index,
        family=int(row["family"]),
        proto=int(row["proto"]),
        v6only=bool(row["v6only"]) and row["family"] == 6,
        reuseport=bool(row["reuseport"]),
        laddr=row["laddr"].astype("<u4").tobytes()[:width],
        lport=int(row["lport"]),
        peer=(row["faddr"].astype("<u4").tobytes()[:width], int(row["fport"])),
        bound_dev=int(row["bound_dev"]),
        uid=int(row["uid"]),
        incoming_cpu=int(row["incoming_cpu"]),
        mask=mask_at(masks, mask_words, int(row["mask_off"])),
        program=Program(kind, int(row["prog_value"])) if kind else None,
    )


def mask_at(masks: list[int], mask_words: int, offset: int) -> int | None:
    """The CPU mask that begins at a word; None for -1 (SOCK-25)."""
    if offset < 0:
        return None
    words = masks[offset : offset + mask_words]
    return sum(word << (64 * place) for place, word in enumerate(words))


@dataclass(frozen=True, slots=True)
class LookupRules:
    """How a kernel looks sockets up: a LOOKUP_CFG record."""

    secrets: dict[tuple[int, int], int]  # by (proto, family), the netns' mix added
    addr_secrets: dict[int, int]  # by proto
    hash_mix: int
    legacy: bool
    mask_boost: bool
    mask_v6_udp_quirk: int
    cpu_aware: bool
    tcp_port_added: bool
    udp_conn_stays: bool
    udp_slots: int

    @classmethod
    def of(cls, cfg: NDArray[np.void] | np.void) -> LookupRules:
        row: dict[str, Any] = {
            name: int(np.atleast_1d(cfg)[0][name]) for name in cfg.dtype.names or ()
        }
        mix = row["hash_mix"]
        return cls(
            secrets={
                (TCP, 4): row["tcp4_secret"] + mix,
                (UDP, 4): row["udp4_secret"] + mix,
                (TCP, 6): row["tcp6_secret"] + mix,
                (UDP, 6): row["udp6_secret"] + mix,
            },
            addr_secrets={TCP: row["tcp6_addr_secret"], UDP: row["udp6_addr_secret"]},
            hash_mix=mix,
            legacy=bool(row["legacy"]),
            mask_boost=bool(row["mask_boost"]),
            mask_v6_udp_quirk=row["mask_v6_udp_quirk"],
            cpu_aware=bool(row["cpu_aware"]),
            tcp_port_added=bool(row["tcp_port_added"]),
            udp_conn_stays=bool(row["udp_conn_stays"]),
            udp_slots=row["udp_slots"],
        )

    def ehash(self, proto: int, laddr: bytes, lport: int, faddr: bytes, fport: int) -> int:
        """The 4-tuple's socket hash (SOCK-10..14)."""
        family = 4 if len(laddr) == 4 else 6
        return ehash(
            laddr, lport, faddr, fport,
            self.secrets[proto, family], self.addr_secrets[proto],
            proto == TCP and self.tcp_port_added, self.legacy,
        )  # fmt: skip


@dataclass(slots=True)
class Query:
    """What is looked for, and who looks."""

    proto: int
    family: int
    saddr: bytes
    daddr: bytes
    sport: int
    dport: int
    dif: int
    cpu: int
    # The octet at a payload offset, None beyond the packet; no function without a packet (SOCK-58).
    octet: Callable[[int], int | None] | None = None
    forced_hash: int | None = None

    @property
    def any_address(self) -> bytes:
        return V4_ANY if self.family == 4 else V6_ANY


class Found(NamedTuple):
    """A lookup's answer."""

    sock: Socket | None
    stage: int
    hangs_on_hash: bool  # another value of the hash could have given another socket
    scanned: int
    walked: int


def device_accepts(sk: Socket, dif: int, rec: Recorder) -> bool:
    """Whether a socket takes packets of a device (SOCK-68), without L3 masters."""
    return rec.rule("SOCK-68", sk.bound_dev in (0, dif), bound_dev=sk.bound_dev, dif=dif)


def mask_score(sk: Socket, cpu: int, boost: bool, rec: Recorder) -> int | None:
    """What a CPU mask adds to a score; None rejects the socket (SOCK-24..28)."""
    if rec.rule("SOCK-25", sk.mask is None) or sk.mask is None:
        return 0
    inside = bool(sk.mask >> cpu & 1)
    if boost:
        return int(rec.rule("SOCK-28", inside, cpu=cpu))
    return None if rec.rule("SOCK-24", not inside, cpu=cpu) else 0
