"""What traffic `generate` makes: the knobs, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any

import attrs

from emu.dtypes import IpSummed
from emu.errors import ConfigError
from emu.model import checks, draw
from emu.model.sockets import parse_endpoint
from emu.units import PS_PER_SECOND

Network = IPv4Network | IPv6Network
Endpoint = tuple[IPv4Address | IPv6Address, int]

IMIX = ((40, 7), (576, 4), (1500, 1))  # IP lengths and weights
LOCAL = {4: "10.0.0.1:80", 6: "[fd00::1]:80"}
CLIENTS = {4: "10.64.0.0/10", 6: "fd00:0:0:1::/64"}
HEADER_BYTES = {(4, 6): 40, (4, 17): 28, (6, 6): 60, (6, 17): 48}  # IP and transport
TIMESTAMP_BYTES = 12
IP_SUMMED = {member.name.lower(): int(member) for member in IpSummed}


def _texts(value: Any) -> Any:
    return (value,) if isinstance(value, str) else checks.as_tuple(value)


def _ports(instance: object, attribute: Any, value: Any) -> None:
    low_high = isinstance(value, tuple) and len(value) == 2 and all(map(checks.is_int, value))
    if not low_high or not 1 <= value[0] <= value[1] <= 65535:
        checks.fail(
            instance, attribute.name, value, "(first, last) within 1 to 65535", "(32768, 60999)"
        )


def _size(instance: object, attribute: Any, value: Any) -> None:
    sizes = value if isinstance(value, Mapping) else {value: 1}
    good = sizes and all(
        checks.is_int(size) and 0 <= size <= 65535 and checks.is_int(weight) and 1 <= weight < 2**20
        for size, weight in sizes.items()
    )
    if not good and value != "imix":
        allowed = '0 to 65507, "imix", or a mapping of such numbers to weights'
        checks.fail(instance, attribute.name, value, allowed)


def _zipf_s(instance: object, attribute: Any, value: Any) -> None:
    try:
        if isinstance(value, bool) or not 0 <= value <= 10:
            raise ValueError
        draw.thousandths(value)
    except (TypeError, ValueError):
        checks.fail(instance, attribute.name, value, "0 to 10 with at most three decimals", "1.1")


def _strings(instance: object, attribute: Any, value: Any) -> None:
    if value is None:
        return
    checks.items(instance, attribute.name, value, str, "text")
    if not value:
        checks.fail(instance, attribute.name, value, "at least one")


@attrs.frozen(kw_only=True)
class Traffic:
    """The knobs of `generate`, which explains them."""

    packets: int = attrs.field(validator=checks.integer(0, 2**31 - 1))
    flows: int = attrs.field(validator=checks.integer(1, 2**31 - 1))
    pattern: str = attrs.field(validator=checks.one_of("uniform", "zipf", "trains"))
    train: int = attrs.field(validator=checks.integer(1, 2**16))
    interleave: int = attrs.field(validator=checks.integer(1, 2**16))
    zipf_s: float = attrs.field(validator=_zipf_s)
    proto: str = attrs.field(validator=checks.one_of("tcp", "udp", "mix"))
    family: int | str | None = attrs.field()
    payload_bytes: int | str | Mapping[int, int] = attrs.field(validator=_size)
    local: tuple[str, ...] | None = attrs.field(converter=_texts, validator=_strings)
    clients: tuple[str, ...] | None = attrs.field(converter=_texts, validator=_strings)
    client_ports: tuple[int, int] = attrs.field(converter=checks.as_tuple, validator=_ports)
    rate_pps: int = attrs.field(validator=checks.integer(1, PS_PER_SECOND))
    timestamps: bool = attrs.field(validator=checks.boolean)
    psh: bool = attrs.field(validator=checks.boolean)
    nic: int = attrs.field(validator=checks.integer(0, 0xFFFF))
    ip_summed: str = attrs.field(validator=checks.one_of(*IP_SUMMED))
    seed: int = attrs.field(validator=checks.integer(0, 2**64 - 1))

    @family.validator
    def _check_family(self, attribute: Any, value: Any) -> None:
        if value is not None and (isinstance(value, bool) or value not in (4, 6, "mix")):
            checks.fail(self, "family", value, '4, 6 or "mix"')

    def __attrs_post_init__(self) -> None:
        if self.pattern == "trains" and self.interleave > self.flows:
            checks.fail(self, "interleave", self.interleave, f"at most flows={self.flows}")
        if self.packets * PS_PER_SECOND // self.rate_pps >= 2**62:
            least = self.packets * PS_PER_SECOND // 2**62 + 1
            checks.fail(self, "rate_pps", self.rate_pps, "at most 53 days of packets", str(least))
        self.endpoints()
        self.networks()
        for family in self.families():
            for proto in self.protos():
                self.sizes(family, proto)

    def families(self) -> tuple[int, ...]:
        """4, 6 or both."""
        return tuple(sorted(self.endpoints()))

    def protos(self) -> tuple[int, ...]:
        """6 (TCP), 17 (UDP) or both."""
        return {"tcp": (6,), "udp": (17,), "mix": (6, 17)}[self.proto]

    def endpoints(self) -> dict[int, list[Endpoint]]:
        """The destinations of each family that takes part."""
        wanted = (self.family,) if isinstance(self.family, int) else (4, 6)
        if self.local is None:
            chosen = (4,) if self.family is None else wanted
            return {family: [parse_endpoint(LOCAL[family])] for family in chosen}
        out: dict[int, list[Endpoint]] = {}
        for text in self.local:
            endpoint = parse_endpoint(text, "traffic: local")
            if endpoint[0].version not in wanted:
                checks.fail(self, "local", text, f"IPv{wanted[0]}, as family={self.family} says")
            out.setdefault(endpoint[0].version, []).append(endpoint)
        if self.family == "mix" and len(out) == 1:
            checks.fail(self, "local", self.local, 'IPv4 and IPv6, as family="mix" says')
        return out

    def networks(self) -> dict[int, Network]:
        """Where the clients of each family live."""
        out: dict[int, Network] = {}
        for text in self.clients or ():
            try:
                network = ip_network(text)
            except ValueError as error:
                fix = "" if "host bits" not in str(error) else str(ip_network(text, strict=False))
                allowed = "an address, or a network such as 10.64.0.0/10"
                checks.fail(self, "clients", text, allowed, fix)
            if network.version in out:
                checks.fail(self, "clients", self.clients, "one network of each family")
            out[network.version] = network
        for family in self.families():
            out.setdefault(family, ip_network(CLIENTS[family]))
        return out

    def sizes(self, family: int, proto: int) -> list[tuple[int, int]]:
        """(payload octets, weight) of the packets of such a flow."""
        headers = HEADER_BYTES[family, proto]
        if proto == 6 and self.timestamps:
            headers += TIMESTAMP_BYTES
        if isinstance(self.payload_bytes, str):
            return [(max(total - headers, 0), weight) for total, weight in IMIX]
        # tot_len counts the IPv4 header, payload_len does not count the IPv6 one.
        most = 65535 - headers + (40 if family == 6 else 0)
        given = self.payload_bytes
        sizes = [(given, 1)] if isinstance(given, int) else list(given.items())
        for size, _ in sizes:
            if size > most:
                checks.fail(self, "payload_bytes", size, f"at most {most} in such a packet")
        return sizes


def free_clients(network: Network, taken: Sequence[Endpoint]) -> tuple[int, int, list[int]]:
    """Addresses of a network that clients can have.

    Returns:
        how many, of how many low bits, and the numbers left out: the subnet's own, broadcast,
        destinations.
    """
    bits = min(network.max_prefixlen - network.prefixlen, 32)
    base = int(network.network_address)
    out = {int(address) - base for address, _ in taken if address in network}
    if bits >= 2:
        out.add(0)
        if network.version == 4:
            out.add(2**bits - 1)
    out = {number for number in out if number < 2**bits}
    return 2**bits - len(out), bits, sorted(out)


def check_room(traffic: Traffic, family: int, flows: int, clients: int) -> None:
    """Refuse more flows than there are client addresses and ports.

    Raises:
        ConfigError: there are.
    """
    first, last = traffic.client_ports
    room = clients * (last - first + 1)
    if flows > room:
        raise ConfigError(
            "traffic: flows",
            f"{flows} of IPv{family}",
            f"at most {room}: {clients} client addresses x {last - first + 1} ports",
            "a larger clients network",
        )
