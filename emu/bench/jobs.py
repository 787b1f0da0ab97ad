"""What is timed of each stage: one call of its array door over the whole traffic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emu.bench.speed_host import CPUS, KEY, speed_host
from emu.dtypes import CpumapRule
from emu.engines import stage
from emu.io.frames import frames_of
from emu.kernels import get_kernel
from emu.model.generate import generate
from emu.model.lower import gro_cfg, lower
from emu.model.nic import Gro
from emu.model.packets import Packets

# Prepares outside the clock; the call it answers with is timed and says how many decisions it took.
Job = Callable[[str, Packets], Callable[[], int]]
SECRET = bytes(range(16))
DISSECTED = 200_000


def toeplitz(engine: str, traffic: Packets) -> Callable[[], int]:
    """RSS hash of IPv4 4-tuples."""
    door = stage(engine, "rss").toeplitz_v4
    columns = (
        np.ascontiguousarray(traffic.saddr[:, 0]),
        np.ascontiguousarray(traffic.daddr[:, 0]),
        traffic.sport,
        traffic.dport,
    )
    return lambda: len(door(KEY, *columns))


def flow_hash(engine: str, traffic: Packets) -> Callable[[], int]:
    """skb_get_hash."""
    door = stage(engine, "flow_hash").flow_hash_packets
    return lambda: len(door(traffic, SECRET)[0])


def napi(engine: str, traffic: Packets) -> Callable[[], int]:
    """Polls of 32 queues; a decision is which poll takes a packet."""
    door = stage(engine, "napi").make_polls
    queue = (spread(traffic) % np.uint32(2 * CPUS)).astype(np.int32)
    wait = np.full(2 * CPUS, 50_000_000, dtype=np.int64)
    none = np.zeros(2 * CPUS, dtype=np.int32)
    return lambda: len(door(queue, traffic.arrival_ps, wait, none)[0])


def gro(engine: str, traffic: Packets) -> Callable[[], int]:
    """GRO of one NAPI in full polls."""
    door = stage(engine, "gro").gro_packets
    cfg = gro_cfg(Gro(), get_kernel("6.18"))[0]
    whole, rest = divmod(len(traffic), 64)
    counts = np.array([64] * whole + ([rest] if rest else []), dtype=np.int64)
    jiffies = np.zeros(len(counts), dtype=np.int64)
    hashes, types = spread(traffic), np.full(len(traffic), 3, dtype=np.uint8)
    return lambda: len(door(traffic, counts, jiffies, cfg, hashes, types)[2])


def rps(engine: str, traffic: Packets) -> Callable[[], int]:
    """The CPU of a map of 16."""
    door = stage(engine, "rps").rps_cpus
    cpus, online = np.arange(CPUS, dtype=np.uint16), np.ones(CPUS, dtype=np.uint8)
    hashes = spread(traffic)
    return lambda: len(door(cpus, online, hashes))


def cpumap(engine: str, traffic: Packets) -> Callable[[], int]:
    """The entry that an XDP program's hash names."""
    door = stage(engine, "cpumap").cpumap_targets
    cpus, queue = np.arange(CPUS, dtype=np.int32), np.zeros(len(traffic), dtype=np.int32)
    return lambda: len(door(traffic, CpumapRule.HASH, cpus, 0, queue))


def lookup(engine: str, traffic: Packets) -> Callable[[], int]:
    """The sockets of the speed host: connections for half of the flows, listeners for the rest."""
    plan = lower(speed_host(traffic, 0), traffic)
    table = stage(engine, "lookup").LookupTable(
        plan.sockets, plan.masks, plan.mask_words, plan.lookup_cfg
    )
    dif = np.ones(len(traffic), dtype=np.int32)
    cpu = np.zeros(len(traffic), dtype=np.int32)
    return lambda: len(table.find_all(traffic, dif, cpu)[0])


def reuseport(engine: str, traffic: Packets) -> Callable[[], int]:
    """A group of 16 that knows SO_INCOMING_CPU."""
    door = stage(engine, "reuseport").reuseport_select
    incoming = np.arange(CPUS, dtype=np.int32)
    hashes = spread(traffic)
    cpu = (hashes % np.uint32(CPUS)).astype(np.int32)
    return lambda: len(door(hashes, cpu, incoming))


def sockmap(engine: str, traffic: Packets) -> Callable[[], int]:
    """CPUs of the workers of 64 psocks, in bursts of 64 schedules."""
    door = stage(engine, "sockmap").psock_cpus
    named = np.arange(64, dtype=np.int32) - 1
    which = spread(traffic) % np.uint32(64)
    now = (spread(traffic) % np.uint32(CPUS)).astype(np.int32)
    return lambda: len(door(named, which, now, 64))


def xps(engine: str, traffic: Packets) -> Callable[[], int]:
    """The queue of a device whose CPUs have two queues each."""
    stage_module = stage(engine, "xps")
    device = stage_module.XpsDevice(CPUS, CPUS, CPUS)
    for queue in range(CPUS):
        device.set(0, queue, np.array([1 << queue | 1 << (queue ^ 1)], dtype=np.uint64))
    n = len(traffic)
    nothing, prio = np.full(n, -1, dtype=np.int32), np.zeros(n, dtype=np.uint32)
    cpu = (spread(traffic) % np.uint32(CPUS)).astype(np.int32)
    hashes = spread(traffic)
    return lambda: len(stage_module.xps_queues(device, nothing, cpu, prio, hashes)[0])


def spread(traffic: Packets) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """uint32[n]: some hash of each packet's source."""
    mixed = traffic.saddr[:, 0].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= traffic.sport.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(32)).astype(np.uint32)


def dissect(engine: str, traffic: Packets) -> Callable[[], int]:
    """Columns and checksums of frames with 64 octets of payload."""
    door = stage(engine, "dissect").dissect_frames
    flows = min(len(traffic), DISSECTED)
    frames = frames_of(generate(packets=flows, flows=flows, payload_bytes=64))
    sizes = np.array([len(frame) for frame in frames], dtype=np.uint32)
    blob = np.frombuffer(b"".join(frames), dtype=np.uint8)
    begins = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)[:-1]]).astype(np.int64)
    link = np.zeros(flows, dtype=np.uint8)
    return lambda: len(door(blob, begins, sizes, sizes, link)[0]["reason"])


JOBS: dict[str, Job] = {
    "dissect": dissect,
    "toeplitz_v4": toeplitz,
    "napi": napi,
    "gro": gro,
    "flow_hash": flow_hash,
    "rps": rps,
    "cpumap": cpumap,
    "lookup": lookup,
    "reuseport": reuseport,
    "sockmap": sockmap,
    "xps": xps,
}
