"""Array arguments: what becomes an exact column, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.model.arrays import column, octets, spread


def test_a_column_that_fits_is_not_copied():
    given_column = np.arange(5, dtype=np.uint16)

    assert np.shares_memory(column("x", given_column, "u2"), given_column)


@pytest.mark.parametrize(
    "values", [[1, 2], (1, 2), range(1, 3), np.array([1, 2], ">u8"), np.array([1, 9, 2, 9])[::2]]
)
def test_anything_array_like_becomes_one(values):
    out = column("x", values, "u2")

    assert out.dtype == np.dtype("<u2")
    assert out.flags.c_contiguous
    assert out.tolist() == [1, 2]


def test_an_empty_list_is_a_column_of_nothing():
    assert column("x", [], "i4").dtype == np.int32
    assert column("x", [], "i4").shape == (0,)


@pytest.mark.parametrize(
    ("values", "arguments", "message"),
    [
        ([1.0], {}, "x: got an array of float64; allowed: whole numbers .uint16.; try .astype"),
        ([True], {}, "x: got an array of bool"),
        (["1"], {}, "x: got an array of str32; allowed: whole numbers .uint16.$"),
        ([None], {}, "x: got an array of object"),
        ([[1], [2, 3]], {}, "x: got .*allowed: an array of uint16"),
        ([[1]], {}, r"x: got shape \(1, 1\); allowed: shape \(n,\)"),
        (5, {}, r"x: got shape \(\); allowed: shape \(n,\)"),
        ([1], {"rows": 2}, r"x: got shape \(1,\); allowed: shape \(2,\)"),
        ([[1, 2]], {"width": 4}, r"x: got shape \(1, 2\); allowed: shape \(n, 4\)"),
        ([1], {"rows": 2, "width": -1}, r"allowed: shape \(2, w\)"),
        ([0, 65536], {}, r"x\[1\]: got 65536; allowed: 0..65535"),
        ([0, -1], {}, r"x\[1\]: got -1; allowed: 0..65535"),
        ([3, 2**80], {}, r"x\[1\]: got 1208925819614629174706176; allowed: 0..65535"),
        ([3, 9, 9], {"high": 8}, r"x\[1\]: got 9; allowed: 0..8"),
        ([3, 9], {"low": 4}, r"x\[0\]: got 3; allowed: 4..65535"),
        ([[3, 3], [3, 9]], {"width": 2, "high": 8}, r"x\[1\]: got 9"),
    ],
)
def test_what_is_no_such_column_is_refused_in_one_line(values, arguments, message):
    with pytest.raises(ConfigError, match=message) as raised:
        column("x", values, "u2", **arguments)

    assert "\n" not in str(raised.value)


@given(st.lists(st.integers(-(2**70), 2**70)), st.sampled_from(["u1", "i2", "u4", "i8", "u8"]))
def test_a_column_holds_just_the_numbers_given_or_nothing(values, dtype):
    limits = np.iinfo(dtype)
    if all(limits.min <= value <= limits.max for value in values):
        assert column("x", values, dtype).tolist() == values
    else:
        with pytest.raises(ConfigError):
            column("x", values, dtype)


def test_one_number_stands_for_all_rows():
    assert spread("x", 7, "u1", 3).tolist() == [7, 7, 7]
    assert spread("x", np.int64(7), "u1", 0).tolist() == []
    assert spread("x", [1, 2], "u1", 2).tolist() == [1, 2]
    with pytest.raises(ConfigError, match=r"x\[0\]: got 256"):
        spread("x", 256, "u1", 3)
    with pytest.raises(ConfigError, match=r"shape \(3,\)"):
        spread("x", [7], "u1", 3)


def test_octets_of_a_key():
    key = bytes(range(16))

    for given_key in (key, bytearray(key), memoryview(key), np.frombuffer(key, np.uint8)):
        assert octets("key", given_key, 16, 16) == key
    with pytest.raises(ConfigError, match=r"key: got a str; allowed: bytes; try bytes.fromhex"):
        octets("key", key.hex(), 16)
    with pytest.raises(ConfigError, match=r"key: got 17 bytes; allowed: 16 bytes$"):
        octets("key", key + b"1", 16, 16)
    with pytest.raises(ConfigError, match="key: got 16 bytes; allowed: 40 bytes or more"):
        octets("key", key, 40)
