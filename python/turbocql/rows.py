"""Results: rows over all pages, the next page fetched ahead of need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from . import _core

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
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        self._check_first()
        page = 0
        while True:
            self._prefetch()
            yield from self._decode()
            if not self._leave(page):
                return
            page += 1
            if not self._advance().wait():
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
        self._check_first()
        page = 0
        while True:
            self._prefetch()
            for row in self._decode():
                yield row
            if not self._leave(page):
                return
            page += 1
            if not await self._advance():
                return

    async def all(self) -> list[Any]:
        """All rows of all pages."""
        return [row async for row in self]
