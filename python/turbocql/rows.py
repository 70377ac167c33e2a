"""Results: rows over all pages, the next page fetched ahead of need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from . import _core, errors

__all__ = ["AsyncRows", "Column", "Rows"]


@dataclass(frozen=True)
class Column:
    """A result column or a bind marker."""

    keyspace: str
    table: str
    name: str
    cql_type: str
    """As CQL, such as `list<int>`."""


class _Result(_core.Cursor):
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

    def one(self) -> Any:
        """The first row, or `None` when there is none. Fetches nothing.

        Raises: `Error` once an iteration has left the first page.
        """
        return self._first()

    def __repr__(self) -> str:
        names = ", ".join(column[2] for column in self._columns)
        return f"<{type(self).__name__} ({names})>"


class Rows(_Result):
    """The rows of a result; iterating goes over all pages.

    While one page is worked on, the next is fetched. Rows that fit one page can be iterated any
    number of times; of more pages, only one is kept, and a second iteration raises `Error`.

    An iteration never ends before the last row: a page that could not be fetched is asked for again
    by the next step, and where waiting for one was broken off, the next step raises `Error`.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return _Iteration(self)

    def all(self) -> list[Any]:
        """All rows of all pages."""
        self._check_first()
        self._prefetch()
        rows, page = self._decode(), 0
        while self._leave(page) and self._advance().wait():
            self._prefetch()
            rows += self._decode()
            page += 1
        return rows


class AsyncRows(_Result):
    """The rows of a result; `async for` goes over all pages.

    While one page is worked on, the next is fetched. Rows that fit one page can be iterated any
    number of times; of more pages, only one is kept, and a second iteration raises `Error`.

    An iteration never ends before the last row: a page that could not be fetched is asked for again
    by the next step, and where waiting for one was broken off, the next step raises `Error`.
    """

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[Any]:
        return _AsyncIteration(self)

    async def all(self) -> list[Any]:
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

    def __init__(self, rows: _Result) -> None:
        self._rows = rows
        self._page: Iterator[Any] | None = None
        """What is left of the page; none before the first, and of one that cannot be decoded."""
        self._number = 0
        self._advancing = False
        """Whether the next page is to be fetched."""
        self._interrupted = False

    def _begin(self) -> None:
        """The first page, or the next one."""
        self._page = None
        if self._number == 0:
            self._rows._check_first()
        self._rows._prefetch()
        self._page = iter(self._rows._decode())

    def _has_more(self) -> bool:
        """Whether there is a page to fetch, behind one of which all rows were given."""
        if not self._advancing:
            if self._page is None:
                raise errors.Error("a page could not be decoded: rows are missing from here on")
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


class _Iteration(_Pages):
    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._page is None and self._number == 0:
            self._begin()
        while True:
            if not self._advancing:
                for row in self._page or ():
                    return row
            if not self._has_more():
                raise StopIteration
            try:
                more = self._rows._advance().wait()
            except Exception:
                self._failed()
                raise
            if not self._fetched(more):
                raise StopIteration


class _AsyncIteration(_Pages):
    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._page is None and self._number == 0:
            self._begin()
        while True:
            if not self._advancing:
                for row in self._page or ():
                    return row
            if not self._has_more():
                raise StopAsyncIteration
            try:
                more = await self._rows._advance()
            except Exception:
                self._failed()
                raise
            if not self._fetched(more):
                raise StopAsyncIteration
