"""Results: rows over all pages, the next page fetched ahead of need."""

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
    """As CQL, such as `list<int>`."""


class _Result(_core.Cursor, Generic[T]):
    """What the results of both faces have in common."""

    __slots__ = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns; empty for a statement that returns no rows."""
        return tuple(Column(*column) for column in self._columns)

    @property
    def coordinator(self) -> str | None:
        """The node that answered for the current page, as `address:port`."""
        return self._coordinator

    @property
    def warnings(self) -> list[str]:
        """What the server warned of, over the pages read so far."""
        return self._warnings

    @property
    def paging_state(self) -> bytes | None:
        """Where the page after the current one begins; `None` when there is none.

        Given to `execute` with the same statement and values, in this session, another one or
        another process, the result goes on from there. A server trusts what it says, so users of
        a web site should not be able to change it. What is no paging state is a `RequestError`.
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
        """The values by which a lightweight transaction was not applied, by column; `None` when
        it was, and for other statements. A `dict` whatever the rows are.
        """
        if self.applied is not False:
            return None
        names = [column[2] for column in self._columns]
        row = self._plain_first() or ()
        return {n: value for n, value in zip(names, row, strict=True) if n != APPLIED}

    @property
    def trace_id(self) -> UUID | None:
        """By what the server knows the trace of the last page's request, for a statement that was
        executed with `tracing=True`.
        """
        trace_id = self._trace_id
        return None if trace_id is None else UUID(bytes=trace_id)

    def one(self) -> T | None:
        """The first row, or `None` when there is none. Fetches nothing.

        With `row=`, a lightweight transaction that was applied has none.

        Raises: `Error` once an iteration has left the first page.
        """
        return cast("T | None", self._first())

    def page(self) -> list[T]:
        """The rows of the current page. Fetches nothing."""
        return self._decode()

    def __repr__(self) -> str:
        names = ", ".join(column[2] for column in self._columns)
        return f"<{type(self).__name__} ({names})>"


class Rows(_Result[T]):
    """The rows of a result; iterating goes over all pages.

    While one page is worked on, the next is fetched. Rows that fit one page can be iterated any
    number of times; of more pages, only one is kept, and a second iteration raises `Error`.

    An iteration never ends before the last row: a page that could not be fetched is asked for again
    by the next step, one that could not be decoded is decoded again, and where waiting for one was
    broken off, the next step raises `Error`.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        return _Iteration(self)

    def pages(self) -> Iterator[list[T]]:
        """The rows page by page, the next one being fetched meanwhile."""
        return _PageIteration(self)

    def trace(self) -> Trace | None:
        """Reads what the server recorded of the request, for a statement that was executed with
        `tracing=True`; `None` without.

        The server writes it after the answer: this looks for it for a second, or longer where the
        server is slow, and gives `None` when it is not complete by then.
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
    """The rows of a result; `async for` goes over all pages.

    While one page is worked on, the next is fetched. Rows that fit one page can be iterated any
    number of times; of more pages, only one is kept, and a second iteration raises `Error`.

    An iteration never ends before the last row: a page that could not be fetched is asked for again
    by the next step, one that could not be decoded is decoded again, and where waiting for one was
    broken off, the next step raises `Error`.
    """

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[T]:
        return _AsyncIteration(self)

    def pages(self) -> AsyncIterator[list[T]]:
        """The rows page by page, the next one being fetched meanwhile."""
        return _AsyncPageIteration(self)

    async def trace(self) -> Trace | None:
        """Reads what the server recorded of the request, for a statement that was executed with
        `tracing=True`; `None` without.

        The server writes it after the answer: this looks for it for a second, or longer where the
        server is slow, and gives `None` when it is not complete by then.
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
    """Where an iteration is. No generator: those end with the first error."""

    __slots__ = ("_advancing", "_interrupted", "_number", "_page", "_rows")

    def __init__(self, rows: _Result[Any]) -> None:
        self._rows = rows
        self._page: Iterator[Any] | None = None
        """What is left of the page; none before it is decoded, and of one that could not be."""
        self._number = 0
        self._advancing = False
        """Whether the next page is to be fetched."""
        self._interrupted = False

    def _begin(self) -> None:
        """The first page, or the next one."""
        self._page = None
        self._rows._check_page(self._number)
        self._rows._prefetch()
        self._page = iter(self._rows._decode())

    def _has_more(self) -> bool:
        """Whether there is a page to fetch, behind one of which all rows were given."""
        if not self._advancing:
            if not self._rows._leave(self._number):
                return False
            self._number += 1
            self._advancing = True
        if self._interrupted:
            raise errors.Error(
                "waiting for the next page was broken off, or somebody else waits for it: rows may"
                " be missing from here on; execute the statement again"
            )
        self._interrupted = True
        return True

    def _is_to_begin(self) -> bool:
        """Whether the current page is still to be decoded: the first, or one that failed."""
        return self._page is None and not self._advancing

    def _take(self) -> list[Any]:
        """The whole current page."""
        if self._page is None:
            self._begin()
        taken = list(self._page or ())
        self._page = iter(())
        return taken

    def _failed(self) -> None:
        """The page could not be fetched, which is said: it is tried again."""
        self._interrupted = False

    def _fetched(self, more: bool) -> bool:
        self._interrupted = self._advancing = False
        if more:
            self._begin()
        else:
            self._page = iter(())
        return more


class _PagesInTurn(_Pages):
    __slots__ = ()

    def _turn(self) -> bool:
        """Goes to the next page; `False` when there is none."""
        if not self._has_more():
            return False
        try:
            more = self._rows._advance().wait()
        except Exception:
            self._failed()
            raise
        return self._fetched(more)


class _Iteration(_PagesInTurn):
    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._is_to_begin():
            self._begin()
        while True:
            if not self._advancing:
                for row in self._page or ():
                    return row
            if not self._turn():
                raise StopIteration


class _PageIteration(_PagesInTurn):
    __slots__ = ()

    def __iter__(self) -> Iterator[list[Any]]:
        return self

    def __next__(self) -> list[Any]:
        if not self._is_to_begin() and not self._turn():
            raise StopIteration
        return self._take()


class _AsyncPagesInTurn(_Pages):
    __slots__ = ()

    async def _turn(self) -> bool:
        """Goes to the next page; `False` when there is none."""
        if not self._has_more():
            return False
        try:
            more = await self._rows._advance()
        except Exception:
            self._failed()
            raise
        return self._fetched(more)


class _AsyncIteration(_AsyncPagesInTurn):
    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._is_to_begin():
            self._begin()
        while True:
            if not self._advancing:
                for row in self._page or ():
                    return row
            if not await self._turn():
                raise StopAsyncIteration


class _AsyncPageIteration(_AsyncPagesInTurn):
    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[list[Any]]:
        return self

    async def __anext__(self) -> list[Any]:
        if not self._is_to_begin() and not await self._turn():
            raise StopAsyncIteration
        return self._take()
