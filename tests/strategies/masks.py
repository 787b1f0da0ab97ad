"""CPU sets, masks and lists: valid, odd and broken ones."""

from __future__ import annotations

from hypothesis import strategies as st

from emu.model.masks import CpuSet, format_cpulist

ODD_SIZES = (1, 2, 3, 4, 7, 8, 9, 31, 32, 33, 63, 64, 65, 128, 256, 1024, 4096)


def sizes() -> st.SearchStrategy[int]:
    """Numbers of CPUs, the edges of words among them."""
    return st.one_of(st.sampled_from(ODD_SIZES), st.integers(1, 130))


def cpu_sets(cpus: int, *, at_least: int = 0) -> st.SearchStrategy[CpuSet]:
    """Sets of CPUs below *cpus*; every one of up to 9 CPUs is as likely as another."""
    few = st.sets(st.integers(0, cpus - 1), min_size=at_least, max_size=min(cpus, 12)).map(CpuSet)
    if at_least > 1:
        return few
    return st.one_of(few, st.integers(min(at_least, 1), 2**cpus - 1).map(CpuSet))


def mask_texts() -> st.SearchStrategy[str]:
    """Text near to what a mask looks like."""
    piece = st.one_of(
        st.text("0123456789abcdefABCDEF", min_size=1, max_size=10),
        st.sampled_from([",", " ", "\t", "\n", "\0", "x", "0x", "-", "g", "00000000", ",,"]),
    )
    return st.lists(piece, max_size=8).map("".join)


def list_texts(cpus: int) -> st.SearchStrategy[str]:
    """Lists as a person writes them: ranges in any order, overlapping, with blanks."""
    one = st.integers(0, cpus - 1)
    span = st.tuples(one, one).map(lambda ends: f"{min(ends)}-{max(ends)}")
    part = st.one_of(one.map(str), span, st.just(""), st.just(" "))
    return st.lists(part, max_size=6).map(",".join)


def tidy_lists(cpus: int) -> st.SearchStrategy[str]:
    """Lists as the kernel prints them."""
    return cpu_sets(cpus).map(format_cpulist)
