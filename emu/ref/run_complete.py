"""Completion of what was sent, within the poll of the queue's NAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.ref.run_state import Cpu, Napi, TxQueue
from emu.ref.run_transmit import schedule_qdisc
from emu.run_dtypes import Cost, Stage, Touch

if TYPE_CHECKING:
    from emu.ref.engine import Run


def reclaim(run: Run, cpu: Cpu, txq: TxQueue) -> None:
    """Take back the descriptors of what has left; a stopped queue with room starts again."""
    first = None
    while txq.ring and txq.ring[0].done_ps <= run.now:
        packet = txq.ring.popleft()
        first = first or packet
        txq.ring_bytes -= packet.frame_bytes
        run.tx_done += 1
        cpu.pay(Cost.TX_COMPLETE, Stage.COMPLETION)
        cpu.touch(packet.line, Touch.SKB_COMPLETE, Stage.COMPLETION, packet.proto)
        if packet.socket is not None:
            packet.socket.in_transmit -= 1
            wmem = packet.socket.wmem_line
            cpu.touch(wmem, Touch.WMEM_COMPLETE, Stage.COMPLETION, packet.proto)
    if first is not None:
        cpu.touch(txq.ring_line, Touch.TX_RING_COMPLETE, Stage.COMPLETION, first.proto)
        if txq.link.bql:
            cpu.touch(txq.dql_line, Touch.DQL_COMPLETE, Stage.COMPLETION, first.proto)
    if txq.stopped and txq.has_room:
        txq.stopped = False
        if txq.qdisc.packets:
            schedule_qdisc(cpu, txq.qdisc)


def next_event_ps(napi: Napi) -> int | None:
    """When the NAPI has something to do next; None: nothing is on its way."""
    events = [txq.ring[0].done_ps for txq in napi.txqs if txq.ring]
    if napi.ring:
        events.append(napi.ring[0].ready_ps)
    return min(events, default=None)
