"""How fast GRO is: trains, interleaved flows, and streams in which nothing can be joined."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from tests.strategies.gro import settings, train

PACKETS = {"core": 1 << 20, "ref": 1 << 12}
KINDS = {
    "tcp4-one-flow": {"run": 64},
    "tcp4-timestamps": {"run": 64, "options": True},
    "tcp6-timestamps": {"run": 64, "options": True, "family": 6},
    "udp4-forwarding": {"run": 64, "proto": 17},
    "tcp4-1000-flows-runs-of-8": {"flows": 1000, "run": 8},
    "tcp4-4-flows-in-turn": {"flows": 4},
    "tcp4-1000-flows-nothing-joins": {"flows": 1000},
}


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("kind", KINDS)
def test_gro_packets(benchmark, engine, kind):
    """Packets through the door, in full polls of 64."""
    rows = PACKETS[engine]
    packets = train(rows, **KINDS[kind])
    polls = np.full(rows // 64, 64, dtype=np.int64)
    module = importlib.import_module(f"emu.{'_core' if engine == 'core' else 'ref'}.gro")
    arguments = (
        packets, polls, np.zeros_like(polls), settings(udp_forwarding=1), packets.skb_hash,
        packets.hash_type,
    )  # fmt: skip

    skbs, _, _ = benchmark.pedantic(module.gro_packets, arguments, rounds=5)

    assert skbs["segs"].sum() == rows
