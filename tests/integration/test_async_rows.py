"""Tests of `execute_many` with asynchronous iterables of rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.loops import Loop

import turbocql.aio
from turbocql import errors

INSERT = "INSERT INTO kv (k, v) VALUES (?, ?)"


async def test_any_number_of_rows(loop: Loop, points: list[str], keyspace: str) -> None:
    held = 0

    async def rows(count: int, pause: int) -> AsyncIterator[tuple[int, str]]:
        nonlocal held
        for i in range(count):
            held = i
            if pause and i % pause == 0:
                await asyncio.sleep(0.001)
            yield 1_000_000 + i, f"v{i}"

    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        for count, pause in [(0, 0), (1, 0), (5_000, 0), (3_000, 100), (20, 1)]:
            report = await session.execute_many(INSERT, rows(count, pause))
            assert (report.rows, report.succeeded, report.failures) == (count, count, [])
            assert not report.stopped
        select = "SELECT v FROM kv WHERE k = ?"

        async def keys() -> AsyncIterator[tuple[int]]:
            for i in range(2_500):
                yield (1_000_000 + i,)

        report = await session.execute_many(select, keys(), results=True)
        assert report.results is not None
        assert [result.one().v for result in report.results] == [f"v{i}" for i in range(2_500)]


async def test_failures_have_the_numbers_of_their_rows(
    loop: Loop, points: list[str], keyspace: str
) -> None:
    closed = []

    async def rows() -> AsyncIterator[Any]:
        try:
            for i in range(10_000):
                yield (2_000_000 + i, i if i in (3, 2_000, 4_500) else "v")
        finally:
            closed.append(True)

    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        report = await session.execute_many(INSERT, rows(), raise_failures=False)
        assert [failure.row for failure in report.failures] == [3, 2_000, 4_500]
        assert (report.rows, report.succeeded) == (10_000, 9_997)
        with pytest.raises(errors.BulkError, match="3 of 10000 rows failed"):
            await session.execute_many(INSERT, rows())
        stopped = await session.execute_many(INSERT, rows(), max_failures=1, raise_failures=False)
        assert stopped.stopped
        assert [failure.row for failure in stopped.failures] == [3, 2_000]
        assert stopped.rows < 10_000
        # The generator of the stopped call was closed, too.
        assert len(closed) == 3


async def test_an_iterable_that_raises(loop: Loop, points: list[str], keyspace: str) -> None:
    async def rows() -> AsyncIterator[Any]:
        for i in range(1_500):
            yield (3_000_000 + i, "v")
        raise LookupError("no more")

    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        with pytest.raises(errors.BulkError, match="LookupError: no more") as caught:
            await session.execute_many(INSERT, rows())
        assert caught.value.report is not None
        assert caught.value.report.succeeded == 1_500
        with pytest.raises(errors.CqlSyntaxError):
            await session.execute_many("INSERT", rows())


async def test_an_iterable_that_raises_cancelled_error(
    loop: Loop, points: list[str], keyspace: str
) -> None:
    async def rows() -> AsyncIterator[Any]:
        for i in range(10):
            yield (6_000_000 + i, "v")
        other = asyncio.ensure_future(asyncio.sleep(3600))
        other.cancel()
        await other

    async def none() -> AsyncIterator[Any]:
        rows: list[Any] = []
        for row in rows:
            yield row

    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        with pytest.raises(asyncio.CancelledError):
            await session.execute_many(INSERT, rows())
        with pytest.raises(errors.CqlSyntaxError):
            await session.execute_many("SELEC", none())
        with pytest.raises(errors.ConfigError, match="concurrency"):
            await session.execute_many(INSERT, none(), concurrency=0)
        report = await session.execute_many(INSERT, none(), results=True)
        assert (report.rows, report.results) == (0, [])


async def test_cancelling_closes_the_iterable(loop: Loop, points: list[str], keyspace: str) -> None:
    closed = asyncio.Event()
    waiting = asyncio.Event()

    async def rows() -> AsyncIterator[Any]:
        try:
            yield (4_000_000, "v")
            waiting.set()
            await asyncio.sleep(3600)
        finally:
            closed.set()

    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        task = asyncio.ensure_future(session.execute_many(INSERT, rows()))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed.is_set()
        assert (await session.execute("SELECT v FROM kv LIMIT 1")).one() is not None


async def test_the_number_of_rows_read_ahead_is_bounded(
    loop: Loop, points: list[str], keyspace: str
) -> None:
    """The number of rows that are read but not yet sent is bounded."""
    read = sent = 0
    ahead = 0

    async def rows() -> AsyncIterator[Any]:
        nonlocal read, ahead
        for i in range(30_000):
            read = i
            if i % 100 == 0:
                ahead = max(ahead, read - session.metrics().requests + before)
            yield (5_000_000 + i, "v")

    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        before = session.metrics().requests
        report = await session.execute_many(INSERT, rows())
        sent = report.succeeded
    assert sent == 30_000
    assert ahead < 10_000
