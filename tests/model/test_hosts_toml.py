"""Hosts as TOML: what is read, what comes back, and how every mistake is told."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import attrs
import pytest
from hypothesis import given

import emu
from emu.errors import ConfigError
from emu.io.hosts import dump_host, host_from_toml, load_host
from emu.io.toml import to_toml
from emu.kernels import KernelProfile
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Gro, Nic, Rss
from emu.model.secrets import Secrets
from emu.model.sockets import Socket
from emu.model.topology import Topology
from tests.strategies.hosts import hosts
from tests.strategies.sockets import socket_rows

SCENARIOS = sorted(
    path
    for path in (Path(emu.__file__).parent / "scenarios").glob("*.toml")
    if "workload" not in tomllib.loads(path.read_text())  # then it is more than a host
)
DOCS = Path(__file__).parent.parent.parent / "docs" / "host.md"
# connections have no TOML form; the others are spelt as CPU lists
NOT_IN_TOML = {
    "unsourced",
    "connections",
    "nics",
    "sockets",
    "node_of",
    "llc_of",
    "core_of",
    "online",
}
TOPOLOGY = "[topology]\ncpus = 8\n"
NIC = f'{TOPOLOGY}[[nic]]\nname = "eth0"\nrx_queues = 4\ntx_queues = 4\n'
SOCKET = f'{NIC}[[socket]]\nname = "a"\n'


def load(text):
    """The host of a TOML text."""
    return host_from_toml(tomllib.loads(text))


@given(hosts())
def test_a_written_host_reads_as_itself(host):
    assert load(dump_host(host)) == host


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_shipped_scenarios(path):
    host = load_host(path)
    assert load(dump_host(host)) == host


def test_two_node():
    host = load_host(SCENARIOS[[path.stem for path in SCENARIOS].index("two-node")])
    assert host.topology.node_of == (0,) * 8 + (1,) * 8
    assert host.nics[0].irq_cpus == tuple(range(16))
    assert host.nics[0].xps_cpus == tuple(CpuSet([cpu]) for cpu in range(16))
    web = host.socket("web-5")
    assert (web.incoming_cpu, web.threads, web.reuseport) == (5, CpuSet([5]), True)
    assert len(host.sockets) == 32


def test_two_spellings_of_a_cpu_set():
    spelt = ['"f"', '{ mask = "f" }', '{ list = "0-3" }', '["f", "f", "f", "f"]']
    spelt.append('["f", { list = "0-3" }, { mask = "0f" }, { list = "3,2,0-1" }]')
    for text in spelt:
        assert load(f"{NIC}rps_cpus = {text}").nics[0].rps_cpus == (CpuSet(15),) * 4, text
    for text in ('"0-3"', '{ list = "0-3" }', '{ mask = "f" }'):
        assert load(f"{SOCKET}threads = {text}").sockets[0].threads == CpuSet(15), text
    assert load(f'{SOCKET}cpu_mask = "f"').sockets[0].cpu_mask == CpuSet(15)


def test_interrupts_as_a_list_of_cpus_or_a_cpu_list():
    assert load(f"{NIC}irq_cpus = [3, 2, 1, 0]").nics[0].irq_cpus == (3, 2, 1, 0)
    assert load(f'{NIC}irq_cpus = "2-3"').nics[0].irq_cpus == (2, 3, 2, 3)
    assert load(f'{NIC}tx_irq_cpus = {{ mask = "3" }}').nics[0].tx_irq_cpus == (0, 1, 0, 1)


def test_copies_of_a_socket():
    host = load(f"{SOCKET}count = 3\nreuseport = true")
    assert [socket.name for socket in host.sockets] == ["a-0", "a-1", "a-2"]
    assert host.sockets[2] == Socket(name="a-2", reuseport=True)
    offline = SOCKET.replace("cpus = 8", 'cpus = 4\noffline = "1"')
    cpus = [socket.incoming_cpu for socket in load(f"{offline}per_cpu = true").sockets]
    assert cpus == [0, 2, 3]
    cpus = [socket.incoming_cpu for socket in load(f"{offline}per_cpu = true\ncount = 4").sockets]
    assert cpus == [0, 2, 3, 0]


def test_secrets():
    drawn = load(NIC).secrets
    given = load(f'secrets = {{ seed = 0, tcp_ehash = 1, flow_hash_key = "{"00" * 16}" }}\n{NIC}')
    assert (given.secrets.tcp_ehash, given.secrets.flow_hash_key) == (1, bytes(16))
    assert given.secrets.rss_key == drawn.rss_key
    assert load(f"secrets = {{ seed = 1 }}\n{NIC}").secrets != drawn


def test_kernels():
    text = f'kernel = {{ name = "legacy", mask_policy = "boost" }}\n{NIC}'
    assert (load(text).profile.name, load(text).profile.mask_policy) == ("legacy+", "boost")
    assert load(f'kernel = {{ name = "legacy" }}\n{NIC}').kernel == "legacy"


MASK_IS_LIST = 'groups of 1 to 8 hex digits, joined by commas; try { list = "0-3" }'
LIST_IS_MASK = 'CPUs and ranges joined by commas, such as "0-3,8"; try { mask = "ff" }'
TEXT_OR_TABLE = 'text, { list = "0-3" } or { mask = "f" }'
RSS = f"{NIC}rss = "
MISTAKES = [
    # a host without CPUs, and other whole things that are missing
    ("", "topology: got an empty file; allowed: a host with CPUs; try [topology] cpus = 8"),
    ('[[nic]]\nname = "e"', "topology: got no table in 1 entries; allowed: a host with CPUs"),
    ("topology = 3", "topology: got 3; allowed: a table"),
    ("[topology]\n", 'topology.cpus: got nothing; allowed: the key "cpus"'),
    ("[topology]\ncpus = 0", "topology.cpus: got 0; allowed: a whole number from 1 to 8192"),
    (TOPOLOGY, "nic: got none; allowed: at least one [[nic]] table"),
    (f"nic = 3\n{TOPOLOGY}", "nic: got 3; allowed: a list"),
    (f"{TOPOLOGY}[[nic]]\n", 'nic[0].name: got nothing; allowed: the key "name"'),
    (f'{NIC}[[socket]]\nbind = "[::]:1"', 'socket[0].name: got nothing; allowed: the key "name"'),
    # topology
    ('[topology]\ncpus = 4\nnodes = ["0-1"]', "topology.nodes: got lists without CPU 2-3;"),
    ('[topology]\ncpus = 4\nnodes = ["0-3", "3"]', "topology.nodes[1]: got '3'; allowed: each CPU"),
    (
        '[topology]\ncpus = 2\nnodes = ["0-2"]',
        "topology.nodes[0]: got '0-2' (ERANGE); allowed: CPUs",
    ),
    ('[topology]\ncpus = 2\nnodes = "0-1"', "topology.nodes: got '0-1'; allowed: lists of CPUs"),
    ("[topology]\ncpus = 2\nnodes = [1]", "topology.nodes[0]: got 1; allowed: a list of CPUs"),
    ('[topology]\ncpus = 2\noffline = "0-1"', "topology.offline: got '0-1'; allowed: at least one"),
    ("[topology]\ncpus = 2\noffline = [1]", "topology.offline: got [1]; allowed: a list such as"),
    # masks beyond the CPUs, spellings mixed up
    (
        f'{NIC}rps_cpus = ["f", "1ff"]',
        "nic[0].rps_cpus[1]: got '1ff' (EOVERFLOW); allowed: bits 0 to",
    ),
    (f'{NIC}rps_cpus = "0-3"', f"nic[0].rps_cpus: got '0-3' (EINVAL); allowed: {MASK_IS_LIST}"),
    (
        f'{NIC}xps_cpus = {{ list = "ff" }}',
        f"nic[0].xps_cpus.list: got 'ff' (EINVAL); allowed: {LIST_IS_MASK}",
    ),
    (
        f'{NIC}rps_cpus = {{ list = "8" }}',
        "nic[0].rps_cpus.list: got '8' (ERANGE); allowed: CPUs 0-7",
    ),
    (f"{NIC}rps_cpus = {{ list = 3 }}", 'nic[0].rps_cpus.list: got 3; allowed: text; try "3"'),
    (
        f'{NIC}rps_cpus = {{ lst = "0" }}',
        f"nic[0].rps_cpus: got {{'lst': '0'}}; allowed: {TEXT_OR_TABLE}",
    ),
    (
        f"{NIC}rps_cpus = [0, 1]",
        f'nic[0].rps_cpus: got [0, 1]; allowed: {TEXT_OR_TABLE}; try {{ list = "0,1" }}',
    ),
    (f"{NIC}rps_cpus = 3", f"nic[0].rps_cpus: got 3; allowed: {TEXT_OR_TABLE}; try {{ list"),
    (f'{NIC}xps_rxqs = "10"', "nic[0].xps_rxqs: got '10' (EOVERFLOW); allowed: bits 0 to 3"),
    # queues that do not exist
    (
        f'{TOPOLOGY}[[nic]]\nname = "eth0"\nrx_queues = 9223372036854775807\nirq_cpus = "0"',
        "nic[0].rx_queues: got 9223372036854775807; allowed: a whole number from 1 to 65535",
    ),
    (
        f'{NIC}rps_cpus = ["1", "2", "4", "8", "10"]',
        "nic[0].rps_cpus[4]: got '4'; allowed: rx queues 0..3; try rx_queues=5",
    ),
    (
        f'{NIC}[[nic]]\nname = "eth1"\nxps_cpus = "1"',
        "nic[1].xps_cpus[0]: got '0'; allowed: none with 1 tx queue: the kernel answers ENOENT",
    ),
    (f"{NIC}irq_cpus = [0, 1]", "nic[0].irq_cpus: got 2 CPUs; allowed: one for each of the 4 rx"),
    (f"{NIC}irq_cpus = [0, 1, 2, 8]", "nic 'eth0': irq_cpus[3]: got 8; allowed: CPUs 0-7"),
    (f'{NIC}irq_cpus = [0, 1, 2, "3"]', "nic[0].irq_cpus[3]: got '3'; allowed: a CPU"),
    (f"{NIC}irq_cpus = 3", "nic[0].irq_cpus: got 3; allowed: a list with a CPU for each queue"),
    (f'{NIC}irq_cpus = ""', "nic[0].irq_cpus: got ''; allowed: at least one CPU"),
    # RSS
    (f"{RSS}3", "nic[0].rss: got 3; allowed: a table"),
    (
        f"{RSS}{{ indirection = [0, 1, 2, 4] }}",
        "nic[0].rss.indirection[3]: got 4; allowed: rx queues 0..3",
    ),
    (
        f"{RSS}{{ indirection = [0, 1, 2] }}",
        "nic[0].rss.indirection: got 3 entries; allowed: a power of two of entries, at most 65536; "
        "try 2 or 4 entries",
    ),
    (f'{RSS}{{ key = "6d:5a" }}', "nic[0].rss.key: got 2 bytes; allowed: 40 to 52 bytes"),
    (f'{RSS}{{ key = "zz" }}', "nic[0].rss.key: got 'zz'; allowed: hex bytes"),
    (f"{RSS}{{ key = 3 }}", "nic[0].rss.key: got 3; allowed: 40 to 52 bytes"),
    (
        f'{RSS}{{ hash_fields = {{ upd4 = "sd" }} }}',
        "nic[0].rss.hash_fields: got key 'upd4'; allowed:",
    ),
    (
        f'{RSS}{{ hash_fields = {{ udp4 = "x" }} }}',
        "nic[0].rss.hash_fields.udp4: got 'x'; allowed:",
    ),
    (f'{RSS}{{ udp_hash = "4-tuple" }}', "nic[0].rss.udp_hash: got '4-tuple'; allowed: \"2tuple\""),
    # other NIC fields
    (f'{NIC}rx_usecs = "10"', "nic[0].rx_usecs: got '10'; allowed: a number and a unit"),
    (f"{NIC}rx_usecs = 1.5", "nic[0].rx_usecs: got 1.5; allowed: a duration or microseconds"),
    (f'{NIC}rx_frames = "2"', "nic[0].rx_frames: got '2'; allowed: a whole number from 0"),
    (
        f"{NIC}gro = {{ max_size = 0 }}",
        "nic[0].gro.max_size: got 0; allowed: a whole number from 1",
    ),
    (f'{NIC}cpumap = {{ cpus = "8" }}', "nic[0].cpumap.cpus: got '8' (ERANGE); allowed: CPUs 0-7"),
    (f"{NIC}cpumap = {{}}", 'nic[0].cpumap.cpus: got nothing; allowed: the key "cpus"'),
    (
        f'{NIC}cpumap = {{ cpus = "1", rule = "fixed", fixed = 3 }}',
        "nic[0].cpumap.fixed: got 3; allowed: a CPU of cpus (1)",
    ),
    (f'{NIC}forward_to = "eth1"', "nic 'eth0': forward_to: got 'eth1'; allowed: \"eth0\""),
    # duplicate names
    (
        f'{NIC}[[nic]]\nname = "eth0"',
        "nic 1: name: got 'eth0'; allowed: a name that nic 0 does not",
    ),
    (f'{SOCKET}[[socket]]\nname = "a"', "socket 1: name: got 'a'; allowed: a name that socket 0"),
    # sockets
    (f'{SOCKET}threads = "8"', "socket[0].threads: got '8' (ERANGE); allowed: CPUs 0-7"),
    (f'{SOCKET}threads = "ff"', f"socket[0].threads: got 'ff' (EINVAL); allowed: {LIST_IS_MASK}"),
    (
        f'{SOCKET}cpu_mask = "100"',
        "socket[0].cpu_mask: got '100' (EOVERFLOW); allowed: bits 0 to 7",
    ),
    (
        f'{SOCKET}bind = "10.0.0.300:80"',
        "socket[0].bind: got '10.0.0.300'; allowed: an IPv4 or IPv6",
    ),
    (f'{SOCKET}bind = "::1:80"', "socket[0].bind: got '::1:80'; allowed: \"address:port\""),
    (f"{SOCKET}bind = 80", "socket[0].bind: got 80; allowed: text"),
    (f'{SOCKET}bind = "[::1]:0"', "socket[0].bind: got '[::1]:0'; allowed: a port from 1 to 65535"),
    (f"{SOCKET}reuseport = 1", "socket[0].reuseport: got 1; allowed: true or false; try true"),
    (f'{SOCKET}incoming_cpu = "1"', "socket[0].incoming_cpu: got '1'; allowed: a whole number"),
    (f'{SOCKET}device = "eth"', "socket 'a': device: got 'eth'; allowed: \"eth0\"; try \"eth0\""),
    (f"{SOCKET}sockmap = {{ cpu = 8 }}", "socket 'a': sockmap.cpu: got 8; allowed: CPUs 0-7"),
    (
        f'{SOCKET}sockmap = {{ redirect = "b" }}',
        "socket 'a': sockmap.redirect: got 'b'; allowed: \"a\"",
    ),
    (f"{SOCKET}count = 0", "socket[0].count: got 0; allowed: a whole number from 1 to 1000000"),
    (f"{SOCKET}per_cpu = 1", "socket[0].per_cpu: got 1; allowed: true or false"),
    (
        f'{SOCKET}per_cpu = true\nthreads = "1"',
        "socket[0].threads: got one; allowed: none with per_cpu",
    ),
    # unknown keys, with the nearest
    (f"hzz = 1\n{NIC}", "top level: got key 'hzz'; allowed: "),
    ("[topology]\ncpus = 2\nnode = 3", "topology: got key 'node'; allowed: "),
    (f"{NIC}rx_quues = 4", "nic[0]: got key 'rx_quues'; allowed: "),
    (f"{NIC}rss = {{ keys = 4 }}", "nic[0].rss: got key 'keys'; allowed: "),
    (f"{SOCKET}resueport = true", "socket[0]: got key 'resueport'; allowed: "),
    (f"secrets = {{ sed = 1 }}\n{NIC}", "secrets: got key 'sed'; allowed: "),
    # the host's own
    (f"hz = 10\n{NIC}", "hz: got 10; allowed: a whole number from 24 to 1200"),
    (f'kernel = "6.17"\n{NIC}', 'kernel: got \'6.17\'; allowed: "6.18", "6.12", "6.1", '),
    (
        f'kernel = {{ name = "x" }}\n{NIC}',
        'kernel.name: got \'x\'; allowed: "6.18", "6.12", "6.1", ',
    ),
    (
        f'kernel = {{ name = "6.18", mask_policy = "bost" }}\n{NIC}',
        'kernel.mask_policy: got \'bost\'; allowed: "reject", "boost"; try "boost"',
    ),
    (f'addresses = ["10.0.0.256"]\n{NIC}', "addresses[0]: got '10.0.0.256'; allowed: an IPv4 or"),
    (f'addresses = "10.0.0.1"\n{NIC}', "addresses: got '10.0.0.1'; allowed: a list with"),
    (f'forwarding = "yes"\n{NIC}', "forwarding: got 'yes'; allowed: true or false"),
    (f"secrets = {{ seed = -1 }}\n{NIC}", "secrets.seed: got -1; allowed: a whole number"),
    (f'secrets = {{ rss_key = "00" }}\n{NIC}', "secrets.rss_key: got 1 bytes; allowed: 52 bytes"),
]


@pytest.mark.parametrize(("text", "line"), MISTAKES, ids=[line for _, line in MISTAKES])
def test_a_mistake_is_one_line_with_its_place(text, line, tmp_path):
    path = tmp_path / "host.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_host(path)

    message = str(caught.value)
    assert message.startswith(f"{path}: {line}")
    assert "\n" not in message
    if "got key" in line:
        assert "; try " in message


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"cpus = ", "got no TOML: Invalid value"),
        (b"a = 1\na = 2", "got no TOML: Cannot overwrite a value"),
        (b"a = '\xff'", "got byte 0xff at offset 5; allowed: UTF-8 text"),
        (b"\0", "got no TOML: "),
    ],
)
def test_a_file_that_is_no_toml(data, line, tmp_path):
    path = tmp_path / "host.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_host(path)
    assert str(caught.value).startswith(f"{path}: {line}")


def test_a_file_that_cannot_be_read(tmp_path):
    for path, why in ((tmp_path / "none.toml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError) as caught:
            load_host(path)
        assert str(caught.value).startswith(f"{path}: got {why}")
        assert str(caught.value).endswith("allowed: a file that can be read")


def test_connections_do_not_go_into_toml():
    host = load(NIC).replace(connections=socket_rows([{}, {}]))
    with pytest.raises(ConfigError, match="host: connections: got 2 rows"):
        dump_host(host)


def test_text_is_quoted_as_toml_wants_it():
    for value in (
        'a"b\\c\n\t\r\x00\x7f\u2028',
        "",
        "ü",
        [],
        {},
        {"a b": 1},
        [True, -1, {"x": "y"}],
    ):
        assert tomllib.loads(f"v = {to_toml(value)}")["v"] == value
    long = list(range(1000))
    assert tomllib.loads(f"v = {to_toml(long)}")["v"] == long
    assert max(map(len, to_toml(long).splitlines())) <= 100
    with pytest.raises(TypeError):
        to_toml(1.5)


def test_ten_thousand_sockets_load_quickly(tmp_path):
    path = tmp_path / "host.toml"
    path.write_text(
        NIC
        + "".join(
            f'[[socket]]\nname = "s{index}"\nbind = "10.0.{index >> 8}.{index & 255}:80"\n'
            f'threads = "{index % 8}"\nreuseport = true\n'
            for index in range(10_000)
        )
    )
    start = time.perf_counter()
    host = load_host(path)

    assert len(host.sockets) == 10_000
    assert time.perf_counter() - start < 5  # about 0.2 s on an idle machine


def test_thousands_of_queues_on_thousands_of_cpus():
    masks = ", ".join(f'"{CpuSet([index % 4096]).mask(4096)}"' for index in range(2048))
    text = NIC.replace("= 8", "= 4096").replace("= 4\n", "= 2048\n")
    host = load(f"{text}rps_cpus = [{masks}]\nxps_cpus = [{masks}]\n")
    assert host.nics[0].xps_cpus == tuple(CpuSet([queue]) for queue in range(2048))


def test_the_reference_names_every_key_and_its_example_loads():
    text = DOCS.read_text()
    for kind in (Host, Topology, Nic, Rss, Gro, Cpumap, Socket, KernelProfile, Secrets):
        for field in attrs.fields(kind):
            if field.name not in NOT_IN_TOML:
                assert f"`{field.name}`" in text, (kind, field.name)
    example = text.split("```toml\n")[1].split("```")[0]
    assert load(example).nics[0].rps_cpus == (CpuSet([4, 5, 6, 7]),) * 4
