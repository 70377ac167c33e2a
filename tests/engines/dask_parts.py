"""Functions that Dask's workers import to read and write parts of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from tests.engines.rows import COLUMNS, Sums, rows_of, sums_of

import turbocql
from turbocql import workers


def read_part(
    split: turbocql.Split, config: turbocql.Config, columns: list[str] | None = None
) -> pd.DataFrame:
    """Reads a part of a table on a worker."""
    with workers.session(config) as session:
        return session.scan(split=split, columns=columns, concurrency=2).to_pandas()


def write_part(first: int, count: int, table: str, config: turbocql.Config, write_time: int) -> int:
    """Writes `count` generated rows, whose ids begin at `first`. Returns how many succeeded."""
    rows: dict[str, Any] = rows_of(np.arange(first, first + count))
    rows["name"] = rows["name"].tolist()
    with workers.session(config) as session:
        return session.load(table, rows, timestamp=write_time).succeeded


def sums_of_part(frame: pd.DataFrame) -> Sums:
    """Returns the sums of a part of a table."""
    return sums_of({name: frame[name].to_numpy() for name in COLUMNS})
