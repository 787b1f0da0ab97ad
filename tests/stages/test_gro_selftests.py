"""The situations of the kernel's own GRO selftest, as data (receive.md 7.1), but IP in IP.

A case is what is sent, ``(payload, offset, header)``, and the payloads that the receiver must
count. A pause begins a poll. Behind each case comes the FIN that the selftest sends to close it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.strategies import frames as make
from tests.strategies.gro import CWR, FIN, PSH, RST, SYN, URG, coalesce, segment, spoil

PAUSE = None
FINISH = (0, 200, {"flags": FIN})


def options(layout: str, value: int = 0) -> bytes:
    """N: a NOP, T: a timestamp, W: a window scale."""
    stamp = b"\x08\x0a" + value.to_bytes(4, "big") + bytes(4)
    return b"".join({"N": b"\1", "T": stamp, "W": b"\3\3\2"}[letter] for letter in layout)


def plain(*sent: Any) -> list[Any]:
    """Payloads one behind the other."""
    out, offset = [], 0
    for item in sent:
        payload, header = item if isinstance(item, tuple) else (item, {})
        out.append((payload, offset, header))
        offset += payload
    return out


def flag_case(flag: int) -> list[Any]:
    return [
        (100, 0, {}), (100, 100, {}), (0, 0, {"flags": flag}), (100, 300, {}), (100, 400, {}),
    ]  # fmt: skip


def stamped(layout: str, value: int) -> dict[str, Any]:
    return {"options": options(layout, value)}


def large(mss: int, rest: int) -> list[Any]:
    """Sixteen full segments, then two of the rest, the second one a segment further."""
    return [*plain(*[mss] * 16), (rest, 16 * mss, {}), (rest, 17 * mss, {})]


BAD_TCP = {"spoil": True}
# Cases in which something goes by the rest: GRO sees no flow in it, or another than the FIN's.
OVERTAKING = ("spoil", "ip_options", "'frag': 24576", "first")
BOTH: dict[str, tuple[list[Any], list[int]]] = {
    "data_same": (plain(100, 100), [200]),
    "data_lrg_sml": (plain(100, 50), [150]),
    "data_lrg_1byte": (plain(100, 1), [101]),
    "data_sml_lrg": (plain(50, 100), [50, 100]),
    "data_burst": (
        [(100, 0, {}), (100, 100, {}), PAUSE, (100, 200, {}), (100, 300, {})], [200, 200],
    ),
    "ack": ([(0, 0, {}), (0, 0, {}), (0, 0, {"ack": 101})], [0, 0, 0]),
    "flags_psh": (plain(100, 100, (100, {"flags": PSH}), 100, 100), [300, 200]),
    "flags_syn": (flag_case(SYN), [200, 0, 200]),
    "flags_rst": (flag_case(RST), [200, 0, 200]),
    "flags_urg": (flag_case(URG), [200, 0, 200]),
    # 6.18's answer; newer kernels join CWR with CWR.
    "flags_cwr": (
        plain(100, (100, {"flags": CWR}), (100, {"flags": CWR}), 100, 100), [100, 100, 100, 200],
    ),
    "tcp_csum": ([(100, 0, {}), (100, 100, BAD_TCP)], [100, 100]),
    "tcp_seq": ([(100, 0, {}), (100, 101, {})], [100, 100]),
    "tcp_ts": (
        plain(
            (100, stamped("NNT", 0)), (100, stamped("NNT", 0)), (100, stamped("NNT", 100)),
            (100, stamped("NTN", 100)), (100, stamped("TNN", 100)),
        ),
        [200, 100, 100, 100],
    ),
    "tcp_opt": (
        plain((100, stamped("NNT", 0)), (100, stamped("NNT", 0)), (100, stamped("NW", 0))),
        [200, 100],
    ),
    "single": (plain(100), [100]),
}  # fmt: skip


def idents(*numbers: int, frag: int) -> list[Any]:
    return plain(*((100, {"ident": number, "frag": frag}) for number in numbers))


DF, NO_DF = 0x4000, 0
STAMP_OPTION = bytes((68, 40, 5, 0)) + bytes(36)
IPV4 = {
    "ip_ecn": (plain(100, (100, {"tos": 2})), [100, 100]),
    "ip_tos": (plain(100, (100, {"tos": 1})), [100, 100]),
    "ip_csum": (plain(100, (100, {"spoil_ip": True}), 100), [100, 100, 100]),
    "ip_ttl": (plain(100, (100, {"ttl": 7})), [100, 100]),
    "ip_opt": (plain(100, (100, {"ip_options": STAMP_OPTION}), 100), [100, 100, 100]),
    "ip_frag4": (plain(100, (100, {"frag": 0x6000})), [100, 100]),
    "ip_id_df1_inc": (idents(8, 9, frag=DF), [200]),
    "ip_id_df1_fixed": (idents(8, 8, frag=DF), [200]),
    "ip_id_df0_inc": (idents(8, 9, frag=NO_DF), [200]),
    "ip_id_df0_fixed": (idents(8, 8, frag=NO_DF), [200]),
    "ip_id_df1_inc_fixed": (idents(8, 9, 9, frag=DF), [200, 100]),
    "ip_id_df1_fixed_inc": (idents(8, 8, 9, frag=DF), [200, 100]),
    "large_max": (large(4036, 919), [65495, 919]),
    "large_rem": (large(4036, 920), [64576, 920, 920]),
    "large_max of 4096": (large(4056, 599), [65495, 599]),
}
DESTINATION = {"first": 60, "extensions": make.extension(60, 6)}
DIFFERENT = {"first": 60, "extensions": make.extension(60, 6)[:-1] + b"\x11"}
FRAGMENT = {"first": 44, "extensions": make.extension(44, 6)}
IPV6 = {
    "ip_ecn": (plain(100, (100, {"traffic_class": 2})), [100, 100]),
    "ip_tos": (plain(100, (100, {"traffic_class": 0xF0})), [100, 100]),
    "ip_frag6": (
        [(100, 0, {}), (100, 100, {}), PAUSE, (100, 200, FRAGMENT), (100, 300, {})],
        [200, 100, 100],
    ),
    "ip_v6ext_same": (plain((100, DESTINATION), (100, DESTINATION)), [200]),
    "ip_v6ext_diff": (plain((100, DESTINATION), (100, DIFFERENT)), [100, 100]),
    "large_max": (large(4036, 899), [65475, 899]),
    "large_rem": (large(4036, 900), [64576, 900, 900]),
}
CASES = [(4, name, *case) for name, case in (BOTH | IPV4).items()]
CASES += [(6, name, *case) for name, case in (BOTH | IPV6).items()]


def build(version: int, payload: int, offset: int, header: dict[str, Any]) -> bytes:
    header = dict(header)
    bad_tcp, bad_ip = header.pop("spoil", False), header.pop("spoil_ip", False)
    frame = segment(payload, offset, version=version, **header)
    frame = spoil(frame, 51 if version == 4 else 71) if bad_tcp else frame
    return spoil(frame, 25) if bad_ip else frame


def received(skbs: Any) -> list[int]:
    """Payloads of all skbs, as the selftest's receiver counts them: -1 for the FIN."""
    counts = []
    for skb, frame in zip(skbs.table, skbs.frames(), strict=True):
        l4_off = int(skbs.packets.l4_off[skb["first"]])
        finish = frame[l4_off + 13] & FIN
        counts.append(-1 if finish else len(frame) - l4_off - 4 * (frame[l4_off + 12] >> 4))
    return counts


@pytest.mark.parametrize(
    ("version", "sent", "expected"),
    [pytest.param(v, sent, want, id=f"ipv{v}-{name}") for v, name, sent, want in CASES],
)
def test_selftest(engine, version, sent, expected):
    frames, polls = [], [0]
    for item in [*sent, FINISH]:
        if item is PAUSE:
            polls.append(0)
            continue
        frames.append(build(version, *item))
        polls[-1] += 1
    skbs = coalesce(engine("gro"), frames, polls=polls)

    actual = received(skbs)
    if any(str(item).find(word) > 0 for item in sent for word in OVERTAKING):
        assert sorted(actual) == sorted([*expected, -1])
    else:
        assert actual == [*expected, -1]


@pytest.mark.parametrize("version", [4, 6])
def test_selftest_capacity(engine, version):
    """All first packets, then all second ones with PSH: each flow comes out whole, in order."""
    frames = [
        segment(200, 200 * turn, version=version, sport=1500 + flow, flags=PSH * turn)
        for turn in range(2)
        for flow in range(4)
    ]
    skbs = coalesce(engine("gro"), frames)

    assert skbs.members() == [[flow, flow + 4] for flow in range(4)]
