"""What the texts do not publish, and what else it could plausibly have been.

Each shape is written as an ``[[also]]`` of the scenario file. It is fitted to the published
*before* anew; how far the ratio moves says how much the prediction hangs on a choice that nobody
can check.
"""

from __future__ import annotations

from typing import Any

import attrs

from emu.ask.fit import Fit
from emu.ask.scenarios import Pair, Runner, Setting, fit_side
from emu.io.scenarios import Case, Scenario, scenario_from_toml

Tables = dict[str, Any]


@attrs.frozen(kw_only=True)
class Shape:
    """One other choice.

    Attributes:
        name: what is different.
        change: ``both``, ``before``, ``after`` as in ``[[also]]``.
    """

    name: str
    change: Tables


def nodes(*counts: int) -> list[str]:
    """CPU lists of so many CPUs each."""
    ends = [sum(counts[: index + 1]) for index in range(len(counts))]
    return [f"{end - count}-{end - 1}" for end, count in zip(ends, counts, strict=True)]


def one_each(cpus: int) -> list[str]:
    """A mask for each CPU."""
    return [f"{1 << cpu:x}" for cpu in range(cpus)]


def sized(per_node: int) -> Tables:
    """Two nodes of so many CPUs, with a queue and a thread for each."""
    cpus, low = 2 * per_node, (1 << per_node) - 1
    first, second = nodes(per_node, per_node)
    return {
        "both": {
            "topology": {"cpus": cpus, "nodes": [first, second]},
            "nic": {
                "eth0": {
                    "rx_queues": cpus,
                    "tx_queues": cpus,
                    "irq_cpus": f"0-{cpus - 1}",
                    "xps_cpus": one_each(cpus),
                }
            },
            "socket": {
                "node0": {"count": per_node, "threads": first},
                "node1": {"count": per_node, "threads": second},
            },
        },
        "after": {
            "socket": {
                "node0": {"cpu_mask": f"{low:x}"},
                "node1": {"cpu_mask": f"{low << per_node:x}"},
            }
        },
    }


def sockets(count: int) -> Tables:
    """So many sockets and threads in each node."""
    return {"both": {"socket": {name: {"count": count} for name in ("node0", "node1")}}}


def nic(**fields: Any) -> Tables:
    """Another NIC."""
    return {"both": {"nic": {"eth0": fields}}}


def workload(**fields: Any) -> Tables:
    """Another workload."""
    return {"both": {"workload": fields}}


SHAPES = {
    "xps": (
        Shape(
            name="two packages of two dies (Opteron 61xx)",
            change={
                "both": {"topology": {"nodes": nodes(8, 8), "llcs": nodes(4, 4, 4, 4)}},
            },
        ),
        Shape(name="clients' pause 0", change=workload(turnaround="0us")),
        Shape(name="clients' pause 100us", change=workload(turnaround="100us")),
        Shape(name="processes pinned", change=workload(pinned=True)),
        Shape(name="an event loop on each CPU", change=workload(server_style="event-loop")),
        Shape(name="interrupts not delayed", change=nic(rx_usecs="0us")),
    ),
    "incoming-cpu-mask": (
        Shape(name="6 CPUs per node", change=sized(6)),
        Shape(name="12 CPUs per node", change=sized(12)),
        Shape(name="4 sockets per node", change=sockets(4)),
        Shape(name="16 sockets per node", change=sockets(16)),
        Shape(
            name="1 socket per node, 8 threads",
            change={
                "both": {
                    **sockets(1)["both"],
                    "workload": {"server_style": "event-loop"},
                }
            },
        ),
        Shape(name="pause all fixed", change=workload(turnaround="40us", turnaround_mean="0us")),
        Shape(name="pause all drawn", change=workload(turnaround="0us", turnaround_mean="40us")),
        Shape(name="no XPS", change=nic(xps_cpus=[])),
        Shape(name="10 Gbit/s", change=nic(link_mbps=10000)),
        Shape(name="interrupts not delayed", change=nic(rx_usecs="0us")),
    ),
}
# Labels whose shapes are shown: a second protocol or family would say the same again.
SHAPED = {"xps": ("one tx queue per CPU",), "incoming-cpu-mask": ("TCP IPv4", "UDP IPv4")}


@attrs.frozen(kw_only=True, eq=False)
class Shaped:
    """One label under one shape."""

    label: str
    name: str
    fit: Fit
    pair: Pair

    def to_json(self) -> dict[str, object]:
        """docs/bench-json.md, "A shape"."""
        metrics = ("throughput", "cpu", "p50", "p90", "p99")
        return {
            "label": self.label,
            "shape": self.name,
            "software_factor": self.fit.software_factor,
            "turnaround_ps": self.fit.turnaround_ps,
            "turnaround_mean_ps": self.fit.turnaround_mean_ps,
            "converged": self.fit.converged,
            "ratios": {metric: self.pair.ratio(metric).to_json() for metric in metrics},
        }


def shape_cases(tables: Tables, label: str, shapes: tuple[Shape, ...]) -> list[Case]:
    """The label's case under each shape.

    Args:
        tables: of the scenario file.
        label: the main one, or that of an ``[[also]]``, whose changes are made first.
        shapes: the others.
    """
    main = tables.get("label", "main")
    own: Tables = next((also for also in tables.get("also", []) if also["label"] == label), {})
    kept = [also for also in tables.get("also", []) if also["label"] == label]
    rows = [row for row in tables.get("published", []) if row.get("label", main) in (main, label)]
    more = [
        {
            "label": f"{label}, {shape.name}",
            **{
                side: both(own.get(side, {}), shape.change.get(side, {}))
                for side in ("both", "before", "after")
            },
        }
        for shape in shapes
    ]
    made = scenario_from_toml({**tables, "also": [*kept, *more], "published": rows})
    return list(made.cases[-len(more) :])


def both(first: Tables, second: Tables) -> Tables:
    """Two changes in one; the second wins."""
    out = dict(first)
    for key, value in second.items():
        old = out.get(key)
        out[key] = both(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def run_shape(
    scenario: Scenario, label: str, shape: Shape, case: Case, setting: Setting, start: Fit | None
) -> Shaped:
    """Fit a shape to the published *before*, and run both sides."""
    fit = fit_side(scenario, label, case.before, setting, start=start)
    return Shaped(label=label, name=shape.name, fit=fit, pair=Runner(setting).pair(case, fit))
