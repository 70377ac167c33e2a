# Generated from _rows/async_pages.py by scripts/async_to_sync.py: change that file.
"""Iterators over the pages of a result. They fetch the next page while the current one is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import NoRow
from .base import PagesBase, check_columns, check_row_count

__all__ = ["SyncColumnPages", "SyncPages", "only_row"]


class SyncPages(PagesBase):
    __slots__ = ()

    def _turn(self) -> list[Any] | None:
        """Moves to the next page. Returns its rows, or `None` when there is no further page."""
        if not self._has_more():
            return None
        try:
            has_page = self._rows._advance().wait()
        except Exception:
            self._failed()
            raise
        return self._fetched(has_page)

    def next_page(self) -> list[Any] | None:
        """Returns the rows of the next page, or `None` after the last page.

        The native core calls this method.
        """
        if self._is_to_begin():
            return self._take()
        return self._turn()

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


def only_row(rows: Any) -> Any:
    """Returns the only row of a result. Fetches further pages, but stops at a second row.

    Raises: `NoRow` if the result is empty; `MultipleRows` if it has more than one row; `Error` if
        an iteration has moved past the first page, or if the statement is of a kind that returns no
        rows.
    """
    rows._check_first()
    check_columns(rows, "one_or_raise")
    page, count = 0, len(rows._raw())
    check_row_count(rows, count)
    objects: list[Any] = rows._decode()
    while rows._leave(page) and rows._advance().wait():
        page, count = page + 1, count + len(rows._raw())
        check_row_count(rows, count)
        objects += rows._decode()
    if not objects:
        raise NoRow("expected exactly one row, got none: for a row or None, use one()")
    return objects[0]
