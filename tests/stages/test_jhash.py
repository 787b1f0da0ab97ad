"""jhash and the socket hashes on it, against the vectors of SOCK-17, and core against reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu._core import jhash as core
from emu.ref import jhash as ref
from tests.strategies.sockets import U32S, words

SECRET = 0x12345678


def u32(*values: Any) -> Any:
    return np.array(values, dtype=np.uint32)


def u16(*values: int) -> Any:
    return np.array(values, dtype=np.uint16)


@pytest.mark.parametrize(
    ("row", "initval", "expected"),
    [([1, 2, 3, 4], 0, 0x66491246), ([1, 2, 3, 4], 7, 0xBCB62B19)],
)
def test_sock_1_more_than_three_words_are_mixed(
    engine: Any, row: list[int], initval: int, expected: int
) -> None:
    assert engine("jhash").jhash_words(u32(row), initval).tolist() == [expected]


@pytest.mark.parametrize(
    ("row", "initval", "expected"),
    [
        ([0], 0, 0x049396B8), ([0, 0], 0, 0x58C184BF), ([0, 0, 0], 0, 0x1B68E557),
        ([1, 2, 3], 4, 0x8103143F), ([1], 2, 0xF1524A01), ([1, 2], 3, 0x252781B5),
    ],
)  # fmt: skip
def test_sock_3_one_to_three_words_are_not_mixed(
    engine: Any, row: list[int], initval: int, expected: int
) -> None:
    assert engine("jhash").jhash_words(u32(row), initval).tolist() == [expected]


@pytest.mark.parametrize("mix", [0, 1, 0xFFFFFFFF])
def test_sock_8_a_namespaces_mix_is_where_the_port_address_hash_begins(
    engine: Any, mix: int
) -> None:
    address = words("192.0.2.1")[0]
    (alone,) = engine("jhash").jhash_words(u32([address]), mix).tolist()

    assert engine("jhash").portaddr_v4(u32(address), u16(80), mix).tolist() == [alone ^ 80]


def test_sock_10_an_ipv4_pair_is_three_words(engine: Any) -> None:
    local, foreign = words("192.0.2.1")[0], words("198.51.100.7")[0]
    ports = 80 << 16 | int.from_bytes((40000).to_bytes(2, "big"), "little")  # as they lie there
    three = engine("jhash").jhash_words(u32([local, foreign, ports]), SECRET)

    out = engine("jhash").ehash_v4(
        u32(local), u16(80), u32(foreign), u16(40000), SECRET, port_added=False
    )

    assert out.tolist() == three.tolist()


def test_sock_17_bytes(engine: Any) -> None:
    assert engine("jhash").jhash_bytes(b"abcdefghijklmnop", 5) == 0x40DC70BF
    assert engine("jhash").jhash_bytes(b"abc", 0) == 0x0E397631


@pytest.mark.parametrize(("port_added", "expected"), [(False, 0x99064F2B), (True, 0x1E4D8C39)])
def test_sock_12_ehash_v4(engine: Any, port_added: bool, expected: int) -> None:
    local, foreign = words("192.0.2.1")[0], words("198.51.100.7")[0]
    out = engine("jhash").ehash_v4(
        u32(local), u16(80), u32(foreign), u16(40000), SECRET, port_added=port_added
    )
    assert out.tolist() == [expected]


@pytest.mark.parametrize(("port_added", "expected"), [(False, 0x9C4F5C3D), (True, 0xDB7E35B4)])
def test_sock_13_ehash_v6(engine: Any, port_added: bool, expected: int) -> None:
    local, foreign = u32(words("2001:db8::1")), u32(words("2001:db8::7"))
    out = engine("jhash").ehash_v6(
        local, u16(80), foreign, u16(40000), SECRET, 0xABCDEF01, port_added=port_added
    )
    assert out.tolist() == [expected]


def test_sock_15_port_address(engine: Any) -> None:
    v4 = engine("jhash").portaddr_v4(u32(0, words("192.0.2.1")[0]), u16(80, 80), 0)
    assert v4.tolist() == [0x049396E8, 0xB3BCB881]
    v6 = engine("jhash").portaddr_v6(
        u32(words("2001:db8::1"), words("::"), words("::ffff:192.0.2.1")), u16(80, 80, 80), 0
    )
    assert v6.tolist() == [0x0E5B0A8B, *v4]


@given(st.lists(U32S, max_size=11), U32S, st.binary(max_size=40))
def test_sock_4_core_equals_reference(row: list[int], initval: int, data: bytes) -> None:
    table = u32(row).reshape(1, -1)
    assert core.jhash_words(table, initval).tolist() == ref.jhash_words(table, initval).tolist()
    assert core.jhash_bytes(data, initval) == ref.jhash_bytes(data, initval)


@given(
    st.lists(U32S, min_size=8, max_size=8), st.integers(0, 65535), st.integers(0, 65535),
    U32S, U32S,
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_sock_14_ehash_core_equals_reference(
    row: list[int],
    lport: int,
    fport: int,
    secret: int,
    addr_secret: int,
    added: bool,
    xor_words: bool,
) -> None:
    local, foreign, ports = u32(row[:4]), u32(row[4:]), (u16(lport), u16(fport))
    v6 = [
        module.ehash_v6(
            local,
            ports[0],
            foreign,
            ports[1],
            secret,
            addr_secret,
            port_added=added,
            xor_words=xor_words,
        ).tolist()
        for module in (core, ref)
    ]
    v4 = [
        module.ehash_v4(
            local[0, :1], ports[0], foreign[0, :1], ports[1], secret, port_added=added
        ).tolist()
        for module in (core, ref)
    ]
    assert v6[0] == v6[1]
    assert v4[0] == v4[1]
    assert (
        core.portaddr_v6(local, ports[0], secret).tolist()
        == ref.portaddr_v6(local, ports[0], secret).tolist()
    )


def test_arrays_of_different_lengths_are_refused(engine: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        engine("jhash").ehash_v4(u32(1, 2), u16(1), u32(1), u16(1), 0)
