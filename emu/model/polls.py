"""NAPI polls: which packets each takes, when, and on which queue."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.dtypes import NAPI_WEIGHT
from emu.errors import ConfigError
from emu.model.arrays import column

MAX_POLL = 1 << 16


def _i4(values: ArrayLike) -> NDArray[np.int32]:
    return column("polls", values, "i4")


def _i8(values: ArrayLike) -> NDArray[np.int64]:
    return column("polls", values, "i8")


@attrs.frozen(kw_only=True, eq=False)
class Polls:
    """NAPI polls in the order they run.

    Attributes:
        order: ``int64[m]``, packets in the order they are taken.
        queue: ``int32[p]``, rx queue of the host (queues of NIC 0 first, then of NIC 1, ...).
        first: ``int64[p]``, poll k takes ``order[first[k] : first[k] + count[k]]``.
        count: ``int32[p]``, packets that it takes.
        time_ps: ``int64[p]``, when it runs; never goes back.
        jiffy: ``int64[p]``, the jiffies counter then.
    """

    order: NDArray[np.int64] = attrs.field(converter=_i8)
    queue: NDArray[np.int32] = attrs.field(converter=_i4)
    first: NDArray[np.int64] = attrs.field(converter=_i8)
    count: NDArray[np.int32] = attrs.field(converter=_i4)
    time_ps: NDArray[np.int64] = attrs.field(converter=_i8)
    jiffy: NDArray[np.int64] = attrs.field(converter=_i8)

    def __len__(self) -> int:
        return len(self.queue)

    @staticmethod
    def of_counts(
        counts: Sequence[int],
        *,
        queue: int = 0,
        times_ps: Sequence[int] | None = None,
        jiffies: Sequence[int] | None = None,
    ) -> Polls:
        """Polls of one queue that take packets 0, 1, 2, ... by these counts.

        Args:
            counts: packets of each poll.
            queue: the rx queue of all of them.
            times_ps: when each runs; all at 0 when not given.
            jiffies: the jiffies counter at each; 0 when not given.
        """
        number = column("polls: counts", counts, "i4", low=0, high=MAX_POLL)
        nothing = np.zeros(len(number), dtype=np.int64)
        first = np.zeros(len(number), dtype=np.int64)
        first[1:] = np.cumsum(number, dtype=np.int64)[:-1]
        return Polls(
            order=np.arange(int(number.sum()), dtype=np.int64),
            queue=np.full(len(number), queue, dtype=np.int32),
            first=first,
            count=number,
            time_ps=nothing if times_ps is None else times_ps,
            jiffy=nothing if jiffies is None else jiffies,
        )

    @staticmethod
    def single(queue: int, packets: int) -> Polls:
        """Full polls of one queue until the packets are taken."""
        whole, rest = divmod(packets, NAPI_WEIGHT)
        return Polls.of_counts([NAPI_WEIGHT] * whole + ([rest] if rest else []), queue=queue)


def check_polls(
    polls: Polls, queue_of_packet: NDArray[np.int32], *, queues: int | None = None
) -> None:
    """Refuse polls that do not take each received packet once, on its own queue, in order of time.

    Args:
        polls: the polls.
        queue_of_packet: ``int32[n]``, the rx queue of each packet; -1 when no NIC received it.
        queues: rx queues of the host; even a poll that takes nothing is of one of them.

    Raises:
        ConfigError: the first thing that does not fit.
    """
    _check_form(polls, len(queue_of_packet), queues)
    _check_taken(polls, queue_of_packet)


def _check_form(polls: Polls, packets: int, queues: int | None) -> None:
    """Lengths, ranges, places and times of the polls."""
    if not isinstance(polls, Polls):
        raise ConfigError("polls", type(polls).__name__, "Polls", "emu.Polls.of_counts([...])")
    columns = (polls.first, polls.count, polls.time_ps, polls.jiffy)
    if any(column.ndim != 1 for column in (polls.order, polls.queue, *columns)):
        raise ConfigError("polls", "columns of more than one axis", "one number for each poll")
    if any(len(column) != len(polls) for column in columns):
        raise ConfigError("polls", "columns of different lengths", "one row for each poll")
    order = polls.order
    if len(order) and (int(order.min()) < 0 or int(order.max()) >= packets):
        raise ConfigError(
            "polls: order", f"a packet outside 0..{packets - 1}", "rows of the packets"
        )
    counts, first = polls.count.astype(np.int64), polls.first
    if len(polls) and (int(counts.min()) < 0 or int(counts.max()) > MAX_POLL):
        raise ConfigError("polls: count", f"{counts.min()}..{counts.max()}", f"0..{MAX_POLL}")
    expected_first = np.concatenate([[0], np.cumsum(counts)])
    if not np.array_equal(first, expected_first[:-1]) or expected_first[-1] != len(order):
        allowed = "polls that take the packets of order one behind the other, without gaps"
        raise ConfigError("polls: first", "other places", allowed)
    if len(polls) and (np.diff(polls.time_ps) < 0).any():
        row = int(np.argmax(np.diff(polls.time_ps) < 0)) + 1
        raise ConfigError(
            f"polls[{row}]: time_ps", int(polls.time_ps[row]), "a time that does not go back"
        )
    outside = polls.queue < 0 if queues is None else (polls.queue < 0) | (polls.queue >= queues)
    if outside.any():
        row = int(np.argmax(outside))
        allowed = "0 or more" if queues is None else f"0..{queues - 1}"
        raise ConfigError(f"polls[{row}]: queue", int(polls.queue[row]), allowed)


def _check_taken(polls: Polls, queue_of_packet: NDArray[np.int32]) -> None:
    """Each received packet in one poll, and in one of its own queue."""
    order, packets = polls.order, len(queue_of_packet)
    taken = np.bincount(order, minlength=packets)
    wanted = (queue_of_packet >= 0).astype(np.int64)
    if not np.array_equal(taken, wanted):
        packet = int(np.argmax(taken != wanted))
        allowed = (
            "each received packet once" if wanted[packet] else "only packets that a NIC received"
        )
        raise ConfigError("polls: order", f"packet {packet} {taken[packet]} times", allowed)
    poll_queue = np.repeat(polls.queue, polls.count)
    wrong = poll_queue != queue_of_packet[order]
    if wrong.any():
        place = int(np.argmax(wrong))
        packet = int(order[place])
        given = f"packet {packet} on queue {poll_queue[place]}"
        raise ConfigError("polls: queue", given, f"its rx queue, {queue_of_packet[packet]}")
