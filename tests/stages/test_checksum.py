"""The Internet checksum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import emu._core.dissect
from emu.ref.checksum import checksum, l4_checksum


def of(data):
    return emu._core.dissect.checksum(np.frombuffer(data, dtype=np.uint8))


def test_rfc_1071_example():
    data = bytes.fromhex("0001f203f4f5f6f7")

    assert checksum(data) == 0xDDF2
    assert of(data) == 0xDDF2


@pytest.mark.parametrize("count", [*range(20), 63, 64, 65, 4096, 65535])
def test_all_ones_of_every_length(count):
    """Every carry there can be."""
    assert of(b"\xff" * count) == checksum(b"\xff" * count)


@given(st.binary(max_size=200))
def test_core_equals_reference(data):
    assert of(data) == checksum(data)


def test_known_header_and_segment():
    header = bytes.fromhex("4500004000070000400648f50ab165220a58b791")
    segment = bytes.fromhex("d8f2cd62000c386b00000001501003e856050000") + b"\x70" * 24

    assert checksum(header) == 0xFFFF
    assert l4_checksum(header[12:16], header[16:20], 6, segment) == 0xFFFF
