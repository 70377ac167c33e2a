"""Checks that consumers of Arrow streams, and NumPy, get the same values as `all()` returns."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
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
from turbocql import Time
from turbocql.columns import ColumnTypes

from .support import (
    KEYSPACE,
    MANY,
    NAMES,
    SELECT,
    WHEN,
    cell,
    make,
    plain,
    refused,
)


@pytest.fixture(scope="module", autouse=True)
def tables(session: turbocql.Session) -> None:
    make(session)


def test_every_type_equals_the_values_of_all(session: Any) -> None:
    expected = session.execute(SELECT, rows="tuple").all()
    for page_size in (5000, 4, 1):
        rows = session.execute(SELECT, page_size=page_size)
        table = rows.to_arrow()
        assert table.num_rows == len(expected)
        for cql_type, name in NAMES.items():
            place = table.column_names.index(name)
            field = table.schema.field(name)
            assert field.metadata[b"cql_type"], name
            column = table.column(name)
            if cql_type == "time":
                column = column.cast(pa.int64())
            got = [cell(value, cql_type) for value in column.to_pylist()]
            wanted = [plain(row[place]) for row in expected]
            if cql_type == "varint":
                wanted = [None if value is None else str(value) for value in wanted]
            if cql_type == "vector<varint, 2>":
                wanted = [None if one is None else list(map(str, one)) for one in wanted]
            if cql_type == "frozen<place>":
                wanted = [
                    value and {**value, "tags": value["tags"] and list(value["tags"])}
                    for value in wanted
                ]
            assert got == wanted, (cql_type, got, wanted)
    one = session.execute(SELECT)
    assert one.to_arrow().equals(one.to_arrow())


def test_consumers_take_the_rows_directly(session: Any) -> None:
    expected = session.execute(MANY, rows="tuple").all()
    numbers = [row[0] for row in expected]

    def rows() -> Any:
        return session.execute(MANY, page_size=700)

    assert pl.DataFrame(rows())["n"].to_list() == numbers
    assert pa.table(rows()).column("n").to_pylist() == numbers
    assert pa.RecordBatchReader.from_stream(rows()).read_all().num_rows == len(numbers)
    frame = pd.DataFrame.from_arrow(rows())
    assert frame["n"].tolist() == numbers
    found = duckdb.from_arrow(rows()).aggregate("sum(n), count(*), max(name)").fetchall()[0]
    assert found == (sum(numbers), len(numbers), max(row[2] for row in expected))
    context = datafusion.SessionContext()
    total = context.from_arrow(rows()).aggregate(
        [], [datafusion.functions.sum(datafusion.col("n"))]
    )
    assert total.to_pydict() == {"sum(n)": [sum(numbers)]} or list(
        next(iter(total.to_pydict().values()))
    ) == [sum(numbers)]
    assert len(list(nanoarrow.ArrayStream(rows()).read_all().iter_tuples())) == len(numbers)
    schema = pa.schema(session.execute(MANY))
    assert schema.names == ["n", "score", "name", "v"]


def by_duckdb(live: Any) -> int:
    return int(pa.table(duckdb.sql("SELECT * FROM live")).num_rows)


CONSUMERS: dict[str, Callable[[Any], int]] = {
    "polars": lambda rows: int(pl.DataFrame(rows).height),
    "pyarrow": lambda rows: int(pa.table(rows).num_rows),
    "pandas": lambda rows: len(pd.DataFrame.from_arrow(rows)),
    "duckdb": by_duckdb,
    "datafusion": lambda rows: int(datafusion.SessionContext().from_arrow(rows).count()),
    "nanoarrow": lambda rows: len(nanoarrow.ArrayStream(rows).read_all()),
}
REFUSED = {("pandas", "time"), ("pandas", "vector<uuid, 1>")}
"""Pairs of a consumer and a type that it refuses. `DataFrame.from_arrow` of pandas refuses times
with nanoseconds, and UUIDs inside other types. `to_pandas()` of turbocql accepts them."""


def test_every_type_through_each_consumer(session: Any) -> None:
    refused = set()
    for cql_type, name in NAMES.items():
        for consumer, read in CONSUMERS.items():
            rows = session.execute(f"SELECT {name} FROM {KEYSPACE}.every")
            try:
                assert read(rows) == 23, (consumer, cql_type)
            except Exception as error:
                if isinstance(error, AssertionError):
                    raise
                refused.add((consumer, cql_type))
                print(consumer, cql_type, str(error)[:100], file=sys.stderr)
    assert refused == REFUSED, refused


def test_frames_have_objects_of_python(session: Any) -> None:
    expected = session.execute(SELECT, rows="dict").all()
    frame = session.execute(SELECT).to_pandas()
    for cql_type in ("decimal", "varint", "uuid", "timeuuid"):
        name = NAMES[cql_type]
        assert frame[name].tolist() == [row[name] for row in expected], cql_type
    times = [row[NAMES["time"]] for row in expected]
    assert frame[NAMES["time"]].tolist() == times
    days = [row[NAMES["date"]] for row in expected]
    assert frame[NAMES["date"]].tolist() == days
    frame = session.execute(SELECT).to_polars()
    assert frame.height == len(expected)
    texts = [row[NAMES["text"]] for row in expected]
    assert frame[NAMES["text"]].to_list() == texts


def test_arrays_of_numpy(session: Any) -> None:
    rows = session.execute(MANY, rows="tuple").all()
    for page_size in (5000, 700):
        arrays = session.execute(MANY, page_size=page_size).to_numpy()
        assert list(arrays) == ["n", "score", "name", "v"]
        assert arrays["v"].shape == (3000, 4)
        assert arrays["v"].dtype == np.float32
        assert not isinstance(arrays["v"], np.ma.MaskedArray)
        assert arrays["n"].tolist() == [row[0] for row in rows]
        assert arrays["name"].tolist() == [row[2] for row in rows]
        assert arrays["v"].tolist() == [list(row[3]) for row in rows]
    expected = session.execute(SELECT, rows="dict").all()
    arrays = session.execute(SELECT, page_size=5).to_numpy()
    for cql_type, name in NAMES.items():
        got = arrays[name]
        wanted = [row[name] for row in expected]
        assert len(got) == len(wanted)
        if isinstance(got, np.ma.MaskedArray):
            nulls = [value is None for value in wanted]
            mask = np.ma.getmaskarray(got)
            mask = mask[:, 0] if mask.ndim == 2 else mask
            assert mask.tolist() == nulls, cql_type
        elif got.dtype == object:
            assert [plain(one) for one in got] == [plain(one) for one in wanted], cql_type
    masked = arrays[NAMES["timestamp"]]
    assert masked.dtype == np.dtype("M8[ms]")
    assert masked.compressed()[0] == np.datetime64(WHEN.replace(tzinfo=None), "ms")
    days = arrays[NAMES["date"]]
    assert days.compressed()[0] == np.datetime64("2026-11-23")
    assert session.execute(f"{MANY} WHERE p = 9").to_numpy()["v"].shape == (0, 4)


def test_batches_have_the_requested_size(session: Any) -> None:
    rows = session.execute(MANY, page_size=700)
    batches = list(rows.batches(rows_per_batch=1000))
    assert [len(batch) for batch in batches] == [1000, 1000, 1000]
    assert [batch.num_rows for batch in session.execute(MANY).batches(rows_per_batch=1700)] == [
        *(1700, 1300)
    ]
    assert batches[0].column_names == ["n", "score", "name", "v"]
    assert pa.record_batch(batches[1]).column("n").to_pylist() == list(range(1000, 2000))
    (whole,) = session.execute(MANY, page_size=700).batches()
    assert len(whole) == 3000
    assert list(session.execute(f"{MANY} WHERE p = 9").batches()) == []
    nothing = session.execute("SELECT n FROM columns_out.many WHERE p = 9").to_arrow()
    assert (nothing.num_rows, nothing.column_names) == (0, ["n"])
    written = session.execute("DELETE FROM columns_out.many WHERE p = 5")
    assert written.to_arrow().num_columns == 0


def test_narrower_types(session: Any) -> None:
    name = NAMES["decimal"]
    text = (
        f"SELECT {name}, {NAMES['varint']}, {NAMES['duration']} FROM {KEYSPACE}.every WHERE n = 0"
    )
    types = ColumnTypes(decimal=(10, 2), varint="int64", duration="interval")
    text = text.replace("WHERE n", "WHERE p = 0 AND n")
    table = session.execute(text).to_arrow(types=types)
    assert table.column(0).to_pylist() == [Decimal("1.50")]
    assert table.column(1).to_pylist() == [0]
    assert table.schema.field(2).type == pa.month_day_nano_interval()
    for n, wrong in ((1, "decimal"), (2, "varint")):
        narrow = ColumnTypes(decimal=(10, 2)) if wrong == "decimal" else ColumnTypes(varint="int64")
        rows = session.execute(text.replace("n = 0", f"n = {n}"))
        said = refused(turbocql.errors.DecodeError, partial(rows.to_arrow, types=narrow))
        assert wrong in said, said
        assert NAMES[wrong] in said, said
    spark = session.execute(SELECT).to_arrow(types=ColumnTypes.spark())
    assert spark.schema.field(NAMES["uuid"]).type == pa.string()
    assert spark.schema.field(NAMES["time"]).type == pa.int64()
    tensors = session.execute(MANY).to_arrow(types=ColumnTypes(tensors=True))
    assert isinstance(tensors.column("v").chunk(0), pa.FixedShapeTensorArray)
    for given in ({"decimal": (39, 0)}, {"varint": "float"}, {"decimal": [5, 1]}):
        refused(turbocql.errors.ConfigError, partial(ColumnTypes, **given))


def test_texts_that_are_not_utf_8(session: Any) -> None:
    session.execute("CREATE TABLE odd (p int, n int, s text, PRIMARY KEY (p, n))")
    insert = session.prepare("INSERT INTO odd (p, n, s) VALUES (1, ?, ?)")
    session.execute_many(insert, [(n, f"text {n}") for n in range(8)]).raise_for_failures()
    wrong = "\ud800".encode("utf-8", "surrogatepass")
    try:
        session.execute("INSERT INTO odd (p, n, s) VALUES (1, 8, blobAsText(?))", (wrong,))
    except turbocql.errors.InvalidQuery:
        # Some servers check that `blobAsText` returns valid UTF-8.
        wrong = b"text 8"
        session.execute(insert, (8, "text 8"))
    select = "SELECT n, s FROM odd WHERE p = 1"
    if wrong != b"text 8":
        rows = session.execute(select, page_size=2)
        said = refused(turbocql.errors.DecodeError, rows.to_arrow)
        assert "ColumnTypes(text=" in said, said
    table = session.execute(select).to_arrow(types=ColumnTypes(text="binary"))
    assert table.column("s").to_pylist() == [*(b"text %d" % n for n in range(8)), wrong]
    kept = table.slice(0, 8).append_column("p", pa.array([2] * 8, pa.int32()))
    session.load("columns_out.odd", kept)
    rows = session.execute("SELECT s FROM odd WHERE p = 2", rows="tuple").all()
    assert rows == [(f"text {n}",) for n in range(8)]
    said = refused(
        turbocql.errors.ConfigError,
        partial(session.execute(select).to_polars, types=ColumnTypes(duration="interval")),
    )
    assert "polars" in said


def test_errors_count_rows_from_the_first_page(session: Any) -> None:
    session.execute("CREATE TABLE counted (p int, n int, d decimal, PRIMARY KEY (p, n))")
    insert = session.prepare("INSERT INTO counted (p, n, d) VALUES (1, ?, ?)")
    session.execute_many(insert, [(n, Decimal(n == 7) / 8) for n in range(9)]).raise_for_failures()
    rows = session.execute("SELECT d FROM counted WHERE p = 1", page_size=2)
    types = ColumnTypes(decimal=(5, 2))
    said = refused(turbocql.errors.DecodeError, partial(rows.to_arrow, types=types))
    assert said.startswith('row 7, column "d": decimal does not fit'), said


def test_rows_of_several_pages_are_read_once(session: Any) -> None:
    rows = session.execute(MANY, page_size=700)
    assert rows.to_arrow().num_rows == 3000
    for again in (rows.to_arrow, rows.to_polars, rows.to_numpy, rows.__arrow_c_stream__, rows.all):
        assert "no longer kept" in refused(turbocql.Error, again)
    rows = session.execute(MANY, page_size=700)
    for number, _ in enumerate(rows):
        if number == 1000:
            break
    refused(turbocql.Error, rows.__arrow_c_stream__)
    one = session.execute(MANY)
    assert one.to_arrow().num_rows == one.to_polars().height == len(one.all()) == 3000
    batches = one.batches(rows_per_batch=10)
    next(batches)
    assert "as an iterator" in refused(turbocql.Error, partial(pa.table, batches))
    streamed = one.batches()
    streamed.__arrow_c_stream__()
    assert "as a stream" in refused(turbocql.Error, partial(next, streamed))


def test_consumers_show_the_errors_of_turbocql(session: Any, point: str) -> None:
    with turbocql.connect(point, timeout_s=20) as other:
        rows = other.execute(MANY, page_size=700)
        rows.one()
    refused(turbocql.errors.ClosedError, rows.to_arrow)
    with turbocql.connect(point) as other:
        rows = other.execute(MANY, page_size=700)
    assert "ClosedError" in refused(Exception, partial(pl.DataFrame, rows))


def test_tables_that_change_between_pages(session: Any) -> None:
    session.execute("CREATE TABLE moved (p int, n int, b int, c int, PRIMARY KEY (p, n))")
    insert = session.prepare("INSERT INTO moved (p, n, b, c) VALUES (1, ?, ?, ?)")
    session.execute_many(insert, [(n, n, 100 + n) for n in range(9)]).raise_for_failures()
    select = "SELECT * FROM moved WHERE p = 1"
    ways = [turbocql.Rows.to_arrow, turbocql.Rows.to_polars, turbocql.Rows.to_numpy]
    read = [session.execute(select, page_size=2) for _ in (*ways, turbocql.Rows.to_pandas)]
    session.execute("ALTER TABLE moved DROP b")
    session.execute("ALTER TABLE moved ADD d int")
    for rows, way in zip(read, (*ways, turbocql.Rows.to_pandas), strict=True):
        assert "changed meanwhile" in refused(turbocql.errors.DecodeError, partial(way, rows))


def test_a_batch_that_cannot_be_converted_fails_again(session: Any) -> None:
    session.execute("CREATE TABLE wide (p int, n int, l list<decimal>, PRIMARY KEY (p, n))")
    for n, last in enumerate(("1.2", "1.234567", "1.2", "1.2")):
        session.execute(f"INSERT INTO wide (p, n, l) VALUES (1, {n}, [1, {last}])")
    types = ColumnTypes(decimal=(5, 2))
    for page_size in (1, 5000):
        rows = session.execute("SELECT l FROM wide WHERE p = 1", page_size=page_size)
        batches = rows.batches(rows_per_batch=1, types=types)
        assert len(next(batches)) == 1
        for _ in range(3):
            refused(turbocql.errors.DecodeError, partial(next, batches))
        rows = session.execute("SELECT l FROM wide WHERE p = 1", page_size=page_size)
        reader = pa.RecordBatchReader.from_stream(rows.batches(rows_per_batch=1, types=types))
        assert reader.read_next_batch().num_rows == 1
        for _ in range(3):
            assert "scale" in refused(Exception, reader.read_next_batch)


def test_frames_lose_no_digits_of_large_numbers(session: Any) -> None:
    session.execute(
        "CREATE TABLE large (p int, n int, b bigint, t tuple<bigint, time>, v vector<bigint, 2>,"
        " m vector<timestamp, 2>, PRIMARY KEY (p, n))"
    )
    insert = session.prepare("INSERT INTO large (p, n, b, t, v, m) VALUES (1, ?, ?, ?, ?, ?)")
    large = 2**53 + 1
    session.execute(insert, (0, large, (large, Time(3)), [large, 1], [WHEN, WHEN]))
    session.execute(insert, (1, None, None, None, None))
    for page_size in (1, 5000):
        rows = session.execute("SELECT b, t, v, m FROM large", page_size=page_size)
        frame = rows.to_pandas()
        assert frame["b"][0] == large
        assert frame["b"].dtype == "Int64"
        assert frame["b"].isna().tolist() == [False, True]
        assert frame["t"].tolist() == [(large, Time(3)), None]
        assert frame["v"][0].tolist() == [large, 1]
        assert frame["v"][1] is None
        arrays = session.execute("SELECT v, m FROM large", page_size=page_size).to_numpy()
        assert arrays["m"].shape == arrays["v"].shape == (2, 2)
        assert arrays["m"].dtype == np.dtype("M8[ms]")
        assert arrays["m"][0, 0] == np.datetime64(WHEN.replace(tzinfo=None), "ms")
        arrays["v"][1] = [5, 6]
        assert arrays["v"].tolist() == [[large, 1], [5, 6]]


def test_ctrl_c_is_raised_once(session: Any) -> None:
    pages = [session.execute(MANY, page_size=1) for _ in range(3)]
    ways: list[Callable[[Any], Any]] = [turbocql.Rows.to_arrow, turbocql.Rows.to_polars, pa.table]
    counted = [0]

    def handler(*_: Any) -> None:
        counted[0] += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    try:
        for rows, way in zip(pages, ways, strict=True):
            counted[0] = 0
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                way(rows)
                time.sleep(5)
            except KeyboardInterrupt:
                pass
            except Exception as error:
                # The consumer raised its own error instead of the KeyboardInterrupt. So turbocql
                # has signaled the interrupt again, and the handler runs once more during `sleep`.
                try:
                    time.sleep(5)
                except KeyboardInterrupt:
                    pass
                else:
                    raise AssertionError("no interrupt") from error
            timer.join()
            assert counted[0] == (1 if way is not pa.table else 2), way
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_object_is_made_per_cell(session: Any) -> None:
    def blocks(read: Callable[[], Any]) -> int:
        kept = [read()]
        del kept[:]
        before = sys.getallocatedblocks()
        kept.append(read())
        return sys.getallocatedblocks() - before

    rows = session.execute(MANY)
    assert blocks(lambda: list(rows.batches())) < 300
    assert blocks(rows.to_arrow) < 300
    assert blocks(rows.to_polars) < 300
    assert blocks(lambda: session.execute(f"SELECT n, v FROM {KEYSPACE}.many").to_numpy()) < 300
    # In contrast, `all()` makes an object for each cell.
    assert blocks(rows.all) > 6000


def test_columns_of_asynchronous_rows(session: Any, point: str) -> None:
    async def read() -> None:
        async with turbocql.aio.connect(point) as other:

            async def rows() -> Any:
                return await other.execute(MANY, page_size=700)

            assert (await (await rows()).to_arrow()).num_rows == 3000
            assert (await (await rows()).to_polars()).height == 3000
            assert len(await (await rows()).to_pandas()) == 3000
            assert (await (await rows()).to_numpy())["v"].shape == (3000, 4)
            found = [len(batch) async for batch in (await rows()).batches(rows_per_batch=1300)]
            assert found == [1300, 1300, 400]
            empty = await other.execute(f"{MANY} WHERE p = 9")
            assert (await empty.to_arrow()).num_rows == 0
            assert (await empty.to_polars()).height == 0
            assert not hasattr(await rows(), "__arrow_c_stream__")

    asyncio.run(read())
