"""The host and traffic that emu's speed is measured on: every stage has work to do."""

from __future__ import annotations

import numpy as np

from emu.dtypes import SOCKET
from emu.model.connections import connections
from emu.model.generate import generate
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import MICROSOFT_KEY, Cpumap, Nic, Rss
from emu.model.packets import Packets
from emu.model.secrets import Secrets
from emu.model.sockets import Socket
from emu.model.topology import Topology

CPUS = 16
KEY = MICROSOFT_KEY
SERVER = "10.0.0.1"
RATE_PPS = 10_000_000  # two 100 Gbit/s ports under load
RX_USECS = "50us"
CPUMAP_PART = 8  # every eighth flow goes through the cpumap
FLOWS = {
    "trains": 4,
    "zipf": 400,
}  # packets per flow: 4 million packets are 1 million flows, or 10,000


def speed_traffic(pattern: str, packets: int, seed: int) -> Packets:
    """TCP segments over IPv4 to one server, whose flows come in through two NICs."""
    table = generate(
        packets=packets,
        flows=max(packets // FLOWS[pattern], 1),
        pattern=pattern,
        train=4,
        local=f"{SERVER}:80",
        rate_pps=RATE_PPS,
        seed=seed,
    )
    # A flow keeps its NIC, picked by its client's address and port: an eighth comes in by eth1.
    mixed = (table.saddr[:, 0] >> np.uint32(24)) + table.sport
    nic = mixed % np.uint32(CPUMAP_PART) == 0
    return table.replace(nic=nic.astype(np.uint16))


def speed_host(traffic: Packets, seed: int) -> Host:
    """Two NICs of 16 queues, RPS and XPS on both; behind one a cpumap, whose skbs have no hash.

    Half of the flows are established connections, the others meet a reuseport group of 16
    listeners; every 16th connection is in a sockmap.
    """
    each = tuple(CpuSet([cpu]) for cpu in range(CPUS))
    pairs = tuple(CpuSet([cpu, cpu ^ 1]) for cpu in range(CPUS))
    rows = connections(traffic, threads=tuple(range(CPUS)))
    kept = rows[::2].copy()
    return Host(
        topology=Topology(cpus=CPUS, node_of=(0,) * 8 + (1,) * 8),
        nics=(
            Nic(
                name="eth0",
                rx_queues=CPUS,
                tx_queues=CPUS,
                rss=Rss(key=KEY),
                rx_usecs=RX_USECS,
                rps_cpus=pairs,
                xps_cpus=each,
            ),
            Nic(
                name="eth1",
                rx_queues=CPUS,
                tx_queues=CPUS,
                rss=Rss(key=KEY),
                rx_usecs=RX_USECS,
                rps_cpus=pairs,
                cpumap=Cpumap(cpus=CpuSet(range(CPUS)), rule="hash", design="merged", qsize=2048),
                xps_cpus=pairs,
            ),
        ),
        sockets=tuple(
            Socket(name=f"listener-{cpu}", bind="0.0.0.0:80", reuseport=True, threads=CpuSet([cpu]))
            for cpu in range(CPUS)
        ),
        connections=in_sockmap(kept),
        addresses=(SERVER,),
        secrets=Secrets.from_seed(seed),
    )


def in_sockmap(
    rows: np.ndarray[tuple[int], np.dtype[np.void]],
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Put every 16th connection into a sockmap that redirects it to itself: an echo proxy."""
    assert rows.dtype == SOCKET
    proxied = np.arange(0, len(rows), 16)
    rows["has_psock"][proxied] = 1
    rows["psock_target"][proxied] = proxied + CPUS  # connections stand behind the 16 listeners
    return rows
