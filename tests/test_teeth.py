"""Do the comparisons bite? A fault planted in the reference must make core and reference differ.

Each stage has a small fixed comparison of both engines. It holds as things are, and for each
planted fault it must fail: else it would let that very fault pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from emu import dtypes
from emu.dtypes import CpumapDesign, Prog, RssField, SockState
from emu.model.generate import generate
from emu.model.packets import Packets

STAGES = (
    "cpumap",
    "flow_hash",
    "gro",
    "jhash",
    "lookup",
    "napi",
    "reuseport",
    "rfs",
    "rps",
    "rss",
    "sockmap",
    "xps",
)
Engines = tuple[ModuleType, ModuleType]


def both(name: str) -> Engines:
    """A stage's module in the core and in the reference."""
    return import_module(f"emu._core.{name}"), import_module(f"emu.ref.{name}")


def agree(name: str, ask: Callable[[Any], Any]) -> None:
    """Ask both engines' module of a stage the same."""
    core, ref = (plain(ask(module)) for module in both(name))

    assert core == ref


def plain(value: Any) -> Any:
    """Arrays as lists, so that == compares everything at once."""
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray) and value.dtype.names:
        return {name: value[name].tolist() for name in value.dtype.names}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def traffic(packets: int = 48, **knobs: Any) -> Packets:
    """A few packets of a few flows."""
    return generate(packets=packets, **{"flows": 12, "local": "10.0.0.1:80", **knobs})


HASHES = np.arange(0, 2**32, 2**32 // 60, dtype=np.uint32)


def check_rss() -> None:
    """Two NICs, one with a symmetric input transformation."""
    rss = np.zeros(2, dtype=dtypes.RSS)
    rss["fields"] = sum(RssField)
    rss["xfrm"] = 0, 2
    rss["indir_len"] = 8
    indirection = np.arange(8, dtype=np.uint32)
    key = bytes(range(7, 47))
    columns = traffic().columns
    nic = np.arange(len(columns["nic"]), dtype=np.uint16) % 2
    packets = Packets({**columns, "nic": nic})

    agree("rss", lambda m: m.rss_packets(packets, rss, m.toeplitz_tables(key), indirection))


def check_flow_hash() -> None:
    agree("flow_hash", lambda m: m.flow_hash_packets(traffic(), bytes(range(16))))
    agree("flow_hash", lambda m: m.siphash(bytes(16), np.arange(33, dtype=np.uint8)[None]))


def check_jhash() -> None:
    words = np.arange(35, dtype=np.uint32).reshape(5, 7)

    agree("jhash", lambda m: m.jhash_words(words, 9))


def check_rps() -> None:
    """The second of three CPUs is offline."""
    cpus = np.array([1, 2, 4], dtype=np.uint16)
    online = np.array([1, 1, 0, 1, 1], dtype=np.uint8)

    agree("rps", lambda m: m.rps_cpus(cpus, online, HASHES))
    agree("rps", lambda m: m.rps_queues(np.arange(-1, 5, dtype=np.int32), 4))


def check_rfs() -> None:
    """Readers that move while packets wait, one place for two flows, a CPU that goes."""
    cpus = np.array([0, 3], dtype=np.uint16)
    first, second, third = 0x10000008, 0x20000008, 0x30000010
    heads = np.array([2**32 - 2, 5, 5, 5], dtype=np.uint32)

    def ask(module: Any, low_bits: bool) -> Any:
        rfs = module.Rfs(16, [4, 0], 4, low_bits)
        hashes = np.array([first, second, third, 0, 0xFFFC], dtype=np.uint32)
        said = []
        for hash_value, cpu, up in (
            (first, 0, 1),
            (third, 1, 1),
            (first, 2, 1),
            (second, 1, 1),
            (third, 2, 0),
            (third, 0, 0),
        ):
            rfs.record(hash_value, cpu)
            online = np.array([1, up, 1, 1], dtype=np.uint8)
            said += [module.rfs_cpus(rfs, queue, hashes, cpus, online, heads) for queue in (0, 1)]
            chosen, slot = rfs.choose(0, hash_value, cpus.tolist(), online, heads.tolist())
            rfs.note_tail(0, slot, (int(heads[chosen]) + 3) & 0xFFFFFFFF)
            said += [rfs.table(), rfs.flows(0)]
        return said

    agree("rfs", lambda m: ask(m, False))
    agree("rfs", lambda m: ask(m, True))


def check_cpumap() -> None:
    """Bulks, rings that are emptied in batches, the order of wakes, and the kthread's flushes."""

    def ask(module: Any) -> Any:
        said: list[Any] = []
        cpumap = module.Cpumap([1, 2], [8, 32])
        for packet in range(9):
            cpumap.enqueue(0, 0, packet)
        said.append(cpumap.stats(0))
        cpumap.enqueue(0, 1, 9)
        said += [cpumap.flush(0), cpumap.take_lost()]
        for packet in range(31):
            cpumap.insert(1, packet)
        said += [cpumap.consume(1), cpumap.insert(1, 99), cpumap.consume(1), cpumap.insert(1, 100)]
        return said

    agree("cpumap", ask)
    for design in CpumapDesign:
        for packets in (63, 64, 65):
            for empty in (False, True):
                agree("cpumap", lambda m, a=(design, packets, empty, 1000): m.step_flush(*a))


def check_sockmap() -> None:
    """Scheduled again while pending, and while running elsewhere."""

    def ask(module: Any) -> Any:
        psock = module.Psock(-1)
        said = [psock.schedule(3), psock.schedule(4)]
        psock.start()
        said.append(psock.schedule(5))
        psock.done()
        psock.run()
        return [*said, psock.schedule(6), psock.pending]

    agree("sockmap", ask)
    agree("sockmap", lambda m: m.Psock(2).schedule(7))


def check_napi() -> None:
    """More than a poll's weight, and an interrupt that comes early for enough frames."""
    n = 200
    queue = np.arange(n, dtype=np.int32) % 3
    arrival = np.arange(n, dtype=np.int64) // 7 * 1000
    usecs = np.array([0, 40_000, 5_000], dtype=np.int64)
    frames = np.array([0, 0, 4], dtype=np.int32)

    agree("napi", lambda m: m.make_polls(queue, arrival, usecs, frames, weight=8))


def check_reuseport() -> None:
    cpu = np.arange(len(HASHES), dtype=np.int32) % 4
    incoming = np.array([-1, 2, 3, 2, -1], dtype=np.int32)
    connected = np.array([0, 0, 0, 1, 0], dtype=np.uint8)

    agree("reuseport", lambda m: m.reuseport_select(HASHES, cpu, incoming))
    agree("reuseport", lambda m: m.reuseport_select(HASHES, cpu, incoming, established=connected))


def check_lookup() -> None:
    """A group of four, a listener on one device, a program, and members that come and go."""
    packets = traffic()
    sockets = np.zeros(6, dtype=dtypes.SOCKET)
    sockets["family"], sockets["proto"], sockets["state"] = 4, 6, SockState.LISTEN
    sockets["lport"], sockets["reuseport"] = 80, 1
    for name in ("incoming_cpu", "mask_off", "psock_target", "psock_cpu"):
        sockets[name] = -1
    sockets["reuseport"][4:] = 0
    sockets["bound_dev"][4] = 7
    sockets["laddr"][5, 0] = packets.daddr[0, 0]
    sockets["lport"][5] = 81
    cfg = np.zeros(1, dtype=dtypes.LOOKUP_CFG)
    cfg["udp_slots"], cfg["ncpus"], cfg["cpu_aware"], cfg["tcp4_secret"] = 16, 4, 1, 77
    n = len(packets)
    cpu = np.arange(n, dtype=np.int32) % 4

    def ask(module: Any) -> Any:
        table = module.LookupTable(sockets, np.zeros(1, dtype=np.uint64), 1, cfg)
        said = [table.groups()]
        for change in (
            lambda: table.close(0),
            lambda: table.set_incoming_cpu(2, 1),
            lambda: table.open(0, SockState.LISTEN),
        ):
            change()
            said += [table.groups(), table.find_all(packets, np.full(n, 3, dtype=np.int32), cpu)]
        return said

    agree("lookup", ask)
    sockets["prog_kind"][1], sockets["prog_value"][1] = Prog.CPU, 0
    agree("lookup", ask)


def check_gro() -> None:
    """Trains of many flows in one bucket, a low limit, and polls that end full."""
    cfg = np.zeros((), dtype=dtypes.GRO_CFG)
    cfg["max_size"] = cfg["ipv4_max_size"] = 6000
    cfg["enabled"], cfg["design"] = 1, 255
    n = 192
    polls, jiffies = np.array([64, 64, 64]), np.array([5, 5, 6])
    types = np.zeros(n, dtype=np.uint8)
    for knobs in ({"flows": 12}, {"flows": 8}, {"flows": 8, "family": 6, "local": "[fd00::1]:80"}):
        packets = traffic(n, pattern="trains", train=6, interleave=8, timestamps=True, **knobs)
        hashes = (packets.sport.astype(np.uint32) << 3) | 1

        agree("gro", lambda m, p=packets, h=hashes: m.gro_packets(p, polls, jiffies, cfg, h, types))


def check_xps() -> None:
    """Both maps, a queue written twice, queues taken away, a CPU without any, cached queues."""

    def ask(module: Any) -> Any:
        device = module.XpsDevice(8, 4, 5)
        for queue in range(6):
            device.set(0, queue, np.array([0b1111 >> queue % 3], dtype=np.uint64))
        device.set(1, 7, np.array([0b0010], dtype=np.uint64))
        device.set(0, 0, np.array([0b1000], dtype=np.uint64))
        n = len(HASHES)
        turn = np.arange(n, dtype=np.int32)
        asked = (turn % 5 - 1, turn % 5, np.zeros(n, dtype=np.uint32), HASHES)
        said = [device.lists(0), device.lists(1), module.xps_queues(device, *asked)]
        device.set_real_num_tx(5)
        odd = (turn % 2).astype(np.uint8)
        flows = (
            turn % 7 - 1,
            odd,
            np.ones(n, dtype=np.uint8),
            *asked[:1],
            turn % 3 - 1,
            *asked[1:],
        )
        return [*said, device.lists(0), module.pick_queues(device, *flows)]

    agree("xps", ask)


CHECKS: dict[str, Callable[[], None]] = {
    name.removeprefix("check_"): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}


class Fault(NamedTuple):
    """One wrong thing: what is replaced in emu.ref, by what is made of the right one."""

    stage: str
    said: str
    where: str  # module.attribute or module.Class.attribute below emu.ref
    break_it: Callable[[Any], Any]


def rotated_too_far(right: Any) -> Any:
    return lambda value, by: right(value, by % 63 + 1)


def ports_as_they_came(right: Any) -> Any:
    def flow_block(family, ethertype, proto, saddr, daddr, sport, dport):  # type: ignore[no-untyped-def]
        block = right(family, ethertype, proto, saddr, daddr, sport, dport)
        return block[:28] + sport.to_bytes(2, "big") + dport.to_bytes(2, "big") + block[32:]

    return flow_block


def by_remainder(right: Any) -> Any:
    return lambda value, n: value % n


def rps_by_remainder(right: Any) -> Any:
    def rps_one(cpus, online, value, rec=None):  # type: ignore[no-untyped-def]
        cpu = cpus[value % len(cpus)]
        return cpu if value and online[cpu] else -1

    return rps_one


def as_if_all_were_online(right: Any) -> Any:
    return lambda cpus, online, *rest: right(cpus, [1] * len(online), *rest)


def in_other_order(right: Any) -> Any:
    return lambda self, *rest: right(self, *rest)[::-1]


def pending_forgotten(right: Any) -> Any:
    def schedule(self, cpu_now, *rest):  # type: ignore[no-untyped-def]
        self._queued_on = None
        return right(self, cpu_now, *rest)

    return schedule


def running_forgotten(right: Any) -> Any:
    def schedule(self, cpu_now, *rest):  # type: ignore[no-untyped-def]
        running, self.running_on = self.running_on, -1
        chosen = right(self, cpu_now, *rest)
        self.running_on = running
        return chosen

    return schedule


def one_frame_late(right: Any) -> Any:
    def interrupts(*given):  # type: ignore[no-untyped-def]
        queue, times, usecs, frames, *rest = right(*given)
        return (queue, times, usecs, frames + (frames > 0), *rest)

    return interrupts


def left_in_order(right: Any) -> Any:
    def leave(self, sk, *rest):  # type: ignore[no-untyped-def]
        self.socks.remove(sk)
        sk.group = None

    return leave


def connected_ones_too(right: Any) -> Any:
    def walk(self, *rest, **more):  # type: ignore[no-untyped-def]
        states = [sk.state for sk in self.socks]
        for sk in self.socks:
            sk.state = SockState.BOUND
        pick = right(self, *rest, **more)
        for sk, state in zip(self.socks, states, strict=True):
            sk.state = state
        return pick

    return walk


def newest_first(right: Any) -> Any:
    def flush(self, old_only, jiffy):  # type: ignore[no-untyped-def]
        for bucket in self.buckets:
            bucket.reverse()
        right(self, old_only, jiffy)

    return flush


def entry_stays_last(right: Any) -> Any:
    """XPS-14 forgotten: the order of a list is kept when a queue leaves it."""

    def remove(self, queue, keep, rec):  # type: ignore[no-untyped-def]
        for place, entry in list(self.lists.items()):
            if place not in keep and queue in entry.queues:
                entry.queues.remove(queue)
                if not entry.queues:
                    del self.lists[place]

    return remove


def always(answer: object) -> Callable[[Any], Any]:
    return lambda right: lambda *args, **more: answer


def instead(value: object) -> Callable[[Any], Any]:
    return lambda right: value


FAULTS = (
    Fault("rss", "the hash's high bits choose", "rss.RssNic.queue", lambda right: (
        lambda self, value, covers: right(self, value >> 3, covers))),
    Fault("rss", "a key bit too far", "rss.toeplitz_bits", lambda right: (
        lambda key, data: right(key[1:] + key[:1], data))),
    Fault("rss", "SYM_OR_XOR only xors", "rss.SYM_OR_XOR", instead(0)),
    Fault("flow_hash", "a rotation by one more", "flow_hash.rotate", rotated_too_far),
    Fault("flow_hash", "ports not in order", "flow_hash.flow_block", ports_as_they_came),
    Fault("jhash", "a rotation by one more", "jhash.rol32", lambda right: (
        lambda value, bits: right(value, bits + 1))),
    Fault("rps", "the remainder instead of the high half", "rps.rps_one", rps_by_remainder),
    Fault("rps", "an offline CPU is taken", "rps.rps_one", as_if_all_were_online),
    Fault("rps", "the recorded queue is ignored", "rps.rps_queue_one", always(0)),
    Fault("rfs", "a waiting flow moves", "rfs.Rfs.may_move", always(True)),
    Fault("rfs", "heads that do not wrap", "rfs.signed_32", lambda right: lambda number: number),
    Fault("rfs", "no tail is noted", "rfs.Rfs.note_tail", always(None)),
    Fault("rfs", "a move forgets the new head", "rfs.Rfs.set_cpu", lambda right: (
        lambda self, flow, cpu, heads, rec: setattr(flow, "cpu", cpu))),
    Fault("rfs", "another factor of hash_32", "rfs.GOLDEN_RATIO_32", instead(0x9E370001)),
    Fault("cpumap", "a bulk of seven", "cpumap.BULK", instead(7)),
    Fault("cpumap", "nine frames a step", "cpumap.KTHREAD_BATCH", instead(9)),
    Fault("cpumap", "slots are emptied at once", "cpumap.RING_BATCH", instead(1)),
    Fault("cpumap", "bulks flushed first touched first", "cpumap.Cpumap.flush", in_other_order),
    Fault("cpumap", "a weight of 65", "cpumap.NAPI_WEIGHT", instead(65)),
    Fault("sockmap", "a pending worker moves", "sockmap.Psock.schedule", pending_forgotten),
    Fault("sockmap", "a running worker moves", "sockmap.Psock.schedule", running_forgotten),
    Fault("napi", "one frame late", "napi.interrupts", one_frame_late),
    Fault("reuseport", "the remainder", "reuseport.reciprocal_scale", by_remainder),
    Fault("reuseport", "connected members count", "reuseport.Group.walk", connected_ones_too),
    Fault("lookup", "a leaver's place stays empty", "reuseport.Group.leave", left_in_order),
    Fault("lookup", "another device's socket", "lookup_tcp.device_accepts", always(True)),
    Fault("lookup", "the program is not run", "reuseport.run_program", always(2**31)),
    Fault("gro", "seven packets a bucket", "gro.GRO_BUCKET_HELD", instead(7)),
    Fault("gro", "batches of nine", "gro.GRO_NORMAL_BATCH", instead(9)),
    Fault("gro", "newest flushed first", "gro.Gro.flush", newest_first),
    Fault("gro", "no limit of size", "gro_tcp.fits", always(True)),
    Fault("xps", "a leaver's place stays empty", "xps.XpsMap.remove", entry_stays_last),
    Fault("xps", "the socket's queue is forgotten", "xps.XpsDevice.pick", lambda right: (
        lambda self, cached, *rest: right(self, -1, *rest))),
    Fault("xps", "a queue that is gone", "xps.XpsDevice.hash_answer", always((0, False))),
)  # fmt: skip


def forget_answers() -> None:
    """Empty the caches of the reference: they would answer in a fault's place."""
    for path in sorted({fault.where.split(".")[0] for fault in FAULTS} | set(STAGES)):
        for _, function in inspect.getmembers(import_module(f"emu.ref.{path}")):
            if hasattr(function, "cache_clear"):
                function.cache_clear()


@pytest.fixture
def fresh() -> Any:
    """No cached answer before the test, and none of it behind."""
    forget_answers()
    yield
    forget_answers()


@pytest.mark.parametrize("stage", CHECKS)
def test_the_engines_agree(stage: str) -> None:
    CHECKS[stage]()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.stage}: {fault.said}")
@pytest.mark.usefixtures("fresh")
def test_a_planted_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    module, *path, name = fault.where.split(".")
    owner: Any = import_module(f"emu.ref.{module}")
    for step in path:
        owner = getattr(owner, step)
    right = getattr(owner, name)
    with monkeypatch.context() as planted:
        planted.setattr(owner, name, fault.break_it(right))
        with pytest.raises(AssertionError):
            CHECKS[fault.stage]()
    forget_answers()
    CHECKS[fault.stage]()


@pytest.mark.parametrize("stage", STAGES)
def test_the_engines_are_two(stage: str) -> None:
    """A comparison of a thing with itself always holds."""
    core, ref = both(stage)

    assert str(core.__file__).endswith((".so", ".pyd"))
    assert str(ref.__file__).endswith(".py")
