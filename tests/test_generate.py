"""Generated packets: what the knobs promise, and that dissection says the same of their frames."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.dtypes import PACKET_COLUMNS, IpSummed
from emu.errors import ConfigError
from emu.intake import from_frames
from emu.io.capture import read_capture
from emu.io.frames import frames_of, write_pcap
from emu.model import draw
from emu.model.generate import generate

U64 = st.integers(0, 2**64 - 1)
OPTIONS_BYTES = 12
GOLDEN_DRAW = 10573686684363502989
GOLDEN_ROWS = [
    (4, 17, 43291, 0, 54662, 590),
    (4, 17, 43291, 0, 54663, 54),
    (6, 17, 54706, 0, 0, 62),
    (6, 6, 48656, 229971197, 0, 86),
]


def flow_ids(packets):
    """One tuple per packet: who talks to whom."""
    columns = (packets.ip_proto, packets.sport, packets.dport)
    addresses = (packets.saddr, packets.daddr)
    rows = [map(tuple, array.tolist()) for array in addresses]
    return list(zip(*(array.tolist() for array in columns), *rows, strict=True))


def by_flow(packets):
    """Row numbers of each flow, in order."""
    out = {}
    for row, flow in enumerate(flow_ids(packets)):
        out.setdefault(flow, []).append(row)
    return out


def check_dissects_alike(packets, engine="core"):
    """Build the frames, dissect them, compare every column but where the bytes are."""
    again = from_frames(
        frames_of(packets), arrival_ps=packets.arrival_ps, nic=packets.nic, engine=engine,
        ip_summed=[IpSummed(code).name.lower() for code in packets.ip_summed.tolist()],
    )  # fmt: skip
    for name, _, _ in PACKET_COLUMNS:
        if name not in ("frame_off", "cap_bytes", "opt_off"):
            assert np.array_equal(packets.columns[name], again.columns[name]), name
    assert len(again.flow_keys) == 0
    for one, other in zip(packets.opt_off.tolist(), again.opt_off.tolist(), strict=True):
        assert (one < 0) == (other < 0)
        if one >= 0:
            left = packets.blob[one : one + OPTIONS_BYTES]
            assert np.array_equal(left, again.blob[other : other + OPTIONS_BYTES])
    return again


TRAFFIC = st.fixed_dictionaries(
    {"packets": st.integers(0, 40), "flows": st.integers(4, 20)},
    optional={
        "pattern": st.sampled_from(["uniform", "zipf", "trains"]),
        "train": st.integers(1, 5),
        "interleave": st.integers(1, 4),
        "zipf_s": st.sampled_from([0, 0.5, 1, 1.1, 10]),
        "proto": st.sampled_from(["tcp", "udp", "mix"]),
        "family": st.sampled_from([4, 6, "mix"]),
        "payload_bytes": st.one_of(
            st.integers(0, 3000), st.just("imix"), st.just({0: 1, 1: 2, 65001: 1})
        ),
        "clients": st.sampled_from(["10.0.0.0/29", ["192.0.2.7", "fd00::/125"], "fd01::/48"]),
        "rate_pps": st.sampled_from([1, 3, 10**6, 10**12]),
        "timestamps": st.booleans(),
        "psh": st.booleans(),
        "nic": st.integers(0, 65535),
        "ip_summed": st.sampled_from(["none", "complete"]),
        "seed": U64,
    },
)


@given(knobs=TRAFFIC, engine=st.sampled_from(["core", "ref"]))
def test_dissection_of_the_frames_says_the_same(knobs, engine):
    packets = generate(**knobs)

    assert len(packets) == knobs["packets"]
    check_dissects_alike(packets, engine)


@given(knobs=TRAFFIC)
def test_flows_go_on_without_a_gap(knobs):
    packets = generate(**{"packets": 40, **knobs, "flows": 4})
    for rows in by_flow(packets).values():
        payload = packets.payload_bytes[rows].tolist()
        seq, ids = packets.seq[rows].tolist(), packets.ip_id[rows].tolist()
        tcp, four = packets.ip_proto[rows[0]] == 6, packets.family[rows[0]] == 4
        for k in range(1, len(rows)):
            assert (seq[k] - seq[k - 1]) % 2**32 == (payload[k - 1] if tcp else 0)
            assert (ids[k] - ids[k - 1]) % 2**16 == (1 if four else 0)
        assert len(set(packets.ack[rows].tolist())) == 1


@given(knobs=TRAFFIC)
def test_equal_arguments_give_equal_packets(knobs):
    one, other = generate(**knobs), generate(**knobs)
    for name, _, _ in PACKET_COLUMNS:
        assert np.array_equal(one.columns[name], other.columns[name])


def test_another_seed_gives_other_packets():
    assert flow_ids(generate(packets=9, seed=1)) != flow_ids(generate(packets=9, seed=2))


def test_the_numbers_stay_what_they_are():
    """A change here changes every published run."""
    packets = generate(
        packets=4, flows=3, proto="mix", family="mix", payload_bytes="imix", seed=7, timestamps=True
    )
    assert draw.draw(7, 1, 0) == GOLDEN_DRAW
    assert [tuple(row) for row in zip(
        packets.family.tolist(), packets.ip_proto.tolist(), packets.sport.tolist(),
        packets.seq.tolist(), packets.ip_id.tolist(), packets.wire_bytes.tolist(), strict=True,
    )] == GOLDEN_ROWS  # fmt: skip


def test_trains_take_turns():
    packets = generate(packets=24, flows=4, pattern="trains", train=3, psh=True)
    flows = flow_ids(packets)

    assert all(len(set(flows[at : at + 3])) == 1 for at in range(0, 24, 3))
    assert len(set(flows[:12])) == len(set(flows[12:])) == 4
    assert [bool(word >> 16 & 8) for word in packets.tcp_w12.tolist()] == [False, False, True] * 8


def test_interleaved_trains():
    packets = generate(packets=12, flows=6, pattern="trains", train=2, interleave=4, psh=True)
    flows = flow_ids(packets)

    assert flows[:4] == flows[4:8]
    assert len(set(flows[:4])) == 4
    assert flows[8:10] == flows[10:12]
    ends = [bool(word >> 16 & 8) for word in packets.tcp_w12.tolist()]
    assert ends == [False] * 4 + [True] * 4 + [False] * 2 + [True] * 2


def test_uniform_and_zipf_shares():
    counts = [
        np.sort([len(rows) for rows in by_flow(packets).values()])[::-1]
        for packets in (
            generate(packets=20_000, flows=10),
            generate(packets=20_000, flows=10, pattern="zipf", zipf_s=1),
        )
    ]
    weights = np.array([1 / rank for rank in range(1, 11)])
    assert np.all(np.abs(counts[0] - 2000) < 250)
    assert np.all(np.abs(counts[1] - 20_000 * weights / weights.sum()) < 300)


def test_imix_and_mapped_sizes():
    packets = generate(packets=12_000, payload_bytes="imix")
    lengths, counts = np.unique(packets.ip_len, return_counts=True)
    assert lengths.tolist() == [40, 576, 1500]
    assert np.all(np.abs(counts - [7000, 4000, 1000]) < 250)

    packets = generate(packets=4000, payload_bytes={5: 3, 9: 1})
    assert abs(int((packets.payload_bytes == 5).sum()) - 3000) < 150


def test_every_client_address_and_port_is_used_once():
    packets = generate(
        packets=70, flows=70, pattern="trains", train=1, local="10.0.0.1:80",
        clients="10.0.0.0/29", client_ports=(1000, 1013),
    )  # fmt: skip
    hosts = packets.saddr[:, 0] >> np.uint32(24)

    assert sorted(set(hosts.tolist())) == [2, 3, 4, 5, 6]  # not 0, not 7, not the destination
    assert len(set(flow_ids(packets))) == 70
    assert set(packets.sport.tolist()) == set(range(1000, 1014))


def test_destinations():
    packets = generate(packets=300, local=["10.0.0.1:80", "10.0.0.2:81", "[fd00::1]:82"])

    assert set(packets.dport.tolist()) == {80, 81, 82}
    assert set(packets.family.tolist()) == {4, 6}
    assert set(packets.dport[packets.family == 6].tolist()) == {82}


def test_arrivals_are_even():
    assert generate(packets=4, rate_pps=3).arrival_ps.tolist() == [
        k * 10**12 // 3 for k in range(4)
    ]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"packets": -1}, "traffic: packets: got -1; allowed: a whole number from 0"),
        ({"flows": 0}, "traffic: flows: got 0"),
        ({"pattern": "train"}, 'try "trains"'),
        ({"flows": 2, "interleave": 3, "pattern": "trains"}, "interleave: got 3; allowed: at most"),
        ({"zipf_s": 1.00001}, "zipf_s: got 1.00001"),
        ({"zipf_s": "x"}, "zipf_s: got 'x'"),
        ({"proto": "sctp"}, "proto: got 'sctp'"),
        ({"family": 5}, "family: got 5"),
        ({"family": 6, "local": "10.0.0.1:80"}, "local: got '10.0.0.1:80'; allowed: IPv6"),
        ({"family": "mix", "local": "10.0.0.1:80"}, "local: got"),
        ({"local": "10.0.0.1"}, "local: got '10.0.0.1'; allowed: \"address:port\""),
        ({"local": ()}, "local: got ()"),
        ({"local": 7}, "local: got 7"),
        ({"clients": "10.0.0.1/8"}, "clients: got '10.0.0.1/8'"),
        ({"clients": ("10.0.0.0/8", "11.0.0.0/8")}, "one network of each family"),
        ({"clients": "10.0.0.1"}, "flows: got 1024 of IPv4; allowed: at most 0"),
        ({"clients": "10.0.0.2", "flows": 28233}, "at most 28232: 1 client addresses x 28232"),
        ({"client_ports": (5, 4)}, "client_ports: got (5, 4)"),
        ({"payload_bytes": 65496}, "payload_bytes: got 65496; allowed: at most 65495"),
        ({"payload_bytes": {}}, "payload_bytes: got {}"),
        ({"payload_bytes": "big"}, "payload_bytes: got 'big'"),
        ({"payload_bytes": {1: 0}}, "payload_bytes: got {1: 0}"),
        ({"rate_pps": 0}, "rate_pps: got 0"),
        ({"packets": 10**7, "rate_pps": 1}, "rate_pps: got 1; allowed: at most 53 days"),
        ({"timestamps": 1}, "timestamps: got 1"),
        ({"nic": 65536}, "nic: got 65536"),
        ({"ip_summed": "good"}, "ip_summed: got 'good'"),
        ({"seed": -1}, "seed: got -1"),
    ],
)
def test_mistakes_are_one_line(knobs, message):
    with pytest.raises(ConfigError) as caught:
        generate(**{"packets": 1, **knobs})

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_written_and_read_again(tmp_path):
    packets = generate(packets=50, flows=5, proto="mix", timestamps=True, payload_bytes="imix")
    assert write_pcap(tmp_path / "a.pcap", packets) == 50
    again = read_capture(tmp_path / "a.pcap")

    for name in ("arrival_ps", "saddr", "seq", "payload_bytes", "flags", "wire_bytes"):
        assert np.array_equal(packets.columns[name], again.columns[name]), name
    assert frames_of(again) == frames_of(packets)


@given(seed=U64, stream=st.integers(0, 99), numbers=st.lists(U64, max_size=9))
def test_draws_are_draw(seed, stream, numbers):
    drawn = draw.draws(seed, stream, np.array(numbers, dtype=np.uint64))
    assert drawn.tolist() == [draw.draw(seed, stream, n) for n in numbers]


@given(values=st.lists(U64, max_size=9), bound=U64)
def test_all_below_is_below(values, bound):
    mapped = draw.all_below(np.array(values, dtype=np.uint64), bound)
    assert mapped.tolist() == [draw.below(value, bound) for value in values]


@pytest.mark.parametrize("s", [0, 1, 500, 1100, 2000, 10_000])
def test_zipf_weights_are_zipf_weight_and_right(s):
    weights = draw.zipf_weights(2000, s, 40).tolist()

    assert weights == [draw.zipf_weight(rank, s, 40) for rank in range(1, 2001)]
    assert sorted(weights, reverse=True) == weights
    for rank in (1, 2, 3, 10, 1999):
        exact = 2**40 / rank ** (s / 1000)
        assert abs(weights[rank - 1] - exact) <= 2 + exact * 2**-24


def test_zipf_weights_of_whole_exponents_are_exact_to_their_places():
    for rank in (2, 4, 1024):
        assert Fraction(draw.zipf_weight(rank, 1000, 40), 2**40) == Fraction(1, rank)


def test_zipf_sum_stays_in_range():
    for count in (1, 2**20, 2**31 - 1):
        assert count << draw.zipf_places(count) < 2**62


@pytest.mark.parametrize("bits", [0, 1, 2, 7, 10])
def test_permuted_is_a_bijection(bits):
    numbers = np.arange(2**bits, dtype=np.uint64)
    assert sorted(draw.permuted(numbers, bits, 3, 4).tolist()) == numbers.tolist()


def test_thousandths():
    assert [draw.thousandths(value) for value in (1, 1.1, 0.125)] == [1000, 1100, 125]
    with pytest.raises(ValueError, match="three decimals"):
        draw.thousandths(0.0001)
