"""Connections in bulk: one socket for each flow."""

from __future__ import annotations

import numpy as np
import pytest

from emu.errors import ConfigError
from emu.model.connections import connections, first_of_each
from emu.model.generate import generate
from emu.model.host import Host
from emu.model.lower_sockets import lower_sockets
from emu.model.nic import Nic
from emu.model.topology import Topology


def test_one_socket_per_flow_seen_from_the_receiver():
    packets = generate(packets=400, flows=50, seed=3)

    rows = connections(packets, threads=(4, 5, 6))

    flows = {
        (s.tobytes(), d.tobytes(), int(sp), int(dp))
        for s, d, sp, dp in zip(
            packets.saddr, packets.daddr, packets.sport, packets.dport, strict=True
        )
    }
    assert len(rows) == len(flows)
    assert {
        (r["faddr"].tobytes(), r["laddr"].tobytes(), int(r["fport"]), int(r["lport"])) for r in rows
    } == flows
    assert rows["app_off"].tolist() == [(4, 5, 6)[k % 3] for k in range(len(rows))]


def test_rows_that_collide_in_the_mix_are_still_told_apart():
    words = np.zeros((3, 5), dtype=np.uint64)
    odd = [0x9E3779B97F4A7C15 * (2 * k + 1) % 2**64 for k in range(5)]
    # Two different rows with one mix: 1 in place 0 against odd[0]/odd[1] in place 1.
    words[0, 0] = 1
    words[1, 1] = odd[0] * pow(odd[1], -1, 2**64) % 2**64

    assert first_of_each(words).tolist() == [0, 1, 2]


def test_no_thread_is_refused():
    with pytest.raises(ConfigError, match="at least one CPU"):
        connections(generate(packets=1, flows=1), threads=())


def test_every_other_row_of_an_array_opens_as_well():
    packets = generate(packets=8, flows=8)
    rows = connections(packets)
    nic = Nic(name="eth0")
    hosts = [
        Host(topology=Topology(cpus=1), nics=(nic,), connections=half)
        for half in (rows[::2], rows[::2].copy())
    ]

    strided, plain = (lower_sockets(host).rows for host in hosts)

    assert len(strided) == (len(rows) + 1) // 2 > 1
    assert strided.tobytes() == plain.tobytes()
