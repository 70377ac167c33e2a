"""Asynchronous iterables of rows, for `execute_many`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from typing import Any

from ..bulk import BulkReport, _report

__all__ = ["from_async"]

CHUNK = 1024
"""The maximum number of rows of an asynchronous iterable that are sent together."""


async def from_async(
    rows: AsyncIterable[Any],
    send: Callable[[list[Any], int], Coroutine[Any, Any, BulkReport]],
    max_failures: int,
) -> BulkReport:
    """Sends the rows of an asynchronous iterable in chunks, and reports their outcome.

    While one chunk is sent, the next is read: at most twice `CHUNK` rows are held. `send` takes a
    chunk and the number of its rows that may fail.
    """
    source = rows.__aiter__()
    reader = _Reader(source)
    reading = asyncio.ensure_future(reader.read())
    whole = _Whole(max_failures)
    try:
        while chunk := await reader.take():
            whole.add(await send(chunk, whole.left))
            if whole.stopped:
                break
    finally:
        # If the reader has already ended with an exception, the source raised it. The
        # `CancelledError` that `reading.cancel()` causes is not the source's and is not reported.
        own = reading.done()
        reading.cancel()
        (outcome,) = await asyncio.gather(reading, return_exceptions=True)
        if hasattr(source, "aclose"):
            await source.aclose()
    if whole.rows == 0:
        # Without rows, an empty chunk is sent, so that the statement and options are still checked.
        whole.add(await send([], max_failures))
    raised = outcome if own and isinstance(outcome, BaseException) else None
    # Rows that were read but not sent count as read.
    read = whole.rows + len(reader.rows)
    return _report(read, whole.succeeded, whole.failures, whole.stopped, raised, whole.results)


class _Reader:
    """Reads rows from the source and keeps them until they are taken."""

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
        taken, self.rows = self.rows, []
        if not self._ended:
            self._has_rows.clear()
        self._has_room.set()
        return taken


class _Whole:
    """The reports of the chunks, merged into one."""

    def __init__(self, max_failures: int) -> None:
        self._max_failures = max_failures
        self.rows = 0
        self.succeeded = 0
        self.failures: list[tuple[int, Exception]] = []
        self.stopped = False
        self.results: list[tuple[int, Any]] | None = None

    @property
    def left(self) -> int:
        return max(0, self._max_failures - len(self.failures))

    def add(self, report: BulkReport) -> None:
        self.failures += [(self.rows + failed.row, failed.error) for failed in report.failures]
        if report.results is not None:
            kept = [] if self.results is None else self.results
            kept += [
                (self.rows + row, result)
                for row, result in enumerate(report.results)
                if result is not None
            ]
            self.results = kept
        self.rows += report.rows
        self.succeeded += report.succeeded
        self.stopped |= report.stopped or len(self.failures) > self._max_failures
