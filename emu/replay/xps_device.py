"""What the replays of XPS do to a device: write masks, read them back, send a packet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from emu.replay.parts import Result

CPUS, RXQS = 0, 1


def read_back(device: Any, kind: int, queue: int) -> int:
    """A queue's mask as a number."""
    return sum(int(word) << 64 * at for at, word in enumerate(device.mask(kind, queue)))


def write(device: Any, kind: int, writes: Iterable[Any]) -> None:
    """[queue, mask, errno] in order; what the kernel refused is left out."""
    for queue, mask, errno, *_ in writes:
        if not errno:
            device.set(kind, queue, [int(mask, 16)])


def pick(
    device: Any, cpu: int, hash_value: int, cached: int = -1, **other: Any
) -> tuple[int, int, bool]:
    """One packet of a local socket."""
    case = {
        "cached": cached,
        "ooo_okay": False,
        "can_store": False,
        "sk_rx": -1,
        "recorded_rx": -1,
        "cpu": cpu,
        "prio": 0,
        "hash": hash_value,
    }
    answer: tuple[int, int, bool] = device.pick(**(case | other))
    return answer


def check_read_back(device: Any, kind: int, texts: Iterable[Any], name: str, out: Result) -> None:
    """Masks as the files show them; None where the queue has no file."""
    for queue, text in enumerate(texts):
        if text is not None:
            out.compare(f"{name} read-back", read_back(device, kind, queue), int(text, 16), queue)
