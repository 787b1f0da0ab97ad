"""How fast frames become a packet table: 1,024 flows, whole frames, right checksums."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from tests.strategies import frames as make

FRAMES = {"core": 1_000_000, "ref": 5_000}
KINDS = {
    "tcp4-66": lambda n: make.tcp4(n, options=make.TIMESTAMPS),
    "tcp4-128": lambda n: make.tcp4(n, options=make.TIMESTAMPS, payload=bytes(range(62))),
    "udp4-64": lambda n: make.udp4(n, payload=bytes(22)),
    "tcp6-label-86": lambda n: make.tcp6(n, options=make.TIMESTAMPS, label=0x12345),
    "vlan-tcp4-70": lambda n: make.tag(make.tcp4(n, options=make.TIMESTAMPS), n & 0xFFF),
    "tcp4-1514": lambda n: make.tcp4(n, options=make.TIMESTAMPS, payload=bytes(1448)),
}


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("kind", KINDS)
def test_dissect_frames(benchmark, engine, kind):
    """Frames per second of the door over one blob."""
    flows = [KINDS[kind](number) for number in range(1024)]
    width, rows = len(flows[0]), FRAMES[engine] // (8 if kind == "tcp4-1514" else 1)
    blob = np.frombuffer(b"".join(flows), dtype=np.uint8)
    blob = np.tile(blob, rows // 1024 + 1)[: rows * width]
    length = np.full(rows, width, dtype=np.uint32)
    where = np.arange(rows, dtype=np.int64) * width
    link = np.zeros(rows, dtype=np.uint8)
    door = importlib.import_module(
        f"emu.{'_core' if engine == 'core' else 'ref'}.dissect"
    ).dissect_frames

    columns, _ = benchmark.pedantic(door, (blob, where, length, length, link), rounds=5)

    assert not columns["reason"].any()
    benchmark.extra_info["frames_per_second"] = rows / benchmark.stats["min"]
