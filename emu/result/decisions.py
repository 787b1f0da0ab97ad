"""What a steer decided: one row per packet, one per skb, and the summaries people ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.model.polls import Polls
from emu.result.summary import Summary, summarize
from emu.result.table import to_pandas

if TYPE_CHECKING:
    import pandas

    from emu.model.host import Host

# Columns that every packet of an skb shares.
FROM_SKB = (
    "napi_cpu",
    "cpu",
    "socket",
    "app_cpu",
    "backlog_cpu",
    "tx_of",
    "tx_nic",
    "tx_queue",
    "completion_cpu",
    "stage",
)
FROM_PACKET = ("nic", "direction", "rx_hash", "rx_hash_type", "rx_queue", "irq_cpu", "gro", "skb")


@attrs.frozen(kw_only=True, eq=False)
class Decisions:
    """The answer of `emu.steer`.

    Attributes:
        host: the host that decided.
        arrays: what the engine returned per packet: nic, direction, rx_hash, rx_hash_type, rx_queue
            (of that NIC), irq_cpu, gro (GroResult), skb (row of *skbs*, -1 none), drop, secrets.
        skbs: ``SKB[m]``, in delivery order (a sent packet is one skb of its own).
        decided: ``SKB_DECISION[m]``, what the stack decided for each skb.
        counts: decisions taken per stage of ``dtypes.STEER_STAGES``.
        polls: the NAPI polls, given or made.
        incoming_cpu: ``int32[sockets]``, SO_INCOMING_CPU at the end: what was set, or what the data
            path wrote on a connected socket (SOCK-42).
    """

    host: Host
    arrays: dict[str, NDArray[Any]]
    skbs: NDArray[np.void]
    decided: NDArray[np.void]
    counts: dict[str, int]
    polls: Polls
    incoming_cpu: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.arrays["skb"])

    def column(self, name: str) -> NDArray[Any]:
        """One per-packet column: an entry of *arrays*, or of the packet's skb.

        A packet without an skb has -1, or 0 where the column is of codes.
        """
        if name in self.arrays:
            return self.arrays[name]
        skb = self.arrays["skb"]
        field = self.decided[name]
        missing = -1 if field.dtype.kind == "i" else 0
        out = np.full(len(skb), missing, dtype=field.dtype)
        has = skb >= 0
        out[has] = field[skb[has]]
        return out

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Every per-packet column by name."""
        names = (*FROM_PACKET, *FROM_SKB, "drop", "secrets")
        return {name: self.column(name) for name in names}

    def summary(self) -> Summary:
        """Counts per queue, CPU, node and socket; drops by reason; how much is exact."""
        return summarize(self)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per packet. Raises ConfigError when pandas is not installed."""
        return to_pandas(self.columns)

    def skbs_to_pandas(self) -> pandas.DataFrame:
        """One row per skb. Raises ConfigError when pandas is not installed."""
        fields = {name: self.skbs[name] for name in _plain(dtypes.SKB)}
        return to_pandas(
            fields | {name: self.decided[name] for name in _plain(dtypes.SKB_DECISION)}
        )


def _plain(dtype: np.dtype[np.void]) -> list[str]:
    """Names of a record's scalar fields, padding left out."""
    assert dtype.names is not None
    return [name for name in dtype.names if not name.startswith("pad") and dtype[name].shape == ()]
