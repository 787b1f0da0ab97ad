"""How fast RSS hashes: tuples of random addresses, and packets of 1,024 flows."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from emu.dtypes import PacketFlag
from tests.strategies.hashing import ADDRESSES, ALL, MS_KEY, Row, rss_row, table

ENGINES = {"core": ("emu._core.rss", 1 << 20), "ref": ("emu.ref.rss", 1 << 12)}
FLOWS = 1024


@pytest.fixture(params=["core", "ref"])
def rss(request):
    """The engine's module, and how many rows a round hashes."""
    path, rows = ENGINES[request.param]
    return importlib.import_module(path), rows


def measure(benchmark, rows, door, *arguments):
    """Rows per second of a door."""
    benchmark.pedantic(door, arguments, rounds=7, warmup_rounds=1)
    benchmark.extra_info["rows_per_second"] = rows / benchmark.stats["min"]


def tuples(rows, words):
    random = np.random.default_rng(1)
    shape = rows if words == 1 else (rows, words)
    saddr, daddr = (random.integers(0, 2**32, shape, dtype=np.uint32) for _ in range(2))
    sport, dport = (random.integers(0, 2**16, rows, dtype=np.uint16) for _ in range(2))
    return saddr, daddr, sport, dport


def test_toeplitz_tables(benchmark, rss):
    """What every door pays once for its key."""
    benchmark.pedantic(rss[0].toeplitz_tables, (MS_KEY,), rounds=7)


@pytest.mark.parametrize("width", [8, 12, 32, 36])
def test_toeplitz(benchmark, rss, width):
    """Rows of octets."""
    module, rows = rss
    data = np.random.default_rng(1).integers(0, 256, (rows, width), dtype=np.uint8)
    measure(benchmark, rows, module.toeplitz, MS_KEY, data)


@pytest.mark.parametrize("rows", [64, 4096, 0], ids=["64", "4096", "all"])
def test_toeplitz_v4(benchmark, rss, rows):
    """4-tuples of IPv4; few rows show the price of the key's tables."""
    module, most = rss
    rows = rows or most
    measure(benchmark, rows, module.toeplitz_v4, MS_KEY, *tuples(rows, 1))


def test_toeplitz_v6(benchmark, rss):
    """4-tuples of IPv6."""
    module, rows = rss
    measure(benchmark, rows, module.toeplitz_v6, MS_KEY, *tuples(rows, 4))


@pytest.mark.parametrize("xfrm", [0, 1, 2], ids=["plain", "sym-xor", "sym-or-xor"])
@pytest.mark.parametrize("fields", [ADDRESSES, ALL], ids=["2-tuple", "4-tuple"])
@pytest.mark.parametrize("family", [4, 6], ids=["v4", "v6"])
def test_rss_packets(benchmark, rss, family, fields, xfrm):
    """Hash, type and queue of packets."""
    module, rows = rss
    width = 4 if family == 4 else 16
    random = np.random.default_rng(1)
    flows = [
        Row(family, 6, PacketFlag.HAS_PORTS, random.bytes(width), random.bytes(width), 1024 + k, 80)
        for k in range(FLOWS)
    ]
    packets = table(flows).take(np.arange(rows) % FLOWS)
    entries = np.arange(128, dtype=np.uint32) % 16
    arguments = rss_row([fields] * 8, xfrm), module.toeplitz_tables(MS_KEY), entries
    measure(benchmark, rows, module.rss_packets, packets, *arguments)
