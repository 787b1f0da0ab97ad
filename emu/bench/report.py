"""What the bench prints and what it writes as JSON (docs/bench-json.md)."""

from __future__ import annotations

from collections import Counter

import attrs
from rich.console import Console
from rich.table import Table as RichTable

from emu.ask.sensitivity import Sensitivity
from emu.bench.experiments import Outcome
from emu.bench.speed import SpeedRow
from emu.bench.speed_engine import EngineSpeed
from emu.bench.timed import Timed
from emu.bench.timed_report import print_timed
from emu.dtypes import Drop, HashType, PacketFlag, Reason
from emu.errors import ConfigError
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Nic
from emu.model.packets import Packets
from emu.model.secrets import Secrets
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.result.decisions import Decisions
from emu.result.render import console, print_table


def print_bench(
    outcomes: list[Outcome], timed: list[Timed], rows: list[SpeedRow], engines: list[EngineSpeed]
) -> None:
    """The tables of the main job."""
    out = console()
    for outcome in outcomes:
        table = RichTable(title=outcome.title, title_justify="left", expand=False)
        table.add_column(outcome.id)
        table.add_column("before", justify="right")
        table.add_column("after", justify="right")
        for name in dict.fromkeys((*outcome.before, *outcome.after)):
            table.add_row(name, number(outcome.before.get(name)), number(outcome.after.get(name)))
        out.print(table)
    for one in timed:
        print_timed(out, one)
    table = RichTable(title="emu's own speed, million packets per second", title_justify="left")
    for heading in ("stage", "core", "reference", "ratio", "decisions timed"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.core_pps / 1e6:.2f}",
            f"{row.ref_pps / 1e6:.4f}",
            f"{row.core_pps / row.ref_pps:,.0f}",
            f"{row.decisions:,}",
        )
    out.print(table)
    for row in rows:
        if row.counts:
            counted = ", ".join(f"{stage} {count:,}" for stage, count in row.counts.items())
            out.print(f"{row.name}: {counted}", soft_wrap=False)
    print_engines(out, engines)


def print_engines(out: Console, rows: list[EngineSpeed]) -> None:
    """The timing engines' own speed."""
    table = RichTable(title="speed of timed runs, one core", title_justify="left")
    table.add_column("before, as fitted")
    for heading in (
        "M steps\nper s",
        "in the\nreference",
        "\nratio",
        "M messages\nper s",
        "simulated\ns per s",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.core_steps / 1e6:.1f}",
            f"{row.ref_steps / 1e6:.3f}",
            f"{row.core_steps / row.ref_steps:,.0f}",
            f"{row.core_messages / 1e6:.2f}",
            f"{row.simulated:.2f}",
        )
    out.print(table)


def number(value: float | None) -> str:
    """A count as it is, a share with four digits, nothing as a dash."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def bench_json(
    outcomes: list[Outcome],
    timed: list[Timed],
    rows: list[SpeedRow],
    engines: list[EngineSpeed],
    *,
    version: int,
    given: dict[str, object],
) -> dict[str, object]:
    """Everything that `print_bench` shows; *given*: what the command was asked."""
    return {
        "schema": "emu.bench",
        "version": version,
        **given,
        "decisions": [
            {"id": o.id, "title": o.title, "before": o.before, "after": o.after} for o in outcomes
        ],
        "experiments": [one.to_json() for one in timed],
        "speed": [
            {
                "name": row.name,
                "core_pps": row.core_pps,
                "ref_pps": row.ref_pps,
                "packets": row.packets,
                "decisions": row.decisions,
                "counts": row.counts,
            }
            for row in rows
        ],
        "engine_speed": [attrs.asdict(row) for row in engines],
    }


def sensitivity_json(
    answers: dict[str, list[Sensitivity]], *, version: int, given: dict[str, object]
) -> dict[str, object]:
    """The result of ``sensitivity``; *given*: what the command was asked."""
    return {
        "schema": "emu.bench.sensitivity",
        "version": version,
        **given,
        "experiments": [
            {"id": name, **answer.to_json()} for name, found in answers.items() for answer in found
        ],
    }


def example_host() -> Host:
    """What a capture is steered through when no host is given.

    16 CPUs, 2 nodes, 16 queues, a TCP and a UDP group on port 80.

    No address is listed, so every packet counts as received.
    """
    servers = tuple(
        Socket(
            name=f"{proto}-80-{cpu}",
            proto=proto,
            bind="[::]:80",
            reuseport=True,
            threads=CpuSet([cpu]),
        )
        for proto in ("tcp", "udp")
        for cpu in range(16)
    )
    return Host(
        topology=Topology(cpus=16, node_of=(0,) * 8 + (1,) * 8),
        nics=(Nic(name="eth0", rx_queues=16, tx_queues=16),),
        sockets=servers,
    )


def with_seed(host: Host, seed: int) -> Host:
    """The host with secrets drawn from another seed."""
    return host.replace(secrets=Secrets.from_seed(seed))


def with_interfaces(host: Host, packets: Packets, *, given: bool) -> Host:
    """The example host grows a NIC per interface of the capture; a given host must have them."""
    interfaces = int(packets.nic.max()) + 1
    if interfaces <= len(host.nics):
        return host
    if given:
        raise ConfigError(
            "--host",
            f"{len(host.nics)} NICs for a capture of {interfaces} interfaces",
            "a NIC for each interface of the capture, in its order",
        )
    extra = tuple(
        attrs.evolve(host.nics[0], name=f"eth{index}")
        for index in range(len(host.nics), interfaces)
    )
    return host.replace(nics=(*host.nics, *extra))


def capture_facts(packets: Packets) -> dict[str, object]:
    """What was read: frames, snapped ones, why some could not be dissected."""
    reasons = Counter(packets.reason.tolist())
    return {
        "frames": len(packets),
        "snapped": int(((packets.flags & int(PacketFlag.SNAP_CUT)) != 0).sum()),
        "ipv4": int((packets.family == 4).sum()),
        "ipv6": int((packets.family == 6).sum()),
        "not_dissected": {
            Reason(code).name: count for code, count in sorted(reasons.items()) if code
        },
    }


def steer_json(
    decisions: Decisions, packets: Packets, *, version: int, given: dict[str, object]
) -> dict[str, object]:
    """The result of ``steer``; *given*: what the command was asked, to repeat it."""
    hashed = Counter(decisions.arrays["rx_hash_type"].tolist())
    return {
        "schema": "emu.bench.steer",
        "version": version,
        **given,
        "capture": capture_facts(packets),
        "decisions": decisions.counts,
        "rx_hash_types": {HashType(code).name: count for code, count in sorted(hashed.items())},
        **decisions.summary().to_json(),
    }


def print_steer(decisions: Decisions, packets: Packets, name: str) -> None:
    """The tables of ``steer``."""
    out = console()
    facts = capture_facts(packets)
    out.print(
        f"{name}: {facts['frames']:,} frames ({facts['snapped']:,} snapped), "
        f"IPv4 {facts['ipv4']:,}, IPv6 {facts['ipv6']:,}"
    )
    for reason, count in dict(facts["not_dissected"]).items():  # type: ignore[call-overload]
        out.print(f"not dissected: {reason} {count:,}")
    summary = decisions.summary()
    out.print(", ".join(f"{key} {value:,}" for key, value in summary.totals.items()))
    lost = int((decisions.arrays["drop"] == Drop.NO_SOCKET).sum())
    if 2 * lost > summary.totals["received"]:
        out.print(
            f"{lost:,} received packets met no socket: a host file names the sockets and the "
            "host's own addresses (--host, docs/host.md)"
        )
    for title in ("queues", "cpus", "nodes", "sockets", "tx_queues", "drops", "secrets"):
        print_table(out, title, getattr(summary, title))
