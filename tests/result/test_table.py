"""A table of columns."""

from __future__ import annotations

import numpy as np

from emu.result.table import Table


def test_a_table_shows_its_size_and_columns():
    table = Table({"cpu": np.arange(4), "packets": np.zeros(4)})

    assert repr(table) == "<Table: 4 rows of cpu, packets>"
    assert repr(table.first(1)) == "<Table: 1 rows of cpu, packets>"
