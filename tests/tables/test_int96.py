"""Tests Parquet files whose timestamps are INT96."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import turbocql
from turbocql._files.source import open_source

from .conftest import Command, Table

US = pa.timestamp("us")
LATE, EARLY = dt.datetime(9999, 12, 31, 3), dt.datetime(1, 1, 1)
FINE, LATE_AND_FINE = dt.datetime(2020, 1, 1, 0, 0, 0, 5), dt.datetime(9999, 12, 31, 0, 0, 0, 5)
EDGES = [dt.datetime(1677, 9, 21), dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11, 23, 50)]
TIMES = [LATE, None, EARLY, *EDGES, dt.datetime(1969, 12, 31, 23, 59, 59, 999000)]


def write(path: Path, data: Any, **options: Any) -> Path:
    pq.write_table(data, path, use_deprecated_int96_timestamps=True, **options)
    schema = pq.ParquetFile(path).metadata.schema
    assert "INT96" in [schema.column(at).physical_type for at in range(len(schema.names))]
    return path


def read(path: Path, name: str = "t") -> list[Any]:
    batches = [batch.column(name) for _, batch in open_source(path, types={}).batches()]
    return [value for column in batches for value in column.to_pylist()]


@pytest.mark.parametrize("group", [1, 2, 3, 1000])
@pytest.mark.parametrize("store_schema", [True, False])
def test_times_of_all_years(tmp_path: Path, group: int, store_schema: bool) -> None:
    times = [*TIMES, *[dt.datetime(2020, 1, 1)] * 5, LATE_AND_FINE, *TIMES]
    data = pa.table({"id": pa.array(range(len(times))), "t": pa.array(times, US)})
    path = write(tmp_path / "t.parquet", data, row_group_size=group, store_schema=store_schema)
    assert read(path) == times


@pytest.mark.parametrize("year", [-4000, 10_000, 290_000, 300_000, 5_000_000])
def test_years_outside_of_python_datetimes(tmp_path: Path, year: int) -> None:
    ticks = [int((year - 1970) * 365.2425 * 86400) * 1000, 0]
    data = pa.table({"t": pa.array(ticks, pa.timestamp("ms"))})
    source = open_source(write(tmp_path / "t.parquet", data), types={})
    (found,) = [batch.column("t") for _, batch in source.batches()]
    assert found.cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist() == ticks


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    data = pa.table({"t": pa.array([1, -1, None], pa.timestamp("ns"))})
    source = open_source(write(tmp_path / "t.parquet", data), types={})
    (found,) = [batch.column("t") for _, batch in source.batches()]
    assert found.cast(pa.int64()).to_pylist() == [1, -1, None]


NESTED = {
    "list": pa.array([TIMES, None, [], [LATE]], pa.list_(US)),
    "struct": pa.array(
        [{"t": LATE, "n": 1}, None, {"t": None, "n": 2}, {"t": EARLY}],
        pa.struct([("t", US), ("n", pa.int8())]),
    ),
    "map": pa.array([[("a", LATE)], [], None, [("b", None)]], pa.map_(pa.string(), US)),
    "keys": pa.array([[(LATE, [EARLY])], None, [], []], pa.map_(US, pa.list_(US))),
    "lists": pa.array([[[LATE], None], [[]], None, [[EARLY, LATE]]], pa.list_(pa.list_(US))),
    "structs": pa.array(
        [[{"t": LATE}, None], None, [], [{"t": None}]], pa.list_(pa.struct([("t", US)]))
    ),
    "fixed": pa.array([[LATE, EARLY], None, [EARLY, LATE], [LATE, LATE]], pa.list_(US, 2)),
    "dots.in.it": pa.array([LATE] * 4, US),
}


@pytest.mark.parametrize("group", [1, 3, 1000])
def test_times_within_others(tmp_path: Path, group: int) -> None:
    path = write(tmp_path / "t.parquet", pa.table(NESTED), row_group_size=group)
    for name, expected in NESTED.items():
        assert read(path, name) == expected.to_pylist(), name


def test_loads_and_comparisons(
    session: turbocql.Session, table: Table, tmp_path: Path, command: Command
) -> None:
    times = [LATE, EARLY, None, FINE, LATE_AND_FINE, dt.datetime(2000, 1, 1)]
    data = {"id": pa.array(range(6), pa.int32()), "t": pa.array(times, US)}
    data["l"] = pa.array([[it] if it else None for it in times], pa.list_(US))
    path = write(tmp_path / "t.parquet", pa.table(data), row_group_size=2)
    name = table("id int PRIMARY KEY, t timestamp, l list<timestamp>")
    report = session.load(name, path, raise_failures=False)
    assert [failure.row for failure in report.failures] == [3, 4]
    assert all("finer" in str(failure.error) for failure in report.failures)
    assert session.load(name, path, truncate_time=True).succeeded == 6
    assert session.verify(name, path, truncate_time=True).equal
    made = name + "c"
    done = command("load", path, made, "--create", "--key", "id", "--truncate-time")
    assert done.code == 0, done.err
    for place in (name, made):
        rows = session.execute(f"SELECT id, t, l FROM {place}").all()
        assert {row.id: row.t and row.t.replace(tzinfo=None) for row in rows} == {
            at: it and it.replace(microsecond=0) for at, it in enumerate(times)
        }
        assert all(row.l is None or row.l == [row.t] for row in rows)
