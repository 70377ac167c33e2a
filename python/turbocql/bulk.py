"""The outcome of an `execute_many`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .errors import BulkError, ClosedError

__all__ = ["BulkFailure", "BulkReport"]


@dataclass(frozen=True)
class BulkFailure:
    """A row that failed, and its error."""

    row: int
    """The row's number, from 0, in the order of the iterable."""
    error: Exception


@dataclass(frozen=True)
class BulkReport:
    """The outcome of an `execute_many`: counts, failures and, on request, results."""

    rows: int
    """The number of rows read from the iterable."""
    succeeded: int
    failures: list[BulkFailure] = field(default_factory=list)
    """The rows that failed, in order of their numbers."""
    stopped: bool = False
    """Whether the call ended early: too many rows failed, or the iterable raised an error. A
    row that was read, but is counted neither as succeeded nor as failed, was not sent."""
    results: list[Any] | None = None
    """With `results=True`, the `Rows` (or `AsyncRows`) of each row, indexed by its number; `None`
    for a row that failed or was not sent."""

    def raise_for_failures(self) -> None:
        """Raises `BulkError` if a row failed. The first failure is its cause."""
        if self.failures:
            first = self.failures[0]
            sent = "stopped early: " if self.stopped else ""
            error = BulkError(
                f"{sent}{len(self.failures)} of {self.rows} rows failed; the first, row "
                f"{first.row}, with {type(first.error).__name__}: {first.error}"
            )
            error.report = self
            raise error from first.error


def _report(
    rows: int,
    succeeded: int,
    failures: list[tuple[int, Exception]],
    stopped: bool,
    raised: BaseException | None,
    results: list[tuple[int, Any]] | None = None,
) -> BulkReport:
    """Called by the native core at the end of an `execute_many`."""
    failed = [BulkFailure(row, error) for row, error in failures]
    every: list[Any] | None = None
    if results is not None:
        every = [None] * rows
        for row, result in results:
            every[row] = result
    report = BulkReport(rows, succeeded, failed, stopped or raised is not None, every)
    if raised is None:
        return report
    if not isinstance(raised, Exception):
        raise raised
    what = (
        "the session was closed" if isinstance(raised, ClosedError) else "reading the rows failed"
    )
    error = BulkError(
        f"{what} after {rows} rows, {succeeded} of which succeeded: "
        f"{type(raised).__name__}: {raised}"
    )
    error.report = report
    raise error from raised
