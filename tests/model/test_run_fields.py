"""What a host declares for a run alone: defaults, limits, its TOML form."""

from __future__ import annotations

import tomllib

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.io.hosts import dump_host, host_from_toml
from emu.kernels import get_kernel
from emu.model.host import Host
from emu.model.nic import MAX_FLOW_ENTRIES, MAX_LINK_MBPS, QDISCS, Nic
from emu.model.sockets import Socket
from emu.model.topology import Topology
from tests.strategies.hosts import hosts

HEAD = '[topology]\ncpus = 4\nnodes = ["0-1", "2-3"]\n[[nic]]\nname = "eth0"\n'
SOCKET = f'{HEAD}[[socket]]\nname = "a"\n'
SWITCHES = {  # as the specifications date them
    "pfifo_fast_lockless": {"6.18": True, "legacy": False},
    "defer_free": {"6.18": True, "legacy": False},
    "ooo_needs_empty_wmem": {"6.18": False, "legacy": True},
    "refcnt_in_lookup_line": {"6.18": False, "legacy": True},
}


def load(text):
    """The host of a TOML text."""
    return host_from_toml(tomllib.loads(text))


def test_defaults():
    nic = Nic(name="eth0")
    assert (nic.rx_ring, nic.tx_ring, nic.qdisc, nic.bql_bytes) == (1024, 1024, "pfifo_fast", 0)
    assert (nic.link_mbps, nic.rps_flow_cnt, nic.xps_node) == (0, 0, None)
    host = Host(topology=Topology(cpus=1), nics=[nic])
    assert (host.netdev_budget, host.netdev_budget_jiffies) == (300, 2)
    assert (host.netdev_max_backlog, host.rps_sock_flow_entries) == (1000, 0)
    assert Socket(name="a").rcvbuf_bytes == 212992


@pytest.mark.parametrize("switch", SWITCHES)
def test_kernels(switch):
    for name, value in SWITCHES[switch].items():
        kernel = get_kernel(name)
        assert getattr(kernel, switch) is value
        other = kernel.replace(**{switch: not value})
        assert getattr(other, switch) is not value
        text = f'kernel = {{ name = "{name}", {switch} = {str(not value).lower()} }}\n{HEAD}'
        assert load(text).profile == other
        with pytest.raises(ConfigError, match=f"{switch}: got 1; allowed: true or false"):
            kernel.replace(**{switch: 1})


NIC_FIELDS = {
    "rx_ring": st.sampled_from((1, 2, 64, 65536)),
    "tx_ring": st.sampled_from((1, 2, 64, 65536)),
    "qdisc": st.sampled_from(QDISCS),
    "bql_bytes": st.sampled_from((0, 1, 1514, 2**31 - 1)),
    "link_mbps": st.sampled_from((0, 1, 10_000, MAX_LINK_MBPS)),
    "rps_flow_cnt": st.sampled_from((0, 1, 5, MAX_FLOW_ENTRIES)),
    "xps_node": st.sampled_from((None, 0)),
}
HOST_FIELDS = {
    "netdev_budget": st.integers(1, 2**31 - 1),
    "netdev_budget_jiffies": st.integers(1, 2**31 - 1),
    "netdev_max_backlog": st.integers(0, 2**31 - 1),
    "rps_sock_flow_entries": st.integers(0, MAX_FLOW_ENTRIES),
}


@given(hosts(), st.fixed_dictionaries(HOST_FIELDS), st.data())
def test_a_written_host_reads_as_itself(host, fields, data):
    nics = [attrs.evolve(nic, **data.draw(st.fixed_dictionaries(NIC_FIELDS))) for nic in host.nics]
    buffers = st.integers(1, 2**31 - 1)
    sockets = [attrs.evolve(socket, rcvbuf_bytes=data.draw(buffers)) for socket in host.sockets]
    host = host.replace(nics=nics, sockets=sockets, **fields)
    assert load(dump_host(host)) == host


COUNT = "allowed: a whole number from"
REFUSED = [
    (f"{HEAD}rx_ring = 0", f"nic[0].rx_ring: got 0; {COUNT} 1 to 65536"),
    (f"{HEAD}tx_ring = 65537", f"nic[0].tx_ring: got 65537; {COUNT} 1 to 65536"),
    (f'{HEAD}qdisc = "pfifo"', 'nic[0].qdisc: got \'pfifo\'; allowed: "pfifo_fast", "fq_codel",'),
    (f"{HEAD}qdisc = 1", 'nic[0].qdisc: got 1; allowed: "pfifo_fast"'),
    (f"{HEAD}bql_bytes = -1", f"nic[0].bql_bytes: got -1; {COUNT} 0 to"),
    (f"{HEAD}link_mbps = 1.5", f"nic[0].link_mbps: got 1.5; {COUNT} 0 to 1000000"),
    (f"{HEAD}rps_flow_cnt = 16777217", f"nic[0].rps_flow_cnt: got 16777217; {COUNT} 0 to 16777216"),
    (f"{HEAD}xps_node = 2", "nic 'eth0': xps_node: got 2; allowed: a node of 0..1"),
    (f"{HEAD}xps_node = -1", "nic[0].xps_node: got -1; allowed: a whole number >= 0"),
    (f"netdev_budget = 0\n{HEAD}", f"netdev_budget: got 0; {COUNT} 1 to"),
    (f"netdev_budget_jiffies = 0\n{HEAD}", f"netdev_budget_jiffies: got 0; {COUNT} 1 to"),
    (f"netdev_max_backlog = -1\n{HEAD}", f"netdev_max_backlog: got -1; {COUNT} 0 to"),
    (f"rps_sock_flow_entries = true\n{HEAD}", f"rps_sock_flow_entries: got True; {COUNT} 0 to"),
    (f"{SOCKET}rcvbuf_bytes = 0", f"socket[0].rcvbuf_bytes: got 0; {COUNT} 1 to 2147483647"),
]


@pytest.mark.parametrize(("text", "line"), REFUSED, ids=[line for _, line in REFUSED])
def test_refused(text, line):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
