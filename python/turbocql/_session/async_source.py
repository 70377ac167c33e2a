"""Sends the rows of asynchronous iterables, for `execute_many`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from ..bulk import BulkReport, _report

if TYPE_CHECKING:
    from .. import _core

__all__ = ["from_async"]

CHUNK = 1024
"""The maximum number of rows of an asynchronous iterable that are sent together."""


async def from_async(
    rows: AsyncIterable[Any],
    start: Callable[[list[Any], int], _core.Op],
    max_failures: int,
) -> BulkReport:
    """Sends the rows of an asynchronous iterable in chunks, and reports their outcome.

    While one chunk is sent, the next chunk is read, so at most twice `CHUNK` rows are in memory.
    `start` sends a chunk. Its second argument is the number of rows of the chunk that may fail.
    """
    source = rows.__aiter__()
    reader = _Reader(source)
    reading = asyncio.ensure_future(reader.read())
    totals = _Totals(max_failures)
    try:
        while chunk := await reader.take():
            totals.add(await start(chunk, totals.failures_left))
            if totals.stopped:
                break
    finally:
        # If the reader has already ended with an exception, the source has raised this exception,
        # and it is reported. If the reader has not ended, `reading.cancel()` ends it with a
        # `CancelledError`, which is not reported.
        ended = reading.done()
        reading.cancel()
        (outcome,) = await asyncio.gather(reading, return_exceptions=True)
        if hasattr(source, "aclose"):
            await source.aclose()
    if totals.rows == 0:
        # If there are no rows, `start` is called with an empty chunk, because `start` also checks
        # the statement and the options.
        totals.add(await start([], max_failures))
    raised = outcome if ended and isinstance(outcome, BaseException) else None
    # The number of rows in the report includes rows that were read but not sent.
    read = totals.rows + len(reader.rows)
    return _report(read, totals.succeeded, totals.failures, totals.stopped, raised, totals.results)


class _Reader:
    """Reads rows from the source and keeps them until `take` returns them."""

    def __init__(self, source: AsyncIterator[Any]) -> None:
        self.rows: list[Any] = []
        self._source = source
        self._ended = False
        self._has_rows = asyncio.Event()
        self._has_room = asyncio.Event()

    async def read(self) -> None:
        try:
            async for row in self._source:
                self.rows.append(row)
                self._has_rows.set()
                if len(self.rows) >= CHUNK:
                    self._has_room.clear()
                    await self._has_room.wait()
        finally:
            self._ended = True
            self._has_rows.set()

    async def take(self) -> list[Any]:
        """Waits for at least one row and returns all that were read; an empty list at the end."""
        await self._has_rows.wait()
        rows, self.rows = self.rows, []
        if not self._ended:
            self._has_rows.clear()
        self._has_room.set()
        return rows


class _Totals:
    """The reports of the chunks, merged into one."""

    def __init__(self, max_failures: int) -> None:
        self._max_failures = max_failures
        self.rows = 0
        self.succeeded = 0
        self.failures: list[tuple[int, Exception]] = []
        self.stopped = False
        self.results: list[tuple[int, Any]] | None = None

    @property
    def failures_left(self) -> int:
        return max(0, self._max_failures - len(self.failures))

    def add(self, report: BulkReport) -> None:
        self.failures += [(self.rows + failed.row, failed.error) for failed in report.failures]
        if report.results is not None:
            results = [] if self.results is None else self.results
            results += [
                (self.rows + row, result)
                for row, result in enumerate(report.results)
                if result is not None
            ]
            self.results = results
        self.rows += report.rows
        self.succeeded += report.succeeded
        self.stopped |= report.stopped or len(self.failures) > self._max_failures
