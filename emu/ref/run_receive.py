"""An skb goes up: RPS, protocol, socket queue, reader (docs/run.md, "An skb goes up")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.dtypes import Direction, Drop, HashType, LookupStage, SockState
from emu.model.wire import MIN_FRAME_BYTES
from emu.ref.deliver import drop_before_lookup, drop_of_foreign, forward, get_hash
from emu.ref.gro_skb import Skb
from emu.ref.rps import rps_one
from emu.ref.run_arrive import drop_packets
from emu.ref.run_state import Backlog, Cpu, RxSkb, Socket, Steps, TxSkb
from emu.ref.run_transmit import transmit
from emu.ref.run_wake import wake
from emu.ref.state import Decision
from emu.run_dtypes import Cost, Limit, RunDrop, Stage, Step, Touch

if TYPE_CHECKING:
    from emu.ref.engine import Run

HAS_HASH = (HashType.L4, HashType.SW, HashType.SW_L4)
IN_A_CHAIN = (LookupStage.EXACT, LookupStage.WILDCARD, LookupStage.PRIMARY)
TRUESIZE_BYTES = 768  # of an skb, beside its data


def skb_goes_up(run: Run, cpu: Cpu, skb: RxSkb) -> Steps:
    """The skb's way from the driver, or from the backlog, to its end."""
    if not skb.through_backlog:
        target, slot = choose_cpu(run, cpu, skb)
        if target >= 0:
            enqueue_to_backlog(run, cpu, skb, run.cpus[target].backlog, slot)
            run.step(cpu, Step.RPS, skb.row)
            yield
            return
    else:
        cpu.touch(skb.line, Touch.SKB_PROTO, Stage.RPS, skb.proto)
    cpu.counts.processed += 1
    cpu.pay(Cost.IP_RX, Stage.IP)
    if run.view.family[skb.row] == 6:
        cpu.pay(Cost.IP6_RX, Stage.IP)
    direction = run.host.direction[skb.row]
    socket = leaving = None
    if direction == Direction.FORWARDED:
        leaving = forward_skb(run, cpu, skb)
    elif direction == Direction.RECEIVED:
        socket = find_socket(run, cpu, skb)
    else:
        drop_skb(run, cpu, skb, drop_of_foreign(run.host, skb.row))
    run.step(cpu, Step.PROTO, skb.row)
    yield
    if leaving is not None:
        yield from transmit(run, cpu, leaving)
    elif socket is not None:
        yield from enqueue_to_socket(run, cpu, skb, socket)


def skb_hash(run: Run, cpu: Cpu, skb: Skb, stage: Stage) -> int:
    """skb_get_hash; computing it costs something."""
    if skb.hash_type not in HAS_HASH:
        cpu.pay(Cost.FLOW_HASH, stage)
    return get_hash(run.host, skb)[0]


def choose_cpu(run: Run, cpu: Cpu, skb: RxSkb) -> tuple[int, int]:
    """get_rps_cpu: the CPU that processes the skb, -1 this one; and the flow's place in RFS."""
    host, rfs = run.host, run.rfs
    cpus = host.nics[skb.nic].queues[skb.queue].rps_cpus
    if not cpus and (rfs is None or not rfs.sizes[skb.rxq]):
        return -1, -1
    hash_value = skb_hash(run, cpu, skb.skb, Stage.RPS)
    if rfs is None:
        return rps_one(cpus, host.online, hash_value, host.rec), -1
    return rfs.choose(skb.rxq, hash_value, cpus, host.online, run.backlog_heads, host.rec)


def enqueue_to_backlog(run: Run, cpu: Cpu, skb: RxSkb, backlog: Backlog, slot: int) -> None:
    """enqueue_to_backlog: another CPU, or this one later, processes the skb."""
    target = backlog.cpu
    cpu.pay(Cost.RPS, Stage.RPS)
    cpu.touch(backlog.line, Touch.BACKLOG_ENQUEUE, Stage.RPS, skb.proto)
    if len(backlog.input) > run.limit(Limit.MAX_BACKLOG) or limits_flow(run, cpu, skb, backlog):
        target.counts.dropped += 1
        drop_skb(run, cpu, skb, RunDrop.CPU_BACKLOG)
        return
    if not backlog.input and not backlog.scheduled:
        backlog.scheduled = True
        if target is cpu:
            cpu.poll_list.append(backlog)
            cpu.raise_net_rx()
        else:
            cpu.ipis.appendleft(target)
    skb.through_backlog = True
    backlog.input.append(skb)
    backlog.tail += 1
    if run.rfs is not None:
        run.rfs.note_tail(skb.rxq, slot, backlog.tail)
    cpu.hand = None


def limits_flow(run: Run, cpu: Cpu, skb: RxSkb, backlog: Backlog) -> bool:
    """skb_flow_limit: whether a backlog that is half full takes no more of the skb's flow.

    It is the enqueuing CPU that remembers and counts (R-3.6).
    """
    if cpu.flow_limit is None or len(backlog.input) < run.limit(Limit.MAX_BACKLOG) // 2:
        return False
    drops = cpu.flow_limit.drops(skb.skb.hash, run.host.rec)
    cpu.counts.flow_limited += drops
    return drops


def drop_skb(run: Run, cpu: Cpu, skb: RxSkb, reason: int) -> None:
    """The skb ends here and is freed."""
    cpu.pay(Cost.SKB_FREE, Stage.FREE)
    cpu.hand = None
    drop_packets(run, skb.skb.members, reason)


def forward_skb(run: Run, cpu: Cpu, skb: RxSkb) -> TxSkb | None:
    """ip_forward: the skb leaves through a tx queue; None when it is dropped."""
    decision = Decision(Direction.FORWARDED, skb.home, cpu.number)
    had_hash = skb.skb.hash_type in HAS_HASH
    forward(run.host, decision, skb.skb, skb.nic, skb.queue)
    if decision.drop:
        drop_skb(run, cpu, skb, decision.drop)
        return None
    cpu.pay(Cost.FORWARD, Stage.IP)
    if not had_hash and skb.skb.hash_type in HAS_HASH:
        cpu.pay(Cost.FLOW_HASH, Stage.XPS)
    cpu.hand = None
    run.forwarded += len(skb.skb.members)
    run.sent += 1
    lengths = (max(run.view.wire_bytes[row], MIN_FRAME_BYTES) for row in skb.skb.members)
    link = run.links[decision.tx_nic]
    leaving = TxSkb(
        rows=skb.skb.members,
        frame_bytes=sum(lengths),
        proto=skb.proto,
        txq=run.txqs[link.first_txq + decision.tx_queue],
        socket=None,
        line=skb.line,
    )
    leaving.line.last = cpu.number
    run.sending.add(leaving)
    return leaving


def find_socket(run: Run, cpu: Cpu, skb: RxSkb) -> Socket | None:
    """The socket that the skb is for; None when it ends before."""
    reason = drop_before_lookup(run.host, skb.skb)
    if reason:
        drop_skb(run, cpu, skb, reason)
        return None
    found = run.host.lookup.find(run.view.packets, skb.row, skb.nic + 1, cpu.number)
    number, _, scanned, walked, stage = found
    cpu.pay(Cost.LOOKUP, Stage.LOOKUP)
    cpu.pay(Cost.SCORE, Stage.LOOKUP, times=scanned)
    cpu.pay(Cost.WALK, Stage.LOOKUP, times=walked)
    if number < 0:
        drop_skb(run, cpu, skb, Drop.NO_SOCKET)
        return None
    socket = run.sockets[number]
    if run.limit(Limit.REFCNT_IN_LOOKUP_LINE) and stage in IN_A_CHAIN:
        for member in socket.chain:
            cpu.read(member.chain_line, Touch.CHAIN, Stage.LOOKUP, skb.proto)
    return socket


def enqueue_to_socket(run: Run, cpu: Cpu, skb: RxSkb, socket: Socket) -> Steps:
    """The transport puts the skb into the socket's receive queue, and wakes who waits for it."""
    udp = socket.is_udp
    if udp:
        yield from socket.lock.take(run, cpu)
        cpu.pay(Cost.LOCK, Stage.SOCKET)
    cpu.pay(Cost.UDP_RX if udp else Cost.TCP_RX, Stage.TRANSPORT)
    cpu.touch(socket.rx_line, Touch.SOCK_RX_SOFTIRQ, Stage.SOCKET, skb.proto)
    cpu.touch(socket.tx_line, Touch.SOCK_TX_SOFTIRQ, Stage.TRANSPORT, skb.proto)
    if run.limit(Limit.REFCNT_IN_LOOKUP_LINE):
        cpu.write(socket.chain_line, Touch.CHAIN_DELIVER, Stage.LOOKUP, skb.proto)
    if socket.queued_bytes > socket.rcvbuf_bytes:
        socket.dropped += 1
        drop_skb(run, cpu, skb, RunDrop.SOCKET_RCVBUFF)
    else:
        append(run, cpu, skb, socket)
    run.step(cpu, Step.ENQUEUE, skb.row)
    yield
    if udp:
        socket.lock.release(run)


def append(run: Run, cpu: Cpu, skb: RxSkb, socket: Socket) -> None:
    """The skb is in the queue; a reader hears of it."""
    socket.queue.append(skb)
    socket.queued_bytes += skb.skb.len_bytes + TRUESIZE_BYTES
    socket.enqueued += 1
    cpu.hand = None
    if socket.state == SockState.ESTABLISHED:
        socket.steer.rx_queue = skb.queue
        socket.rx_hash = skb.skb.hash
    if socket.sleepers:
        wake(run, cpu, socket.sleepers.popleft())
    elif socket.reader is not None and not socket.is_ready:
        socket.is_ready = True
        socket.reader.ready.append(socket)
        if socket.reader.asleep:
            wake(run, cpu, socket.reader)
