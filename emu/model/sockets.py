"""Sockets: where they are bound, whom they are connected to, and what steers packets among them."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

import attrs

from emu.dtypes import SockState
from emu.errors import ConfigError
from emu.model import checks
from emu.model.masks import CpuSet

_ENDPOINT = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<v4>[^:\[\]]*)):(?P<port>[0-9]{1,5})")
I32 = 2**31
RCVBUF_BYTES = 212992


def parse_endpoint(text: str, where: str = "endpoint") -> tuple[IPv4Address | IPv6Address, int]:
    """Address and port of ``"10.0.0.1:80"``, ``"0.0.0.0:80"``, ``"[::]:80"``.

    Raises:
        ConfigError: no such form; a bad address; a port outside 1..65535.
    """
    try:
        return _parse_endpoint(text)
    except ConfigError as error:
        raise checks.relocate(error, where) from None


@lru_cache(maxsize=65536)
def _parse_endpoint(text: str) -> tuple[IPv4Address | IPv6Address, int]:
    where = "endpoint"
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        fix = '"[2001:db8::1]:80"' if text.count(":") > 1 else '"0.0.0.0:80"'
        raise ConfigError(where, checks.shown(text), '"address:port", IPv6 in brackets', fix)
    address = checks.address(match["v4"] if match["v6"] is None else match["v6"], where)
    if (address.version == 6) != (match["v6"] is not None):
        allowed = "brackets around an IPv6 address, and only there"
        raise ConfigError(where, checks.shown(text), allowed)
    port = int(match["port"])
    if not 1 <= port <= 65535:
        raise ConfigError(where, checks.shown(text), "a port from 1 to 65535")
    return address, port


@attrs.frozen(kw_only=True, slots=True)
class Cbpf:
    """The classic BPF program that a reuseport group is given: which index it returns.

    "fixed" ``value`` itself; "cpu" the CPU that runs it; "payload" the payload octet at ``value``.
    """

    kind: str = attrs.field(default="fixed", validator=checks.one_of("fixed", "cpu", "payload"))
    value: int = attrs.field(default=0, validator=checks.integer(0, I32 - 1))


@attrs.frozen(kw_only=True, slots=True)
class Sockmap:
    """The socket is in a sockmap: the CPU of its psock's work, and where a verdict redirects to."""

    cpu: int | None = attrs.field(default=None, validator=checks.optional(checks.integer(0)))
    redirect: str | None = attrs.field(default=None, validator=checks.optional(checks.text))
    ingress: bool = attrs.field(default=False, validator=checks.boolean)

    def __attrs_post_init__(self) -> None:
        if self.ingress and self.redirect is None:
            checks.fail(self, "ingress", True, "false without redirect")


@attrs.frozen(kw_only=True, slots=True)
class Socket:
    """One TCP or UDP socket. The order of a host's sockets is the order in which they were opened.

    Raises:
        ConfigError: one line naming the socket and the field.
    """

    name: str = attrs.field(validator=checks.text)
    proto: str = attrs.field(default="tcp", validator=checks.one_of("tcp", "udp"))
    bind: str = attrs.field(default="0.0.0.0:80", validator=checks.instance_of(str, "text"))
    peer: str | None = attrs.field(
        default=None, validator=checks.optional(checks.instance_of(str, "text"))
    )
    device: str | None = attrs.field(default=None, validator=checks.optional(checks.text))
    reuseport: bool = attrs.field(default=False, validator=checks.boolean)
    v6only: bool = attrs.field(default=False, validator=checks.boolean)
    incoming_cpu: int = attrs.field(default=-1, validator=checks.integer(-I32, I32 - 1))
    cpu_mask: CpuSet | None = attrs.field(
        default=None, validator=checks.optional(checks.instance_of(CpuSet, "a CPU set"))
    )
    threads: CpuSet = attrs.field(
        default=CpuSet(1), validator=checks.instance_of(CpuSet, "a CPU set")
    )
    uid: int = attrs.field(default=0, validator=checks.integer(0, 2**32 - 1))
    cbpf: Cbpf | None = attrs.field(
        default=None, validator=checks.optional(checks.instance_of(Cbpf, "a Cbpf"))
    )
    sockmap: Sockmap | None = attrs.field(
        default=None, validator=checks.optional(checks.instance_of(Sockmap, "a Sockmap"))
    )
    udp_gro: bool = attrs.field(default=False, validator=checks.boolean)
    priority: int = attrs.field(default=0, validator=checks.integer(0, 2**32 - 1))
    opened: bool = attrs.field(default=True, validator=checks.boolean)
    # What its queued packets may take (a run's matter); the default of net.core.rmem_default.
    rcvbuf_bytes: int = attrs.field(default=RCVBUF_BYTES, validator=checks.integer(1, I32 - 1))

    def __attrs_post_init__(self) -> None:
        where = checks.label(self)
        address, _ = parse_endpoint(self.bind, f"{where}: bind")
        if self.peer is not None:
            self._check_peer(address)
        if self.v6only and address.version == 4:
            checks.fail(self, "v6only", True, "false for an IPv4 socket", '"[::]:80" as bind')
        if self.udp_gro and self.proto != "udp":
            checks.fail(self, "udp_gro", True, "false for TCP", 'proto="udp"')
        if self.cbpf is not None and not self.reuseport:
            allowed = "none without reuseport: the kernel answers EINVAL"
            checks.fail(self, "cbpf", self.cbpf.kind, allowed, "reuseport=true")
        if not self.threads.bits:
            checks.fail(self, "threads", self.threads.list(), "at least one CPU", '"0"')

    def _check_peer(self, address: IPv4Address | IPv6Address) -> None:
        peer, _ = parse_endpoint(str(self.peer), f"{checks.label(self)}: peer")
        if peer.version != address.version:
            allowed = f"an IPv{address.version} address, as bind has"
            checks.fail(self, "peer", self.peer, allowed)
        if peer.is_unspecified:
            checks.fail(self, "peer", self.peer, "the address of one peer")
        if address.is_unspecified:
            # connect() gives a socket the address of its route; the model has no routes.
            allowed = "one of the host's own addresses for a connected socket"
            checks.fail(self, "bind", self.bind, allowed, '"10.0.0.1:80"')

    @property
    def family(self) -> int:
        """4 or 6."""
        return parse_endpoint(self.bind)[0].version

    @property
    def state(self) -> SockState:
        """Its state when the run begins."""
        if not self.opened:
            return SockState.CLOSED
        if self.peer is not None:
            return SockState.ESTABLISHED
        return SockState.LISTEN if self.proto == "tcp" else SockState.BOUND
