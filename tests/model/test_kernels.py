"""Kernel profiles and secrets."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.kernels import DIFFERENCES, KERNELS, SWITCHES, get_kernel
from emu.model.lower import GRO_SWITCHES, gro_cfg
from emu.model.nic import Gro
from emu.model.secrets import Secrets, draw


def test_the_default_kernel_is_shipped():
    kernel = get_kernel("6.18")
    assert (kernel.lookup, kernel.mask_policy) == ("array", "reject")
    assert kernel.reuseport_cpu_aware
    assert kernel.tcp_ehash_port_added
    assert not kernel.gro_fixed_id_needs_df


def test_legacy_is_before_the_arrays():
    kernel = get_kernel("legacy")
    assert kernel.lookup == "legacy"
    assert not kernel.reuseport_cpu_aware


def test_names_match_their_profiles():
    for name, kernel in KERNELS.items():
        assert kernel.name == name
        assert get_kernel(kernel) is kernel


def test_replace_tells_it_apart():
    kernel = get_kernel("legacy").replace(mask_policy="boost")
    assert (kernel.name, kernel.mask_policy, kernel.lookup) == ("legacy+", "boost", "legacy")
    assert kernel.replace(udp_slots=256).name == "legacy+"
    assert kernel.replace(name="mine").name == "mine"
    assert get_kernel("6.18").replace(mask_policy="reject") == get_kernel("6.18")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: get_kernel("6.81"), 'kernel: got \'6.81\'; allowed: "6.18", "6.12", "6.1", '),
        (lambda: get_kernel(6.18), 'kernel: got 6.18; allowed: "6.18", "6.12", "6.1", '),
        (
            lambda: get_kernel("6.18").replace(mask_polcy="boost"),
            "kernel '6.18': got 'mask_polcy'; allowed: \"name\", ",
        ),
        (
            lambda: get_kernel("6.18").replace(mask_policy="boots"),
            'kernel \'6.18\': mask_policy: got \'boots\'; allowed: "reject", "boost"; try "boost"',
        ),
        (
            lambda: get_kernel("6.18").replace(reuseport_cpu_aware=1),
            "kernel '6.18': reuseport_cpu_aware: got 1; allowed: true or false",
        ),
        (
            lambda: get_kernel("6.18").replace(udp_slots=1000),
            "kernel '6.18': udp_slots: got 1000; allowed: a power of two, 256 to 65536",
        ),
    ],
)
def test_mistakes(call, line):
    with pytest.raises(ConfigError) as caught:
        call()
    assert str(caught.value).startswith(line)


def test_equal_seeds_give_equal_secrets():
    assert Secrets.from_seed(7) == Secrets.from_seed(7) != Secrets.from_seed(8)
    secrets = Secrets.from_seed(0)
    assert (len(secrets.flow_hash_key), len(secrets.rss_key)) == (16, 52)
    # Pinned: a seed means the same on every machine and in every version.
    assert secrets.flow_hash_key.hex() == "551252755c82297d867f7f2b1017cfc3"
    assert (secrets.tcp_ehash, secrets.hash_mix) == (2065550767, 524628705)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**20))
def test_draws_are_64_bits(seed, counter):
    assert 0 <= draw(seed, counter) < 2**64
    assert draw(seed, counter) != draw(seed, counter + 1)


def test_draws_of_seed_zero_are_splitmix64():
    assert draw(0, 0) == 0xE220A8397B1DCDAF  # the generator's published first value


@pytest.mark.parametrize(
    "fields",
    [
        {"flow_hash_key": b"short"},
        {"rss_key": "zz"},
        {"tcp_ehash": 2**32},
        {"txhash_seed": -1},
    ],
)
def test_secrets_are_checked(fields):

    with pytest.raises(ConfigError, match=rf"^secrets: {next(iter(fields))}: got"):
        attrs.evolve(Secrets.from_seed(0), **fields)


def test_every_difference_is_told():
    """A switch that differs somewhere stands in the table, and nothing else does."""
    fields = {field.name for field in attrs.fields(type(get_kernel("6.18")))}
    told = [field for field, _, _ in DIFFERENCES]

    assert sorted(told) == sorted(fields - {"name", "unsourced"})


def test_what_has_no_source_is_a_switch():
    for kernel in KERNELS.values():
        assert kernel.unsourced <= set(SWITCHES) | {"lookup"}, kernel.name
    assert not KERNELS["6.18"].unsourced
    assert not KERNELS["6.12"].unsourced


def test_kernels_lower_their_gro_switches():
    old, new = (gro_cfg(Gro(), get_kernel(name))[0] for name in ("6.12", "6.18"))

    assert [old[name] - new[name] for name in GRO_SWITCHES] == [1, 1, 1, 0, 1, 0, 0]
    assert gro_cfg(Gro(), get_kernel("6.1"))["tcp_fraglist"][0] == 0
