"""What is written to the sizes of RFS: ``rps_flow_cnt`` and ``rps_sock_flow_entries`` (R-3.1)."""

from __future__ import annotations

import errno as codes
import re

from emu.model.masks import MaskError

ULONG = 2**64
MAX_ENTRIES = 2**29
NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*")


def write_rps_flow_cnt(text: str | bytes, old: int = 0, where: str = "rps_flow_cnt") -> int:
    """Entries of the rx queue's table after a write: rounded up to a power of two.

    Decimal, ``0x`` or a leading 0 for octal, and one newline behind; nothing written changes
    nothing.

    Raises:
        MaskError: EINVAL for no such number; ERANGE beyond 64 bits; ENOMEM from 2^29 on, which a
            machine with much memory may take.
    """
    digits = _text(text)
    if not digits:
        return old
    return _entries(digits.removesuffix("\n"), digits, where, codes.ENOMEM)


def write_sock_flow_entries(
    text: str | bytes, old: int = 0, where: str = "rps_sock_flow_entries"
) -> int:
    """Entries of the global table after a write: the same, with blanks around and words behind.

    Raises:
        MaskError: EINVAL for no number, or more than 2^29; ENOMEM for 2^29, which a machine with
            much memory may take.
    """
    words = _text(text).split()
    if not words:
        return old
    return _entries(words[0], words[0], where, codes.EINVAL)


def _text(text: str | bytes) -> str:
    return text.decode("latin1") if isinstance(text, bytes) else text


def _entries(digits: str, given: str, where: str, beyond: int) -> int:
    if not NUMBER.fullmatch(digits):
        allowed = "a number, decimal, 0x hex or 0 octal"
        raise MaskError(where, repr(given), allowed, codes.EINVAL)
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    number = int(digits, base)
    if number >= ULONG:
        raise MaskError(where, repr(given), "a number of 64 bits", codes.ERANGE)
    if number >= MAX_ENTRIES:
        code = codes.ENOMEM if number == MAX_ENTRIES else beyond
        raise MaskError(where, repr(given), f"less than {MAX_ENTRIES} entries", code)
    return 1 << (number - 1).bit_length() if number else 0
