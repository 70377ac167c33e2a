"""Tests of calls without `await`: errors say that it is missing. `async for` awaits the calls."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import re
import sys
from collections.abc import AsyncIterable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any
from unittest.mock import create_autospec

import pytest
from tests.support.loops import Loop

import turbocql
from turbocql import errors
from turbocql.rows import AwaitableRows

SELECT = "SELECT key FROM system.local"
WIDE = "SELECT c FROM wide WHERE p = 0"


async def test_members_of_the_result(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        calls: list[Any] = [session.execute(SELECT), session.scan("system.local")]
        for call in calls:
            with pytest.raises(
                AttributeError, match=r"^session.(execute|scan)\(.*await.*rows.one$"
            ):
                call.one()
            for name in dir(turbocql.AsyncRows):
                if not name.startswith("_"):
                    assert not hasattr(call, name), name
            assert not hasattr(call, "nothing")
            assert not hasattr(call, "_nothing")
            assert (await call).one().key == "local"
        preparing: Any = session.prepare(SELECT)
        with pytest.raises(AttributeError, match=r"prepared = await session.prepare\(...\)`, and"):
            preparing.bind(())
        assert (await preparing).markers == []


@pytest.mark.parametrize(
    ("call", "variable", "member"),
    [
        ("session.execute_many('UPDATE t SET v = ? WHERE k = ?', [])", "report", "succeeded"),
        ("session.load('t', {})", "report", "failures"),
        ("session.unload('t', 't.csv')", "report", "rows"),
        ("session.verify('t', {})", "report", "equal"),
        ("session.schema()", "schema", "keyspaces"),
        ("session.splits('t', 2)", "splits", "append"),
        ("session.await_schema_agreement()", "version", "hex"),
        ("rows.to_arrow()", "table", "num_rows"),
        ("rows.to_pandas()", "frame", "columns"),
        ("rows.to_polars()", "frame", "columns"),
        ("rows.to_numpy()", "arrays", "keys"),
        ("rows.trace()", "trace", "events"),
    ],
)
async def test_members_of_results_of_slow_calls(
    points: list[str], call: str, variable: str, member: str
) -> None:
    async with turbocql.aio.connect(points) as session:
        names = {"session": session, "rows": await session.execute(SELECT)}
        unawaited: Any = eval(call, names)
        shown = f"{call.partition('(')[0]}(...)"
        awaiting = f"{shown} must be awaited first: `{variable} = await {shown}`"
        with pytest.raises(AttributeError) as caught:
            getattr(unawaited, member)
        assert str(caught.value) == f"{awaiting}, and then {variable}.{member}"
        with pytest.raises(TypeError, match=re.escape(awaiting)):
            unawaited[0]
        assert unawaited.cr_frame is not None
        assert isinstance(unawaited, Coroutine)
        assert asyncio.iscoroutine(unawaited)
        unawaited.close()
        method: Any = eval(call.partition("(")[0], names)
        for function in (method, method.__func__):
            assert inspect.iscoroutinefunction(function)
            assert asyncio.iscoroutinefunction(function)
        function = inspect.unwrap(method.__func__)
        assert inspect.signature(method.__func__) == inspect.signature(function)
        assert inspect.isfunction(function)


async def test_slow_calls_are_coroutines(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        both = await asyncio.gather(session.schema(), session.splits("system_schema.tables", 2))
        assert ("system" in both[0].keyspaces, len(both[1])) == (True, 2)
        task = asyncio.create_task(session.schema())
        assert "AsyncSession.schema" in repr(task)
        assert "system" in (await asyncio.wait_for(task, 10)).keyspaces
        rows = await session.execute(SELECT)
        assert await asyncio.create_task(rows.to_numpy()) == {"key": ["local"]}
        mock = create_autospec(turbocql.aio.AsyncSession)
        mock.schema.return_value = "the schema"
        assert await mock.schema() == "the schema"
        unused = [session.schema()]
        with pytest.warns(RuntimeWarning, match="AsyncSession.schema' was never awaited"):
            unused.clear()


async def test_the_wrong_kind_of_with(points: list[str]) -> None:
    with pytest.raises(TypeError, match=r"use .with.") as caught:
        async with turbocql.connect(points):  # type: ignore[attr-defined]
            pass
    async with turbocql.aio.connect(points) as session:
        with pytest.raises(TypeError, match=r"use .async with."), session:  # type: ignore[attr-defined]
            pass
        call: Any = session.execute(SELECT)
        with pytest.raises(TypeError), call:
            pass
        with pytest.raises(TypeError):
            async with call:
                pass
        rows: Any = await call
        with pytest.raises(TypeError), rows:
            pass
        with pytest.raises(TypeError):
            async with rows:
                pass
        for cls in (turbocql.Session, turbocql.AsyncRows, type(call)):
            assert not hasattr(cls, "__aenter__")
            assert not issubclass(cls, AbstractAsyncContextManager)
        assert not hasattr(session, "__enter__")
        assert not isinstance(session, AbstractContextManager)
    if sys.version_info < (3, 14):
        message = "turbocql.connect() is synchronous: use `with`, or turbocql.aio.connect() with"
        assert str(caught.value).startswith(message)


async def test_a_session_that_is_not_open(points: list[str]) -> None:
    connecting: Any = turbocql.aio.connect(points)
    with pytest.raises(AttributeError, match=r"session = await turbocql.aio.connect\(...\)`"):
        connecting.execute(SELECT)
    with pytest.raises(AttributeError, match="'_Connecting' object has no attribute 'nothing'"):
        _ = connecting.nothing
    with (
        pytest.raises(TypeError, match=r"aio.connect\(\) is asynchronous: use `async with`, or"),
        connecting,
    ):
        pass
    async with connecting as session:
        assert (await session.execute(SELECT)).one() is not None


async def test_async_for_awaits_the_call(loop: Loop, points: list[str], keyspace: str) -> None:
    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        for page_size in (5000, 100):
            found = [row.c async for row in session.execute(WIDE, page_size=page_size)]
            assert found == [row.c for row in await (await session.execute(WIDE)).all()]
        assert len(found) > 100
        # Other tests also write to this table, so the test first reads the current rows.
        rows = await (await session.execute("SELECT c FROM wide")).all()
        scanned = [row.c async for row in session.scan("wide")]
        assert sorted(scanned) == sorted(row.c for row in rows)
        assert len(scanned) >= len(found)
        assert [row async for row in session.execute(f"{WIDE} AND c = -1")] == []
        async for first in session.execute(WIDE, rows="dict", page_size=100):
            assert first == {"c": found[0]}
            break


async def test_errors_of_async_for(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        with pytest.raises(errors.InvalidQuery):
            async for _ in session.execute("SELECT nothing FROM system.local"):
                pass
        with pytest.raises(errors.ConfigError, match=r"no table system\.lokal; did you mean"):
            async for _ in session.scan("system.lokal"):
                pass
        for call in (session.execute(SELECT), session.scan("system.local")):
            assert [row.key async for row in call] == ["local"]
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                async for _ in call:
                    pass
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                await call
        unused = [session.execute(SELECT).__aiter__()]
        with pytest.warns(RuntimeWarning, match="AsyncSession.execute' was never awaited"):
            unused.clear()


async def test_a_plain_for_is_refused(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        awaited: Any = await session.execute(SELECT)
        calls: list[Any] = [session.execute(SELECT), session.scan("system.local"), awaited]
        for call in calls:
            with pytest.raises(TypeError, match="`async for"):
                iter(call)
        assert [row.key async for row in calls[0]] == ["local"]
        assert [row.key async for row in calls[1]] == ["local"]


async def test_scan_and_prepare_return_coroutines(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        calls: list[Any] = [session.scan("system.local"), session.prepare(SELECT)]
        assert all(isinstance(call, Coroutine) for call in calls)
        assert all(map(asyncio.iscoroutine, calls))
        assert all(map(inspect.isawaitable, calls))
        for call, name in zip(calls, ("scan", "prepare"), strict=True):
            assert call.__qualname__ == f"AsyncSession.{name}"
            assert f"AsyncSession.{name}" in repr(call)
            assert call.cr_frame is not None
            task = asyncio.create_task(call)
            assert f"AsyncSession.{name}" in repr(task)
            await task
        rows = session.execute(SELECT)
        assert isinstance(rows, AwaitableRows)
        assert isinstance(rows, AsyncIterable)
        await asyncio.wait_for(rows, 10)
        with pytest.warns(RuntimeWarning, match="AsyncSession.scan' was never awaited"):
            session.scan("system.local")
        cancelled = asyncio.create_task(session.scan("system.local"))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        closed = session.prepare(SELECT)
        closed.close()
        with pytest.raises(RuntimeError, match="cannot reuse"):
            await closed
        thrown = session.scan("system.local")
        with pytest.raises(KeyError):
            thrown.throw(KeyError("thrown"))
        assert len(list(itertools.chain([thrown]))) == 1


async def test_a_statement_that_is_not_awaited(points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        preparing: Any = session.prepare(SELECT)
        with pytest.raises(TypeError, match="got a coroutine: await it first"):
            await session.execute(preparing)
        with pytest.raises(TypeError, match="got a coroutine: await it first"):
            await session.execute_many(preparing, [()])
        with pytest.raises(TypeError, match="got a coroutine: await it first"):
            turbocql.Batch().add(preparing)
        await session.execute(await preparing)


def test_rows_have_no_positions_and_are_always_true(points: list[str]) -> None:
    with turbocql.connect(points) as session:
        rows: Any = session.execute(SELECT)
        with pytest.raises(TypeError, match=r"no positions: use rows.one\(\) .* rows.all\(\)\[0\]"):
            rows[0]
        assert not hasattr(rows, "__len__")
        empty = session.execute("SELECT key FROM system.local WHERE key = 'nothing'")
        assert bool(empty)
        assert (list(empty), list(rows)) == ([], rows.all())


async def test_positions_of_asynchronous_rows(points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        rows: Any = await session.execute(SELECT)
        with pytest.raises(TypeError, match=r"or \(await rows.all\(\)\)\[0\], or iterate$"):
            rows[0]
        assert bool(rows)
