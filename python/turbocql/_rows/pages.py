# Generated from _rows/async_pages.py by scripts/async_to_sync.py: change that file.
"""Iterations over the pages of a result. The next page is fetched while the current one is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .base import PagesBase

__all__ = ["SyncColumnPages", "SyncPages"]


class SyncPages(PagesBase):
    __slots__ = ()

    def _turn(self) -> bool:
        """Moves to the next page; `False` when there is none."""
        if not self._has_more():
            return False
        try:
            has_page = self._rows._advance().wait()
        except Exception:
            self._failed()
            raise
        return self._fetched(has_page)

    def next_page(self) -> list[Any] | None:
        """The rows of the next page; `None` at the end. The native core calls this method."""
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


class SyncColumnPages(SyncPages):
    """An iteration over undecoded pages. Each step returns a list with one page."""

    __slots__ = ()

    def _read(self) -> list[Any]:
        return [self._rows._raw()]
