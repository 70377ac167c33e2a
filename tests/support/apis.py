"""Adapters for turbocql's two APIs, so that each scenario is written once for both.

An `Api` is the synchronous or the asynchronous API. A scenario is a coroutine on an event loop of a
chosen kind. It calls an asynchronous session directly, and a synchronous session in threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import turbocql
from turbocql import AsyncRows, BulkReport, Column, Prepared, Query, Rows, Session
from turbocql.aio import AsyncSession
from turbocql.schema import Schema
from turbocql.tables import Split

from .loops import LOOPS, Loop

T = TypeVar("T")

__all__ = ["APIS", "Api", "Client", "Result"]

_END = object()


async def _in_thread(call: Callable[..., T], *args: Any, **options: Any) -> T:
    """Calls `call` in a new daemon thread.

    A call that hangs in a thread of a pool would keep the process from exiting. A daemon thread
    does not keep it from exiting.
    """
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(call(*args, **options))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(done)


class Result:
    """The rows of either API, with the methods of `AsyncRows`."""

    def __init__(self, rows: Rows[Any] | AsyncRows[Any]) -> None:
        self.rows = rows

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.rows.columns

    @property
    def coordinator(self) -> str | None:
        return self.rows.coordinator

    @property
    def warnings(self) -> list[str]:
        return self.rows.warnings

    def one(self) -> Any:
        return self.rows.one()

    def scalar(self) -> Any:
        return self.rows.scalar()

    async def one_or_raise(self) -> Any:
        if isinstance(self.rows, Rows):
            return await _in_thread(self.rows.one_or_raise)
        return await self.rows.one_or_raise()

    async def all(self) -> list[Any]:
        if isinstance(self.rows, Rows):
            return await _in_thread(self.rows.all)
        return await self.rows.all()

    async def pages(self) -> list[list[Any]]:
        if isinstance(self.rows, Rows):
            return await _in_thread(list, self.rows.pages())
        return [page async for page in self.rows.pages()]

    async def trace(self) -> Any:
        if isinstance(self.rows, Rows):
            return await _in_thread(self.rows.trace)
        return await self.rows.trace()

    async def __aiter__(self) -> AsyncIterator[Any]:
        if isinstance(self.rows, Rows):
            iterator: Iterator[Any] = iter(self.rows)
            while (row := await _in_thread(next, iterator, _END)) is not _END:
                yield row
        else:
            async for row in self.rows:
                yield row


class Client:
    """A session of either API, with the methods of `AsyncSession`."""

    def __init__(self, session: Session | AsyncSession) -> None:
        self.session = session

    async def execute(self, statement: Any, values: Any = None, **options: Any) -> Result:
        if isinstance(self.session, Session):
            return Result(await _in_thread(self.session.execute, statement, values, **options))
        return Result(await self.session.execute(statement, values, **options))

    async def prepare(self, statement: str) -> Prepared:
        if isinstance(self.session, Session):
            return await _in_thread(self.session.prepare, statement)
        return await self.session.prepare(statement)

    async def execute_many(
        self, statement: str | Query | Prepared, rows: Any, **options: Any
    ) -> BulkReport:
        if isinstance(self.session, Session):
            return await _in_thread(self.session.execute_many, statement, rows, **options)
        return await self.session.execute_many(statement, rows, **options)

    async def scan(self, *args: Any, **options: Any) -> Result:
        return Result(await self.call("scan", *args, **options))

    async def splits(self, table: str, n: int) -> list[Split]:
        splits: list[Split] = await self.call("splits", table, n)
        return splits

    async def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Calls any method of the session by its name."""
        bound = getattr(self.session, method)
        if isinstance(self.session, Session):
            return await _in_thread(bound, *args, **options)
        return await bound(*args, **options)

    async def use_keyspace(self, name: str) -> None:
        if isinstance(self.session, Session):
            await _in_thread(self.session.use_keyspace, name)
        else:
            await self.session.use_keyspace(name)

    async def schema(self, **options: Any) -> Schema:
        if isinstance(self.session, Session):
            return await _in_thread(self.session.schema, **options)
        return await self.session.schema(**options)

    async def close(self, **options: Any) -> None:
        if isinstance(self.session, Session):
            await _in_thread(self.session.close, **options)
        else:
            await self.session.close(**options)

    async def until(self, task: asyncio.Future[Any], requests: int) -> None:
        """Waits until at least `requests` requests are in flight, or until the task has ended."""
        while self.session.in_flight < requests and not task.done():
            await asyncio.sleep(0.005)

    async def idle(self) -> bool:
        """Waits until no request is in flight, but at most 5 s. Returns whether this succeeded."""
        for _ in range(500):
            if self.session.in_flight == 0:
                return True
            await asyncio.sleep(0.01)
        return False


@dataclass(frozen=True)
class Api:
    """One of turbocql's APIs, on a kind of event loop."""

    name: str
    sync: bool
    loop: Loop

    async def open(
        self, contact_points: str | Sequence[str] | None = None, **settings: Any
    ) -> Client:
        """Returns a client that the caller must close."""
        if self.sync:
            return Client(await _in_thread(turbocql.connect, contact_points, **settings))
        return Client(await turbocql.aio.connect(contact_points, **settings))

    @asynccontextmanager
    async def connect(
        self, contact_points: str | Sequence[str] | None = None, **settings: Any
    ) -> AsyncIterator[Client]:
        """Yields a client inside the session's own context manager."""
        if self.sync:
            with await _in_thread(turbocql.connect, contact_points, **settings) as session:
                yield Client(session)
        else:
            async with turbocql.aio.connect(contact_points, **settings) as asynchronous:
                yield Client(asynchronous)


APIS = (Api("sync", True, LOOPS[0]), *(Api(loop.name, False, loop) for loop in LOOPS))
