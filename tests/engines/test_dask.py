"""Tests the recipe for Dask, with two worker processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import dask
import dask.dataframe as dd
import pytest
from dask.distributed import Client, LocalCluster
from tests.engines.dask_parts import read_part, sums_of_part, write_part
from tests.engines.rows import Sums, total
from tests.engines.support import VICTIMS, Faults, Tables, during

import turbocql
from turbocql import workers

pytestmark = pytest.mark.cassandra

WORKER = "multiprocessing"
PARTS = 16
SETTINGS = {
    # By default, Dask gives up on a task if the workers that run it were killed several times. The
    # faults kill workers more often.
    "distributed.scheduler.allowed-failures": 10,
    # By default, Dask gives up on a worker that has not restarted within 15 s. The worker's tasks
    # would then wait for ever.
    "distributed.deploy.lost-worker-timeout": "300s",
    # By default, Dask converts the arrays in a column of vectors to strings.
    "dataframe.convert-string": False,
}


@pytest.fixture(scope="module", autouse=True)
def workers_of_dask(environment: None) -> Iterator[None]:
    with (
        dask.config.set(SETTINGS),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        yield


def frame_of(table: str, config: turbocql.Config) -> Any:
    """Returns a table as a Dask DataFrame."""
    with workers.session(config) as session:
        splits = session.splits(table, PARTS)
        meta = session.execute(f"SELECT * FROM {table} LIMIT 1").to_pandas()[:0]
    return dd.from_map(read_part, splits, config=config, meta=meta)


def write(table: str, tables: Tables) -> None:
    """Writes all generated rows. If Dask writes a part again, its rows get the same write time."""
    write_time, step = time.time_ns() // 1000, tables.count // PARTS
    parts = [
        dask.delayed(write_part)(
            first, min(step, tables.count - first), table, tables.config, write_time
        )
        for first in range(0, tables.count, step)
    ]
    assert sum(dask.compute(*parts)) == tables.count


def read_sums(table: str, config: turbocql.Config) -> Sums:
    """Returns the sums of a table as read by Dask's workers."""
    parts = [dask.delayed(sums_of_part)(part) for part in frame_of(table, config).to_delayed()]
    return total(dask.compute(*parts))


@pytest.fixture(scope="module")
def table(tables: Tables) -> str:
    """Returns the name of a table with all rows, which Dask has written."""
    name = tables.new("dask")
    write(name, tables)
    return name


def test_writes(table: str, tables: Tables) -> None:
    tables.check(table)


def test_reads(table: str, tables: Tables) -> None:
    assert read_sums(table, tables.config) == tables.expected


def test_reads_a_column(table: str, tables: Tables) -> None:
    assert int(frame_of(table, tables.config)["id"].sum().compute()) == tables.expected.ids


@pytest.mark.parametrize("victim", VICTIMS)
def test_reads_while_killed(victim: str, table: str, tables: Tables, faults: Faults) -> None:
    read = partial(read_sums, table, tables.config)
    assert during(faults.of(victim, WORKER, 0.5), read) == tables.expected


@pytest.mark.parametrize("victim", VICTIMS)
def test_writes_while_killed(victim: str, tables: Tables, faults: Faults) -> None:
    name = tables.new(f"dask_{victim}")
    during(faults.of(victim, WORKER, 1.0), lambda: write(name, tables))
    tables.check(name)
