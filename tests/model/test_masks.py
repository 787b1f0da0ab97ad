"""CPU masks and lists against what kernels answered, and against their own rules."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.model.masks import (
    CpuSet,
    MaskError,
    format_cpulist,
    format_cpumask,
    parse_cpulist,
    parse_cpumask,
    write_rps_cpus,
    write_xps_cpus,
    write_xps_rxqs,
)
from emu.model.topology import Topology
from tests.strategies.masks import cpu_sets, list_texts, mask_texts, sizes, tidy_lists

WRITES = Path(__file__).parent.parent / "data" / "masks" / "writes.jsonl"
OK, EINVAL, EOVERFLOW = 0, errno.EINVAL, errno.EOVERFLOW


def outcome(text: str, nbits: int) -> tuple[int, int]:
    """Errno and mask bits."""
    try:
        return OK, parse_cpumask(text, nbits).bits
    except MaskError as error:
        return error.errno, 0


def recorded_writes() -> list[dict[str, object]]:
    """What 6.1, 6.12 and 6.18 kernels answered to writes, one row each."""
    columns, *rows = [json.loads(line) for line in WRITES.read_text().splitlines()]
    return [dict(zip(columns, row, strict=True)) for row in rows]


@pytest.mark.parametrize("row", recorded_writes(), ids=lambda row: f"{row['file']}-{row['text']!r}")
def test_a_recorded_write_has_its_errno_and_reads_back(row):
    cpus, queues, text = row["cpus"], row["queues"], row["text"].encode("latin1")
    topology = Topology.from_lists(cpus=cpus, offline=row["offline"])
    nbits = queues if row["file"] == "xps_rxqs" else cpus
    readable = row["before"] != "errno 2"
    old = parse_cpumask(row["before"], nbits) if readable else CpuSet()
    try:
        if row["file"] == "rps_cpus":
            new = write_rps_cpus(text, topology, parse_cpulist(row["isolated"], cpus), old)
        elif row["file"] == "xps_cpus":
            new = write_xps_cpus(text, topology, queues, old)
        else:
            new = write_xps_rxqs(text, queues, old)
        got = OK
    except MaskError as error:
        got, new = error.errno, old

    assert got == row["errno"]
    assert not readable or new.mask(nbits) == row["after"]


def test_xps_1_case_and_empty_masks():
    assert parse_cpumask("f", 8) == parse_cpumask("F", 8) == CpuSet([0, 1, 2, 3])
    for text in ("", "\n", ",", " ", "\0", "0", ",,", "\n1"):
        assert parse_cpumask(text, 8) == CpuSet(), text


def test_xps_2_words_are_read_from_the_end():
    for text in ("1,00000000", "1,0", "1,,0", " 1 , 0 ", "1 0", "1\t0\n"):
        assert parse_cpumask(text, 64) == CpuSet([32]), text


@pytest.mark.parametrize("text", ["1,00000000", "0,00000001", "0,1", "1 2", "0,0"])
def test_xps_3_no_more_words_than_needed(text):
    assert outcome(text, 32) == (EOVERFLOW, 0)


@pytest.mark.parametrize("text", ["100000000", "000000001", "0000000000000001", "1,000000000"])
def test_xps_4_no_more_than_eight_digits(text):
    assert outcome(text, 64) == (EOVERFLOW, 0)


INVALID = ("g", "0x1", "0X3", "-1", "+1", "1.", "1;", "z1", "1z", "0-3", "1-2", "all", "none", "1_")


@pytest.mark.parametrize("text", INVALID)
def test_xps_5_only_hexadecimal(text):
    assert outcome(text, 64) == (EINVAL, 0)


def test_xps_6_no_bit_beyond():
    assert outcome("1f", 4) == (EOVERFLOW, 0)
    assert outcome("0f", 4) == (OK, 15)
    assert outcome("1ffff", 16) == outcome("100", 8) == outcome("0b1", 2) == (EOVERFLOW, 0)
    assert outcome("10000", 17) == (OK, 1 << 16)


@given(st.data())
def test_xps_7_a_printed_mask_reads_as_itself(data):
    nbits = data.draw(sizes())
    cpus = data.draw(cpu_sets(nbits))
    text = format_cpumask(cpus, nbits)

    assert parse_cpumask(text, nbits) == cpus
    assert format_cpumask(parse_cpumask(text, nbits), nbits) == text
    assert len(text.replace(",", "")) == -(-nbits // 4)
    assert all(len(word) == 8 for word in text.split(",")[1:])


@given(mask_texts(), st.sampled_from((1, 2, 8, 31, 32, 33, 64, 65)))
def test_xps_7_what_reads_prints_a_canonical_mask(text, nbits):
    code, bits = outcome(text, nbits)
    if code == OK:
        assert outcome(format_cpumask(CpuSet(bits), nbits), nbits) == (OK, bits)
        assert bits < 1 << nbits
    else:
        assert code in (EINVAL, EOVERFLOW)


def test_xps_8_one_tx_queue_has_no_xps_cpus():
    topology = Topology(cpus=4)
    with pytest.raises(MaskError) as caught:
        write_xps_cpus("zzz", topology, 1)
    assert caught.value.errno == errno.ENOENT
    assert write_xps_cpus("", topology, 1) == CpuSet()


def test_xps_10_a_write_of_no_bytes_changes_nothing():
    topology, old = Topology(cpus=4), CpuSet([2])
    assert write_rps_cpus("", topology, old=old) == old
    assert write_xps_cpus(b"", topology, 2, old) == old
    assert write_xps_rxqs("", 4, old) == old
    assert write_rps_cpus("\n", topology, old=old) == CpuSet()


def test_xps_19_offline_cpus_are_left_out():
    topology = Topology.from_lists(cpus=8, offline="2,6")
    assert write_rps_cpus("44", topology) == CpuSet()
    assert write_xps_cpus("5", topology, 2) == CpuSet([0])


def test_r_3_1_housekeeping_isolated_cpus_are_left_out():
    topology, isolated = Topology(cpus=16), CpuSet([2, 3])
    assert write_rps_cpus("ff", topology, isolated).mask(16) == "00f3"
    assert write_rps_cpus("0", topology, isolated) == CpuSet()
    with pytest.raises(MaskError) as caught:
        write_rps_cpus("c", topology, isolated)
    assert caught.value.errno == EINVAL
    assert write_xps_cpus("c", topology, 2) == isolated


def test_eight_digits_swallow_a_character_before_them():
    assert outcome("x12345678", 32) == (OK, 0x12345678)
    assert outcome("0x12345678", 64) == (OK, 0x12345678)
    assert outcome("0x12345678", 32) == (EOVERFLOW, 0)


def test_the_fault_nearest_to_the_end_decides():
    assert outcome("g,000000001", 64) == (EOVERFLOW, 0)
    assert outcome("000000001,g", 64) == (EINVAL, 0)
    assert outcome("g,1", 8) == (EOVERFLOW, 0)


def test_text_ends_at_a_newline_or_nul():
    for text in ("1\n2", "1\0002", b"1\0g", "1\n\n", "1\r\n"):
        assert parse_cpumask(text, 8) == CpuSet([0])
    assert outcome("\u0663", 8) == (EINVAL, 0)  # a digit, but no ASCII one


def test_widths_of_masks():
    assert CpuSet(0xFFFFFFFFFFFF).mask(48) == "ffff,ffffffff"
    assert CpuSet([0, 2]).mask(8) == "05"
    assert CpuSet(0xF3).mask(12) == "0f3"
    assert CpuSet().mask(1) == CpuSet().mask(4) == "0"
    assert CpuSet([64]).mask(65) == "1,00000000,00000000"
    with pytest.raises(ConfigError):
        CpuSet([8]).mask(8)


@pytest.mark.parametrize(
    ("text", "nbits", "cpus"),
    [
        ("", 8, ()),
        ("0-3,8", 16, (0, 1, 2, 3, 8)),
        (" 1 , 3\n5", 8, (1, 3)),
        ("3,1,1-2", 8, (1, 2, 3)),
        ("0-7:1/2", 8, (0, 2, 4, 6)),
        ("1-7:2/4", 8, (1, 2, 5, 6)),
        ("all", 3, (0, 1, 2)),
        ("ALL:1/2", 4, (0, 2)),
        ("6-N", 8, (6, 7)),
        ("N", 8, (7,)),
        ("007", 8, (7,)),
        (",,2,,", 8, (2,)),
    ],
)
def test_lists(text, nbits, cpus):
    assert parse_cpulist(text, nbits).cpus == cpus


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("8", errno.ERANGE),
        ("0-8", errno.ERANGE),
        ("3-1", errno.EINVAL),
        ("-1", errno.EINVAL),
        ("1-", errno.EINVAL),
        ("f", errno.EINVAL),
        ("0x1", errno.EINVAL),
        ("none", errno.EINVAL),
        ("0-3:1", errno.EINVAL),
        ("0-3:1/0", errno.EINVAL),
        ("0-3:3/2", errno.EINVAL),
        ("1 -2", errno.EINVAL),
        ("4294967296", errno.EOVERFLOW),
        ("4294967295", errno.ERANGE),
    ],
)
def test_lists_that_are_refused(text, code):
    with pytest.raises(MaskError) as caught:
        parse_cpulist(text, 8)
    assert caught.value.errno == code


@given(st.data())
def test_lists_hold_what_they_name(data):
    nbits = data.draw(sizes())
    text = data.draw(list_texts(nbits))
    want = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        low, _, high = part.partition("-")
        want.update(range(int(low), int(high or low) + 1))

    assert parse_cpulist(text, nbits).cpus == tuple(sorted(want))
    assert format_cpulist(want) == CpuSet(want).list()


@given(st.data())
def test_a_printed_list_reads_as_itself(data):
    nbits = data.draw(sizes())
    text = data.draw(tidy_lists(nbits))
    assert parse_cpulist(text, nbits).list() == text


def test_the_other_spelling_is_recognised():
    with pytest.raises(MaskError, match=r'try \{ list = "0-3" \}'):
        parse_cpumask("0-3", 8)
    with pytest.raises(MaskError, match=r'try \{ mask = "ff" \}'):
        parse_cpulist("ff", 8)
    with pytest.raises(MaskError, match='try without "0x": "3"'):
        parse_cpumask("0x3", 8)
    with pytest.raises(MaskError, match='a comma every 8 digits: "1,00000000"'):
        parse_cpumask("100000000", 33)


@given(st.data())
def test_a_set_is_one_however_it_is_seen(data):
    nbits = data.draw(sizes())
    cpus = data.draw(cpu_sets(nbits))
    words = cpus.words(-(-nbits // 64))

    assert CpuSet(cpus.cpus) == cpus
    assert len(cpus) == len(cpus.cpus)
    assert sum(int(word) << (64 * index) for index, word in enumerate(words)) == cpus.bits
    assert words.dtype == np.uint64
    assert [cpu in cpus for cpu in range(nbits)] == [cpu in cpus.cpus for cpu in range(nbits)]
    assert list(cpus) == sorted(cpus.cpus)


def test_set_operations_and_limits():
    left, right = CpuSet([0, 1]), CpuSet([1, 2])
    assert (left & right, left | right, left - right) == (CpuSet(2), CpuSet(7), CpuSet(1))
    assert bool(CpuSet()) is False
    assert repr(CpuSet([0, 1, 5])) == 'CpuSet("0-1,5")'
    assert -1 not in left
    assert "0" not in left
    for wrong in (-1, [-1]):
        with pytest.raises(ConfigError):
            CpuSet(wrong)
    with pytest.raises(ConfigError):
        CpuSet([64]).words(1)


def test_four_thousand_cpus():
    text = CpuSet(range(0, 4096, 2)).mask(4096)
    assert len(text.split(",")) == 128
    assert parse_cpumask(text, 4096).cpus == tuple(range(0, 4096, 2))
    assert parse_cpulist("0-4095:1/2", 4096).mask(4096) == text
