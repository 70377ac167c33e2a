"""Tables as data sets of Ray, with two workers: run by `tests.engines.run`."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data
from tests.engines.rows import rows_of, sums_of_arrow, total
from tests.engines.support import (
    CONFIG,
    EXPECTED,
    ROWS,
    check_faults,
    check_table,
    during,
    new_table,
    refused,
    said,
    worker_killed,
)

import turbocql.columns
import turbocql.ray
from turbocql.errors import ConfigError

WORKER = "ray::"


def generated() -> Any:
    """The rows, made by the workers."""
    return ray.data.range(ROWS, override_num_blocks=16).map_batches(
        lambda batch: rows_of(batch["id"]), batch_format="numpy", batch_size=10_000
    )


def sums(batch: Any) -> Any:
    """The sums of a batch, as texts: the checksum has no type in Arrow that sums."""
    count, ids, checksum = sums_of_arrow(batch)
    return pa.table({"count": [count], "ids": [str(ids)], "checksum": [str(checksum)]})


def read_sums(table: str, **options: Any) -> Any:
    """What Ray's workers find in a table."""
    data = turbocql.ray.read(table, config=CONFIG, **options)
    rows = data.map_batches(sums, batch_format="pyarrow", batch_size=None).take_all()
    return total((row["count"], int(row["ids"]), int(row["checksum"])) for row in rows)


def write(table: str) -> None:
    sink = turbocql.ray.sink(table, config=CONFIG)
    generated().write_datasink(sink)
    assert sink.rows == ROWS, sink.rows


def check_features(table: str) -> None:
    """Options, rows of Python's objects, nulls, and the order of rows."""
    for option, kind in (
        ({"wher": "id = 1"}, TypeError),
        ({"scan": {"where": "id = 1"}}, TypeError),
        ({"scan": {"concurrency": 4}}, TypeError),
        ({"columns": ["nothing"]}, ConfigError),
        ({"columns": ["id", "id"]}, ConfigError),
        ({"parallelism": 0}, ConfigError),
    ):
        refused(partial(turbocql.ray.read, table, config=CONFIG, **option), kind, "")
    ids = turbocql.ray.read(table, config=CONFIG, columns=["id"])
    both = ids.zip(ids.rename_columns({"id": "again"}))
    assert both.filter(expr="id != again").count() == 0

    with turbocql.connect(config=CONFIG) as session:
        session.execute("DROP TABLE IF EXISTS engines.odd")
        session.execute(
            "CREATE TABLE engines.odd (k int PRIMARY KEY, s smallint, f float, d duration,"
            " v vector<float, 2>, l list<int>)"
        )
        insert = session.prepare(
            "INSERT INTO engines.odd (k, s, f, d, v, l) VALUES (?, ?, ?, ?, ?, ?)"
        )
        lasting = turbocql.Duration(1, 2, 3)
        session.execute(insert, (1, 2, 0.1, lasting, [1.5, 2.5], [1, 2]))
        session.execute(insert, (2, None, None, None, None, None))
        before = sorted(session.execute("SELECT * FROM engines.odd", rows="tuple").all())
    odd = partial(turbocql.ray.read, "engines.odd", config=CONFIG)
    refused(odd().take_all, Exception, "types=turbocql.columns.ColumnTypes()")
    plain = odd(types=turbocql.columns.ColumnTypes())
    sink = turbocql.ray.sink("engines.odd", config=CONFIG)
    with turbocql.connect(config=CONFIG) as session:
        whole = plain.filter(lambda row: row["k"] == 1)
        for changed in (
            plain,
            plain.map(lambda row: row),
            plain.map_batches(lambda batch: batch, batch_format="pandas"),
            # NumPy has no nulls, and so neither has a batch of it.
            whole.map_batches(lambda batch: batch, batch_format="numpy"),
        ):
            changed.write_datasink(sink)
            after = sorted(session.execute("SELECT * FROM engines.odd", rows="tuple").all())
            assert after == before, after
    for value, what in ((2**31, '"k"'), (1.5, '"k"')):
        wrong = ray.data.from_items([{"k": value}])
        refused(partial(wrong.write_datasink, sink), Exception, what)
    wrong = ray.data.from_numpy(np.zeros((3, 2, 1), np.float32))
    wrong = wrong.map_batches(lambda batch: {"k": np.arange(3), "v": batch["data"]})
    refused(partial(wrong.write_datasink, sink), Exception, "dimensions")
    wrong = ray.data.from_items([{"k": 1, "f": 1 / 3}])
    refused(partial(wrong.write_datasink, sink), Exception, '"f"')


def main() -> None:
    # A worker is lost more often here than Ray expects.
    ray.init(
        num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=2 << 30
    )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False

    began, table = time.time(), new_table("ray")
    write(table)
    check_table(table)
    said("ray writes", began)

    began = time.time()
    assert read_sums(table) == EXPECTED
    assert read_sums(table, parallelism=3) == EXPECTED
    said("ray reads", began)

    data = turbocql.ray.read(table, config=CONFIG)
    assert data.count() == ROWS
    assert data.select_columns(["bucket", "id"]).schema().names == ["bucket", "id"]
    assert data.sum("id") == EXPECTED.ids
    assert len(data.limit(7).take_all()) == 7
    batch = data.select_columns(["emb"]).take_batch(5, batch_format="numpy")
    assert (batch["emb"].shape, batch["emb"].dtype) == ((5, 8), np.float32)
    some = turbocql.ray.read(
        table, config=CONFIG, where="bucket = ?", values=[7], columns=["id"], num_cpus=0.5
    )
    assert sorted(row["id"] for row in some.take_all()) == list(range(7, ROWS, 1000))
    secret = turbocql.Config(user="u", password="p")
    refused(lambda: turbocql.ray.read(table, config=secret), ConfigError, "pickle_secrets")

    check_features(table)

    # A task that has already yielded blocks is run again, and goes on after them.
    began, block = time.time(), context.target_max_block_size
    context.target_max_block_size = 200_000
    for after_s in (0.5, 1.0, 1.5):
        assert during(worker_killed(WORKER, after_s), lambda: read_sums(table)) == EXPECTED
    context.target_max_block_size = block
    said("ray reads in small blocks, workers are killed", began)

    check_faults("ray", WORKER, table, read_sums, write)
    ray.shutdown()


if __name__ == "__main__":
    main()
