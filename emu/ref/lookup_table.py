"""The reference's socket tables, and what opening and closing does to them (SOCK-50..56)."""

from __future__ import annotations

from collections import defaultdict

from emu.dtypes import SockState
from emu.ref.jhash import portaddr_hash
from emu.ref.lookup_sockets import TCP, UDP, LookupRules, Socket
from emu.ref.record import Recorder
from emu.ref.reuseport import Group

LEGACY_LISTENING_SLOTS = 32

Chain = list[Socket]  # head first
FlowKey = tuple[
    int, bytes, int, bytes, int
]  # proto, local address and port, foreign address and port


class SocketTables:
    """Chains and groups of the sockets that are open."""

    def __init__(self, rules: LookupRules, rec: Recorder) -> None:
        self.rules = rules
        self.rec = rec
        self.by_address: dict[int, dict[int, Chain]] = {
            TCP: defaultdict(list),
            UDP: defaultdict(list),
        }
        self.by_port: dict[int, dict[int, Chain]] = {TCP: defaultdict(list), UDP: defaultdict(list)}
        # TCP connections; and UDP's connected sockets that have a local address (hash4).
        # Newest first.
        self.flows: defaultdict[FlowKey, Chain] = defaultdict(list)

    def address_chain(self, proto: int, address: bytes, port: int) -> Chain:
        """lhash2 of TCP, hash2 of UDP: the chain of an address and port (SOCK-15)."""
        slot = portaddr_hash(address, port, self.rules.hash_mix) & (self.rules.udp_slots - 1)
        return self.by_address[proto][slot]

    def port_chain(self, proto: int, port: int) -> Chain:
        """UDP's primary slot, legacy TCP's listening slot: the chain of a port (SOCK-16)."""
        slots = LEGACY_LISTENING_SLOTS if proto == TCP else self.rules.udp_slots
        return self.by_port[proto][(port + self.rules.hash_mix) & (slots - 1)]

    def open(self, sk: Socket, state: SockState) -> bool:
        """Bring a closed socket into a state; False when its group is full and it stays closed."""
        if sk.proto == TCP and state == SockState.ESTABLISHED:
            sk.set_state(state)
            self.flows[(TCP, *sk.flow)].insert(0, sk)
            return True
        sk.set_state(SockState.LISTEN if sk.proto == TCP else SockState.BOUND)
        if not self.rules.legacy and not self._join_group(sk):
            sk.set_state(SockState.CLOSED)
            return False
        if sk.proto == UDP or self.rules.legacy:
            self.port_chain(sk.proto, sk.lport).insert(0, sk)
        if sk.proto == UDP or not self.rules.legacy:
            chain = self.address_chain(sk.proto, sk.laddr, sk.lport)
            to_tail = not self.rules.legacy and sk.reuseport and sk.family == 6
            chain.insert(len(chain) if self.rec.rule("SOCK-55", to_tail) else 0, sk)
        if sk.program is not None and sk.group is not None:
            sk.group.program = sk.program  # the last attached counts for all (SOCK-62)
        if state == SockState.ESTABLISHED:
            self.connect(sk)
        return True

    def _join_group(self, sk: Socket) -> bool:
        """Find the socket's group, or found one (SOCK-50, SOCK-51); False when it is full.

        The first fitting socket of the chain decides. One that is in no group any more (it
        connected, SOCK-56) gets a new group, even when others of its old one are still there.
        """
        if not self.rec.rule("SOCK-50", sk.reuseport):
            return True
        if sk.proto == UDP:
            chain = self.port_chain(UDP, sk.lport)
        else:
            chain = self.address_chain(TCP, sk.laddr, sk.lport)
        other = next((other for other in chain if may_share(sk, other)), None)
        if not self.rec.rule("SOCK-51", other is not None) or other is None:
            return Group().join(sk)
        if other.group is None:
            Group().join(other)
        assert other.group is not None
        return other.group.join(sk)

    def connect(self, sk: Socket) -> None:
        """Connect a bound UDP socket (SOCK-56, SOCK-73)."""
        sk.set_state(SockState.ESTABLISHED)
        if self.rules.legacy:
            return
        group = sk.group
        if group is not None:
            if not sk.bound_any:
                group.has_conns = True
            leaves = sk.bound_any or not self.rules.udp_conn_stays
            if self.rec.rule("SOCK-56", leaves):
                group.leave(sk, self.rec)
        enters = not sk.bound_any and not self.rules.udp_conn_stays
        if self.rec.rule("SOCK-73", enters):
            self.flows[(UDP, *sk.flow)].insert(0, sk)

    def disconnect(self, sk: Socket) -> None:
        """Dissolve a UDP connection (connect to AF_UNSPEC).

        The socket stays bound, in the group that it is in.
        """
        self._forget_flow(sk)
        sk.set_state(SockState.BOUND)

    def close(self, sk: Socket) -> None:
        """Take an open socket out of everything."""
        self._forget_flow(sk)
        for chain in (
            self.port_chain(sk.proto, sk.lport),
            self.address_chain(sk.proto, sk.laddr, sk.lport),
        ):
            if sk in chain:
                chain.remove(sk)
        if sk.group is not None:
            sk.group.leave(sk, self.rec)
        sk.set_state(SockState.CLOSED)

    def _forget_flow(self, sk: Socket) -> None:
        chain = self.flows.get((sk.proto, *sk.flow), [])
        if sk in chain:
            chain.remove(sk)


def may_share(sk: Socket, other: Socket) -> bool:
    """Whether two sockets belong into one group (SOCK-51)."""

    def identity(one: Socket) -> tuple[object, ...]:
        return one.lport, one.family, one.v6only, one.bound_dev, one.uid, one.laddr

    # A connect gives a socket that was bound to any address a local one.
    moved = other.bound_any and other.connected
    return other.reuseport and identity(other) == identity(sk) and not moved
