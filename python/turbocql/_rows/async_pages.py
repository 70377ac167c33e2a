"""Iterations over the pages of a result. The next page is fetched while the current one is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .base import PagesBase

__all__ = ["AsyncColumnPages", "AsyncPages"]


class AsyncPages(PagesBase):
    __slots__ = ()

    async def _turn(self) -> bool:
        """Moves to the next page; `False` when there is none."""
        if not self._has_more():
            return False
        try:
            has_page = await self._rows._advance()
        except Exception:
            self._failed()
            raise
        return self._fetched(has_page)

    async def next_page(self) -> list[Any] | None:
        """The rows of the next page; `None` at the end. The native core calls this method."""
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


class AsyncColumnPages(AsyncPages):
    """An iteration over undecoded pages. Each step returns a list with one page."""

    __slots__ = ()

    def _read(self) -> list[Any]:
        return [self._rows._raw()]
