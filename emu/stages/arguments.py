"""What several doors read of their arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError
from emu.model.arrays import column, octets
from emu.model.checks import shown
from emu.model.inputs import KEY_BYTES
from emu.model.masks import CpuSet, parse_cpumask
from emu.model.nic import parse_rss_key

MAX_CPUS = 65535

CpuMask = str | CpuSet | Iterable[int]


def array(answer: Any) -> NDArray[Any]:
    """The array that an engine's door answered."""
    out: NDArray[Any] = answer
    return out


def number(where: str, value: Any, low: int, high: int) -> int:
    """A whole number from *low* to *high*."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ConfigError(where, shown(value), f"a whole number from {low} to {high}")
    if not low <= value <= high:
        raise ConfigError(where, int(value), f"a whole number from {low} to {high}")
    return int(value)


def rss_key(key: object) -> bytes:
    """A Toeplitz key: bytes, hex text, or the name of a known one."""
    return octets("toeplitz: key", parse_rss_key(key), KEY_BYTES)


def cpu_set(where: str, cpus: CpuMask, nbits: int) -> CpuSet:
    """CPUs (or rx queues) below *nbits*, given as a mask's text, a set, or their numbers."""
    if isinstance(cpus, str):
        return parse_cpumask(cpus, nbits, where)
    if not isinstance(cpus, CpuSet):
        members = list(cpus) if isinstance(cpus, Iterable) else cpus
        cpus = CpuSet(column(where, members, "i8", low=0, high=nbits - 1).tolist())
    if cpus.bits >> nbits:
        raise ConfigError(where, cpus.list(), f"0-{nbits - 1}")
    return cpus


def online_cpus(where: str, online: Any, ncpus: int) -> NDArray[np.uint8]:
    """Per CPU whether it is online, ``uint8[ncpus]``; None: all are."""
    if online is None:
        return np.ones(ncpus, dtype=np.uint8)
    flags = np.asarray(online)
    if flags.dtype == np.bool_:
        flags = flags.astype(np.uint8)
    return column(where, flags, "u1", rows=ncpus, high=1)
