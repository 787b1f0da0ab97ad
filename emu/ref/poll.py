"""One NAPI poll: frames to cpumap or GRO, skbs up, then kthreads and workers (docs/steer.md)."""

from __future__ import annotations

from emu.dtypes import NAPI_WEIGHT, CpumapDesign, Drop
from emu.model.polls import Polls
from emu.ref.cpumap import FLUSH_NONE, FLUSH_OLD, step_flush, target_entry
from emu.ref.deliver import deliver
from emu.ref.gro import Carried, Gro
from emu.ref.gro_sock import gro_sock
from emu.ref.state import HostState, Nic


def run_poll(host: HostState, polls: Polls, number: int, complete: bool) -> None:
    """Poll *number* of *polls*; complete: the NAPI completes after it."""
    first, count = int(polls.first[number]), int(polls.count[number])
    packets = polls.order[first : first + count].tolist()
    nic_number, queue_number = host.queue_place[int(polls.queue[number])]
    nic = host.nics[nic_number]
    queue = nic.queues[queue_number]
    jiffy = int(polls.jiffy[number])
    for packet in packets:
        host.rec.about((packet,))
        host.rec.note("napi", f"poll {number} on CPU {queue.irq_cpu}", takes=count, jiffy=jiffy)
        if not redirect_to_cpumap(host, nic, queue_number, queue.irq_cpu, packet):
            hash_value, hash_type = driver_hash(host, nic, packet)
            where = nic_number, queue.irq_cpu
            enter_gro(host, queue.gro, packet, hash_value, hash_type, jiffy, where)
    close_poll(host, queue.gro, count, complete, jiffy)
    hand_up(host, queue.gro, queue.irq_cpu, nic_number, queue_number)
    run_kthreads(host, nic, nic_number, queue.irq_cpu, jiffy)
    for psock in host.scheduled:
        psock.run()
    host.scheduled.clear()


def redirect_to_cpumap(host: HostState, nic: Nic, queue: int, cpu: int, packet: int) -> bool:
    """Whether the NIC's XDP program sent the frame to a cpumap entry."""
    if nic.cpumap is None:
        return False
    host.counts["cpumap"] += 1
    entry = target_entry(
        nic.cpumap_rule, len(nic.cpumap_cpus), nic.cpumap_fixed, queue, host.view, packet, host.rec
    )
    if entry < 0:
        host.rec.note("cpumap", "passes: the rule needs an address")
        return False
    host.rec.note("cpumap", f"entry {entry} on CPU {nic.cpumap_cpus[entry]}")
    nic.cpumap.enqueue(cpu, entry, packet, host.rec)
    return True


def driver_hash(host: HostState, nic: Nic, packet: int) -> tuple[int, int]:
    """The hash on the skb that the driver builds, and its type."""
    if nic.hw_hash:
        return host.rx_hash[packet], host.rx_hash_type[packet]
    return host.view.skb_hash[packet], host.view.hash_type[packet]


def enter_gro(
    host: HostState,
    gro: Gro,
    packet: int,
    hash_value: int,
    hash_type: int,
    jiffy: int,
    where: tuple[int, int],
) -> None:
    """napi_gro_receive; where: the NIC, and the CPU that polls."""
    host.counts["gro"] += 1
    sock = gro_sock(host, gro.config, packet, *where)
    host.gro_result[packet], _ = gro.receive(
        host.view, packet, hash_value, hash_type, jiffy, sock, carried_by(host, packet)
    )


def carried_by(host: HostState, packet: int) -> Carried | None:
    """The packet that rides in another one (IP in IP)."""
    row = host.inner_of[packet]
    return Carried(host.inner, row) if row >= 0 else None


def close_poll(host: HostState, gro: Gro, count: int, complete: bool, jiffy: int) -> None:
    """What napi_poll does after the driver's work (N-7, N-8)."""
    gro.end_poll(count, jiffy, host.plan.hz, complete)


def hand_up(host: HostState, gro: Gro, cpu: int, nic: int, queue: int) -> None:
    """Everything GRO has given to the stack goes up, in order."""
    skbs, gro.rx_list = gro.rx_list, []
    for skb in skbs:
        deliver(host, skb, cpu, nic, queue)


def run_kthreads(host: HostState, nic: Nic, nic_number: int, cpu: int, jiffy: int) -> None:
    """End of the driver's poll: bulks into rings, which the woken kthreads drain (CPUMAP-6)."""
    if nic.cpumap is None:
        return
    woken = nic.cpumap.flush(cpu, host.rec)
    for packet in nic.cpumap.take_lost():
        host.packet_drop[packet] = Drop.CPUMAP_RING_FULL
        host.rec.about((packet,))
        host.rec.note("cpumap", "the entry's ring is full: dropped")
    for entry in woken:
        run_kthread(host, nic, nic_number, entry, jiffy)
        hand_up(host, nic.kthreads[entry], nic.cpumap_cpus[entry], nic_number, -1)


def run_kthread(host: HostState, nic: Nic, nic_number: int, entry: int, jiffy: int) -> None:
    """Steps of at most 8 frames until the ring is empty (CPUMAP-11, 15, 16, 20, 21)."""
    assert nic.cpumap is not None
    assert nic.cpumap_design is not None
    gro = nic.kthreads[entry]
    since_flush = 0
    empty = False
    while not empty:
        frames = nic.cpumap.consume(entry, host.rec)
        for packet in frames:
            where = nic_number, nic.cpumap_cpus[entry]
            enter_gro(host, gro, packet, 0, 0, jiffy, where)
        since_flush += len(frames)
        empty = nic.cpumap.empty(entry)
        design = nic.cpumap_design
        flush = step_flush(design, since_flush, empty, host.plan.hz, host.rec)
        if flush != FLUSH_NONE:
            gro.flush(flush == FLUSH_OLD, jiffy)
            if design == CpumapDesign.NAPI and empty and since_flush >= NAPI_WEIGHT:
                # The full poll is followed by one that finds nothing and completes.
                gro.deliver()
                gro.flush(False, jiffy)
            since_flush = 0
        if flush != FLUSH_NONE or design == CpumapDesign.PLAIN:
            gro.deliver()
