"""A captured packet that the host sent: whose it is, and its tx queue (docs/steer.md)."""

from __future__ import annotations

from emu.dtypes import Drop, GroResult, Secret, SockState, TxOf
from emu.ref import bits
from emu.ref.gro_skb import LINK_BYTES, Skb
from emu.ref.reply import Flow, record_flow, send_from, thread_cpu, thread_sender
from emu.ref.state import Decision, HostState


def send_packet(host: HostState, packet: int) -> None:
    """Decide for one sent packet."""
    view = host.view
    host.rec.about((packet,))
    decision = Decision(direction=host.direction[packet], napi_cpu=-1, cpu=-1)
    host.delivered.append((sent_skb(host, packet), decision))
    host.gro_result[packet] = GroResult.BYPASS
    if view.reason[packet]:
        decision.drop = Drop.NOT_DISSECTED
        return
    if not view.flags[packet] & bits.HAS_PORTS or view.ip_proto[packet] not in (6, 17):
        decision.drop = Drop.UNHANDLED_PROTO
        return
    flow = Flow(
        family=view.family[packet],
        laddr=view.saddr_bytes[packet],
        lport=view.sport[packet],
        faddr=view.daddr_bytes[packet],
        fport=view.dport[packet],
    )
    nic = view.nic[packet]
    host.counts["lookup"] += 1
    sock, secrets, _, _, stage = host.lookup.find_tuple(
        view.ip_proto[packet],
        flow.family,
        flow.faddr,
        flow.laddr,
        flow.fport,
        flow.lport,
        nic + 1,
        host.nics[nic].queues[0].irq_cpu,
    )
    decision.secrets |= Secret(secrets)
    decision.stage, decision.socket = stage, sock
    if sock < 0:
        decision.drop = Drop.NO_SOCKET
        host.rec.note("sent", "no socket of the host has these addresses and ports")
        return
    host.rec.note("sent", f"from socket {sock}")
    decision.app_cpu = thread_cpu(host, sock, flow, decision)
    connected = host.lookup.sockets[sock]["state"] == SockState.ESTABLISHED
    state = host.socket_states[sock]
    sender = thread_sender(
        decision,
        state.rx_queue if connected else -1,
        state.rx_secrets if connected else Secret(0),
    )
    if connected:
        record_flow(host, decision, state.rx_hash)
    decision.tx_of = TxOf.SENT
    send_from(host, decision, sock, flow, nic, sender)


def sent_skb(host: HostState, packet: int) -> Skb:
    """The packet as the one skb it is in the table."""
    view = host.view
    return Skb(
        first=packet,
        members=[packet],
        len_bytes=max(view.wire_bytes[packet] - min(view.l3_off[packet], LINK_BYTES), 0),
        gso_size=0,
        gso_type=0,
        hash=0,
        hash_type=0,
        ip_summed=view.ip_summed[packet],
        csum_level=0,
        tcp_flags=view.tcp_w12[packet] >> 16 & 0xFF,
    )
