"""CPU sets and their two spellings, read as a 6.18 kernel reads them, errno included.

A *mask* is hexadecimal, as ``rps_cpus`` and ``xps_cpus`` take it (transmit.md 2.1, XPS-1..10):
``"f"``, ``"1,00000000"``. A *list* is decimal, as ``isolcpus=`` and a NUMA node's ``cpulist`` have
it: ``"0-3,8"``. Mirrors lib/bitmap-str.c (bitmap_parse), lib/bitmap.c (bitmap_parselist) and the
stores of net/core/net-sysfs.c.
"""

from __future__ import annotations

import errno as codes
import operator
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError

if TYPE_CHECKING:
    from emu.model.topology import Topology

WORD_BITS = 32  # of one group of a mask
WORD_DIGITS = 8
MAX_NUMBER = 2**32 - 1  # in a list
MAX_BIT = 1 << 20  # of a set: more than any kernel has CPUs or a device queues
_SEPARATORS = re.compile(rb"[,\s\xa0]+")  # the kernel counts 0xa0 as white space
_END = re.compile(rb"[\0\n]")
_HEX = frozenset(b"0123456789abcdefABCDEF")


class MaskError(ConfigError):
    """A mask or list that the kernel refuses, with the errno that it answers."""

    def __init__(self, where: str, given: object, allowed: str, errno: int, fix: str = "") -> None:
        super().__init__(where, f"{given} ({codes.errorcode[errno]})", allowed, fix)
        self.errno = errno


def _bits_of(cpus: object) -> object:
    """Mask bits of an int, or of an iterable of CPU numbers."""
    if isinstance(cpus, int):
        return cpus
    if isinstance(cpus, str | bytes) or not isinstance(cpus, Iterable):
        fix = "parse_cpulist or parse_cpumask of emu.model.masks"
        raise ConfigError("cpu set", repr(cpus), "CPU numbers, or mask bits as one number", fix)
    bits = 0
    for cpu in cpus:
        number = operator.index(cpu) if hasattr(cpu, "__index__") else -1
        if not 0 <= number < MAX_BIT:
            raise ConfigError("cpu set", repr(cpu), f"whole CPU numbers from 0 to {MAX_BIT - 1}")
        bits |= 1 << number
    return bits


@attrs.frozen(slots=True, repr=False, order=False)
class CpuSet:
    """A set of CPU numbers (or of rx queue numbers, for ``xps_rxqs``).

    ``CpuSet([0, 1, 8])`` from numbers, ``CpuSet(0x103)`` from bits.
    """

    bits: int = attrs.field(default=0, converter=_bits_of)

    @bits.validator
    def _check(self, _attribute: object, value: int) -> None:
        if value < 0:
            raise ConfigError("cpu set", value, "mask bits >= 0")

    @property
    def cpus(self) -> tuple[int, ...]:
        """The numbers, ascending."""
        return _numbers(self.bits)

    def words(self, nwords: int) -> NDArray[np.uint64]:
        """``uint64[nwords]``, CPU 0 in the lowest bit of word 0.

        Raises:
            ConfigError: a CPU does not fit.
        """
        if self.bits >> (64 * nwords):
            raise ConfigError("cpu set", self.list(), f"CPUs 0-{64 * nwords - 1}")
        return np.frombuffer(self.bits.to_bytes(8 * nwords, "little"), dtype="<u8").astype(
            np.uint64
        )

    def mask(self, nbits: int) -> str:
        """The mask as a file of ``nbits`` CPUs reads back."""
        return format_cpumask(self, nbits)

    def list(self) -> str:
        """The list: ``"0-3,8"``."""
        return format_cpulist(self)

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and cpu >= 0 and bool(self.bits >> cpu & 1)

    def __iter__(self) -> Iterator[int]:
        return iter(self.cpus)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.bits & other.bits)

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.bits | other.bits)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.bits & ~other.bits)

    def __repr__(self) -> str:
        return f'CpuSet("{self.list()}")'


@lru_cache(maxsize=65536)
def _numbers(bits: int) -> tuple[int, ...]:
    digits = bin(bits)[:1:-1]
    return tuple(index for index, digit in enumerate(digits) if digit == "1")


def parse_cpumask(text: str | bytes, nbits: int, where: str = "mask") -> CpuSet:
    """Read a hexadecimal mask of ``nbits`` CPUs, word by word from its end (transmit.md 2.1).

    Raises:
        MaskError: EINVAL, something that is not hexadecimal stands in a word; EOVERFLOW, a word of
            more than 8 digits, more words than ``nbits`` need, or a bit at or above ``nbits``. The
            fault nearest to the end decides.
    """
    try:
        return CpuSet(_parse_cpumask(text, nbits))
    except OSError as error:
        shown = repr(text if len(text) <= 60 else text[:57])
        raise MaskError(
            where, shown, error.strerror or "", error.errno or 0, _mask_fix(text, nbits)
        ) from None


@lru_cache(maxsize=4096)
def _parse_cpumask(text: str | bytes, nbits: int) -> int:
    """Bits of a mask; an OSError carries errno and what is allowed."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    max_words = -(-nbits // WORD_BITS)
    words: list[int] = []  # word 0 first
    for region in reversed(_SEPARATORS.split(_END.split(data, maxsplit=1)[0])):
        rest = region
        while rest:
            if len(words) == max_words:
                raise OSError(codes.EOVERFLOW, f"at most {max_words} groups for {nbits} bits")
            word = rest[-WORD_DIGITS:]
            if not _HEX.issuperset(word):
                raise OSError(codes.EINVAL, "groups of 1 to 8 hex digits, joined by commas")
            words.append(int(word, 16))
            # A ninth digit is too many; another character just before eight digits is swallowed.
            if len(rest) > WORD_DIGITS and rest[-WORD_DIGITS - 1] in _HEX:
                raise OSError(codes.EOVERFLOW, "at most 8 hex digits in one group")
            rest = rest[: -WORD_DIGITS - 1]
    bits = sum(word << (WORD_BITS * index) for index, word in enumerate(words))
    if bits >> nbits:
        raise OSError(codes.EOVERFLOW, f"bits 0 to {nbits - 1}")
    return bits


def _mask_fix(text: str | bytes, nbits: int) -> str:
    """What may have been meant instead of a refused mask."""
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    if "-" in plain and re.fullmatch(r"[0-9\s,-]+", plain):
        return f'{{ list = "{plain.strip()}" }}: that is a list, not a mask'
    if plain.lower().startswith("0x"):
        return f'without "0x": "{plain[2:]}"'
    digits = plain.strip()
    if len(digits) > WORD_DIGITS and re.fullmatch("[0-9a-fA-F]+", digits):
        value = int(digits, 16)
        if not value >> nbits:
            return f'a comma every 8 digits: "{format_cpumask(CpuSet(value), nbits)}"'
    return ""


def format_cpumask(cpus: CpuSet, nbits: int) -> str:
    """The mask as the kernel prints it: zero padded words of 32 bits, joined by commas (XPS-7).

    Raises:
        ConfigError: a CPU at or above ``nbits``.
    """
    if cpus.bits >> nbits:
        raise ConfigError("mask", cpus.list(), f"CPUs 0-{nbits - 1}")
    digits = format(cpus.bits, "x").zfill(-(-nbits // 4))
    first = len(digits) % WORD_DIGITS or WORD_DIGITS
    rest = range(first, len(digits), WORD_DIGITS)
    return ",".join([digits[:first], *(digits[at : at + WORD_DIGITS] for at in rest)])


def parse_cpulist(text: str, nbits: int, where: str = "list") -> CpuSet:
    """Read a list of CPUs: ``"0-3,8"``, ``"0-15:2/4"`` (2 of every 4), ``"all"``, ``"8-N"``.

    N is the last CPU.

    Raises:
        MaskError: EINVAL, no such form or a range that falls; ERANGE, a CPU at or above ``nbits``;
            EOVERFLOW, a number of more than 32 bits.
    """
    try:
        return CpuSet(_parse_cpulist(text, nbits))
    except OSError as error:
        fix = ""
        short = len(text) <= 60
        invalid = error.errno == codes.EINVAL
        if invalid and short and re.fullmatch(r"\s*(0x)?[0-9a-fA-F,]+\s*", text):
            fix = f'{{ mask = "{text.strip()}" }}: that is a mask, not a list'
        shown = repr(text if short else text[:57])
        raise MaskError(where, shown, error.strerror or "", error.errno or 0, fix) from None


@lru_cache(maxsize=4096)
def _parse_cpulist(text: str, nbits: int) -> int:
    scan = _ListScan(re.split("[\0\n]", text, maxsplit=1)[0], nbits)
    bits = 0
    while scan.skip_separators():
        start, end, used, group = scan.region()
        if start > end or group == 0 or used > group:
            raise OSError(codes.EINVAL, "a first CPU not above the last, and used <= group")
        if end >= nbits:
            raise OSError(codes.ERANGE, f"CPUs 0-{nbits - 1}")
        for first in range(start, end + 1, group):
            bits |= ((1 << min(end - first + 1, used)) - 1) << first
    return bits


class _ListScan:
    """Reads one region of a list after the other."""

    def __init__(self, text: str, nbits: int) -> None:
        self.text = text
        self.nbits = nbits
        self.at = 0

    def skip_separators(self) -> bool:
        """Go to the next region; False at the end."""
        while self.at < len(self.text) and self.region_ended():
            self.at += 1
        return self.at < len(self.text)

    def region_ended(self) -> bool:
        """Whether a comma, white space or the end comes next."""
        here = self.text[self.at : self.at + 1]
        return not here or here == "," or here.isspace()

    def region(self) -> tuple[int, int, int, int]:
        """First and last CPU, and how many of each group are used; without groups all are."""
        if self.text[self.at : self.at + 3].lower() == "all":
            self.at += 3
            start, end = 0, self.nbits - 1
        else:
            start = end = self.number()
            if not self.region_ended():
                self.expect("-")
                end = self.number()
        if self.region_ended():
            return start, end, end + 1, end + 1
        self.expect(":")
        used = self.number()
        self.expect("/")
        return start, end, used, self.number()

    def expect(self, letter: str) -> None:
        """Step over that letter."""
        if self.text[self.at : self.at + 1] != letter:
            raise OSError(codes.EINVAL, 'CPUs and ranges joined by commas, such as "0-3,8"')
        self.at += 1

    def number(self) -> int:
        """A decimal number, or N for the last CPU."""
        if self.text[self.at : self.at + 1] == "N":
            self.at += 1
            return self.nbits - 1
        match = re.compile("[0-9]+").match(self.text, self.at)
        if match is None:
            raise OSError(codes.EINVAL, 'CPUs and ranges joined by commas, such as "0-3,8"')
        self.at = match.end()
        if int(match[0]) > MAX_NUMBER:
            raise OSError(codes.EOVERFLOW, f"CPUs 0-{self.nbits - 1}")
        return int(match[0])


def format_cpulist(cpus: CpuSet | Iterable[int]) -> str:
    """The list as the kernel prints it: ``"0-3,8"``; "" for no CPU."""
    runs: list[tuple[int, int]] = []
    for cpu in cpus.cpus if isinstance(cpus, CpuSet) else sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1] = (runs[-1][0], cpu)
        else:
            runs.append((cpu, cpu))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def write_rps_cpus(
    text: str | bytes,
    topology: Topology,
    isolated: CpuSet = CpuSet(),
    old: CpuSet = CpuSet(),
    where: str = "rps_cpus",
) -> CpuSet:
    """The mask that ``rps_cpus`` holds after a write (observed-many-cpus.md 1.6, 1.7; XPS-10).

    A write of no bytes changes nothing. Isolated and offline CPUs are left out.

    Raises:
        MaskError: as `parse_cpumask`; EINVAL also when only isolated CPUs are named. The file keeps
            its old mask.
    """
    if not text:
        return old
    mask = parse_cpumask(text, topology.cpus, where)
    housekeeping = mask - isolated
    if mask.bits and not housekeeping.bits:
        raise MaskError(
            where,
            repr(text),
            f"at least one CPU that is not isolated ({isolated.list()})",
            codes.EINVAL,
        )
    return housekeeping & topology.online_set


def write_xps_cpus(
    text: str | bytes,
    topology: Topology,
    tx_queues: int,
    old: CpuSet = CpuSet(),
    where: str = "xps_cpus",
) -> CpuSet:
    """The mask that ``xps_cpus`` holds after a write (XPS-8, XPS-10, XPS-18, XPS-19).

    Isolated CPUs are not left out here.

    Raises:
        MaskError: ENOENT on a device with one tx queue, before the text is looked at; else as
            `parse_cpumask`.
    """
    if not text:
        return old
    if tx_queues == 1:
        raise MaskError(where, repr(text), "a device with 2 or more tx queues", codes.ENOENT)
    return parse_cpumask(text, topology.cpus, where) & topology.online_set


def write_xps_rxqs(
    text: str | bytes, rx_queues: int, old: CpuSet = CpuSet(), where: str = "xps_rxqs"
) -> CpuSet:
    """The rx queues that ``xps_rxqs`` holds after a write.

    Raises:
        MaskError: as `parse_cpumask` with as many bits as the device has rx queues.
    """
    return parse_cpumask(text, rx_queues, where) if text else old
