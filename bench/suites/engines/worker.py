"""Takes one sample of the benchmark of engines, in the environment of the engine.

    python -m bench.suites.engines.worker CLIENT CONTACT_POINTS ROWS
    python -m bench.suites.engines.worker fill CONTACT_POINTS ROWS

With the name of a client, reads the table twice to warm up, then once more, and prints the figures
of the last read as JSON. With `fill`, creates the table and loads its rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute

import turbocql
from bench.harness.usage import tree_s
from bench.suites.engines.cases import CLIENTS, PARTS, TABLE
from turbocql import workers

WARMING = 2
ROWS_PER_LOAD = 100_000
Read = Callable[[], tuple[int, int]]
"""Reads the table, and returns the number of rows and the sum of their ids."""


def sums(batch: Any) -> pa.Table:
    """Returns the number of rows of an Arrow batch, and the sum of their ids."""
    ids = pa.compute.sum(batch.column("id")).as_py() or 0
    return pa.table({"rows": [batch.num_rows], "ids": [ids]})


def scan(config: turbocql.Config, _: int) -> Iterator[Read]:
    """Yields a function that reads with `session.scan` in this process."""
    with turbocql.connect(config=config) as session:

        def read() -> tuple[int, int]:
            batches = session.scan(TABLE).batches()
            return added(sums(pa.record_batch(batch)) for batch in batches)

        yield read


def ray(config: turbocql.Config, count: int) -> Iterator[Read]:
    """Yields a function that reads with `turbocql.ray.read`."""
    with ray_started(count) as data:
        import turbocql.ray

        def read() -> tuple[int, int]:
            table = turbocql.ray.read(TABLE, config=config, parallelism=PARTS)
            return of_rows(data, table)

        yield read


def driver(config: turbocql.Config, count: int) -> Iterator[Read]:
    """Yields a function that reads the ranges of `ring_ranges` with scylla-driver, within Ray."""
    from bench.clients.cassandra.engines import read_ranges

    points = ",".join(config.contact_points)
    items = [{"first": first, "last": last} for first, last in ring_ranges(config)]
    with ray_started(count) as data:

        def read() -> tuple[int, int]:
            ranges = data.from_items(items, override_num_blocks=PARTS)
            return of_rows(
                data, ranges.map_batches(partial(read_ranges, points=points, table=TABLE))
            )

        yield read


def of_rows(_: Any, table: Any) -> tuple[int, int]:
    """Lets Ray's workers count the rows of a data set and sum their ids. Returns the totals."""
    results = table.map_batches(sums, batch_format="pyarrow", batch_size=None)
    return added(results.iter_batches(batch_format="pyarrow", batch_size=None))


@contextmanager
def ray_started(count: int) -> Iterator[Any]:
    """Starts Ray with this many workers."""
    import ray
    import ray.data

    ray.init(
        num_cpus=count,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        object_store_memory=2 << 30,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield ray.data
    finally:
        ray.shutdown()


def spark(config: turbocql.Config, count: int) -> Iterator[Read]:
    """Yields a function that reads with Spark's format `turbocql`."""
    from pyspark.sql import SparkSession

    import turbocql.spark

    built = SparkSession.builder.master(f"local[{count}]")
    session = built.config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    turbocql.spark.register(session)
    source = session.read.format("turbocql").option("url", ",".join(config.contact_points))
    source = source.option("partitions", PARTS)

    def added_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from sums(batch).to_batches()

    def read() -> tuple[int, int]:
        results = source.load(TABLE).mapInArrow(added_up, "rows long, ids long").collect()
        return sum(row["rows"] for row in results), sum(row["ids"] for row in results)

    yield read
    session.stop()


def read_part(split: turbocql.Split, config: turbocql.Config) -> Any:
    """Reads a part of the table in a Dask task. Returns its number of rows and the sum of ids."""
    with workers.session(config) as session:
        frame = session.scan(split=split, concurrency=2).to_pandas()
    return len(frame), int(frame["id"].sum())


def dask(config: turbocql.Config, count: int) -> Iterator[Read]:
    """Yields a function that reads with Dask, by the recipe in `docs/engines.md`."""
    import dask as library
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):

        def read() -> tuple[int, int]:
            with workers.session(config) as session:
                splits = session.splits(TABLE, PARTS)
            results = library.compute(
                *(library.delayed(read_part)(split, config) for split in splits)
            )
            return sum(rows for rows, _ in results), sum(ids for _, ids in results)

        yield read


def added(results: Iterable[pa.Table]) -> tuple[int, int]:
    """Adds up the results of `sums`."""
    rows = ids = 0
    for table in results:
        rows += sum(table.column("rows").to_pylist())
        ids += sum(table.column("ids").to_pylist())
    return rows, ids


def ring_ranges(config: turbocql.Config) -> list[tuple[int, int]]:
    """Returns the token ranges of the table's parts, cut at the ends of the nodes' ranges."""
    from turbocql._transfer.scan import _ranges, ring

    with turbocql.connect(config=config) as session:
        ends = ring(session.nodes)
        splits = session.splits(TABLE, PARTS)
    return [pair for split in splits for pair in _ranges(ends, split.ranges)]


def requests(sessions: list[turbocql.Session]) -> int:
    """Returns how many scans of the table the nodes have coordinated."""
    query = (
        "SELECT count FROM system_views.coordinator_scan_latency"
        " WHERE keyspace_name = ? AND table_name = ?"
    )
    results = (session.execute(query, TABLE.split("."), rows="tuple").one() for session in sessions)
    return sum(row[0] for row in results if row is not None)


KINDS = {"scan": scan, "ray": ray, "spark": spark, "dask": dask, "driver": driver}


def fill(points: list[str], rows: int) -> None:
    """Creates the table with the columns of the engines' tests, and loads its rows."""
    from tests.engines.rows import TABLE as columns
    from tests.engines.rows import table_of

    with turbocql.connect(points, timeout_s=60) as session:
        session.execute(
            "CREATE KEYSPACE engines WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        session.execute(columns.format(TABLE))
        for first in range(0, rows, ROWS_PER_LOAD):
            session.load(TABLE, table_of(range(first, min(first + ROWS_PER_LOAD, rows))))


def main(name: str, points: list[str], rows: int) -> None:
    """Reads the table with one client, and prints the figures."""
    client, config = CLIENTS[name], turbocql.Config(contact_points=points)
    expected = (rows, rows * (rows - 1) // 2)
    alone = [
        turbocql.connect(point, balancing=turbocql.Balancing(allowed=[point])) for point in points
    ]
    ranges = len(ring_ranges(config))
    for read in KINDS[name.partition("-")[0]](config, client.workers):
        for _ in range(WARMING):
            assert read() == expected
        counted = requests(alone)
        before, began = tree_s(os.getpid(), client.worker), time.perf_counter()
        assert read() == expected
        wall = time.perf_counter() - began
        after = tree_s(os.getpid(), client.worker)
        figures = {
            "wall_s": wall,
            "cpu_s": after[0] - before[0],
            "worker_cpu_s": after[1] - before[1] if client.worker else after[0] - before[0],
            "requests": requests(alone) - counted,
            "ranges": ranges,
        }
    for session in alone:
        session.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2].split(","), int(sys.argv[3]))
    else:
        main(sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]))
