"""Tests that the results of an `execute_many` form one table. There is one result for each row of
values.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import turbocql
import turbocql.aio
from turbocql.columns import ColumnTypes
from turbocql.errors import BulkError, Error

SPACE = "many_results"
PARTITIONS, ROWS = 6, 5
SELECT = f"SELECT k, n, v, u FROM {SPACE}.t WHERE k = ?"


@pytest.fixture(scope="module", autouse=True)
def tables(session: turbocql.Session) -> None:
    session.execute(f"DROP KEYSPACE IF EXISTS {SPACE}")
    session.execute(
        f"CREATE KEYSPACE {SPACE} WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(f"CREATE TABLE {SPACE}.t (k int, n int, v text, u varint, PRIMARY KEY (k, n))")
    session.execute_many(
        f"INSERT INTO {SPACE}.t (k, n, v, u) VALUES (?, ?, ?, ?)",
        [(k, n, None if n == 2 else f"{k}.{n}", n) for k in range(PARTITIONS) for n in range(ROWS)],
    )


def expected(keys: list[int]) -> list[tuple[Any, ...]]:
    return [(k, n, None if n == 2 else f"{k}.{n}", n) for k in keys for n in range(ROWS)]


@pytest.fixture(params=["sync", "asyncio"])
def run(request: pytest.FixtureRequest, point: str, session: turbocql.Session) -> Any:
    """Returns a function that selects partitions with `execute_many`, and then calls a method of
    the report.
    """

    def selected(
        keys: list[Any], method: str, page_size: int = 5000, raise_failures: bool = True, **kw: Any
    ) -> Any:
        statement = turbocql.Query(SELECT, page_size=page_size)
        rows = [(key,) for key in keys]
        options: dict[str, Any] = {"results": True, "raise_failures": raise_failures}
        if request.param == "sync":
            report = session.execute_many(statement, rows, **options)
            return getattr(report, method)(**kw)

        async def scenario() -> Any:
            async with turbocql.aio.connect(point) as asynchronous:
                report = await asynchronous.execute_many(statement, rows, **options)
                return getattr(report, method)(**kw)

        return asyncio.run(scenario())

    return selected


@pytest.mark.parametrize("page_size", [2, 5000])
def test_arrow(run: Any, page_size: int) -> None:
    keys = [3, 99, 0, 5, 3]  # key 99 has no rows
    table = run(keys, "to_arrow", page_size)
    assert isinstance(table, pa.Table)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == [(k, n, v, str(u)) for k, n, v, u in expected([3, 0, 5, 3])]
    assert table.num_rows == len(rows)
    assert table.column("k").num_chunks == 1, "one chunk, although there are several results"
    table = run([1], "to_arrow", page_size, types=ColumnTypes(varint="int64"))
    assert table.schema.field("u").type == pa.int64()


@pytest.mark.parametrize("page_size", [2, 5000])
def test_frames_and_arrays(run: Any, page_size: int) -> None:
    keys = [*range(PARTITIONS)]
    pandas = run(keys, "to_pandas", page_size)
    assert pandas["n"].tolist() == [n for _, n, _, _ in expected(keys)]
    assert pandas["u"].tolist() == [u for *_, u in expected(keys)]
    polars = run(keys, "to_polars", page_size)
    assert polars["k"].to_list() == [k for k, *_ in expected(keys)]
    arrays = run(keys, "to_numpy", page_size)
    assert arrays["k"].dtype == np.int32
    assert arrays["v"].tolist() == [v for _, _, v, _ in expected(keys)]


def test_only_empty_results(run: Any) -> None:
    table = run([98, 99], "to_arrow")
    assert (table.num_rows, table.column_names) == (0, ["k", "n", "v", "u"])


def test_failed_rows_are_left_out(run: Any) -> None:
    table = run([1, "two", 3], "to_arrow", raise_failures=False)
    assert table.column("k").to_pylist() == [1] * ROWS + [3] * ROWS


@pytest.mark.parametrize("method", ["to_arrow", "to_pandas", "to_polars", "to_numpy"])
def test_no_results(run: Any, method: str, session: turbocql.Session) -> None:
    with pytest.raises(Error, match="there is no result, so the columns are not known"):
        run([], method)
    with pytest.raises(Error, match="there is no result, so the columns are not known"):
        run(["one"], method, raise_failures=False)
    report = session.execute_many(SELECT, [(1,)])
    with pytest.raises(Error, match="pass results=True"):
        getattr(report, method)()
    inserted = session.execute_many(
        f"INSERT INTO {SPACE}.t (k, n) VALUES (?, 100)", [(1000,)], results=True
    )
    with pytest.raises(Error, match="have no columns"):
        getattr(inserted, method)()


def test_asynchronous_rows_of_values(point: str) -> None:
    async def scenario() -> None:
        async def keys() -> Any:
            for key in range(PARTITIONS):
                yield (key,)

        async with turbocql.aio.connect(point) as session:
            report = await session.execute_many(SELECT, keys(), results=True)
            table = report.to_arrow()
            assert table.num_rows == PARTITIONS * ROWS

    asyncio.run(scenario())


def test_results_that_were_read_before(session: turbocql.Session) -> None:
    statement = turbocql.Query(SELECT, page_size=2)
    report = session.execute_many(statement, [(1,), (2,)], results=True)
    assert report.results is not None
    assert len(report.results[1].all()) == ROWS
    assert [table.num_rows for table in (report.to_arrow(), report.to_arrow())] == [2 * ROWS] * 2


def test_many_small_results(session: turbocql.Session) -> None:
    keys = [number % PARTITIONS for number in range(20_000)]
    table = session.execute_many(SELECT, [(key,) for key in keys], results=True).to_arrow()
    assert table.column("k").to_pylist() == [key for key in keys for _ in range(ROWS)]
    assert table.column("k").num_chunks < 10


def test_results_with_other_columns(session: turbocql.Session) -> None:
    conditional = f"INSERT INTO {SPACE}.t (k, n) VALUES (?, ?) IF NOT EXISTS"
    report = session.execute_many(conditional, [(1, 1), (500, 1)], results=True, concurrency=1)
    with pytest.raises(Error, match=r"different columns, .*\[applied\] boolean, k int"):
        report.to_arrow()


def test_the_report_of_an_error(session: turbocql.Session) -> None:
    with pytest.raises(BulkError) as caught:
        session.execute_many(SELECT, [(1,), ("two",)], results=True)
    assert caught.value.report.to_arrow().num_rows == ROWS
