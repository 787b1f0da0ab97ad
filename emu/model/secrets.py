"""The kernel's random keys. Nobody can read them from a host, so they are parameters."""

from __future__ import annotations

from typing import Any

import attrs

from emu.model import checks
from emu.model.draw import STEP, finish64

U32 = 2**32 - 1
U64 = 2**64 - 1


def _u32() -> Any:
    return attrs.field(default=0, validator=checks.integer(0, U32))


def _bytes(value: object) -> object:
    """Bytes given as hex text, with or without colons."""
    if not isinstance(value, str):
        return value
    try:
        return bytes.fromhex(value.replace(":", ""))
    except ValueError:
        return value  # for the validator to refuse


@attrs.frozen(kw_only=True, slots=True)
class Secrets:
    """Every random value that a decision can hang on. `from_seed` draws them all."""

    flow_hash_key: bytes = attrs.field(converter=_bytes, validator=checks.octets(16))
    rss_key: bytes = attrs.field(converter=_bytes, validator=checks.octets(52))
    tcp_ehash: int = _u32()
    udp_ehash: int = _u32()
    tcp6_ehash: int = _u32()
    udp6_ehash: int = _u32()
    tcp6_addr: int = _u32()
    udp6_addr: int = _u32()
    hash_mix: int = _u32()
    txhash_seed: int = attrs.field(default=0, validator=checks.integer(0, U64))

    @classmethod
    def from_seed(cls, seed: int = 0) -> Secrets:
        """Draw all of them; equal seeds give equal secrets, on every machine."""
        words = {
            field: draw(seed, index) & U32
            for index, field in enumerate(
                (
                    "tcp_ehash",
                    "udp_ehash",
                    "tcp6_ehash",
                    "udp6_ehash",
                    "tcp6_addr",
                    "udp6_addr",
                    "hash_mix",
                )
            )
        }
        return cls(
            flow_hash_key=_draw_bytes(seed, 16, 16),
            rss_key=_draw_bytes(seed, 32, 52),
            txhash_seed=draw(seed, 8) >> 1,  # a TOML integer is signed
            **words,
        )


def draw(seed: int, counter: int) -> int:
    """The 64-bit value number *counter* of the stream that *seed* names (splitmix64)."""
    return finish64((seed * 0xD1342543DE82EF95 + (counter + 1) * STEP) & U64)


def _draw_bytes(seed: int, counter: int, size: int) -> bytes:
    words = -(-size // 8)
    return b"".join(draw(seed, counter + k).to_bytes(8, "little") for k in range(words))[:size]
