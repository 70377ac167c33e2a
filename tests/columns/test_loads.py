"""Loads columns into tables, reads the tables, and compares the values."""

from __future__ import annotations

import datetime
import io
import os
import random
import signal
import sys
import threading
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import datafusion
import duckdb
import nanoarrow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import turbocql
from turbocql._columns.pieces import columns_of
from turbocql.errors import BulkError, ConfigError, EncodeError, RangeError
from turbocql.types import UNSET

from .generated import cql_type_of, value_of
from .support import NAMES, SELECT, SPACE, make, plain, refused, table

SEED = 20_261_123
TABLES = 40
MILLISECOND = np.timedelta64(1, "ms")


@pytest.fixture(scope="module", autouse=True)
def keyspaces(session: turbocql.Session, loaded: None) -> None:
    make(session)
    session.execute(f"CREATE TYPE IF NOT EXISTS {SPACE}.pair (x int, y text)")
    session.execute(
        f"CREATE TYPE IF NOT EXISTS {SPACE}.deep (p frozen<pair>, l frozen<list<double>>)"
    )


def found(session: Any, where: str, columns: str = "*") -> list[tuple[Any, ...]]:
    """Returns the rows of a table, sorted by their keys. The result does not contain the keys."""
    wanted = columns if columns == "*" else f"k, {columns}"
    rows = session.execute(f"SELECT {wanted} FROM {where}", rows="tuple").all()
    return [row[1:] for row in sorted(rows, key=lambda row: row[0])]


def every(session: Any, name: str) -> list[Any]:
    rows = session.execute(f"SELECT n, {name} FROM columns_out.again", rows="tuple").all()
    return [plain(row[1]) for row in sorted(rows, key=lambda row: row[0])]


def as_polars(rows: Any) -> Any:
    return pl.DataFrame(rows)


def as_reader(rows: Any) -> Any:
    live = pa.table(rows)
    return pa.RecordBatchReader.from_batches(live.schema, iter(live.to_batches(max_chunksize=3)))


WAYS: dict[str, Callable[[Any], Any]] = {
    "the result itself": lambda rows: rows,
    "pyarrow": lambda rows: rows.to_arrow(),
    "a reader": as_reader,
    "polars": as_polars,
    "pandas": lambda rows: rows.to_pandas(),
    "numpy": lambda rows: rows.to_numpy(),
    "duckdb": lambda rows: duckdb.from_arrow(pa.table(rows)).to_arrow_table(),
    "datafusion": lambda rows: datafusion.SessionContext().from_arrow(rows),
    "nanoarrow": lambda rows: nanoarrow.Array(pa.table(rows).to_batches()[0]),
    "batches": lambda rows: rows.batches(rows_per_batch=5),
}
NOT_KEPT = {
    # Each pair is a library and a CQL type. The library may change values of this type, so the
    # loaded values may differ.
    ("duckdb", "date"),
}


def test_each_type_is_loaded_and_read_back(session: Any) -> None:
    session.execute("DROP TABLE IF EXISTS columns_out.again")
    columns = ", ".join(f"{name} {cql_type}" for cql_type, name in NAMES.items())
    session.execute(f"CREATE TABLE columns_out.again (p int, n int, {columns}, PRIMARY KEY (p, n))")
    for way, given in WAYS.items():
        for cql_type, name in NAMES.items():
            select = SELECT.replace("*", f"p, n, {name}")
            session.execute("TRUNCATE columns_out.again")
            rows = session.execute(select)
            expected = [plain(row[2]) for row in session.execute(select, rows="tuple").all()]
            try:
                report = session.load("columns_out.again", given(rows))
            except Exception as error:
                raise AssertionError((way, cql_type)) from error
            assert report.succeeded == len(expected)
            got = every(session, name)
            assert got == expected or (way, cql_type) in NOT_KEPT, (way, cql_type, got, expected)


def test_generated_tables_are_loaded_and_read_back(session: Any) -> None:
    rng = random.Random(SEED)
    for number in range(TABLES):
        kinds = [cql_type_of(rng, 3) for _ in range(rng.randint(1, 4))]
        columns = ", ".join(f"c{place} {kind.text}" for place, kind in enumerate(kinds))
        for name in ("given", "again"):
            table(session, columns, name)
        names = ", ".join(f"c{place}" for place in range(len(kinds)))
        insert = session.prepare(
            f"INSERT INTO {SPACE}.given (k, {names}) VALUES (?{', ?' * len(kinds)})"
        )
        rows = [
            (k, *(None if rng.random() < 0.15 else value_of(rng, kind) for kind in kinds))
            for k in range(rng.choice([1, 7, 60]))
        ]
        session.execute_many(insert, rows).raise_for_failures()
        live = session.execute(f"SELECT * FROM {SPACE}.given", page_size=rng.choice([3, 50, 5000]))
        whole = live.to_arrow()
        cuts = sorted(rng.randint(0, len(rows)) for _ in range(3))
        # A slice shares the buffers of the whole table, and has an offset into them.
        parts = [
            whole.slice(begin, end - begin)
            for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)
        ]
        parts += [pa.Table.from_batches([], whole.schema)]
        rng.shuffle(parts)
        given = rng.choice([parts, iter(parts), pa.concat_tables(parts)])
        report = session.load(f"{SPACE}.again", given, nulls=rng.choice(["unset", "null"]))
        assert report.succeeded == len(rows)
        expected, got = found(session, f"{SPACE}.given"), found(session, f"{SPACE}.again")
        assert list(map(plain, got)) == list(map(plain, expected)), (SEED, number, columns)


def test_names_of_data_are_matched_to_columns(session: Any) -> None:
    where = table(session, 'v int, "Odd name" text')
    data = {"id": np.arange(3, dtype="i4"), "v": [1, 2, 3], "other": ["a", "b", "c"]}
    session.load(where, data, rename={"id": "k", "other": "Odd name"})
    assert found(session, where, '"Odd name", v') == [("a", 1), ("b", 2), ("c", 3)]
    session.load(where, {**data, "v": [7, 8, 9]}, rename={"id": "k"}, columns=["k", "v"])
    assert found(session, where, "v") == [(7,), (8,), (9,)]
    keys = {"k": [1], "v": [1]}
    for wrong, said in (
        ({"rename": {"x": "k"}}, "no column 'x'"),
        ({"columns": ["k", "w"]}, "no column for 'w'"),
        ({"columns": ["v"]}, "of the key"),
        ({"rename": {"v": "k"}}, "two columns of the data"),
        ({"rename": {"v": "w"}}, "no column 'w'"),
        ({"ttl": "t"}, "no column 't'"),
    ):
        assert said in refused(EncodeError, partial(session.load, where, keys, **wrong)), wrong
    for name in ("nowhere.t", f"{SPACE}.nowhere", "t", f"{SPACE}.t; DROP TABLE t", "", "a.b.c"):
        refused(ConfigError, partial(session.load, name, keys))
    for odd in (7, None, "a", b"a", ["a"], [("k", 1)], {"k": 1}, {1: [1]}, {"k": {1}}, object()):
        refused((TypeError, EncodeError, OSError), partial(session.load, where, odd))
    session.load(where, {"k": [1], "x": [7], "v": [60]}, rename={"x": "v"}, ttl="v")
    assert found(session, where, "v, ttl(v)")[1][0] == 7
    schema = pa.schema([("k", pa.int32())])
    parts = [pa.record_batch({"k": pa.array([k], pa.int32())}) for k in (50, 51)]
    readers = [pa.RecordBatchReader.from_batches(schema, parts), ({"k": [k]} for k in (52, 53))]
    assert session.load(where, readers).succeeded == 4
    later = [{"k": [1]}, {"k": [2], "v": [1]}]
    assert "a later part" in refused(BulkError, partial(session.load, where, iter(later)))
    refused(EncodeError, partial(session.load, where, later))
    session.execute(f"CREATE TABLE IF NOT EXISTS {SPACE}.counted (k int PRIMARY KEY, c counter)")
    assert "execute_many" in refused(ConfigError, partial(session.load, f"{SPACE}.counted", keys))
    update = f"UPDATE {SPACE}.counted SET c = c + ? WHERE k = ?"
    session.execute(f"TRUNCATE {SPACE}.counted")
    session.execute_many(update, columns={"k": [1, 2], "c": np.array([5, 6])})
    assert found(session, f"{SPACE}.counted", "c") == [(5,), (6,)]


def test_nulls_and_times_of_writes(session: Any) -> None:
    where = table(session, "a int, b int")
    session.load(where, {"k": [1, 2], "a": [1, 1], "b": [1, 1]})
    session.load(where, {"k": [1], "a": [None], "b": [2]})
    session.load(where, {"k": [2], "a": [None], "b": [2]}, nulls="null")
    assert found(session, where, "a, b") == [(1, 2), (None, 2)]
    for data in (
        {"k": [1, None], "a": [5, 5]},
        pa.table({"k": pa.array([1, None], pa.int32()), "a": pa.array([5, 5], pa.int32())}),
        pl.DataFrame({"k": [1, None], "a": [5, 5]}, schema={"k": pl.Int32, "a": pl.Int32}),
        pd.DataFrame({"k": pd.array([1, None], "Int32"), "a": pd.array([5, 5], "Int32")}),
        {"k": np.ma.MaskedArray(np.array([1, 9], "i4"), [False, True]), "a": [5, 5]},
        [{"k": [1], "a": [5]}, {"k": [None], "a": [5]}],
    ):
        said = refused(EncodeError, partial(session.load, where, data))
        assert 'row 1, column "k"' in said, said
    assert found(session, where, "a") == [(1,), (None,)]
    batches = ({"k": [k], "a": [5]} for k in (3, None))
    assert 'row 1, column "k"' in refused(BulkError, partial(session.load, where, batches))
    later = 2_000_000_000_000_000
    moments = pa.array([datetime.datetime(2035, 1, 1), None], pa.timestamp("ms", "UTC"))
    data = {"k": [4, 5], "a": [1, 1], "life": [1000, None], "at": moments}
    session.load(where, data, ttl="life", timestamp="at")
    rows = found(session, where, "ttl(a), writetime(a)")[-2:]
    assert 900 < rows[0][0] <= 1000
    assert rows[0][1] == 2_051_222_400_000_000
    assert rows[1][0] is None
    assert rows[1][1] < later
    session.load(where, {"k": [6], "a": [1]}, ttl=500, timestamp=later)
    rows = found(session, where, "ttl(a), writetime(a)")[-1:]
    assert 400 < rows[0][0] <= 500
    assert rows[0][1] == later
    for wrong in ({"ttl": -1}, {"ttl": True}, {"timestamp": 1.5}, {"nulls": "none"}):
        refused(ConfigError, partial(session.load, where, {"k": [1]}, **wrong))


def test_times_finer_than_milliseconds_fail_their_row(session: Any) -> None:
    where = table(session, "t timestamp, d date")
    times = np.array(["2026-01-01T00:00:00.001", "2026-01-01T00:00:00.0015"], "M8[us]")
    keys = np.arange(2, dtype="i4")
    report = session.load(where, {"k": keys, "t": times}, raise_failures=False)
    assert (report.succeeded, report.failures[0].row) == (1, 1)
    assert isinstance(report.failures[0].error, RangeError)
    session.load(where, {"k": keys, "t": times}, truncate_time=True)
    read = [row[0] for row in found(session, where, "t")]
    assert read[0] == read[1] == datetime.datetime(2026, 1, 1, 0, 0, 0, 1000, datetime.timezone.utc)
    days = np.array(["2026-01-01", "NaT"], "M8[D]")
    session.load(where, {"k": keys, "d": days, "t": np.array(["NaT"] * 2, "M8[s]")}, nulls="null")
    assert [row[0] for row in found(session, where, "t")] == [None, None]
    assert str(found(session, where, "d")[0][0]) == "2026-01-01"
    midnights = pa.table(
        {"k": keys, "d": np.array(["2026-05-05T00:00", "2026-05-05T00:01"], "M8[s]")}
    )
    report = session.load(where, midnights, raise_failures=False)
    assert [failure.row for failure in report.failures] == [1]
    session.load(where, {"k": keys, "t": np.array(["1969-12-31"] * 2, "M8[D]")})
    assert str(found(session, where, "t")[0][0]) == "1969-12-31 00:00:00+00:00"
    naive = pd.DataFrame({"k": keys, "t": pd.to_datetime(["2026-05-05", None])})
    session.load(where, naive)
    assert found(session, where, "t")[0][0].day == 5


class Tensor:
    """A tensor on the CPU. It has only the methods of DLPack, and no other methods of NumPy's
    arrays.
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class OnGraphicsCard(Tensor):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the tensor is not on the CPU")


def test_arrays_and_tensors(session: Any) -> None:
    where = table(session, "v vector<float, 4>, w vector<vector<double, 2>, 2>, s text, b blob")
    keys = np.arange(9, dtype="i4")
    wide = np.arange(72, dtype="f4").reshape(9, 8)
    for given, expected in (
        (wide[:, ::2], wide[:, ::2]),
        (wide[::-1, :4], wide[::-1, :4]),
        (np.asfortranarray(wide[:, :4]), wide[:, :4]),
        (wide[:, :4].astype(">f4"), wide[:, :4]),
        (wide[:, :4].astype("f2"), wide[:, :4]),
        (wide[:, :4].astype("i2"), wide[:, :4]),
        (Tensor(wide[:, :4].astype("f2")), wide[:, :4]),
        (Tensor(wide[:, :4]), wide[:, :4]),
        (list(wide[:, :4]), wide[:, :4]),
        (pl.Series(wide[:, :4]), wide[:, :4]),
    ):
        session.load(where, {"k": keys, "v": given})
        got = session.execute(f"SELECT k, v FROM {where}").to_numpy()
        assert np.array_equal(got["v"][np.argsort(got["k"])], expected), given
    deep = np.arange(36, dtype="f8").reshape(9, 2, 2)
    session.load(where, {"k": keys, "w": deep, "s": np.array(["\u20ac", ""] * 4 + ["a"])})
    assert [row[0] for row in found(session, where, "s")] == ["\u20ac", ""] * 4 + ["a"]
    assert np.array_equal(np.array([row[0] for row in found(session, where, "w")]), deep)
    session.load(where, {"k": keys, "b": np.array([b"\xff\0a"] * 9)})
    assert found(session, where, "b")[0] == (b"\xff\0a",)
    masked = np.ma.MaskedArray(wide[:, :4], [[True] * 4] * 8 + [[False] * 4])
    session.load(where, {"k": keys, "v": masked}, nulls="null")
    assert [row[0] is None for row in found(session, where, "v")] == [True] * 8 + [False]
    masked = np.ma.MaskedArray(wide[:, :4], [[True, False, True, True]] + [[False] * 4] * 8)
    for wrong in (
        masked,
        wide,
        wide[:, :4].astype("f8"),
        wide[:8, :4],
        wide[:, :4].astype("c8"),
        wide[0, 0],
        OnGraphicsCard(wide[:, :4]),
        np.zeros((9, 4), "M8[M]"),
        np.zeros(9, [("a", "f4")]),
        np.full(9, np.longdouble(1)),
    ):
        said = refused(EncodeError, partial(session.load, where, {"k": keys, "v": wrong}))
        assert 'column "v"' in said, said


def test_failures_have_the_numbers_of_rows(session: Any, point: str) -> None:
    where = table(session, "v vector<int, 2>, a ascii")
    lists = pa.array([[1, 2], [1], None, [1, None], [3, 4]] * 400, pa.list_(pa.int32()))
    data = pa.table({"k": pa.array(range(2000), pa.int32()), "v": lists})
    report = session.load(where, data, raise_failures=False)
    assert report.succeeded == 1200
    assert [failure.row for failure in report.failures] == [
        k for k in range(2000) if k % 5 in (1, 3)
    ]
    assert 'column "v"[1]' in str(report.failures[1].error), report.failures[1].error
    report = session.load(where, data, raise_failures=False, max_failures=9)
    assert (report.stopped, len(report.failures)) == (True, 10)
    assert "10 of " in refused(BulkError, partial(session.load, where, data, max_failures=9))
    texts = pa.array(["\u20ac", "a"])
    mixed = pa.table({"k": pa.array([1, 2], pa.int32()), "a": texts})
    report = session.load(where, mixed, raise_failures=False)
    assert [failure.row for failure in report.failures] == [0]
    objects = {"k": [1, "x", 2], "a": ["a", "b", UNSET]}
    report = session.load(where, objects, raise_failures=False)
    assert [failure.row for failure in report.failures] == [1]
    with turbocql.connect(point, values_in_errors=False) as hiding:
        report = hiding.load(where, {"k": [1], "a": ["\u20ac secret"]}, raise_failures=False)
        assert "secret" not in str(report.failures[0].error)


def test_types_are_checked_before_anything_is_sent(session: Any) -> None:
    where = table(session, "a int, b set<int>, c text, d decimal, u uuid, t date")
    for name, array, said in (
        ("a", pa.array([1], pa.int64()), "expected int, got Arrow's int64"),
        ("a", pa.array([1.0]), "got Arrow's double"),
        ("b", pa.array([["x"]]), "int does not take Arrow's string"),
        ("c", pa.array([b"x"]), "expected text, got Arrow's binary"),
        ("a", pa.array(["1"]), "got Arrow's string; cast it to int32 first, if its values fit"),
        ("t", pa.array(["2026-11-26"]), "got Arrow's string; cast it to date32[day] first, if its"),
        ("d", pa.array([0.5]), "got Arrow's double; cast it to decimal128 first, if its"),
        ("u", pa.array([b"x"], pa.binary(1)), "expected uuid"),
    ):
        read: list[int] = []

        def batches(array: Any = array, name: str = name, read: list[int] = read) -> Iterator[Any]:
            for k in range(3):
                read.append(k)
                keys = pa.array([k], pa.int32())
                yield pa.record_batch({"k": keys, name: array})

        error = refused(EncodeError, partial(session.load, where, batches()))
        assert said in error, error
        assert f'column "{name}"' in error, error
        assert read == [0]
        stream = pa.RecordBatchReader.from_batches(next(batches()).schema, batches())
        assert said in refused(EncodeError, partial(session.load, where, stream))
    assert found(session, where, "a") == []
    sets = session.execute(f"SELECT k, b FROM {where}").to_arrow()
    lists = table(session, "b list<int>", "lists")
    error = refused(EncodeError, partial(session.load, lists, sets))
    assert "from set<int>" in error, error


def test_any_statement_accepts_columns(session: Any) -> None:
    where = table(session, "a int, b text")
    insert = f"INSERT INTO {where} (k, a, b) VALUES (?, ?, ?) USING TTL ?"
    data = {"k": [1, 2], "a": [1, None], "b": ["x", "y"], "[ttl]": [1000, None]}
    report = session.execute_many(insert, columns=data, results=True)
    assert (report.rows, report.succeeded, len(report.results)) == (2, 2, 2)
    assert found(session, where, "a, b") == [(1, "x"), (None, "y")]
    session.execute_many(f"UPDATE {where} SET a = ? WHERE k = ?", columns={"k": [1], "a": [None]})
    assert found(session, where, "a") == [(None,), (None,)]
    read = session.execute_many(
        f"SELECT b FROM {where} WHERE k = ?",
        columns=pa.table({"k": [2, 1]}).cast(pa.schema([("k", pa.int32())])),
        results=True,
    )
    assert [rows.one().b for rows in read.results] == ["y", "x"]
    prepared = session.prepare(f"DELETE FROM {where} WHERE k = ?")
    for wrong in ({}, {"x": [1]}, {"k": [1], "x": [1]}):
        refused(EncodeError, partial(session.execute_many, prepared, columns=wrong))
    refused(TypeError, partial(session.execute_many, prepared))
    refused(TypeError, partial(session.execute_many, prepared, [(1,)], columns={"k": [1]}))
    assert session.execute_many(prepared, columns=iter([])).rows == 0
    assert session.execute_many(prepared, columns={"k": []}).rows == 0


def test_nulls_within_dictionaries_and_runs(session: Any) -> None:
    where = table(session, "a int, s text, d duration, m map<text, text>")
    keys = np.arange(2, dtype="i4")
    inner = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([1, None], pa.int32()))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), inner)
    nothing = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.nulls(1))
    parts = [pa.array([5, 6], pa.int32()).dictionary_encode(), pa.array([1, 2], pa.int32())]
    spans = pa.StructArray.from_arrays(
        [*parts, pa.array([3, 4])], ["months", "days", "nanoseconds"]
    )
    session.load(where, {"k": keys, "a": runs, "s": nothing, "d": spans}, nulls="null")
    assert found(session, where, "a, s") == [(1, None), (None, None)]
    assert [str(row[0]) for row in found(session, where, "d")] == ["5mo1d3ns", "6mo2d4ns"]
    turned = pa.array(
        [[{"value": "V", "key": "K"}]] * 2,
        pa.list_(pa.struct([("value", pa.string()), ("key", pa.string())])),
    )
    session.load(where, {"k": keys, "m": turned})
    assert dict(found(session, where, "m")[0][0]) == {"K": "V"}
    months = pd.Series(pd.period_range("2020-01", periods=2, freq="M"))
    numbers = table(session, "n bigint, f double", "numbers")
    said = refused(EncodeError, partial(session.load, numbers, {"k": keys, "n": months}))
    assert "extension type pandas.period" in said, said
    uuids = [uuid.UUID(int=1), None]
    where_uuids = table(session, "u uuid, b blob", "uuids")
    objects = pl.DataFrame({"k": [1, 2], "u": uuids}, schema_overrides={"k": pl.Int32})
    session.load(where_uuids, objects)
    assert found(session, where_uuids, "u") == [(uuids[0],), (None,)]
    rows = {"k": [1], "b": pl.Series([b"hello"], dtype=pl.Object)}
    session.load(where_uuids, rows)
    assert found(session, where_uuids, "b")[0] == (b"hello",)
    insert = f"INSERT INTO {numbers} (k, n) VALUES (?, ?)"
    frame = pl.DataFrame({"k": [1, 2], "n": [10, 20]})
    for wrong in (frame, frame.to_arrow()):
        assert "columns=" in refused(TypeError, partial(session.execute_many, insert, wrong))
    text = io.StringIO("k,n\n1,5\n2,6\n3,7\n")
    session.load(numbers, pd.read_csv(text, chunksize=2, dtype={"k": "int32"}))
    assert found(session, numbers, "n") == [(5,), (6,), (7,)]
    session.execute(f"TRUNCATE {numbers}")
    large = pd.array([2**53 + 1, None], dtype="Int64")
    refused(EncodeError, partial(session.load, numbers, {"k": keys, "f": large}))
    session.load(numbers, {"k": keys, "n": large}, nulls="null")
    assert found(session, numbers, "n") == [(2**53 + 1,), (None,)]
    lives = {"k": keys, "n": large, "life": np.array([100, 2**40])}
    report = session.load(numbers, lives, ttl="life", raise_failures=False)
    assert (report.succeeded, report.failures[0].row) == (1, 1)
    for wrong in (np.array([0, 2**62], "M8[h]"), np.array([0, -(2**61)], "M8[7s]")):
        times = {"k": keys, "t": wrong}
        assert "row 1" in refused(
            EncodeError, partial(session.load, table(session, "t timestamp", "times"), times)
        )
    texts = np.full(20_000, "a")
    texts[17_000] = "\ud800"
    many = {"k": np.arange(20_000, dtype="i4"), "s": texts}
    assert "row 17000" in refused(BulkError, partial(session.load, where, many))


def test_data_that_changes_during_a_load(session: Any) -> None:
    where = table(session, "s text")
    texts = ["a"] * 2000

    class Shrinking(dict[str, Any]):
        """A dict of columns. After the first piece was read, one of the columns becomes shorter."""

    data = Shrinking({"k": np.arange(2000, dtype="i4"), "s": texts})
    found_pieces = columns_of(data)
    assert found_pieces is not None
    next(found_pieces.pieces)
    del texts[512:]
    assert "changed its length" in refused(EncodeError, partial(next, found_pieces.pieces))
    large = {"k": np.arange(64, dtype="i4"), "s": ["x" * 500_000] * 64}
    pieces = columns_of(large)
    assert pieces is not None
    assert max(len(piece) for piece in pieces.pieces) <= 8

    class Stopping:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise StopIteration

    refused(RuntimeError, partial(session.load, where, Stopping()))


def test_producers_that_fail(session: Any) -> None:
    where = table(session, "a int")
    schema = pa.schema([("k", pa.int32())])

    def batches(error: BaseException) -> Iterator[Any]:
        yield pa.record_batch({"k": pa.array([1], pa.int32())})
        raise error

    for error, expected in ((ValueError("no more"), BulkError), (KeyboardInterrupt(), None)):
        kind = expected or KeyboardInterrupt
        said = refused(kind, partial(session.load, where, batches(error)))
        assert expected is None or ("no more" in said and "after 1 rows" in said), said
        reader = pa.RecordBatchReader.from_batches(schema, batches(error))
        refused((BulkError, KeyboardInterrupt), partial(session.load, where, reader))
    # The report counts the rows before the failure, and lists the numbers of the failed rows.
    wide = table(session, "a int, v vector<int, 2>", "wide")
    good = pa.table({"k": pa.array(range(10), pa.int32()), "v": [[1, 2]] * 9 + [[1]]})
    good = good.set_column(1, "v", good["v"].cast(pa.list_(pa.int32())))
    try:
        session.load(wide, iter([good, good, {"x": [1]}]))
    except BulkError as error:
        report = error.report
        assert report is not None
        assert (report.rows, report.succeeded) == (20, 18)
        assert [failure.row for failure in report.failures] == [9, 19]
    else:
        raise AssertionError("no BulkError")
    changing = [{"k": [1], "a": [1]}, {"k": [2]}]
    assert "a later part" in refused(
        (BulkError, EncodeError), partial(session.load, where, iter(changing))
    )


def test_ctrl_c_ends_a_load(session: Any) -> None:
    where = table(session, "v vector<float, 64>")

    def endless() -> Iterator[Any]:
        k = 0
        while True:
            keys = pa.array(range(k, k + 500), pa.int32())
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(32_000, "f4")), 64)
            yield pa.record_batch({"k": keys, "v": vectors})
            k += 500

    sample = next(endless())
    for data in (endless(), pa.RecordBatchReader.from_batches(sample.schema, endless())):
        timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        try:
            session.load(where, data)
        except (KeyboardInterrupt, BulkError):
            pass
        else:
            raise AssertionError("an endless load has ended")
        assert time.monotonic() - begun < 30
        timer.join()
    assert session.execute(f"SELECT count(*) FROM {where}").one()[0] > 0


def test_no_object_is_made_per_cell(session: Any) -> None:
    where = table(session, "a int, s text, v vector<float, 8>")
    count = 20_000
    data = pa.table(
        {
            "k": pa.array(np.arange(count, dtype="i4")),
            "a": pa.array(np.arange(count, dtype="i4")),
            "s": pa.array([f"text {k}" for k in range(count)]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(count * 8, "f4")), 8),
        }
    )
    arrays = {
        "k": np.arange(count, dtype="i4"),
        "a": np.arange(count, dtype="i4"),
        "s": np.array([f"text {k}" for k in range(count)]),
        "v": np.zeros((count, 8), "f4"),
    }
    insert = f"INSERT INTO {where} (k, a, s, v) VALUES (?, ?, ?, ?)"

    def made(work: Callable[[], Any]) -> int:
        """Returns the peak of Python's memory during `work`, in bytes."""
        work()
        tracemalloc.start()
        work()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    # A load reads its data piece by piece. If it made an object for each cell, the objects of one
    # piece would take over 1 MB.
    assert made(lambda: session.load(where, data)) < 150_000
    assert made(lambda: session.execute_many(insert, columns=data)) < 150_000
    # A load copies the pieces of NumPy arrays, which takes memory. But it makes no object for each
    # cell.
    objects = sys.getallocatedblocks()
    assert made(lambda: session.load(where, arrays)) < 3_000_000
    assert sys.getallocatedblocks() - objects < 2000
    # In contrast, `to_pylist` makes an object for each cell.
    assert made(data.to_pylist) > 10**6


def test_frames_keep_their_objects(session: Any) -> None:
    where = table(session, "d decimal, u uuid, l list<int>, x double, s text, n bigint")
    frame = pd.DataFrame(
        {
            "d": [Decimal("1.50"), None, float("nan")],
            "l": [[1], None, np.array([2], "i4")],
            "x": [0.5, float("nan"), 1.0],
            "s": ["a", None, "b"],
            "n": pd.array([2**53 + 1, None, 3], "Int64"),
        },
        index=pd.Index([1, 2, 3], name="k").astype("int32"),
    )
    session.load(where, frame, nulls="null")
    assert found(session, where, "d, l, x, s, n") == [
        (Decimal("1.50"), [1], 0.5, "a", 2**53 + 1),
        (None, None, None, None, None),
        (None, [2], 1.0, "b", 3),
    ]
    session.load(where, session.execute(f"SELECT * FROM {where}").to_pandas())
    double = pd.DataFrame({"k": [1]}, index=pd.Index([1], name="k"))
    assert "two columns" in refused(EncodeError, partial(session.load, where, double))
    session.load(where, {"k": frame.index.to_numpy(), "x": frame["x"], "d": frame["d"]})
    kept = frame.reset_index()[lambda rows: rows["x"] > 0.7]
    session.load(where, kept.assign(s=pd.Categorical(["c"])))
    assert found(session, where, "s") == [("a",), (None,), ("c",)]
