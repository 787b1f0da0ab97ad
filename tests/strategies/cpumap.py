"""cpumaps: entries, and polls that redirect to them."""

from __future__ import annotations

from hypothesis import strategies as st

# Around the lazy clearing: one slot, below and at 32, no multiple of 16, no power of two.
QSIZES = (1, 2, 7, 16, 31, 32, 33, 40, 64)


def maps():
    """(cpus, qsizes) of one to five entries."""
    return st.lists(
        st.tuples(st.integers(0, 63), st.sampled_from(QSIZES)), min_size=1, max_size=5
    ).map(lambda rows: ([cpu for cpu, _ in rows], [size for _, size in rows]))


def runs(entries: int):
    """(entry, frames in a row) as one poll redirects them."""
    return st.lists(st.tuples(st.integers(0, entries - 1), st.integers(1, 20)), max_size=8)
