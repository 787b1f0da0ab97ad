"""Which way a packet goes follows from the host's addresses (docs/steer.md)."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from emu.dtypes import Direction, Reason
from emu.ref.direction import Addresses

OWN = {ip_address(text).packed for text in ("10.0.0.1", "2001:db8::1")}


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("10.1.0.1", "10.0.0.1", Direction.RECEIVED),
        ("10.0.0.1", "10.1.0.1", Direction.SENT),
        ("10.0.0.1", "10.0.0.1", Direction.RECEIVED),
        ("10.1.0.1", "10.2.0.1", Direction.FORWARDED),
        ("10.1.0.1", "224.0.0.1", Direction.RECEIVED),
        ("10.0.0.1", "239.255.255.255", Direction.SENT),
        ("10.1.0.1", "255.255.255.255", Direction.RECEIVED),
        ("2001:db8::2", "2001:db8::1", Direction.RECEIVED),
        ("2001:db8::2", "ff02::1", Direction.RECEIVED),
        ("2001:db8::1", "ff02::1", Direction.SENT),
        ("2001:db8::2", "2001:db8::3", Direction.FORWARDED),
    ],
)
def test_way_of_an_address_pair(source, target, expected):
    family = ip_address(source).version
    host = Addresses(OWN, forwarding=True)

    assert (
        host.direction(family, Reason.OK, ip_address(source).packed, ip_address(target).packed)
        is expected
    )


def test_a_host_that_does_not_forward_leaves_other_hosts_packets_alone():
    host = Addresses(OWN, forwarding=False)

    assert host.direction(4, Reason.OK, b"\x0a\x01\0\1", b"\x0a\x02\0\1") is Direction.OTHER


def test_without_addresses_every_packet_is_received():
    host = Addresses(set(), forwarding=True)

    assert host.direction(4, Reason.OK, b"\x0a\x01\0\1", b"\x0a\x02\0\1") is Direction.RECEIVED


@pytest.mark.parametrize("reason", [Reason.EMPTY, Reason.TRUNCATED_L3, Reason.BAD_IHL])
def test_a_frame_without_addresses_goes_nowhere(reason):
    assert Addresses(set(), forwarding=True).direction(4, reason, b"", b"") is Direction.OTHER
