"""Tests tables as Ray data sets, with two workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray
import ray.data
from tests.engines.rows import Sums, rows_of, sums_as_texts, total_of_texts
from tests.engines.support import VICTIMS, Faults, Tables, during

import turbocql.columns
import turbocql.ray
from turbocql.errors import ConfigError

pytestmark = pytest.mark.cassandra

WORKER = "ray::"
ODD = "engines.odd"

DataSet = Any
"""A Ray data set. mypy does not know Ray's types."""


@pytest.fixture(scope="module", autouse=True)
def workers_of_ray(environment: None) -> Iterator[None]:
    ray.init(
        num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=2 << 30
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def write(table: str, tables: Tables) -> None:
    """Writes the generated rows. Ray's workers make them with `rows_of`."""
    generated = ray.data.range(tables.count, override_num_blocks=16).map_batches(
        lambda batch: rows_of(batch["id"]), batch_format="numpy", batch_size=10_000
    )
    sink = turbocql.ray.sink(table, config=tables.config)
    generated.write_datasink(sink)
    assert sink.rows == tables.count


def read_sums(table: str, config: turbocql.Config, **options: Any) -> Sums:
    """Returns the sums of a table as read by Ray's workers."""
    data = turbocql.ray.read(table, config=config, **options)
    sums = data.map_batches(
        lambda batch: pa.table(sums_as_texts(batch)), batch_format="pyarrow", batch_size=None
    )
    return total_of_texts(sums.take_all())


@pytest.fixture(scope="module")
def table(tables: Tables) -> str:
    """Returns the name of a table with all rows, which Ray has written."""
    name = tables.new("ray")
    write(name, tables)
    return name


@pytest.fixture
def data(table: str, config: turbocql.Config) -> DataSet:
    """Returns the table as a data set."""
    return turbocql.ray.read(table, config=config)


def test_writes(table: str, tables: Tables) -> None:
    tables.check(table)


@pytest.mark.parametrize("options", [{}, {"parallelism": 3}], ids=["default", "parallelism-3"])
def test_reads(options: dict[str, Any], table: str, tables: Tables) -> None:
    assert read_sums(table, tables.config, **options) == tables.expected


# Operations on data sets


def test_counts(data: DataSet, count: int) -> None:
    assert data.count() == count


def test_selects_columns(data: DataSet) -> None:
    assert data.select_columns(["bucket", "id"]).schema().names == ["bucket", "id"]


def test_sums_a_column(data: DataSet, tables: Tables) -> None:
    assert data.sum("id") == tables.expected.ids


def test_limits(data: DataSet) -> None:
    assert len(data.limit(7).take_all()) == 7


def test_vectors_are_tensors(data: DataSet) -> None:
    batch = data.select_columns(["emb"]).take_batch(5, batch_format="numpy")
    assert (batch["emb"].shape, batch["emb"].dtype) == ((5, 8), np.float32)


def test_conditions(table: str, config: turbocql.Config, count: int) -> None:
    some = turbocql.ray.read(
        table, config=config, where="bucket = ?", values=[7], columns=["id"], num_cpus=0.5
    )
    assert sorted(row["id"] for row in some.take_all()) == list(range(7, count, 1000))


def test_two_reads_have_the_same_order_of_rows(table: str, config: turbocql.Config) -> None:
    ids = turbocql.ray.read(table, config=config, columns=["id"])
    both = ids.zip(ids.rename_columns({"id": "again"}))
    assert both.filter(expr="id != again").count() == 0


def test_secrets_are_not_pickled(table: str) -> None:
    secret = turbocql.Config(user="u", password="p")
    with pytest.raises(ConfigError, match="pickle_secrets"):
        turbocql.ray.read(table, config=secret)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"wher": "id = 1"}, TypeError),
        ({"scan": {"where": "id = 1"}}, TypeError),
        ({"scan": {"concurrency": 4}}, TypeError),
        ({"columns": ["nothing"]}, ConfigError),
        ({"columns": ["id", "id"]}, ConfigError),
        ({"parallelism": 0}, ConfigError),
    ],
    ids=["misspelled", "scan-where", "scan-concurrency", "no-column", "twice", "no-parts"],
)
def test_wrong_options_are_refused(
    options: dict[str, Any], error: type[Exception], table: str, config: turbocql.Config
) -> None:
    with pytest.raises(error):
        turbocql.ray.read(table, config=config, **options)


# Types without an Arrow type, and nulls


@pytest.fixture(scope="module")
def odd_rows(tables: Tables) -> list[Any]:
    """Makes a table with nulls and with types that Arrow lacks, and returns its rows."""
    with turbocql.connect(config=tables.config) as session:
        session.execute(f"DROP TABLE IF EXISTS {ODD}")
        session.execute(
            f"CREATE TABLE {ODD} (k int PRIMARY KEY, s smallint, f float, d duration,"
            " v vector<float, 2>, l list<int>)"
        )
        insert = session.prepare(f"INSERT INTO {ODD} (k, s, f, d, v, l) VALUES (?, ?, ?, ?, ?, ?)")
        lasting = turbocql.Duration(1, 2, 3)
        session.execute(insert, (1, 2, 0.1, lasting, [1.5, 2.5], [1, 2]))
        session.execute(insert, (2, None, None, None, None, None))
    return read_odd_rows(tables.config)


def read_odd_rows(config: turbocql.Config) -> list[Any]:
    with turbocql.connect(config=config) as session:
        return sorted(session.execute(f"SELECT * FROM {ODD}", rows="tuple").all())


def test_a_null_in_place_of_a_tensor_is_refused(
    odd_rows: list[Any], config: turbocql.Config
) -> None:
    data = turbocql.ray.read(ODD, config=config)
    with pytest.raises(Exception, match=r"types=turbocql\.columns\.ColumnTypes\(\)"):
        data.take_all()


def only_full(data: DataSet) -> DataSet:
    """Returns a data set with only the row that has no nulls.

    Batches of NumPy arrays cannot hold nulls.
    """
    return data.filter(lambda row: row["k"] == 1)


@pytest.mark.parametrize(
    "changed",
    [
        lambda data: data,
        lambda data: data.map(lambda row: row),
        lambda data: data.map_batches(lambda batch: batch, batch_format="pandas"),
        lambda data: only_full(data).map_batches(lambda batch: batch, batch_format="numpy"),
    ],
    ids=["unchanged", "rows", "pandas", "numpy"],
)
def test_rows_that_are_written_again_are_the_same(
    changed: Callable[[DataSet], DataSet], odd_rows: list[Any], config: turbocql.Config
) -> None:
    data = turbocql.ray.read(ODD, config=config, types=turbocql.columns.ColumnTypes())
    changed(data).write_datasink(turbocql.ray.sink(ODD, config=config))
    assert read_odd_rows(config) == odd_rows


def wrong_vectors() -> DataSet:
    """Returns data whose vectors have more than one dimension."""
    data = ray.data.from_numpy(np.zeros((3, 2, 1), np.float32))
    return data.map_batches(lambda batch: {"k": np.arange(3), "v": batch["data"]})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ray.data.from_items([{"k": 2**31}]), '"k"'),
        (lambda: ray.data.from_items([{"k": 1.5}]), '"k"'),
        (wrong_vectors, "dimensions"),
        (lambda: ray.data.from_items([{"k": 1, "f": 1 / 3}]), '"f"'),
    ],
    ids=["too-large", "fraction", "dimensions", "inexact"],
)
def test_wrong_values_are_refused(
    wrong: Callable[[], DataSet], message: str, odd_rows: list[Any], config: turbocql.Config
) -> None:
    sink = turbocql.ray.sink(ODD, config=config)
    data = wrong()
    with pytest.raises(Exception, match=message):
        data.write_datasink(sink)


# Faults


@pytest.mark.parametrize("after_s", [0.5, 1.0, 1.5])
def test_reads_in_small_blocks_while_workers_are_killed(
    after_s: float,
    table: str,
    tables: Tables,
    faults: Faults,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # If a worker is killed, Ray runs its task again, and skips as many blocks as the task had
    # yielded before. So the second run must yield the same blocks.
    context = ray.data.DataContext.get_current()
    monkeypatch.setattr(context, "target_max_block_size", 200_000)
    read = partial(read_sums, table, tables.config)
    assert during(faults.of("worker", WORKER, after_s), read) == tables.expected


@pytest.mark.parametrize("victim", VICTIMS)
def test_reads_while_killed(victim: str, table: str, tables: Tables, faults: Faults) -> None:
    read = partial(read_sums, table, tables.config)
    assert during(faults.of(victim, WORKER, 0.5), read) == tables.expected


@pytest.mark.parametrize("victim", VICTIMS)
def test_writes_while_killed(victim: str, tables: Tables, faults: Faults) -> None:
    name = tables.new(f"ray_{victim}")
    during(faults.of(victim, WORKER, 2.0), lambda: write(name, tables))
    tables.check(name)
