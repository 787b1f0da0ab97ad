"""XPS devices: shapes, masks as words, writes, packets."""

from __future__ import annotations

from hypothesis import strategies as st

CPUS, RXQS = 0, 1
EDGES = (0, 1, 2**31, 2**32 - 1)


def words(ids) -> list[int]:
    """Mask words of the ids, two of them."""
    bits = sum(1 << number for number in set(ids))
    return [bits & 2**64 - 1, bits >> 64]


def hashes():
    """Packet hashes, the ends of the range among them."""
    return st.one_of(st.sampled_from(EDGES), st.integers(0, 2**32 - 1))


def id_sets(count: int):
    """Ids of a mask below *count* (and beyond: bits that nothing reads)."""
    return st.one_of(
        st.just(frozenset(range(count))), st.frozensets(st.integers(0, min(count + 1, 127)))
    )


def packets(num_tx: int, num_rx: int, ncpus: int):
    """Arguments of ``pick``."""
    return st.fixed_dictionaries(
        {
            "cached": st.integers(-1, num_tx),
            "ooo_okay": st.booleans(),
            "can_store": st.booleans(),
            "sk_rx": st.integers(-1, num_rx),
            "recorded_rx": st.one_of(st.just(-1), st.integers(0, 3 * num_tx)),
            "cpu": st.integers(0, ncpus),
            "prio": st.integers(0, 40),
            "hash": hashes(),
        }
    )
