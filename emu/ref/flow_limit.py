"""Flow limit: a flow that fills half a backlog loses packets there first (R-3.6).

kernel: net/core/dev.c, skb_flow_limit
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError
from emu.ref.record import SILENT, Recorder

HISTORY = 128  # packets that are remembered
MOST_OF_THEM = 64
GOLDEN_RATIO_32 = 0x61C88647
MAX_TABLE_LEN = 65536


class FlowLimit:
    """What one CPU remembers of the packets that it put into half full backlogs."""

    def __init__(self, table_len: int, low_bits: bool = False) -> None:
        """Remember nothing.

        Args:
            table_len: net.core.flow_limit_table_len, a power of two, 2 to 65536.
            low_bits: the low bits of a hash are its bucket (6.12); otherwise hash_32 says it.
        """
        if not 2 <= table_len <= MAX_TABLE_LEN or table_len & (table_len - 1):
            raise ConfigError("flow_limit: table_len", table_len, "a power of two, 2 to 65536")
        self.low_bits = low_bits
        self.bits = table_len.bit_length() - 1
        self.buckets = [0] * table_len
        self.history = [0] * HISTORY  # buckets; bucket 0 where nothing was yet, as in the kernel
        self.next = 0

    def bucket_of(self, hash_value: int) -> int:
        """Where packets of this hash are counted."""
        if self.low_bits:
            return hash_value & ((1 << self.bits) - 1)
        return (hash_value * GOLDEN_RATIO_32 & 0xFFFFFFFF) >> (32 - self.bits)

    def drops(self, hash_value: int, rec: Recorder = SILENT) -> bool:
        """Take note of a packet; whether its flow has more than half of those remembered.

        The oldest is forgotten first. A packet that is dropped stays in memory.
        """
        bucket = self.bucket_of(hash_value)
        forgotten, self.history[self.next] = self.history[self.next], bucket
        self.next = (self.next + 1) % HISTORY
        if rec.rule("R-3.6.forget", self.buckets[forgotten] > 0, bucket=forgotten):
            self.buckets[forgotten] -= 1
        self.buckets[bucket] += 1
        count = self.buckets[bucket]
        return rec.rule("R-3.6", count > MOST_OF_THEM, bucket=bucket, count=count)


def flow_limit_drops(hash: NDArray[np.uint32], table_len: int, low_bits: bool) -> NDArray[np.uint8]:
    """Whether each of these packets, checked one after the other on one CPU, is dropped.

    Args:
        hash: uint32[n], skb->hash.
        table_len: net.core.flow_limit_table_len.
        low_bits: as of `FlowLimit`.

    Returns:
        uint8[n].
    """
    limit = FlowLimit(table_len, low_bits)
    return np.array([limit.drops(value) for value in hash.tolist()], dtype=np.uint8)
