"""Results: rows over all pages, the next page fetched ahead of need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from . import _core
from .errors import Error

__all__ = ["AsyncRows", "Column", "Rows"]


@dataclass(frozen=True)
class Column:
    """A result column or a bind marker."""

    keyspace: str
    table: str
    name: str
    cql_type: str
    """As CQL, such as `list<int>`."""


class _Result:
    """What the results of both faces have in common."""

    __slots__ = ("_cursor", "_page")

    def __init__(self, cursor: _core.Cursor) -> None:
        self._cursor = cursor
        self._page = 0

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns; empty for a statement that returns no rows."""
        return tuple(Column(*column) for column in self._cursor.columns)

    @property
    def coordinator(self) -> str | None:
        """The node that answered for the current page, as `address:port`."""
        return self._cursor.coordinator

    @property
    def warnings(self) -> list[str]:
        """What the server warned of, over the pages read so far."""
        return self._cursor.warnings

    def one(self) -> Any:
        """The first row, or `None` when there is none. Fetches nothing.

        Raises: `Error` once an iteration has left the first page.
        """
        self._check_first()
        return self._cursor.first()

    def _check_first(self) -> None:
        if self._page:
            raise Error("the first page of these rows is gone: they were iterated past it")

    def _leave(self, page: int) -> None:
        """Claims the next page for the iteration that is through with `page`."""
        if self._page != page:
            raise Error("another iteration of these rows has gone on to a later page")
        self._page = page + 1

    def __repr__(self) -> str:
        names = ", ".join(column[2] for column in self._cursor.columns)
        return f"<{type(self).__name__} ({names})>"


class Rows(_Result):
    """The rows of a result; iterating goes over all pages.

    While one page is worked on, the next is fetched. Rows that fit one page can be iterated any
    number of times; of more pages, only one is kept, and a second iteration raises `Error`.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        cursor = self._cursor
        self._check_first()
        page = 0
        while True:
            if cursor.has_more:
                cursor.prefetch()
            rows = cursor.rows()
            yield from rows
            if self._page == page and not cursor.has_more:
                return
            self._leave(page)
            page += 1
            if not cursor.advance().wait():
                return

    def all(self) -> list[Any]:
        """All rows of all pages."""
        return list(self)


class AsyncRows(_Result):
    """The rows of a result; `async for` goes over all pages.

    While one page is worked on, the next is fetched. Rows that fit one page can be iterated any
    number of times; of more pages, only one is kept, and a second iteration raises `Error`.
    """

    __slots__ = ()

    async def __aiter__(self) -> AsyncIterator[Any]:
        cursor = self._cursor
        self._check_first()
        page = 0
        while True:
            if cursor.has_more:
                cursor.prefetch()
            rows = cursor.rows()
            for row in rows:
                yield row
            if self._page == page and not cursor.has_more:
                return
            self._leave(page)
            page += 1
            if not await cursor.advance():
                return

    async def all(self) -> list[Any]:
        """All rows of all pages."""
        return [row async for row in self]
