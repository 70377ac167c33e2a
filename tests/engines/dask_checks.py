"""The recipe for Dask, with two processes: run by `tests.engines.run`."""

from __future__ import annotations

import time
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster
from tests.engines.rows import COLUMNS, rows_of, sums_of, total
from tests.engines.support import (
    CONFIG,
    EXPECTED,
    ROWS,
    check_faults,
    check_table,
    new_table,
    said,
)

import turbocql
from turbocql import workers

WORKER = "multiprocessing"


def read_part(split: turbocql.Split, columns: list[str] | None = None) -> pd.DataFrame:
    """A part of a table, on a worker."""
    with workers.session(CONFIG) as session:
        return session.scan(split=split, columns=columns, concurrency=2).to_pandas()


def table_as(table: str, parts: int = 16) -> Any:
    """A table as a DataFrame of Dask."""
    with workers.session(CONFIG) as session:
        splits = session.splits(table, parts)
        meta = session.execute(f"SELECT * FROM {table} LIMIT 1").to_pandas()[:0]
    return dd.from_map(read_part, splits, meta=meta)


def write_part(first: int, count: int, table: str, write_time: int) -> int:
    """Some of the generated rows, written by a worker."""
    rows = rows_of(np.arange(first, first + count))
    rows["name"] = rows["name"].tolist()
    with workers.session(CONFIG) as session:
        return session.load(table, rows, timestamp=write_time).succeeded


def write(table: str) -> None:
    """Writes all rows. A part that is written again has the same write time."""
    write_time, step = time.time_ns() // 1000, ROWS // 16
    parts = [
        dask.delayed(write_part)(first, min(step, ROWS - first), table, write_time)
        for first in range(0, ROWS, step)
    ]
    assert sum(dask.compute(*parts)) == ROWS


def read_sums(table: str) -> Any:
    """What Dask's workers find in a table."""

    def sums(frame: pd.DataFrame) -> Any:
        return sums_of({name: frame[name].to_numpy() for name in COLUMNS})

    parts = [dask.delayed(sums)(part) for part in table_as(table).to_delayed()]
    return total(dask.compute(*parts))


def main() -> None:
    # A task may be lost with its worker more often than Dask expects.
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    # Dask would make texts of the arrays in a column of vectors.
    dask.config.set({"dataframe.convert-string": False})
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        began, table = time.time(), new_table("dask")
        write(table)
        check_table(table)
        said("dask writes", began)

        began = time.time()
        assert read_sums(table) == EXPECTED
        assert int(table_as(table)["id"].sum().compute()) == EXPECTED.ids
        said("dask reads", began)

        check_faults("dask", WORKER, table, read_sums, write, write_s=1.0)


if __name__ == "__main__":
    main()
