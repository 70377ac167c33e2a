"""Tests of `execute_many` on synchronous and asynchronous sessions."""

from __future__ import annotations

import asyncio
import resource
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.apis import Api

import turbocql
import turbocql.aio
from turbocql import UNSET, errors


async def test_many_rows(api: Api, points: list[str], keyspace: str, number: int) -> None:
    count = 50_000
    rows = ((number, c, "x" * 100) for c in range(count))
    async with api.connect(points, keyspace=keyspace) as client:
        insert = await client.prepare("INSERT INTO wide (p, c, v) VALUES (?, ?, ?)")
        await client.execute_many(insert, [(number, 0, "warm")] * 1000)
        tracemalloc.start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            report = await client.execute_many(insert, rows, concurrency=128)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert report == turbocql.BulkReport(rows=count, succeeded=count)
        assert peak < 4 << 20
        # The numbers are in KiB. All encoded rows together have 6 MB.
        assert after - before < 64 << 10
        written = await client.execute(f"SELECT count(*) FROM wide WHERE p = {number}")
        assert written.one()[0] == count
        assert await client.idle()


async def test_many_rows_of_every_shape(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    first = number * 1000
    insert = "INSERT INTO kv (k, v, w) VALUES (?, ?, ?)"
    rows: list[Any] = [
        (first, "tuple", 1),
        [first + 1, "list", 1],
        {"k": first + 2, "v": "dict"},
        (first + 3, UNSET, 1),
    ]
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        report = await client.execute_many(insert, rows, concurrency=1)
        assert (report.rows, report.succeeded, report.failures) == (4, 4, [])
        keys = ", ".join(str(first + i) for i in range(4))
        found = await client.execute(f"SELECT k, v, w FROM kv WHERE k IN ({keys})")
        assert sorted(await found.all()) == [
            (first, "tuple", 1),
            (first + 1, "list", 1),
            (first + 2, "dict", None),
            (first + 3, None, 1),
        ]
        empty: list[Any] = [[], (), iter(()), {}]
        for nothing in empty:
            assert await client.execute_many(insert, nothing) == turbocql.BulkReport(0, 0)


async def test_rows_that_fail(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    insert = "INSERT INTO kv (k, v, w) VALUES (?, ?, ?)"
    # Every hundredth row has a str for an int column, so it fails before it is sent.
    rows = [(number * 1000 + i, "a", "b" if i % 100 == 7 else i) for i in range(1_000)]
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        with pytest.raises(errors.BulkError, match="10 of 1000 rows failed; the first, row 7") as e:
            await client.execute_many(insert, rows)
        assert e.value.done == 990
        assert [failure.row for failure in e.value.failed] == list(range(7, 1_000, 100))
        assert all(isinstance(failure.error, errors.EncodeError) for failure in e.value.failed)
        assert isinstance(e.value.__cause__, errors.EncodeError)
        assert not e.value.report.stopped
        report = await client.execute_many(insert, rows, raise_failures=False)
        assert (report.rows, report.succeeded, len(report.failures)) == (1_000, 990, 10)
        with pytest.raises(errors.BulkError):
            report.raise_for_failures()


async def test_rows_that_the_server_refuses(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        rows = [(number, -1 if i in (3, 600) else i + 1) for i in range(1_000)]
        with pytest.raises(errors.BulkError, match="2 of 1000 rows failed; the first, row 3") as e:
            await client.execute_many("INSERT INTO kv (k, v) VALUES (?, 'a') USING TTL ?", rows)
        assert [failure.row for failure in e.value.failed] == [3, 600]
        for failure in e.value.failed:
            assert isinstance(failure.error, errors.InvalidQuery)
            assert failure.error.coordinator == points[0]


async def test_too_many_failures_end_the_call(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    taken = 0

    def rows() -> Iterator[tuple[int, int]]:
        nonlocal taken
        while True:  # only max_failures ends this
            taken += 1
            yield number, -1

    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        statement = "INSERT INTO kv (k, v) VALUES (?, 'a') USING TTL ?"
        report = await client.execute_many(
            statement, rows(), max_failures=20, concurrency=4, raise_failures=False
        )
        assert report.stopped
        assert report.succeeded == 0
        assert 20 < len(report.failures) <= report.rows == taken < 10_000
        with pytest.raises(errors.BulkError, match="stopped early"):
            await client.execute_many(statement, rows(), max_failures=0)
        report = await client.execute_many(
            statement, ((number, "x") for _ in range(5_000)), max_failures=9, raise_failures=False
        )
        assert report.stopped
        assert (report.rows, len(report.failures)) == (10, 10)
        assert await client.idle()


async def test_an_iterable_that_raises(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    def rows() -> Iterator[tuple[int, str]]:
        for i in range(1_500):
            yield number * 10_000 + i, "a"
        raise LookupError("the source has gone")

    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        with pytest.raises(errors.BulkError, match="reading the rows failed after 1500") as caught:
            await client.execute_many("INSERT INTO kv (k, v) VALUES (?, ?)", rows())
        assert isinstance(caught.value.__cause__, LookupError)
        assert caught.value.done == 1_500
        assert caught.value.report.stopped
        assert await client.idle()


async def test_arguments_that_execute_many_refuses(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    insert = "INSERT INTO kv (k, v) VALUES (?, ?)"
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        with pytest.raises(TypeError, match="not iterable"):
            await client.execute_many(insert, 7)
        for wrong in ({"concurrency": 0}, {"max_failures": -1}, {"concurrency": 100_000}):
            with pytest.raises(errors.ConfigError):
                await client.execute_many(insert, [], **wrong)
        with pytest.raises(errors.InvalidQuery):
            await client.execute_many("INSERT INTO nowhere (k) VALUES (?)", [(1,)])
        with pytest.raises(errors.BulkError, match="values must be a list") as caught:
            await client.execute_many(insert, [7, "ab"])
        assert [failure.row for failure in caught.value.failed] == [0, 1]


async def test_failures_of_both_kinds_count_together(
    api: Api, points: list[str], keyspace: str
) -> None:
    """Rows that cannot be encoded and rows that the server refuses count towards max_failures."""

    def rows() -> Iterator[Any]:
        for c in range(30):
            yield (-5, c, 5)
        for c in range(30):
            yield (-5, c, "v")

    insert = "INSERT INTO wide (p, c, v) VALUES (?, ?, ?)"
    limits: dict[str, Any] = {"consistency": "THREE", "concurrency": 1, "raise_failures": False}
    async with api.connect(points, keyspace=keyspace) as client:
        report = await client.execute_many(insert, rows(), max_failures=30, **limits)
        assert (len(report.failures), report.stopped) == (31, True)
        report = await client.execute_many(insert, rows(), max_failures=60, **limits)
        assert (len(report.failures), report.stopped) == (60, False)


async def test_failures_of_both_kinds_count_together_in_async_rows(
    points: list[str], keyspace: str
) -> None:
    async def rows() -> AsyncIterator[Any]:
        for c in range(30):
            yield (-5, c, 5)
        for c in range(30):
            yield (-5, c, "v")
        await asyncio.sleep(0.3)
        yield (-5, 0, "v")

    insert = "INSERT INTO wide (p, c, v) VALUES (?, ?, ?)"
    async with await turbocql.aio.connect(points, keyspace=keyspace) as session:
        report = await session.execute_many(
            insert, rows(), max_failures=30, consistency="THREE", raise_failures=False
        )
        assert report.stopped
        assert len(report.failures) > 30


def test_close_reports_the_outcome_of_each_row(
    points: list[str], keyspace: str, number: int
) -> None:
    session = turbocql.connect(points, keyspace=keyspace)
    sent = threading.Event()

    def rows() -> Iterator[Any]:
        for c in range(2000):
            yield (number, c, "closed")
        sent.set()
        while not session.closed:
            time.sleep(0.01)
            yield (number, 0, "closed")

    def close() -> None:
        sent.wait()
        session.close(timeout_s=60)

    closing = threading.Thread(target=close)
    closing.start()
    insert = "INSERT INTO wide (p, c, v) VALUES (?, ?, ?)"
    with pytest.raises(errors.BulkError, match="the session was closed after") as raised:
        session.execute_many(insert, rows(), concurrency=16)
    closing.join()
    assert isinstance(raised.value.__cause__, errors.ClosedError)
    assert raised.value.report.succeeded >= 2000
    with turbocql.connect(points, keyspace=keyspace) as session:
        written = session.execute(f"SELECT count(*) FROM wide WHERE p = {number}").one()
    assert written == (2000,)
