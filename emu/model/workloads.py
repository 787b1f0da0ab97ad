"""What a run is given to do: request and response in a closed loop, or packets that arrive."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import attrs
import numpy as np

from emu.dtypes import PacketFlag
from emu.errors import ConfigError
from emu.model import checks
from emu.model.draw import thousandths
from emu.model.generate import make_packets
from emu.model.nic import usecs_text
from emu.model.packets import Packets
from emu.model.sockets import parse_endpoint
from emu.model.traffic import Traffic, check_room, free_clients
from emu.model.wire import HEADER_BYTES, MTU
from emu.run_dtypes import COST_ONE
from emu.units import format_duration_ps, parse_duration_ps

SERVER = {4: "10.0.0.1:12865", 6: "[fd00::1]:12865"}
SERVER_STYLES = ("processes", "event-loop", "pool", "threads")
MAX_FLOWS = 1_000_000
# Drawn work is up to 45 times its mean, which is below `emu.model.exponential.MAX_MEAN`, and fits
# into 64 bits as picoseconds of any clock.
MAX_WORK_CYCLES = 50_000_000
MAX_DURATION_PS = 3600 * 10**12


def _duration(low_ps: int, high_ps: int = MAX_DURATION_PS) -> Any:
    """Validator of a duration text within limits."""
    high = format_duration_ps(high_ps)
    allowed = f"up to {high}" if low_ps == 0 else f"{format_duration_ps(low_ps)} to {high}"

    def check(instance: object, attribute: Any, value: object) -> None:
        if not isinstance(value, str):
            checks.fail(instance, attribute.name, value, "a duration or microseconds", '"20us"')
        with checks.of(instance, attribute.name):
            duration_ps = parse_duration_ps(value)
        if not low_ps <= duration_ps <= high_ps:
            checks.fail(instance, attribute.name, value, f"a duration, {allowed}")

    return check


def _time(default: str, low_ps: int = 0, high_ps: int = MAX_DURATION_PS) -> Any:
    return attrs.field(default=default, converter=usecs_text, validator=_duration(low_ps, high_ps))


def _cycles(instance: object, attribute: Any, value: Any) -> None:
    try:
        if isinstance(value, bool) or not 0 <= value <= MAX_WORK_CYCLES:
            raise ValueError
        thousandths(value)
    except (TypeError, ValueError, ArithmeticError):
        allowed = f"0 to {MAX_WORK_CYCLES} with at most three decimals"
        checks.fail(instance, attribute.name, value, allowed)


@attrs.frozen(kw_only=True)
class Server:
    """What the host's applications do with a message; a part of every workload.

    Attributes:
        work_cycles: the application's own cycles for each message, up to three decimals.
        work_exponential: they are drawn, with that mean.
        server_style: which threads serve which sockets.
            ``"processes"``: one for each connection and each UDP socket, which blocks in recvmsg;
            it starts on the CPU that a steer gives its flow and runs on any CPU of the socket's
            ``threads``.
            ``"threads"``: an event loop for each listening and each UDP socket, which serves all
            connections that it accepts; it starts where a steer brings its first packet and runs
            on any CPU of the socket's ``threads``.
            ``"event-loop"``: one for each listening (or UDP) socket and CPU of its ``threads``. A
            connection is served by the one of the CPU that a steer gives its flow; a UDP socket
            with several CPUs by all of its threads, as they come.
            ``"pool"``: UDP as with "event-loop", but each thread blocks in recvmsg; TCP as with
            "event-loop".
        pinned: each thread runs only on the CPU where it starts. By default those of "processes"
            and "threads" are not, all others are.
    """

    work_cycles: float = attrs.field(default=0, validator=_cycles)
    work_exponential: bool = attrs.field(default=False, validator=checks.boolean)
    server_style: str = attrs.field(default="processes", validator=checks.one_of(*SERVER_STYLES))
    pinned: bool | None = attrs.field(default=None, validator=checks.optional(checks.boolean))

    @property
    def threads_pinned(self) -> bool:
        """``pinned``, or its default."""
        if self.pinned is not None:
            return self.pinned
        return self.server_style not in ("processes", "threads")

    @property
    def work(self) -> int:
        """Cost per message in 1/1024 cycle, rounded to the nearest."""
        return round(Fraction(thousandths(self.work_cycles), 1000) * COST_ONE)


def _body_bytes() -> Any:
    return attrs.field(default=1, validator=checks.integer(1, MTU))


@attrs.frozen(kw_only=True)
class RequestResponse(Server):
    """Clients that each send a request, wait for the response, pause, and send the next.

    Attributes:
        flows: clients, each with a connection (TCP) or port (UDP) of its own.
        request_bytes, response_bytes: payload, as much as one frame of 1500 octets takes.
        proto: ``"tcp"``, whose connections exist before the run, or ``"udp"``.
        family: 4 or 6.
        server: where requests go; by default ``10.0.0.1:12865`` or ``[fd00::1]:12865``.
        clients: the network that they come from, as of `emu.generate`.
        turnaround: a client's pause from a response to the next request.
        turnaround_mean: mean of what is added to it, drawn with an exponential distribution.
        wire: client to NIC, one way.
        rto: a client that lost its request or response asks again after this.
        spread: first requests come within this time.

    Raises:
        ConfigError: one line naming the field.
    """

    flows: int = attrs.field(validator=checks.integer(1, MAX_FLOWS))
    request_bytes: int = _body_bytes()
    response_bytes: int = _body_bytes()
    proto: str = attrs.field(default="tcp", validator=checks.one_of("tcp", "udp"))
    family: int = attrs.field(default=4)
    server: str = attrs.field(default="")
    clients: str | tuple[str, ...] | None = attrs.field(default=None, converter=checks.as_tuple)
    turnaround: str = _time("20us")
    turnaround_mean: str = _time("0us", high_ps=4 * 10**12)
    wire: str = _time("5us")
    rto: str = _time("200ms", low_ps=10**6)
    spread: str = _time("100us")

    @family.validator
    def _check_family(self, attribute: Any, value: Any) -> None:
        if type(value) is not int or value not in (4, 6):
            checks.fail(self, "family", value, "4 or 6")

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.server, str):
            checks.fail(self, "server", self.server, "text", f'"{SERVER[self.family]}"')
        if self.server == "":
            object.__setattr__(self, "server", SERVER[self.family])
        with checks.of(self, "server"):
            address, _ = parse_endpoint(self.server)
        if address.version != self.family or address.is_unspecified:
            allowed = f"an IPv{self.family} address that is one host's, as family={self.family}"
            checks.fail(self, "server", self.server, allowed, f'"{SERVER[self.family]}"')
        most = MTU - HEADER_BYTES[self.proto, self.family]
        for field in ("request_bytes", "response_bytes"):
            if getattr(self, field) > most:
                allowed = f"at most {most} in one frame of {self.proto} over IPv{self.family}"
                checks.fail(self, field, getattr(self, field), allowed)
        with checks.of(self, "clients"):
            traffic = request_traffic(self, 0)
        network = traffic.networks()[self.family]
        clients, _, _ = free_clients(network, traffic.endpoints()[self.family])
        with checks.of(self, "flows"):
            check_room(traffic, self.family, self.flows, clients)


@attrs.frozen(kw_only=True, eq=False)
class OpenLoop(Server):
    """Packets that arrive when they arrive, whatever the host makes of them.

    Attributes:
        packets: the table, with arrival times.
        response_bytes: payload of what is sent for each message; -1: nothing is sent.

    Raises:
        ConfigError: one line naming the field.
    """

    packets: Packets = attrs.field(validator=checks.instance_of(Packets, "Packets"))
    response_bytes: int = attrs.field(default=-1)

    @response_bytes.validator
    def _check_response(self, attribute: Any, value: Any) -> None:
        most = MTU - self._header_bytes()
        if not checks.is_int(value) or not (value == -1 or 1 <= value <= most):
            checks.fail(self, "response_bytes", value, f"-1 (no response), or 1 to {most}")

    def __attrs_post_init__(self) -> None:
        if len(self.packets) == 0:
            where = f"{checks.label(self)}: packets"
            raise ConfigError(where, "an empty table", "at least one packet", "another capture")

    def _header_bytes(self) -> int:
        """The longest headers that a response to these packets has."""
        ports = (self.packets.flags & int(PacketFlag.HAS_PORTS)) != 0
        proto = "tcp" if np.any(self.packets.ip_proto[ports] == 6) else "udp"
        return HEADER_BYTES[proto, 6 if np.any(self.packets.family == 6) else 4]


Workload = RequestResponse | OpenLoop


def request_packets(workload: RequestResponse, seed: int = 0) -> Packets:
    """The request of each flow: row f is flow f's. All arrive at time 0, which a run replaces.

    The same seed gives the same clients.
    """
    packets = make_packets(request_traffic(workload, seed))
    return packets.replace(arrival_ps=np.zeros(len(packets), dtype=np.int64))


def request_traffic(workload: RequestResponse, seed: int) -> Traffic:
    """What `request_packets` makes: a packet of each flow."""
    return Traffic(
        packets=workload.flows,
        flows=workload.flows,
        pattern="trains",
        train=1,
        interleave=1,
        zipf_s=0,
        proto=workload.proto,
        family=workload.family,
        payload_bytes=workload.request_bytes,
        local=workload.server,
        clients=workload.clients,
        client_ports=(32768, 60999),
        rate_pps=10**6,
        timestamps=workload.proto == "tcp",
        psh=True,
        nic=0,
        ip_summed="none",  # the NIC says what it makes of them
        seed=seed,
    )


def durations_ps(workload: Workload) -> dict[str, int]:
    """The clients' durations in picoseconds, by field; 0 where there are no clients."""
    names = ("turnaround", "turnaround_mean", "wire", "rto", "spread")
    if isinstance(workload, OpenLoop):
        return dict.fromkeys(names, 0)
    return {name: parse_duration_ps(getattr(workload, name)) for name in names}
