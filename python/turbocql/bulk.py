"""The outcome of an `execute_many` or a load, and its progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._columns.consumers import (
    check_same_columns,
    for_polars,
    gatherer,
    polars_frame,
    pyarrow_table,
)
from ._native.imports import provide
from .columns import ColumnTypes
from .errors import BulkError, ClosedError, Error

__all__ = ["BulkFailure", "BulkReport", "Difference", "Progress", "UnloadReport", "VerifyReport"]


@dataclass(frozen=True)
class BulkFailure:
    """A row that failed, and its error."""

    row: int
    """The row's number, from 0, in the order in which the rows were read."""
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
    """With `results=True`, the result (`Rows` or `AsyncRows`) for each row of values, indexed by
    that row's number; `None` if the row failed or was not sent."""
    earlier_rows: int = 0
    """The number of rows that earlier runs of a load with a checkpoint had loaded. The other counts
    are of this run."""
    stop_reason: str | None = None
    """Why the call ended early, such as `max_failures=1000 was exceeded; 299,000 rows were not
    tried`; `None` if the call did not end early, or if it raised an error that says why."""

    def to_arrow(self, *, types: ColumnTypes | None = None) -> Any:
        """The rows of all results as one `pyarrow.Table`. This method needs pyarrow.

        The results come in the order of the rows of values. Rows of values that failed are left
        out. An asynchronous program does not await this method, because the results are in memory.

        Raises: `Error` if there are no results, because `results=True` was not passed, no row of
            values was sent, or all rows failed; `Error` also if the results have different columns.
        """
        return pyarrow_table(self._batches(types))

    def to_pandas(self, *, types: ColumnTypes | None = None) -> Any:
        """The rows of all results as one `pandas.DataFrame`. This method needs pandas and pyarrow.

        The columns have the types that [`Rows.to_pandas`][turbocql.rows.Rows.to_pandas] uses.

        Raises: as `to_arrow`.
        """
        results = self._received()
        frame = results[0]._frame(types)
        for rows in results:
            rows._add_to(frame, [rows._raw()])
        return frame.to_pandas()

    def to_polars(self, *, types: ColumnTypes | None = None) -> Any:
        """The rows of all results as one `polars.DataFrame`. This method needs polars.

        Raises: as `to_arrow`.
        """
        return polars_frame(self._batches(for_polars(types)))

    def to_numpy(self) -> dict[str, Any]:
        """The rows of all results as NumPy arrays, by column. This method needs NumPy.

        The arrays have the forms that [`Rows.to_numpy`][turbocql.rows.Rows.to_numpy] uses.

        Raises: as `to_arrow`.
        """
        results = self._received()
        arrays = results[0]._arrays()
        for rows in results:
            rows._add_to(arrays, [rows._raw()])
        by_column: dict[str, Any] = arrays.by_column()
        return by_column

    def _received(self) -> list[Any]:
        """Returns the results that are not `None`. Each has one page.

        Raises: `Error` if there are no results, or if they have different columns.
        """
        if self.results is None:
            raise Error("there are no results: pass results=True to execute_many")
        results = [rows for rows in self.results if rows is not None]
        check_same_columns(results)
        return results

    def _batches(self, types: ColumnTypes | None) -> tuple[list[Any], Any]:
        """The record batches of all results, and the `Gatherer`, which has their schema."""
        results = self._received()
        gathering = gatherer(results[0]._raw(), types, None)
        batches = [batch for rows in results for batch in gathering.append(rows._raw())]
        last_batch = gathering.finish()
        return [*batches, *([] if last_batch is None else [last_batch])], gathering

    def raise_for_failures(self) -> None:
        """Raises `BulkError` if a row failed. The first failure is its cause."""
        if self.failures:
            first = self.failures[0]
            prefix = ""
            if self.stopped:
                reason = self.stop_reason
                prefix = f"stopped early{'' if reason is None else f' because {reason}'}: "
            error = BulkError(
                f"{prefix}{len(self.failures)} of {self.rows} rows failed; the first, row "
                f"{first.row}, with {type(first.error).__name__}: {first.error}"
            )
            error.report = self
            raise error from first.error


@dataclass(frozen=True)
class Progress:
    """The progress of a load."""

    rows: int
    """The number of rows that the server has acknowledged in this run."""
    failed: int
    bytes: int
    """The number of bytes of the values of the acknowledged rows."""
    rows_per_s: float
    """The mean number of rows per second that the server has acknowledged in this run."""
    elapsed_s: float
    left_s: float | None
    """The estimate of the remaining seconds; `None` while there is no estimate."""
    share: float | None
    """The share of the input that is done, from 0 to 1: the rows that have failed, and the rows
    that the server has acknowledged in this run or an earlier one. `None` if the size of the input
    is not known. The number of rows of text files is estimated."""
    window: int
    """The number of requests that may be in flight now."""
    in_flight: int
    retried: int
    """The number of times that a row was sent again."""
    batched: int
    """The number of rows that were sent in batches of one partition, and acknowledged."""
    earlier_rows: int
    """The number of rows that earlier runs had loaded."""
    ended: bool
    """Whether this is the last report of the load."""
    retrying: int = 0
    """The number of rows that have failed and are being tried again."""
    reason: str | None = None
    """Why rows are tried again: the error of the last row to fail; `None` if `retrying` is 0."""

    def __str__(self) -> str:
        parts = [f"{self.rows:,} rows, {self.rows_per_s:,.0f}/s, {self.bytes / 1e6:,.1f} MB"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.retrying:
            parts.append(f"{self.retrying:,} tried again: {self.reason}")
        parts.append(f"window {self.window}")
        if self.left_s is not None and not self.ended:
            parts.append(f"{self.left_s:,.0f} s left")
        return ", ".join(parts)


@dataclass(frozen=True)
class Difference:
    """A cell that differs from the data, or a row that the table does not have."""

    row: int
    """The row's number in the data, from 0."""
    column: str | None
    """The column of the cell; `None` if the table has no row with the key of `row`."""
    expected: Any
    found: Any


@dataclass(frozen=True)
class VerifyReport:
    """The outcome of a comparison of a table with data."""

    rows: int
    """The number of rows of the data."""
    checked: int
    """The number of rows that were looked up: all, or a sample."""
    missing: int
    """The number of rows whose key the table does not have."""
    different: int
    """The number of rows with at least one cell that differs."""
    unfit: int
    """The number of rows that a load would refuse."""
    duplicates: int
    """The number of rows of the data that have the key of an earlier row of the data. The table has
    at most one row for each key, so some rows of the data may differ from the row of the table."""
    differences: list[Difference] = field(default_factory=list)
    """The missing rows and the differing cells: at most 1000 in total."""
    duplicate_rows: list[tuple[int, int]] = field(default_factory=list)
    """At most 1000 pairs of row numbers: the first row with a key, and a later row with it."""
    failures: list[BulkFailure] = field(default_factory=list)
    """At most 1000 of the rows that a load would refuse, with their errors."""

    @property
    def equal(self) -> bool:
        """Whether no row is missing, different or unfit."""
        return not (self.missing or self.different or self.unfit)


@dataclass(frozen=True)
class UnloadReport:
    """The outcome of an unload."""

    rows: int
    files: tuple[Path, ...]
    bytes: int
    """The total size of the files in bytes."""


def _report(
    rows: int,
    succeeded: int,
    failures: list[tuple[int, Exception]],
    stopped: bool,
    raised: BaseException | None,
    results: list[tuple[int, Any]] | None = None,
) -> BulkReport:
    """Returns the report of an `execute_many`, or raises an error if `raised` is not `None`."""
    failed = [BulkFailure(row, error) for row, error in failures]
    results_by_row: list[Any] | None = None
    if results is not None:
        results_by_row = [None] * rows
        for row, result in results:
            results_by_row[row] = result
    report = BulkReport(rows, succeeded, failed, stopped or raised is not None, results_by_row)
    if raised is None:
        return report
    if not isinstance(raised, Exception):
        raise raised
    reason = (
        "the session was closed" if isinstance(raised, ClosedError) else "reading the rows failed"
    )
    at = f"after {rows} rows, {succeeded} of which succeeded" if rows else "at the first row"
    error = BulkError(f"{reason} {at}: {type(raised).__name__}: {raised}")
    error.report = report
    raise error from raised


provide("bulk_report", _report)
