"""A small table: named columns of equal length, which pandas takes as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError

if TYPE_CHECKING:
    import pandas


class Table:
    """Columns by name, each one-dimensional and of one length."""

    def __init__(self, columns: Mapping[str, NDArray[np.generic]]) -> None:
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of {sorted(lengths)} rows in one table")
        self.columns = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __repr__(self) -> str:
        """Its size and the names of its columns."""
        return f"<Table: {len(self)} rows of {', '.join(self.columns)}>"

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        return self.columns[name]

    def first(self, count: int) -> Table:
        """The first rows alone."""
        return Table({name: column[:count] for name, column in self.columns.items()})

    def rows(self) -> list[dict[str, object]]:
        """Plain Python values, one dict per row: what ``json.dumps`` takes."""
        lists = {name: column.tolist() for name, column in self.columns.items()}
        return [
            dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a DataFrame. Raises ConfigError when pandas is not installed."""
        return to_pandas(self.columns)


def to_pandas(columns: Mapping[str, NDArray[np.generic]]) -> pandas.DataFrame:
    """Columns as a DataFrame. Raises ConfigError when pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise ConfigError(
            "to_pandas", "no pandas in this environment", "pandas >= 2.1", "pip install pandas"
        ) from None
    return pandas.DataFrame(dict(columns))
