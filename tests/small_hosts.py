"""Small hosts for the steer's cases, whose answers stand in docs/steer.md."""

from __future__ import annotations

from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Nic, Rss
from emu.model.sockets import Socket, Sockmap
from emu.model.topology import Topology
from tests.strategies.traffic import Flow

US = 1_000_000
WEB = Flow("10.1.0.1", 1024, "10.0.0.1", 80)
OTHER_WEB = Flow("10.1.0.2", 1025, "10.0.0.1", 80)
DNS = Flow("10.1.0.1", 1024, "10.0.0.1", 53)
# Of Microsoft's verification suite: the hash of this flow is 0xc626b0ea, its low 7 bits are 106.
VECTOR = Flow("199.92.111.2", 14230, "65.69.140.83", 4739)
ANYONE = Socket(name="web", bind="0.0.0.0:80")
ONE_TO_ONE = [CpuSet([cpu]) for cpu in range(8)]


def host_of(*sockets, cpus=8, addresses=("10.0.0.1",), forwarding=True, hz=250, offline=(), **nic):
    """A host with one NIC and a known RSS key."""
    nic.setdefault("rss", Rss(key="microsoft"))
    online = tuple(cpu not in offline for cpu in range(cpus))
    return Host(
        topology=Topology(cpus=cpus, online=online),
        nics=[Nic(name="eth0", **nic)],
        sockets=sockets,
        addresses=addresses,
        forwarding=forwarding,
        hz=hz,
    )


def on_queue(queue):
    """RSS that puts every flow on one queue."""
    return Rss(key="microsoft", indirection=(queue,))


def values(decisions, name):
    return decisions.column(name).tolist()


def group(count, **fields):
    """Members of one reuseport group."""
    names = {name: list(value) for name, value in fields.items() if isinstance(value, list)}
    shared = {name: value for name, value in fields.items() if name not in names}
    return [
        Socket(
            name=f"s{k}",
            reuseport=True,
            **shared,
            **{name: value[k] for name, value in names.items()},
        )
        for k in range(count)
    ]


def proxy(cpu, *, ingress=False):
    """A connection whose stream is redirected to a second one."""
    return (
        Socket(
            name="in",
            bind="10.0.0.1:80",
            peer="10.1.0.1:1024",
            sockmap=Sockmap(redirect="out", ingress=ingress),
        ),
        Socket(
            name="out",
            bind="10.0.0.1:4000",
            peer="10.1.0.9:80",
            threads=CpuSet([5]),
            sockmap=Sockmap(cpu=cpu),
        ),
    )
