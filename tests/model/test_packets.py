"""A packet table says what is in it."""

from __future__ import annotations

import numpy as np

from emu.model.generate import generate


def test_a_table_shows_packets_bytes_span_and_nics():
    packets = generate(packets=3, flows=1, payload_bytes=6, rate_pps=1_000_000, seed=1)
    second = packets.replace(nic=np.array([0, 1, 0], dtype=np.uint16))

    assert repr(packets) == "<Packets: 3 of 180 bytes in 2us on NICs 0..0>"
    assert repr(second) == "<Packets: 3 of 180 bytes in 2us on NICs 0..1>"
    assert repr(packets.take(slice(0))) == "<Packets: none>"
