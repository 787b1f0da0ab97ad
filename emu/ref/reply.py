"""Behind the socket: its thread, its psock's worker, its tx queue (docs/steer.md, steps 5 to 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emu.dtypes import Secret, SockState, TxOf
from emu.ref.flow_hash import flow_block, flow_hash_block
from emu.ref.lookup import recorded_cpu
from emu.ref.mix import flow_mix, txhash
from emu.ref.packet import PacketView
from emu.ref.state import Decision, HostState

TCP, UDP = 6, 17
CPUS_TYPE, RXQS_TYPE = 0, 1
ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD


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


class Sender(NamedTuple):
    """Who sends: the CPU, and the rx queue that the socket remembers; what each hangs on."""

    cpu: int
    cpu_secrets: Secret
    rx_queue: int
    rx_secrets: Secret


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


def packet_flow(view: PacketView, packet: int) -> Flow:
    """The flow of a packet that came in."""
    return Flow(
        family=view.family[packet],
        laddr=view.daddr_bytes[packet],
        lport=view.dport[packet],
        faddr=view.saddr_bytes[packet],
        fport=view.sport[packet],
    )


def computed_hash(host: HostState, flow: Flow) -> int:
    """The flow hash of a packet that an unconnected UDP socket sends (skb_get_hash)."""
    ethertype = ETH_P_IP if flow.family == 4 else ETH_P_IPV6
    ends = flow.laddr, flow.faddr, flow.lport, flow.fport
    return flow_hash_block(host.flow_hash_key, flow_block(flow.family, ethertype, UDP, *ends))


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


def record_flow(host: HostState, decision: Decision, hash_value: int) -> None:
    """The application reads or sends on its thread's CPU: RFS keeps it (R-3.2)."""
    if decision.app_cpu < 0 or not host.rfs.size:
        return
    host.rfs.record(hash_value, decision.app_cpu, host.rec)
    if hash_value:
        host.flow_secrets[hash_value & host.rfs.size - 1] = decision.secrets


def reply(
    host: HostState,
    decision: Decision,
    sock: int,
    flow: Flow,
    nic: int,
    rx_queue: int,
    rx_hash: int,
) -> None:
    """The skb is in its socket's queue: who reads it, and which tx queue the answer takes.

    rx_queue: the queue within the NIC that the skb recorded, -1 none. rx_hash: of the skb as it
    stands, 0 none.
    """
    row, state = host.lookup.sockets[sock], host.socket_states[sock]
    connected = row["state"] == SockState.ESTABLISHED
    host.incoming_cpu[sock] = recorded_cpu(
        connected, host.incoming_cpu[sock], decision.cpu, host.rec
    )
    if connected:
        state.rx_hash = rx_hash
    if row["state"] == SockState.ESTABLISHED and rx_queue >= 0:
        state.rx_queue, state.rx_secrets = rx_queue, decision.secrets & Secret.RSS_KEY
    if row["has_psock"] and row["psock_target"] >= 0:
        redirect(host, decision, int(row["psock_target"]), bool(row["redirect_ingress"]), nic)
        return
    decision.app_cpu = thread_cpu(host, sock, flow, decision)
    if decision.app_cpu < 0:
        return
    if row["state"] in (SockState.ESTABLISHED, SockState.LISTEN):
        record_flow(host, decision, rx_hash)
    decision.tx_of = TxOf.REPLY
    if row["state"] == SockState.LISTEN:  # its child starts with the queue of its packet
        sender = thread_sender(decision, rx_queue, decision.secrets & Secret.RSS_KEY)
    elif row["state"] == SockState.ESTABLISHED:
        sender = thread_sender(decision, state.rx_queue, state.rx_secrets)
    else:
        sender = thread_sender(decision, -1, Secret(0))
    send_from(host, decision, sock, flow, nic, sender)


def thread_sender(decision: Decision, rx_queue: int, rx_secrets: Secret) -> Sender:
    """The application's thread sends."""
    return Sender(decision.app_cpu, decision.secrets & Secret.THREAD, rx_queue, rx_secrets)


def redirect(host: HostState, decision: Decision, target: int, ingress: bool, nic: int) -> None:
    """The verdict hands the skb to the target's psock, whose worker takes it on (SOCKMAP-6)."""
    psock, state = host.psocks[target], host.socket_states[target]
    if not psock.pending:
        host.scheduled.append(psock)
        # Who schedules a worker without a named CPU decides where it runs for all that follow.
        state.worker_secrets = Secret(0) if psock.target_cpu >= 0 else decision.secrets
    decision.backlog_cpu = psock.schedule(decision.cpu, host.rec)
    decision.secrets |= state.worker_secrets
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
    sender = Sender(decision.backlog_cpu, state.worker_secrets, state.rx_queue, state.rx_secrets)
    send_from(host, decision, target, flow, nic, sender)


def send_from(
    host: HostState, decision: Decision, sock: int, flow: Flow, nic: int, sender: Sender
) -> None:
    """Choose the tx queue of a packet that a socket sends through a NIC (netdev_pick_tx)."""
    if sender.cpu < 0:
        return
    row = host.lookup.sockets[sock]
    state = host.socket_states[sock]
    connected = row["state"] == SockState.ESTABLISHED
    host.counts["xps"] += 1
    if row["proto"] == UDP and not connected:
        secret = Secret.FLOW_HASH
        hash_value = computed_hash(host, flow)
    else:
        secret = Secret.TXHASH
        hash_value = txhash(host.plan.txhash_seed, flow.mix)
    # Request and response leave nothing in flight: TCP is always ooo_okay (XPS-33), UDP never.
    queue, stored, used_hash = host.nics[nic].xps.pick(
        cached=state.tx_queue if connected else -1,
        ooo_okay=row["proto"] == TCP,
        can_store=connected,
        sk_rx=sender.rx_queue,
        recorded_rx=-1,
        cpu=sender.cpu,
        prio=int(row["priority"]),
        hash=hash_value,
        rec=host.rec,
    )
    if used_hash and secret == Secret.FLOW_HASH:
        host.counts["flow_hash"] += 1
    queues = host.nics[nic].xps.real_num_tx_queues
    secrets = choice_secrets(host, nic, sender) | (secret if used_hash else Secret(0))
    if connected and row["proto"] == UDP and queues > 1:
        # Whether the queue that was there is kept, and which it is, hangs on what it hung on then.
        if 0 <= state.tx_queue < queues:
            secrets = state.tx_secrets
        elif state.tx_queue >= queues:
            secrets |= state.tx_secrets
        state.tx_secrets = secrets
    if connected:
        state.tx_queue = stored
    decision.secrets |= secrets
    place_on_queue(host, decision, nic, queue)
    host.rec.note(
        "xps",
        f"CPU {sender.cpu} sends through tx queue {queue}",
        completion_cpu=decision.completion_cpu,
    )


def choice_secrets(host: HostState, nic: int, sender: Sender) -> Secret:
    """What the NIC's XPS answer hangs on besides a hash."""
    xps, out = host.nics[nic].xps, Secret(0)
    if xps.real_num_tx_queues == 1:
        return out
    if sender.rx_secrets and sender.rx_queue >= 0 and xps.lists(RXQS_TYPE):
        out |= sender.rx_secrets
    if sender.cpu_secrets and xps.lists(CPUS_TYPE):
        out |= sender.cpu_secrets
    return out


def place_on_queue(host: HostState, decision: Decision, nic: int, queue: int) -> None:
    """Note the tx queue and the CPU that completes what it sends."""
    decision.tx_nic, decision.tx_queue = nic, queue
    decision.completion_cpu = host.nics[nic].tx_irq_cpus[queue]
