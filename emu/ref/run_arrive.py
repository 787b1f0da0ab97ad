"""Packets that arrive, and the clients of a closed loop that send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.model.draw import below, draw
from emu.model.exponential import exponential
from emu.model.wire import MIN_FRAME_BYTES, WIRE_EXTRA_BYTES
from emu.ref.run_irq import arm, hurry
from emu.ref.run_state import Link, RingFrame, TxSkb
from emu.run_dtypes import Latency, RunDrop, Step

if TYPE_CHECKING:
    from emu.ref.engine import Run

FLOW_STREAM = 2 << 32
NO_CPU, IDLE = -1, 0


def begin(run: Run) -> None:
    """The first arrival of each flow, or of the wire."""
    if run.closed:
        for flow in run.flows:
            if run.rx_queue[flow.number] < 0:
                continue
            value = draw_of_flow(run, flow.number)
            run.at(run.first_flow + flow.number, below(value, run.latencies[Latency.SPREAD] + 1))
    elif run.rows:
        run.at(run.first_flow, run.view.arrival_ps[run.rows[0]])


def draw_of_flow(run: Run, number: int) -> int:
    """The flow's next 64 random bits."""
    flow = run.flows[number]
    flow.draws += 1
    return draw(run.plan.seed, FLOW_STREAM | number, flow.draws - 1)


def arrive(run: Run, number: int) -> None:
    """A packet arrives: of flow *number*, or the wire's next one."""
    source = run.first_flow + number
    if run.closed:
        row = number
        start_clock(run, number)
    else:
        row = run.rows[run.next_row]
        run.next_row += 1
        if run.next_row < len(run.rows):
            run.at(source, run.view.arrival_ps[run.rows[run.next_row]])
    run.note(source, Step.ARRIVE, row, NO_CPU, IDLE, 0)
    run.arrived += 1
    napi = run.napis[run.rx_queue[row]]
    link = napi.link
    assert link is not None
    ready_ps = received_ps(link, run.now, run.view.wire_bytes[row])
    if len(napi.ring) >= link.rx_ring:
        napi.lost += 1
        drop_packets(run, [row], RunDrop.RX_RING_FULL)
        return
    napi.ring.append(RingFrame(row, ready_ps))
    arm(run, napi, ready_ps)
    if 0 < napi.frames <= len(napi.ring) and not napi.masked:
        hurry(run, napi, ready_ps)


def received_ps(link: Link, now_ps: int, wire_bytes: int) -> int:
    """The frame goes over the link: when it is whole in memory."""
    on_wire = max(wire_bytes, MIN_FRAME_BYTES) + WIRE_EXTRA_BYTES
    link.rx_free_ps = max(now_ps, link.rx_free_ps) + link.ps_per_byte * on_wire
    return link.rx_free_ps


def sent_ps(link: Link, now_ps: int, frame_bytes: int) -> int:
    """The same of a frame that is sent: when it has left."""
    on_wire = frame_bytes + WIRE_EXTRA_BYTES
    link.tx_free_ps = max(now_ps, link.tx_free_ps) + link.ps_per_byte * on_wire
    return link.tx_free_ps


def start_clock(run: Run, number: int) -> None:
    """A client's cycle ends when its new request arrives, and another one begins."""
    flow = run.flows[number]
    if flow.repeats:
        flow.repeats = False
        run.repeated += 1
        return
    if flow.started_ps >= 0:
        take_sample(run, run.now - flow.started_ps)
    flow.started_ps = run.now


def take_sample(run: Run, latency_ps: int) -> None:
    """A message's latency is known."""
    run.samples.append(latency_ps)
    run.sampled += 1


def drop_packets(run: Run, rows: list[int], reason: int) -> None:
    """Received packets end here."""
    run.drops[reason] += len(rows)
    run.dropped += len(rows)
    lose(run, rows)


def lose(run: Run, rows: list[int]) -> None:
    """The clients of a closed loop hear nothing, and repeat their requests."""
    for row in rows if run.closed else []:
        run.flows[row].repeats = True
        run.at(run.first_flow + row, run.now + run.latencies[Latency.RTO])


def message_left(run: Run, packet: TxSkb) -> None:
    """What was sent for a message has left the NIC: the message ends, and a client goes on."""
    if not run.closed:
        take_sample(run, packet.done_ps - run.view.arrival_ps[packet.row])
        return
    times = run.latencies
    wire_ps, mean_ps = times[Latency.WIRE], times[Latency.TURNAROUND_MEAN]
    for row in packet.rows:
        chance_ps = exponential(draw_of_flow(run, row), mean_ps, run.exp_table)
        pause_ps = times[Latency.TURNAROUND] + chance_ps
        run.at(run.first_flow + row, packet.done_ps + wire_ps + pause_ps + wire_ps)


def message_read(run: Run, row: int) -> None:
    """The same of a message that nothing is sent back for: it ends when it has been read."""
    if not run.closed:
        take_sample(run, run.now - run.view.arrival_ps[row])
