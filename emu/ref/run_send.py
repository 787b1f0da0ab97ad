"""sendmsg: the response becomes an skb, and a tx queue is chosen for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.dtypes import SockState
from emu.model.wire import ETHERNET_BYTES, HEADER_BYTES, MIN_FRAME_BYTES
from emu.ref.mix import txhash
from emu.ref.reply import Flow, computed_hash, packet_flow
from emu.ref.run_cost import Line, proto_column
from emu.ref.run_state import Cpu, Doing, Link, RxSkb, Socket, TxSkb
from emu.run_dtypes import Cost, Latency, Limit, Stage, Step, Touch

if TYPE_CHECKING:
    from emu.ref.engine import Run


def send(run: Run, cpu: Cpu, socket: Socket, request: RxSkb) -> TxSkb:
    """Begin the step SEND for a request; answers the skb that transmit takes."""
    udp, proto = socket.is_udp, proto_column(socket.ip_proto)
    flow = packet_flow(run.view, request.row)
    cpu.pay(Cost.UDP_SEND if udp else Cost.TCP_SEND, Stage.SEND)
    if flow.family == 6:
        cpu.pay(Cost.IP6_TX, Stage.SEND)
    cpu.pay_bytes(Cost.SEND_BYTE, Stage.COPY, run.response_bytes)
    cpu.touch(socket.tx_line, Touch.SOCK_TX_SEND, Stage.SEND, proto)
    cpu.touch(socket.wmem_line, Touch.WMEM_SEND, Stage.SEND, proto)
    record_flow(run, cpu, socket)
    link = run.links[request.nic]
    queue = choose_tx_queue(run, cpu, socket, request, flow)
    miss_map(run, cpu, link)
    headers = ETHERNET_BYTES + HEADER_BYTES["udp" if udp else "tcp", flow.family]
    packet = TxSkb(
        rows=request.skb.members,
        frame_bytes=max(headers + run.response_bytes, MIN_FRAME_BYTES),
        proto=proto,
        txq=run.txqs[link.first_txq + queue],
        socket=socket,
        line=Line(cpu.number),
    )
    socket.in_transmit += 1
    run.sent += 1
    run.sending.add(packet)
    run.step(cpu, Step.SEND, request.row, Doing.OPEN)
    return packet


def record_flow(run: Run, cpu: Cpu, socket: Socket) -> None:
    """RFS: a connected socket's packets shall follow who reads it and sends on it."""
    if run.rfs is not None and socket.state == SockState.ESTABLISHED:
        run.rfs.record(socket.rx_hash, cpu.number)


def choose_tx_queue(run: Run, cpu: Cpu, socket: Socket, request: RxSkb, flow: Flow) -> int:
    """netdev_pick_tx: the tx queue within the NIC that the request came in by."""
    connected = socket.state == SockState.ESTABLISHED
    computes = socket.is_udp and not connected
    seed = run.plan.base.txhash_seed
    hash_value = computed_hash(run.host, flow) if computes else txhash(seed, flow.mix)
    if socket.state == SockState.LISTEN:  # its child starts with the queue of its packet
        rx_queue = request.queue
    else:
        rx_queue = socket.steer.rx_queue if connected else -1
    may_move = not socket.is_udp
    if run.limit(Limit.WMEM_OOO):
        may_move = may_move and socket.in_transmit == 0
    queue, stored, used_hash = run.links[request.nic].steer.xps.pick(
        cached=socket.steer.tx_queue if connected else -1,
        ooo_okay=may_move,
        can_store=connected,
        sk_rx=rx_queue,
        recorded_rx=-1,
        cpu=cpu.number,
        prio=int(run.host.lookup.sockets[socket.number]["priority"]),
        hash=hash_value,
    )
    if connected:
        socket.steer.tx_queue = stored
    if computes and used_hash:
        cpu.pay(Cost.FLOW_HASH, Stage.XPS)
    return queue


def miss_map(run: Run, cpu: Cpu, link: Link) -> None:
    """XPS maps that a CPU has not used for long have left its cache."""
    if not link.has_cpu_maps:
        return
    used_ps, link.map_used_ps[cpu.number] = link.map_used_ps[cpu.number], run.now
    if used_ps < 0 or run.now - used_ps > run.latencies[Latency.MAP_RESIDENCY]:
        node = run.node_of[cpu.number]
        remote = link.map_node >= 0 and node != link.map_node
        row = Cost.MAP_MISS_REMOTE if remote else Cost.MAP_MISS_LOCAL
        cpu.pay_lines(cpu.prices.costs[row], Stage.XPS)
