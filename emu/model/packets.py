"""The packet table: one row per frame, as columns that both engines read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.units import format_duration_ps

NO_FLOW_KEYS = np.zeros(0, dtype=dtypes.FLOW_KEY)
NO_BYTES = np.zeros(0, dtype=np.uint8)


class Packets:
    """An immutable table of packets.

    Attributes:
        columns: the arrays of ``dtypes.PACKET_COLUMNS`` by name, each C-contiguous and read-only;
            every column is an attribute as well (``packets.sport``).
        flow_keys: ``FLOW_KEY[k]``, rows that the ``flow_key`` column points into.
        blob: ``uint8[b]``, frames and TCP options that ``frame_off``, ``opt_off`` point into.
        epoch_ns: wall clock of ``arrival_ps == 0``, nanoseconds since 1970; 0 if generated.
    """

    __slots__ = ("_addresses", "blob", "checked", "columns", "epoch_ns", "flow_keys")

    def __init__(
        self,
        columns: Mapping[str, NDArray[np.generic]],
        *,
        flow_keys: NDArray[np.void] = NO_FLOW_KEYS,
        blob: NDArray[np.uint8] = NO_BYTES,
        epoch_ns: int = 0,
    ) -> None:
        """Check and freeze the columns.

        Raises:
            TypeError: a column is missing, or has another dtype, width or length.
            ValueError: an index column points outside ``flow_keys`` or ``blob``.
        """
        self._addresses = dtypes.addresses(dtypes.PACKET_COLUMNS, columns)
        self.columns: dict[str, NDArray[Any]] = {
            name: columns[name] for name, _, _ in dtypes.PACKET_COLUMNS
        }
        self.flow_keys = np.ascontiguousarray(flow_keys, dtype=dtypes.FLOW_KEY)
        self.blob = np.ascontiguousarray(blob, dtype=np.uint8)
        self.epoch_ns = epoch_ns
        self.checked = False  # emu.model.consistency has looked and found nothing
        self._check_indexes()
        for array in (*self.columns.values(), self.flow_keys, self.blob):
            array.flags.writeable = False

    def _check_indexes(self) -> None:
        if len(self) == 0:
            return
        key = self.columns["flow_key"]
        if int(key.min()) < -1 or int(key.max()) >= len(self.flow_keys):
            raise ValueError("column flow_key points outside flow_keys")
        frame_off, cap_bytes = self.columns["frame_off"], self.columns["cap_bytes"]
        kept = frame_off >= 0
        if int(frame_off.min()) < -1 or bool(
            np.any(frame_off[kept] > len(self.blob) - cap_bytes[kept].astype(np.int64))
        ):
            raise ValueError("column frame_off points outside the blob")
        opt_off = self.columns["opt_off"]
        with_options = opt_off >= 0
        options_bytes = np.maximum((self.columns["tcp_w12"] >> 28).astype(np.int64) * 4 - 20, 0)
        if int(opt_off.min()) < -1 or bool(
            np.any((opt_off > len(self.blob) - options_bytes)[with_options])
        ):
            raise ValueError("column opt_off points outside the blob")

    def __len__(self) -> int:
        return len(self.columns["arrival_ps"])

    def __repr__(self) -> str:
        """What is in the table, in one line."""
        if len(self) == 0:
            return "<Packets: none>"
        arrival, octets = self.columns["arrival_ps"], int(self.columns["wire_bytes"].sum())
        span_ps = int(arrival.max()) - int(arrival.min())
        nics = int(self.columns["nic"].max()) + 1
        of = f"{len(self)} of {octets} bytes in {format_duration_ps(span_ps)} on NICs 0..{nics - 1}"
        return f"<Packets: {of}>"

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name != "columns":
            column = self.columns.get(name)
            if column is not None:
                return column
        raise AttributeError(f"Packets has no column {name!r}")

    @property
    def addresses(self) -> NDArray[np.uint64]:
        """``uint64[len(PACKET_COLUMNS)]``: the core's view. Valid as long as this object lives."""
        return self._addresses

    def frame(self, index: int) -> bytes:
        """The bytes kept of packet *index*; empty when none were."""
        start = int(self.columns["frame_off"][index])
        if start < 0:
            return b""
        return self.blob[start : start + int(self.columns["cap_bytes"][index])].tobytes()

    def take(self, rows: NDArray[np.integer] | slice) -> Packets:
        """A new table of the chosen rows, in order; ``flow_keys`` and ``blob`` are shared."""
        return Packets(
            {name: np.ascontiguousarray(array[rows]) for name, array in self.columns.items()},
            flow_keys=self.flow_keys,
            blob=self.blob,
            epoch_ns=self.epoch_ns,
        )

    def replace(self, **columns: NDArray[np.generic]) -> Packets:
        """The same table with some columns exchanged."""
        return Packets(
            {**self.columns, **columns},
            flow_keys=self.flow_keys,
            blob=self.blob,
            epoch_ns=self.epoch_ns,
        )
