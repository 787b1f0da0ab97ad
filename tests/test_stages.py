"""The library author's door: what it takes, what it refuses, and which stage it asks."""

from __future__ import annotations

import inspect
import sys
from ipaddress import ip_address

import numpy as np
import pytest

from emu import engines, stages
from emu.dtypes import SOCKET, HashType, LookupStage, PacketFlag, SockState
from emu.errors import ConfigError, CoreNotBuilt
from emu.model.masks import CpuSet
from emu.model.nic import Rss
from tests.strategies import frames as make
from tests.strategies.hashing import MS_KEY, Row, table

SECRET = bytes(range(16))
S, D = "66.9.149.187", "161.142.100.80"  # the first row of Microsoft's verification suite
S6, D6 = "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1"
V4 = Row(4, 6, PacketFlag.HAS_PORTS, ip_address(S).packed, ip_address(D).packed, 2794, 1766)


@pytest.fixture(params=["core", "ref"])
def engine(request):
    """The engine's name, as a user writes it."""
    return request.param


def words(*addresses):
    return stages.address_words(addresses)


# Hashes.


def test_address_words_are_what_the_columns_hold():
    packets = table([V4])

    assert words(S).tolist() == packets.saddr.tolist()
    assert words(D6)[0].tobytes() == ip_address(D6).packed
    assert words().shape == (0, 4)


def test_toeplitz_takes_octets_and_a_key_by_name(engine):
    data = [list(ip_address(S).packed + ip_address(D).packed)]

    for key in (MS_KEY, MS_KEY.hex(), MS_KEY.hex(":"), "microsoft", bytearray(MS_KEY)):
        assert stages.toeplitz(key, data, engine=engine).tolist() == [0x323E8FC2]


def test_toeplitz_of_tuples(engine):
    v4 = words(S)[:, 0], words(D)[:, 0], [2794], [1766]
    v6 = words(S6), words(D6), [2794], [1766]

    assert stages.toeplitz_v4("microsoft", *v4, engine=engine).tolist() == [0x51CCC178]
    assert stages.toeplitz_v6("microsoft", *v6, engine=engine).tolist() == [0x40207D3D]


def test_siphash_and_flow_hash(engine):
    packets = stages.dissect([make.tcp4(1)], engine=engine)

    hashes = stages.flow_hash(packets, SECRET, engine=engine)

    assert int(stages.siphash(SECRET, [range(15)], engine=engine)[0]) == 0xA129CA6149BE45E5
    assert hashes.hash.tolist() != [0]
    assert hashes.l4.tolist() == [1]
    assert stages.flow_hash(table([V4]), SECRET, engine=engine).hash.tolist() == [0x326DE8C4]


def test_jhash_and_ehash(engine):
    """Both engines' answers are the stage's; tests/stages/test_jhash.py has the vectors."""
    module = engines.stage(engine, "jhash")
    local, foreign = words(D), words(S)
    given = local[:, 0], np.array([80], "u2"), foreign[:, 0], np.array([9], "u2")

    assert stages.jhash([[1, 2, 3]], 7, engine=engine).tolist() == (
        module.jhash_words(np.array([[1, 2, 3]], "u4"), 7).tolist()
    )
    assert stages.ehash_v4(*given, 5, engine=engine).tolist() == (
        module.ehash_v4(*(np.ascontiguousarray(one) for one in given), 5).tolist()
    )
    assert stages.ehash_v6(words(D6), [80], words(S6), [9], 5, 6, engine=engine).dtype == np.uint32


# The way in.


def test_rss_of_two_nics(engine):
    nics = [Rss(key="microsoft"), Rss(key="symmetric", indirection=(7, 9))]
    packets = table([V4, V4._replace(nic=1), V4._replace(family=0)])

    answer = stages.rss(packets, nics, rx_queues=[3, 1], engine=engine)

    assert answer.hash.tolist() == [0x51CCC178, 0x9FCC9FCC, 0]
    assert answer.hash_type.tolist() == [HashType.L4, HashType.L4, HashType.NONE]
    assert answer.queue.tolist() == [(0x51CCC178 & 127) % 3, 7, 0]


def test_rss_with_input_xfrm_and_fewer_fields(engine):
    packets = table([V4])
    xor = Rss(key="microsoft", input_xfrm="symmetric-xor")
    addresses = Rss(key="microsoft", hash_fields={"tcp4": "sd"})

    assert stages.rss(packets, xor, rx_queues=4, engine=engine).hash.tolist() == [0xAC2B58CA]
    answer = stages.rss(packets, addresses, rx_queues=4, engine=engine)
    assert answer.hash.tolist() == [0x323E8FC2]
    assert answer.hash_type.tolist() == [HashType.L3]


def test_make_polls_by_numbers_for_all(engine):
    polls = stages.make_polls(
        [0, 1, 0, -1], [0, 5_000_000, 1, 2], rx_usecs_ps=10**6, hz=1000, engine=engine
    )

    assert polls.order.tolist() == [0, 2, 1]
    assert polls.queue.tolist() == [0, 1]
    assert polls.time_ps.tolist() == [10**6, 6 * 10**6]
    assert polls.jiffy.tolist() == [0, 0]
    late = stages.make_polls([2], [3 * 10**9], hz=1000, engine=engine)
    assert late.jiffy.tolist() == [3]


def test_make_polls_of_nothing(engine):
    assert len(stages.make_polls([], [], engine=engine)) == 0


def test_cpumap_targets(engine):
    packets = table([V4, V4])

    def ask(rule, **rest):
        return stages.cpumap_targets(packets, rule, [3, 5], engine=engine, **rest).tolist()

    assert ask("fixed", fixed=1) == [5, 5]
    assert ask("rx-queue", rx_queue=[0, 1]) == [3, 5]
    assert set(ask("hash")) <= {3, 5}


@pytest.mark.parametrize("cpus", ["2c", CpuSet([2, 3, 5]), [5, 3, 2], np.array([2, 3, 5])])
def test_rps_cpu_takes_a_mask_as_text_set_or_numbers(engine, cpus):
    online = [True] * 5 + [False]

    answer = stages.rps_cpu([0, 1, 2**31, 2**32 - 1], cpus, online=online, engine=engine)

    assert answer.tolist() == [-1, 2, 3, -1]
    assert stages.rps_cpu([1, 2**32 - 1], cpus, engine=engine).tolist() == [2, 5]
    assert stages.rps_cpu([1], [], engine=engine).tolist() == [-1]


def test_gro_and_dissect_are_the_same_doors(engine):
    frames = [make.tcp4(1, payload=b"12")]

    assert len(stages.gro(stages.dissect(frames, engine=engine), engine=engine).table) == 1


# Sockets.


def test_reuseport(engine):
    hashes = [0, 2**31, 2**32 - 1]

    def pick(incoming, **rest):
        return stages.reuseport(hashes, 1, incoming, engine=engine, **rest).tolist()

    assert pick([-1, -1]) == [0, 1, 1]
    assert pick([-1, 1]) == [1, 1, 1]
    assert pick([-1, 1], cpu_aware=False) == [0, 1, 1]
    assert pick([-1, -1], established=[True, False]) == [1, 1, 1]
    assert pick([]) == [-1, -1, -1]


def test_lookup(engine):
    sockets = np.zeros(1, dtype=SOCKET)
    sockets["family"], sockets["proto"], sockets["state"] = 4, 6, SockState.LISTEN
    sockets["lport"] = V4.dport
    for name in ("incoming_cpu", "mask_off", "psock_target", "psock_cpu"):
        sockets[name] = -1

    answer = stages.lookup(table([V4, V4._replace(dport=1)]), sockets, engine=engine)

    assert answer.socket.tolist() == [0, -1]
    assert answer.stage.tolist()[1] == LookupStage.NONE


def test_psock_cpus(engine):
    answer = stages.psock_cpus([-1, 4], [0, 0, 1], [2, 3, 3], burst=3, engine=engine)

    assert answer.tolist() == [2, 2, 4]


# The way out.


def test_xps(engine):
    device = stages.xps_device(
        4, ncpus=2, xps_cpus={0: "1", 1: "1", 2: [1]}, xps_rxqs={3: CpuSet([0])}, engine=engine
    )

    assert device.lists(0) == {(0, 0): [0, 1], (1, 0): [2]}
    answer = stages.xps_queue(device, [0, 0, 1, 0], [0, 2**32 - 1, 7, 7], rx_queue=[-1, -1, -1, 0])
    assert answer.queue.tolist() == [0, 1, 2, 3]
    assert answer.used_hash.tolist() == [1, 1, 0, 0]
    picked = stages.pick_tx(device, 1, [5, 5], cached=[-1, 0], ooo_okay=[1, 0])
    assert picked.queue.tolist() == [2, 0]
    assert picked.cached.tolist() == [2, 0]


# What is refused.

PACKETS = table([V4])
REFUSED = {
    "key": (lambda: stages.toeplitz("6d5", [[1]]), "rss: key: got '6d5'"),
    "no key": (lambda: stages.toeplitz(None, [[1]]), "toeplitz: key: got a NoneType"),
    "near key": (lambda: stages.toeplitz("microsft", [[1]]), 'try "microsoft"'),
    "address": (lambda: stages.address_words(["1.2.3"]), r"address_words\[0\]: got '1.2.3'"),
    "ragged": (lambda: stages.siphash(SECRET, [[1], [1, 2]]), "siphash: data: got"),
    "secret": (lambda: stages.flow_hash(PACKETS, b"1"), "flow_hash: key: got 1 bytes"),
    "word": (lambda: stages.jhash([[2**32]]), r"jhash: words\[0\]: got 4294967296"),
    "initval": (lambda: stages.jhash([[1]], -1), "jhash: initval: got -1"),
    "bool": (lambda: stages.jhash([[1]], True), "jhash: initval: got True"),
    "ehash": (lambda: stages.ehash_v4([1], [1, 2], [1], [1], 0), "sport: got shape"),
    "nic key": (lambda: stages.rss(PACKETS, Rss(), rx_queues=1), r'nics\[0\].key: .*microsoft'),
    "no table": (lambda: stages.rss(PACKETS, Rss(key="microsoft")), "rx_queues for the default"),
    "rx_queues": (lambda: stages.rss(PACKETS, Rss(key="microsoft"), rx_queues=0), "got 0"),
    "queues": (lambda: stages.make_polls([4], [0], queues=4), r"queue\[0\]: got 4; allowed: -1..3"),
    "hz": (lambda: stages.make_polls([0], [0], hz=0), "make_polls: hz: got 0"),
    "usecs": (lambda: stages.make_polls([0], [0], rx_usecs_ps=0.5), "rx_usecs_ps: got an array"),
    "rule": (lambda: stages.cpumap_targets(PACKETS, "sadr", [1]), 'try "saddr"'),
    "entries": (lambda: stages.cpumap_targets(PACKETS, "hash", []), "cpumap: cpus: got none"),
    "fixed": (lambda: stages.cpumap_targets(PACKETS, "fixed", [1], fixed=1), "fixed: got 1"),
    "mask": (lambda: stages.rps_cpu([1], "x"), "rps_cpu: cpus: got"),
    "cpus": (lambda: stages.rps_cpu([1], [4], ncpus=4), r"cpus\[0\]: got 4; allowed: 0..3"),
    "no cpus": (lambda: stages.rps_cpu([1], 5), "rps_cpu: cpus: got"),
    "online": (lambda: stages.rps_cpu([1], [0], ncpus=2, online=[1]), r"online: .* shape \(2,\)"),
    "members": (lambda: stages.reuseport([1], 0, [-2]), r"incoming_cpu\[0\]: got -2"),
    "cpu": (lambda: stages.reuseport([1], [1, 2], [0]), r"reuseport: cpu: got shape \(2,\)"),
    "sockets": (lambda: stages.lookup(PACKETS, np.zeros(1)), "rows of emu.dtypes.SOCKET"),
    "no rows": (lambda: stages.lookup(PACKETS, []), "sockets: got list"),
    "kernel": (lambda: stages.lookup(PACKETS, np.zeros(0, SOCKET), kernel="6.17"), '"6.18"'),
    "psock": (lambda: stages.psock_cpus([1], [1], 0), r"psock\[0\]: got 1; allowed: 0..0"),
    "tx": (lambda: stages.xps_device(0, ncpus=1), "num_tx: got 0"),
    "xps mask": (lambda: stages.xps_device(2, ncpus=2, xps_cpus={0: "f"}), r"xps_cpus\[0\]: got"),
    "xps queue": (lambda: stages.xps_device(2, ncpus=2, xps_cpus={2: "1"}), "queue: got 2"),
    "device": (lambda: stages.xps_queue(None, 0, [1]), "device: got NoneType"),
    "pick": (
        lambda: stages.pick_tx(stages.xps_device(1, ncpus=1), 0, [1], cached=-2),
        r"cached\[0\]: got -2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_one_line(name):
    call, message = REFUSED[name]

    with pytest.raises(ConfigError, match=message) as raised:
        call()

    assert "\n" not in str(raised.value)


# The engines, and the door as a whole.

DOORS = {
    name: door for name, door in vars(stages).items() if inspect.isfunction(door) and name in
    stages.__all__
}  # fmt: skip
SWITCHED = [name for name, door in DOORS.items() if "engine" in inspect.signature(door).parameters]


def test_every_door_is_listed_and_documented():
    assert set(stages.__all__) == {name for name in dir(stages) if name in stages.__all__}
    for name, door in DOORS.items():
        said = inspect.getdoc(door) or ""
        assert "Args:" in said, name
        assert "ConfigError" in said, name
        for argument in inspect.signature(door).parameters:
            assert f"{argument}:" in said, f"{name} does not tell of {argument}"


def test_all_but_the_devices_doors_have_an_engine():
    assert set(DOORS) - set(SWITCHED) == {"address_words", "pick_tx", "xps_queue"}


def test_an_engine_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"engine: got 'cor'; allowed: .*; try 'core'"):
        stages.siphash(SECRET, [[1]], engine="cor")


def test_a_core_that_is_not_built_names_the_command(monkeypatch):
    """There is no silent fallback to the reference."""
    monkeypatch.setitem(sys.modules, "emu._core.flow_hash", None)

    with pytest.raises(CoreNotBuilt, match=r"pip install -e \."):
        stages.siphash(SECRET, [[1]])
    assert len(stages.siphash(SECRET, [[1]], engine="ref")) == 1


def test_a_module_that_the_core_needs_is_not_mistaken_for_the_core(monkeypatch):
    def fail(path):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(engines.importlib, "import_module", fail)

    with pytest.raises(ModuleNotFoundError) as raised:
        engines.stage("core", "flow_hash")

    assert not isinstance(raised.value, CoreNotBuilt)
