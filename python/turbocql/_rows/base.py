"""The base class of the iterators over the pages of a result, and checks of results."""

from __future__ import annotations

from threading import RLock
from typing import Any

from .. import errors

__all__ = ["PagesBase", "check_columns", "check_row_count"]


class PagesBase:
    """The position of an iteration over pages. It is not a generator, because a generator ends at
    its first error, and an iteration must go on after an error.

    Threads may share an iterator. A lock guards each change of the position, but is not held while
    a thread waits for a page.
    """

    __slots__ = ("_advancing", "_interrupted", "_lock", "_number", "_page", "_rows")

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._page: list[Any] | None = None
        """The rows of the current page: `None` until the page is decoded, and an empty list after
        `_take` has returned the rows."""
        self._number = 0
        self._advancing = False
        """Whether the iteration has left the current page and not yet fetched the next page."""
        self._interrupted = False
        """Whether a wait for the next page has begun, but has brought neither a page nor an error:
        the wait is still under way, or was interrupted."""
        # The callable passed as `row=` is called while the lock is held. The callable may use this
        # iterator, so its thread must be able to take the lock again.
        self._lock = RLock()

    def _begin(self) -> None:
        """Decodes the current page and begins to fetch the page after it."""
        self._rows._check_page(self._number)
        self._rows._prefetch()
        self._page = self._read()

    def _read(self) -> list[Any]:
        rows: list[Any] = self._rows._decode()
        return rows

    def _has_more(self) -> bool:
        """Leaves the current page, and returns whether there is a page to fetch."""
        with self._lock:
            if not self._advancing:
                if not self._rows._leave(self._number):
                    return False
                self._number += 1
                self._advancing = True
            if self._interrupted:
                raise errors.Error(
                    "waiting for the next page was interrupted, or another caller is waiting for"
                    " it: rows may be missing from here on; execute the statement again"
                )
            self._interrupted = True
            return True

    def _is_to_begin(self) -> bool:
        """Whether the current page is not decoded yet: it is the first page, or decoding failed."""
        return self._page is None and not self._advancing

    def _take(self) -> list[Any]:
        """Returns the rows of the current page; an empty list if another thread has taken them."""
        with self._lock:
            if self._page is None:
                self._begin()
            rows, self._page = self._page or [], []
            return rows

    def _failed(self) -> None:
        """Records that a fetch has ended with an error, which the caller gets.

        The next step of the iteration fetches the page again.
        """
        self._interrupted = False

    def _fetched(self, has_page: bool) -> list[Any] | None:
        """Ends a fetch. Returns the rows of the page, or `None` if there is none.

        The rows are taken before the lock is released. Otherwise another thread could fetch the
        page after this one, and replace the rows before they are taken.
        """
        with self._lock:
            self._interrupted = self._advancing = False
            if has_page:
                self._page = None
                return self._take()
            self._page = []
            return None


def check_columns(rows: Any, method: str) -> None:
    """Raises `Error` if the statement of a result is of a kind that returns no rows."""
    if not rows._columns:
        raise errors.Error(
            f"{method}() is for statements that return rows, such as SELECT: this one does not"
        )


def check_row_count(rows: Any, count: int) -> None:
    """Raises `MultipleRows` if `count`, the number of rows so far, is more than 1."""
    if count > 1:
        count_text = f"at least {count:,}" if rows._may_have_more else f"{count:,}"
        raise errors.MultipleRows(
            f"expected exactly one row, got {count_text}: for the first of several rows, use one()"
        )
