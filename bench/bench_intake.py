"""How fast capture files become packet tables, and tables are made: both engines, each door."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from emu.io.capture import read_capture
from emu.io.frames import write_pcap
from emu.model.generate import generate
from tests.strategies import captures as files

FRAMES = {"core": 1_000_000, "ref": 5_000}
PACKAGES = {"core": "emu._core", "ref": "emu.ref"}
PAYLOADS = {"64": 10, "128": 74}  # octets of the frame: of the payload


def traffic(frames: int, payload_bytes: int = 10):
    return generate(packets=frames, flows=1024, payload_bytes=payload_bytes)


def pcapng(frames: int) -> bytes:
    """A section of one interface and copies of one packet."""
    row = files.Record(bytes(64), 64, files.BASE_NS)
    return files.section() + files.interface() + files.packet(row) * frames


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("size", PAYLOADS)
def test_read_capture(benchmark, tmp_path, engine, size):
    """Frames per second of the whole intake: map, walk, dissect, check."""
    path = tmp_path / "a.pcap"
    rows = write_pcap(path, traffic(FRAMES[engine], PAYLOADS[size]))

    packets = benchmark.pedantic(read_capture, (path,), {"engine": engine}, rounds=5)

    assert len(packets) == rows
    assert not packets.reason.any()
    benchmark.extra_info["frames_per_second"] = rows / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_scan_pcap(benchmark, tmp_path, engine):
    """Records per second of the walk."""
    path = tmp_path / "a.pcap"
    rows = write_pcap(path, traffic(FRAMES[engine]))
    scan = importlib.import_module(f"{PACKAGES[engine]}.capture").scan_pcap
    data = np.fromfile(path, dtype=np.uint8)

    found = benchmark.pedantic(scan, (data, 24, False, 1, 16, 2**20, 2**31), rounds=5)

    assert (len(found.frame_off), found.fault) == (rows, 0)
    benchmark.extra_info["records_per_second"] = rows / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_scan_pcapng(benchmark, engine):
    """Blocks per second of the walk."""
    rows = FRAMES[engine]
    scan = importlib.import_module(f"{PACKAGES[engine]}.capture").scan_pcapng
    data = np.frombuffer(pcapng(rows), dtype=np.uint8)

    found = benchmark.pedantic(scan, (data, 2**31), rounds=5)

    assert (len(found.frame_off), found.fault) == (rows, 0)
    benchmark.extra_info["blocks_per_second"] = rows / benchmark.stats["min"]


@pytest.mark.parametrize("pattern", ["uniform", "zipf", "trains"])
def test_generate(benchmark, pattern):
    """Packets per second: 4 packets a flow."""
    rows = FRAMES["core"]
    knobs = {"packets": rows, "flows": rows // 4, "pattern": pattern}

    packets = benchmark.pedantic(generate, (), knobs, rounds=3)

    assert len(packets) == rows
    benchmark.extra_info["packets_per_second"] = rows / benchmark.stats["min"]


def test_write_pcap(benchmark, tmp_path):
    """Frames per second built and written."""
    rows = FRAMES["core"] // 4
    packets = traffic(rows)

    written = benchmark.pedantic(write_pcap, (tmp_path / "a.pcap", packets), rounds=3)

    assert written == rows
    benchmark.extra_info["frames_per_second"] = rows / benchmark.stats["min"]
