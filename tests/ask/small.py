"""A host so small that it runs in no time, and a scenario of it."""

from __future__ import annotations

from typing import Any

from emu.ask.scenarios import Setting
from emu.io.scenarios import Scenario, scenario_from_toml

TABLES: dict[str, Any] = {
    "title": "a small host",
    "machine": "xeon-2015",
    "host": {
        "addresses": ["10.0.0.1"],
        "secrets": {"seed": 3},
        "topology": {"cpus": 2},
        "nic": [{"name": "eth0", "rx_queues": 2, "tx_queues": 2}],
        "socket": [{"name": "server", "bind": "0.0.0.0:12865", "threads": "0-1"}],
    },
    "workload": {
        "kind": "request-response",
        "flows": 6,
        "turnaround": "30us",
        "turnaround_mean": "10us",
    },
    "after": {"nic": {"eth0": {"xps_cpus": ["1", "2"]}}},
}
SETTING = Setting(seed=5, duration="20ms", warmup="1ms", tolerance=0.003)


def small_scenario(**tables: Any) -> Scenario:
    """The scenario with other tables laid over it."""
    return scenario_from_toml({**TABLES, **tables})
