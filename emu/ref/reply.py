"""Behind the socket: its thread, its psock's worker, the tx queue of what it sends (docs/steer.md, steps 5 to 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.dtypes import Secret, SockState, TxOf
from emu.ref.flow_hash import flow_block, flow_hash_block
from emu.ref.mix import flow_mix, txhash
from emu.ref.state import Decision, HostState

TCP, UDP = 6, 17


@dataclass(frozen=True)
class Flow:
    """A flow as its local end sees it."""

    family: int
    laddr: bytes
    lport: int
    faddr: bytes
    fport: int

    @property
    def mix(self) -> int:
        """64 bits of the foreign, then the local end."""
        return flow_mix(self.faddr, self.laddr, self.fport, self.lport)


def socket_flow(row: np.void) -> Flow:
    """The flow of a connected socket's own packets."""
    size = 4 if row["family"] == 4 else 16
    return Flow(
        family=int(row["family"]),
        laddr=row["laddr"].tobytes()[:size],
        lport=int(row["lport"]),
        faddr=row["faddr"].tobytes()[:size],
        fport=int(row["fport"]),
    )


def thread_cpu(host: HostState, sock: int, flow: Flow, decision: Decision) -> int:
    """CPU of the application thread that takes the flow; -1 for a socket without threads."""
    threads = host.socket_states[sock].threads
    if not threads:
        return -1
    if len(threads) == 1:
        host.rec.note("thread", f"the socket's only thread, on CPU {threads[0]}")
        return threads[0]
    decision.secrets |= Secret.THREAD
    chosen = threads[((flow.mix >> 32) * len(threads)) >> 32]
    host.rec.note(
        "thread", f"one of {len(threads)} threads by the model's mix: CPU {chosen}", of=threads
    )
    return chosen


def reply(
    host: HostState, decision: Decision, sock: int, flow: Flow, nic: int, rx_queue: int
) -> None:
    """The skb is in its socket's queue: who reads it, and which tx queue the answer takes.

    rx_queue: the queue within the NIC that the skb recorded, -1 none.
    """
    row = host.lookup.sockets[sock]
    if row["has_psock"] and row["psock_target"] >= 0:
        if row["state"] == SockState.ESTABLISHED and rx_queue >= 0:
            host.socket_states[sock].rx_queue = rx_queue
        redirect(host, decision, int(row["psock_target"]), bool(row["redirect_ingress"]), nic)
        return
    recorded = recorded_rx_queue(host, sock, rx_queue)
    decision.app_cpu = thread_cpu(host, sock, flow, decision)
    if decision.app_cpu >= 0:
        decision.tx_of = TxOf.REPLY
        send_from(host, decision, sock, flow, nic, decision.app_cpu, recorded)


def recorded_rx_queue(host: HostState, sock: int, rx_queue: int) -> int:
    """sk_rx_queue_mapping after this packet, as XPS by rx queue will read it.

    A connected socket remembers its last one; a listener's child starts with its packet's; unconnected UDP records none.
    """
    state = host.lookup.sockets[sock]["state"]
    if state == SockState.LISTEN:
        return rx_queue
    if state != SockState.ESTABLISHED:
        return -1
    if rx_queue >= 0:
        host.socket_states[sock].rx_queue = rx_queue
    return host.socket_states[sock].rx_queue


def redirect(host: HostState, decision: Decision, target: int, ingress: bool, nic: int) -> None:
    """The verdict hands the skb to the target's psock (SOCKMAP-6): its worker delivers or sends it."""
    psock = host.psocks[target]
    if not psock.pending:
        host.scheduled.append(psock)
    decision.backlog_cpu = psock.schedule(decision.cpu, host.rec)
    host.counts["sockmap"] += 1
    flow = socket_flow(host.lookup.sockets[target])
    host.rec.note(
        "sockmap",
        f"redirected to socket {target}: its backlog runs on CPU {decision.backlog_cpu}",
        target_cpu=psock.target_cpu,
    )
    if ingress:
        decision.app_cpu = thread_cpu(host, target, flow, decision)
        return
    decision.tx_of = TxOf.REDIRECT
    remembered = host.socket_states[target].rx_queue
    send_from(host, decision, target, flow, nic, decision.backlog_cpu, remembered)


def send_from(
    host: HostState, decision: Decision, sock: int, flow: Flow, nic: int, cpu: int, rx_queue: int
) -> None:
    """Choose the tx queue of a packet that a socket sends through a NIC from a CPU (netdev_pick_tx)."""
    if cpu < 0:
        return
    row = host.lookup.sockets[sock]
    state = host.socket_states[sock]
    connected = row["state"] == SockState.ESTABLISHED
    host.counts["xps"] += 1
    if row["proto"] == UDP and not connected:
        secret = Secret.FLOW_HASH
        hash_value = flow_hash_block(
            host.flow_hash_key,
            flow_block(
                flow.family,
                0x0800 if flow.family == 4 else 0x86DD,
                UDP,
                flow.laddr,
                flow.faddr,
                flow.lport,
                flow.fport,
            ),
        )
    else:
        secret = Secret.TXHASH
        hash_value = txhash(host.plan.txhash_seed, flow.mix)
    # Request and response leave nothing in flight: TCP is ooo_okay each time (XPS-33); UDP never is (6.4).
    queue, stored, used_hash = host.nics[nic].xps.pick(
        cached=state.tx_queue if connected else -1,
        ooo_okay=row["proto"] == TCP,
        can_store=connected,
        sk_rx=rx_queue,
        recorded_rx=-1,
        cpu=cpu,
        prio=0,
        hash=hash_value,
        rec=host.rec,
    )
    if used_hash and secret == Secret.FLOW_HASH:
        host.counts["flow_hash"] += 1
    if connected:
        kept = queue == state.tx_queue and row["proto"] == UDP and not used_hash
        if not kept:
            state.tx_secret = used_hash
        state.tx_queue = stored
        used_hash = used_hash or (row["proto"] == UDP and state.tx_secret)
    if used_hash:
        decision.secrets |= secret
    place_on_queue(host, decision, nic, queue)
    host.rec.note(
        "xps", f"CPU {cpu} sends through tx queue {queue}", completion_cpu=decision.completion_cpu
    )


def place_on_queue(host: HostState, decision: Decision, nic: int, queue: int) -> None:
    """Note the tx queue and the CPU that completes what it sends."""
    decision.tx_nic, decision.tx_queue = nic, queue
    decision.completion_cpu = host.nics[nic].tx_irq_cpus[queue]
