"""Reads a table with two processes of Dask, and writes a column back."""

import sys
import time

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

import turbocql
from turbocql import workers


def read_part(
    split: turbocql.Split, config: turbocql.Config, columns: list[str] | None = None
) -> pd.DataFrame:
    """Reads a part of a table on a worker. Dask passes the names of the columns that it needs."""
    with workers.session(config) as session:
        return session.scan(split=split, columns=columns, concurrency=2).to_pandas()


def write_part(frame: pd.DataFrame, table: str, config: turbocql.Config, write_time: int) -> int:
    """Writes a DataFrame on a worker. A second run with the same write time changes nothing."""
    with workers.session(config) as session:
        return session.load(table, frame, timestamp=write_time).succeeded


def main(point: str) -> None:
    config = turbocql.Config(contact_points=point)
    with workers.session(config) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS with_dask WITH replication ="
            " {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
        )
        session.execute(
            "CREATE TABLE IF NOT EXISTS with_dask.samples"
            " (id bigint PRIMARY KEY, value double, score double)"
        )
        number = np.arange(40_000)
        session.load("with_dask.samples", {"id": number, "value": np.sqrt(number)})
        splits = session.splits("with_dask.samples", 8)
        meta = session.execute("SELECT * FROM with_dask.samples LIMIT 1").to_pandas()[:0]

    samples = dd.from_map(read_part, splits, config=config, meta=meta)
    mean, spread = dask.compute(samples["value"].mean(), samples["value"].std())
    print(f"mean {mean:.3f}, standard deviation {spread:.3f}")

    scores = samples[["id"]].assign(score=(samples["value"] - mean) / spread)
    now = time.time_ns() // 1000
    parts = [
        dask.delayed(write_part)(part, "with_dask.samples", config, now)
        for part in scores.to_delayed()
    ]
    print(f"{sum(dask.compute(*parts)):,} scores written")
    written = dd.from_map(read_part, splits, config=config, meta=meta)
    print(f"mean score {abs(written['score'].mean().compute()):.3f}")


if __name__ == "__main__":
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        main(sys.argv[1])
