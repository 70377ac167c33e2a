"""Query results: the rows of all pages. The next page is fetched while the current one is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from . import _core, errors
from ._row_classes import APPLIED
from .cluster import Trace

__all__ = ["AsyncRows", "Column", "Rows"]

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A result column or a bind marker."""

    keyspace: str
    table: str
    name: str
    cql_type: str
    """The type as CQL, such as `list<int>`."""


class _Result(_core.Cursor, Generic[T]):
    """The members that `Rows` and `AsyncRows` share."""

    __slots__ = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the result; empty for a statement that returns no rows."""
        return tuple(Column(*column) for column in self._columns)

    @property
    def coordinator(self) -> str | None:
        """The node that sent the current page, as `address:port`."""
        return self._coordinator

    @property
    def warnings(self) -> list[str]:
        """The server's warnings for the pages read so far."""
        return self._warnings

    @property
    def paging_state(self) -> bytes | None:
        """The position of the page after the current one; `None` when there is no further page.

        To continue at that page, pass the paging state to `execute` as `paging_state`, with the
        same statement and values. This works in the same session, in another session and in another
        process. Servers trust the paging state, so users of a web site must not be able to change
        it. Bytes that are not a paging state cause a `RequestError`.
        """
        return self._paging_state

    @property
    def applied(self) -> bool | None:
        """Whether a lightweight transaction was applied; `None` for other statements."""
        names = [column[2] for column in self._columns]
        if APPLIED not in names:
            return None
        row = self._plain_first()
        return None if row is None else bool(row[names.index(APPLIED)])

    @property
    def existing(self) -> dict[str, Any] | None:
        """The existing values, by column, when a lightweight transaction was not applied.

        `None` when it was applied, and for other statements. Always a `dict`, even if the rows have
        another shape.
        """
        if self.applied is not False:
            return None
        names = [column[2] for column in self._columns]
        row = self._plain_first() or ()
        return {n: value for n, value in zip(names, row, strict=True) if n != APPLIED}

    @property
    def trace_id(self) -> UUID | None:
        """The server's id for the trace of the last page's request.

        `None` unless the statement was executed with `tracing=True`.
        """
        trace_id = self._trace_id
        return None if trace_id is None else UUID(bytes=trace_id)

    def one(self) -> T | None:
        """The first row, or `None` when there is none. No page is fetched.

        `None` also for a lightweight transaction that was applied, if `row` was passed to
        `execute`: no object is made of its row.

        Raises: `Error` when an iteration has moved past the first page.
        """
        return cast("T | None", self._first())

    def page(self) -> list[T]:
        """The rows of the current page. No page is fetched."""
        return self._decode()

    def __repr__(self) -> str:
        names = ", ".join(column[2] for column in self._columns)
        return f"<{type(self).__name__} ({names})>"


class Rows(_Result[T]):
    """The rows of a result. Iteration with `for` covers all pages.

    The next page is fetched while the current one is processed. A result of one page can be
    iterated any number of times. A longer result keeps only its current page, so a second iteration
    raises `Error`.

    An iteration never ends silently before the last row. When a page cannot be fetched, the step of
    the iteration raises an error, and the next step requests the page again. When a page cannot be
    decoded, the next step decodes it again. When waiting for a page was interrupted, the next step
    raises `Error`.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        return _core.RowIterator(_SyncPages(self))

    def pages(self) -> Iterator[list[T]]:
        """Iterates over the pages as lists of rows. The next page is fetched in the background."""
        return _SyncPages(self)

    def trace(self) -> Trace | None:
        """Reads the server's trace of the request; `None` without `tracing=True`.

        The server writes the trace after it has answered. This method polls for about a second,
        longer when the server is slow, and returns `None` when the trace is not complete by then.
        """
        return cast("Trace | None", super()._trace().wait())

    def all(self) -> list[T]:
        """All rows of all pages."""
        self._check_first()
        self._prefetch()
        rows, page = self._decode(), 0
        while self._leave(page) and self._advance().wait():
            self._prefetch()
            rows += self._decode()
            page += 1
        return rows


class AsyncRows(_Result[T]):
    """The rows of a result. Iteration with `async for` covers all pages.

    The next page is fetched while the current one is processed. A result of one page can be
    iterated any number of times. A longer result keeps only its current page, so a second iteration
    raises `Error`.

    An iteration never ends silently before the last row. When a page cannot be fetched, the step of
    the iteration raises an error, and the next step requests the page again. When a page cannot be
    decoded, the next step decodes it again. When waiting for a page was interrupted, the next step
    raises `Error`.
    """

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[T]:
        return _core.AsyncRowIterator(_AsyncPages(self))

    def pages(self) -> AsyncIterator[list[T]]:
        """Iterates over the pages as lists of rows. The next page is fetched in the background."""
        return _AsyncPages(self)

    async def trace(self) -> Trace | None:
        """Reads the server's trace of the request; `None` without `tracing=True`.

        The server writes the trace after it has answered. This method polls for about a second,
        longer when the server is slow, and returns `None` when the trace is not complete by then.
        """
        return cast("Trace | None", await super()._trace())

    async def all(self) -> list[T]:
        """All rows of all pages."""
        self._check_first()
        self._prefetch()
        rows, page = self._decode(), 0
        while self._leave(page) and await self._advance():
            self._prefetch()
            rows += self._decode()
            page += 1
        return rows


class _Pages:
    """The position of an iteration. Not a generator: a generator ends at its first error."""

    __slots__ = ("_advancing", "_interrupted", "_number", "_page", "_rows")

    def __init__(self, rows: _Result[Any]) -> None:
        self._rows = rows
        self._page: list[Any] | None = None
        """The rows of the current page: `None` until it is decoded, empty after they were taken."""
        self._number = 0
        self._advancing = False
        """Whether the iteration has left the current page and not yet fetched the next page."""
        self._interrupted = False

    def _begin(self) -> None:
        """Decodes the current page and begins to fetch the one after it."""
        self._page = None
        self._rows._check_page(self._number)
        self._rows._prefetch()
        self._page = self._rows._decode()

    def _has_more(self) -> bool:
        """Whether there is a page to fetch. Called after the last row of the current page."""
        if not self._advancing:
            if not self._rows._leave(self._number):
                return False
            self._number += 1
            self._advancing = True
        if self._interrupted:
            raise errors.Error(
                "waiting for the next page was interrupted, or another caller is waiting for it:"
                " rows may be missing from here on; execute the statement again"
            )
        self._interrupted = True
        return True

    def _is_to_begin(self) -> bool:
        """Whether the current page must be decoded: it is the first, or its decoding failed."""
        return self._page is None and not self._advancing

    def _take(self) -> list[Any]:
        """The rows of the current page."""
        if self._page is None:
            self._begin()
        taken, self._page = self._page or [], []
        return taken

    def _failed(self) -> None:
        """Records that the fetch raised an error to the caller. The next step tries again."""
        self._interrupted = False

    def _fetched(self, more: bool) -> bool:
        self._interrupted = self._advancing = False
        if more:
            self._begin()
        else:
            self._page = []
        return more


class _SyncPages(_Pages):
    __slots__ = ()

    def _turn(self) -> bool:
        """Moves to the next page; `False` when there is none."""
        if not self._has_more():
            return False
        try:
            more = self._rows._advance().wait()
        except Exception:
            self._failed()
            raise
        return self._fetched(more)

    def next_page(self) -> list[Any] | None:
        """The rows of the next page; `None` at the end. The native core calls it."""
        if not self._is_to_begin() and not self._turn():
            return None
        return self._take()

    def __iter__(self) -> Iterator[list[Any]]:
        return self

    def __next__(self) -> list[Any]:
        page = self.next_page()
        if page is None:
            raise StopIteration
        return page


class _AsyncPages(_Pages):
    __slots__ = ()

    async def _turn(self) -> bool:
        """Moves to the next page; `False` when there is none."""
        if not self._has_more():
            return False
        try:
            more = await self._rows._advance()
        except Exception:
            self._failed()
            raise
        return self._fetched(more)

    async def next_page(self) -> list[Any] | None:
        """The rows of the next page; `None` at the end. The native core calls it."""
        if not self._is_to_begin() and not await self._turn():
            return None
        return self._take()

    def __aiter__(self) -> AsyncIterator[list[Any]]:
        return self

    async def __anext__(self) -> list[Any]:
        page = await self.next_page()
        if page is None:
            raise StopAsyncIteration
        return page
