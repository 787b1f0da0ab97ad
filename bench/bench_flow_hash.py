"""How fast the stack's flow hash is: SipHash of blocks, and packets of 1,024 flows."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from emu.intake import from_frames
from tests.strategies import frames as make

ENGINES = {"core": ("emu._core.flow_hash", 1 << 20), "ref": ("emu.ref.flow_hash", 1 << 12)}
SECRET = bytes(range(16))
KINDS = {
    "v4": make.tcp4,
    "v6": make.tcp6,
    "v6-label": lambda n: make.tcp6(n, label=0x12345),
    "vlan": lambda n: make.tag(make.tcp4(n), 5),
}


@pytest.fixture(params=["core", "ref"])
def flow_hash(request):
    """The engine's module, and how many rows a round hashes."""
    path, rows = ENGINES[request.param]
    return importlib.import_module(path), rows


def measure(benchmark, rows, door, *arguments):
    """Nanoseconds per row of a door."""
    benchmark.pedantic(door, arguments, rounds=7, warmup_rounds=1)
    benchmark.extra_info["ns_per_row"] = benchmark.stats["min"] / rows * 1e9


@pytest.mark.parametrize("width", [40, 44, 48, 72])
def test_siphash(benchmark, flow_hash, width):
    """Rows of octets, as long as the flow hash's blocks."""
    module, rows = flow_hash
    data = np.random.default_rng(1).integers(0, 256, (rows, width), dtype=np.uint8)
    measure(benchmark, rows, module.siphash, SECRET, data)


@pytest.mark.parametrize("kind", KINDS)
def test_flow_hash_packets(benchmark, flow_hash, kind):
    """skb_get_hash of packets; the last two kinds have their block beside the columns."""
    module, rows = flow_hash
    packets = from_frames([KINDS[kind](n) for n in range(1024)]).take(np.arange(rows) % 1024)
    measure(benchmark, rows, module.flow_hash_packets, packets, SECRET)
