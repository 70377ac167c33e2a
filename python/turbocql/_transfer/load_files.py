"""The part of a load that is for files only: formats, the checkpoint, and the file `rejects`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _core
from .._checks import check_choice, check_int, nearest
from .._columns.pieces import Columns
from .._files.atomic import replace_file
from .._files.from_text import library
from .._files.reader import Selection
from .._files.source import Source, open_source
from ..bulk import BulkFailure, BulkReport
from ..errors import ConfigError, EncodeError
from .checkpoint import Checkpoint, Ranges, merged_ranges, ranges_without
from .locating import locate_failures
from .monitor import Monitor, Stopped, progress_callback
from .rejects import check_rejects, write_rejects
from .stops import (
    FIRST_BLOCK_ROWS,
    MAX_FAILURES,
    first_block_reason,
    have_one_error,
    with_stop_reason,
)

__all__ = ["Files", "is_files"]


def is_files(data: Any) -> bool:
    """Whether the data of a load is a path, a pattern of paths, or a list of these."""
    if isinstance(data, (str, os.PathLike)):
        return True
    is_list = isinstance(data, (list, tuple)) and bool(data)
    return is_list and all(isinstance(item, (str, os.PathLike)) for item in data)


class Files:
    """The input files of a load, its checkpoint, and its file `rejects`, which gets failed rows."""

    def __init__(
        self, options: Mapping[str, Any], truncates: bool, max_failure_share: float | None
    ) -> None:
        self._format, self._csv = options["format"], options["csv"]
        check_choice("format", self._format, (None, "parquet", "csv", "jsonl", "arrow"))
        self._checkpoint, self._resume = options["checkpoint"], _resume_path(options)
        self._rejects = None if options["rejects"] is None else Path(options["rejects"])
        self._report_progress = progress_callback(options["progress"])
        self._limit: int | None = options["limit"]
        if self._limit is not None:
            check_int("limit", self._limit, 0, 2**63 - 1)
        self._is_dry_run: bool = options["dry_run"]
        self._truncates, self._max_failure_share = truncates, max_failure_share
        self._nulls: str = options["nulls"]
        self._timestamp: int | str | None = options["timestamp"]
        self._source: Source | None = None
        self._shows_values = True
        self._pairs: Mapping[str, str] = {}
        """Maps each column of the table that the load writes to the name of the data's column."""
        self._acknowledged: Ranges = []
        self._max_failures: int = options["max_failures"]
        limit_name = "max_failures" if options["max_errors"] is None else "max_errors"
        self._failure_limit = f"{limit_name}={options[limit_name]}"
        self._block_reason: str | None = None
        self._is_reading = False
        """True while rows are read in order to load them; false while they are read again to write
        the rejects."""
        self._unreadable: dict[int, tuple[EncodeError, Any]] = {}
        self._new_unreadable: set[int] = set()
        self._rows_read = 0
        self._total_rows: float | None = None
        self._is_total_exact = False
        self.monitor = self._make_monitor(None)

    @property
    def are_read(self) -> bool:
        """Whether the data is files."""
        return self._source is not None

    def header_hint(self, names: Sequence[str], columns: Collection[str]) -> str:
        """Returns advice if the data is CSV and its header has none of the table's columns.

        In all other cases, returns an empty text.
        """
        is_csv = self._source is not None and self._source.is_csv
        if not is_csv or any(name in columns for name in names):
            return ""
        for delimiter in ";\t|":
            if any(delimiter in name for name in names):
                return (
                    f". If {delimiter!r} is the delimiter, pass csv={{'delimiter': {delimiter!r}}}"
                )
        if any(nearest(name, columns) for name in names):
            return ""
        return ". If the file has no header, pass csv={'header': False, 'names': [...]}"

    @property
    def has_types(self) -> bool:
        """Whether the data is files of a format that has types."""
        return self._source is not None and next(self._source.schemas(), None) is not None

    def empty_pieces(self) -> Iterator[tuple[Path, _core.Piece]]:
        """Yields a path and a piece for each distinct schema of the files: the path of a file with
        this schema, and a piece that has this schema and no rows.
        """
        schemas: list[Any] = []
        for path, schema in () if self._source is None else self._source.schemas():
            if not any(schema.equals(earlier, check_metadata=True) for earlier in schemas):
                schemas.append(schema)
                reader = library().RecordBatchReader.from_batches(schema, [])
                yield path, _core.ArrowStream(reader.__arrow_c_stream__()).empty()

    @property
    def checks_first_block(self) -> bool:
        """Whether the load encodes the first block, of 1,000 rows, before it sends a row.

        Only a load of files does so, and only if its limit on failures is a share, or is 1,000 rows
        or more. A block of failures would exceed a lower limit anyway. If there is no limit,
        failures never stop the load, so the check would have no effect.
        """
        is_limit_high = self._max_failures >= FIRST_BLOCK_ROWS
        return self._source is not None and is_limit_high and self._has_failure_limit

    @property
    def _has_failure_limit(self) -> bool:
        """Whether a number or a share of failed rows stops the load."""
        return self._max_failures < MAX_FAILURES or self._max_failure_share is not None

    def _outputs(self) -> dict[str, Path]:
        """Maps each option that names an output file to the path of the file. The file of `resume`
        is written only if `checkpoint` is `None`.
        """
        outputs = {"checkpoint": self._checkpoint, "resume": self._resume, "rejects": self._rejects}
        return {name: Path(path) for name, path in outputs.items() if path is not None}

    def check_unused(self) -> None:
        """Raises `ConfigError` if the program has passed an option that is for files only."""
        options = {
            **{"format": self._format, "csv": self._csv, "rejects": self._rejects},
            **{"checkpoint": self._checkpoint, "resume": self._resume, "limit": self._limit},
        }
        for name, value in options.items():
            if value is not None:
                raise ConfigError(f"{name} is for loads of files")

    def open(
        self,
        data: Any,
        types: Mapping[str, str],
        udts: Mapping[str, str],
        rename: Mapping[str, str],
        selection: Selection,
        *,
        shows_values: bool,
    ) -> Columns:
        """Opens files, and returns their columns. Rows are read when the pieces are iterated.

        Raises: `ConfigError` if the load would overwrite a file of its data.
        """
        self._source = open_source(
            data,
            format=self._format,
            types=types,
            rename=rename,
            csv=self._csv,
            udts=udts,
            selection=selection,
            shows_values=shows_values,
        )
        self._shows_values = shows_values
        inputs = {os.path.realpath(file.path) for file in self._source.files}
        for name, path in self._outputs().items():
            if os.path.realpath(path) in inputs:
                raise ConfigError(f"{name} is one of the files of the data: {path}")
            if path.exists() and not path.is_file():
                raise ConfigError(f"{name}: {path} is no regular file: pass another name")
        return Columns(self._source.names, self._pieces(self._source))

    def begin(self, statement: str, types: Mapping[str, str], pairs: Mapping[str, str]) -> None:
        """Reads the checkpoint, and creates `rejects`. `statement` is the INSERT of the rows,
        `types` are the types of the written columns, and `pairs` maps these to the data's columns.

        Raises: `ConfigError` if the checkpoint is of another load, or if a file would be
            overwritten; `OSError` if a file cannot be read or written.
        """
        self._pairs = pairs
        if self._source is None:
            return
        outputs = self._outputs()
        if self._is_dry_run:
            # A dry run acknowledges no row, so it has no checkpoint.
            outputs = {}
        path, rejects = outputs.get("checkpoint", outputs.get("resume")), self._rejects
        if path is not None:
            self._begin(path, statement, types, pairs)
        if rejects is not None:
            if path is not None and os.path.realpath(rejects) == os.path.realpath(path):
                raise ConfigError(f"rejects and the checkpoint are one file: {rejects}")
            check_rejects(rejects)
            # The file is written before the first row is sent, so that the call fails if the file
            # cannot be written.
            replace_file(rejects, b"")

    def _begin(
        self, path: Path, statement: str, types: Mapping[str, str], pairs: Mapping[str, str]
    ) -> None:
        if self._source is None:
            return
        if self._resume is None and path.exists():
            raise ConfigError(
                f"there is a checkpoint {path} already: pass it as resume= to go on from it, or"
                " remove it"
            )
        load = {
            "statement": statement,
            "types": dict(types),
            "columns": dict(pairs),
            "truncate_time": self._truncates,
            "nulls": self._nulls,
            "timestamp": self._timestamp,
            "input": [
                {"name": file.path.name, "size": file.size, "digest": file.digest}
                for file in self._source.files
            ],
        }
        if self._resume is not None:
            self._acknowledged = Checkpoint(self._resume, load).read()
        self.monitor = self._make_monitor(Checkpoint(path, load))

    def _make_monitor(self, checkpoint: Checkpoint | None) -> Monitor:
        return Monitor(
            checkpoint=checkpoint,
            earlier_acknowledged=self._acknowledged,
            report_progress=self._report_progress,
            get_total_rows=self._get_total_rows,
            max_failures=self._max_failures,
            max_failure_share=self._max_failure_share,
            count_unreadable=lambda: len(self._unreadable),
            count_rows_read=lambda: self._rows_read,
            complete_report=self._reject,
        )

    def expect(self, rows: int | None) -> None:
        """Stores the number of rows if the data is not files; `None` if the number is unknown."""
        if self._source is None:
            self._total_rows = rows

    def _get_total_rows(self) -> float | None:
        """Returns the number of rows to load, perhaps estimated, or `None` if it is not known."""
        return self._total_rows

    def _estimate(self, source: Source, rows_read: int) -> None:
        """Stores the total number of rows: from the metadata of the files, or estimated from the
        rows read so far.
        """
        if self._is_total_exact:
            return
        total_rows = source.rows
        if total_rows is None:
            bytes_read, total_bytes = source.position()
            total_rows = round(rows_read * total_bytes / bytes_read) if bytes_read else None
        else:
            self._is_total_exact = True
        if total_rows is not None:
            limited_rows = total_rows if self._limit is None else min(total_rows, self._limit)
            self._total_rows = float(limited_rows)

    def _pieces(self, source: Source) -> Iterator[_core.Piece]:
        """Yields the readable rows before `limit`, except rows that an earlier run has loaded."""

        def is_acknowledged(first: int, count: int) -> bool:
            return next(ranges_without(first, first + count, self._acknowledged), None) is None

        rows_seen = readable_rows = 0
        self._is_reading = True
        for first, batch in source.batches(is_acknowledged, self._record_unreadable):
            if self._limit is not None:
                if first >= self._limit:
                    break
                batch = batch.slice(0, self._limit - first)
            self._rows_read += len(batch)
            # The loop below also calls `check`. But if the batch has no row to send, for example
            # because all its rows are unreadable, the loop has no step. So `check` is called here.
            self.monitor.check()
            rows_seen = first + len(batch)
            self._estimate(source, rows_seen)
            excluded = self._excluded_rows(first, len(batch))
            ranges = list(ranges_without(first, first + len(batch), excluded))
            if not readable_rows and self.checks_first_block:
                ranges = _with_first_block(ranges)
            for begin, end in ranges:
                self.monitor.check()
                readable_rows += end - begin
                part = batch.slice(begin - first, end - begin)
                schema, array = part.__arrow_c_array__()
                yield _core.Piece.of_array(schema, array, begin)
        if self._total_rows is not None and not self._is_total_exact:
            # All rows were read, so their number is known exactly.
            last_acknowledged = max((end for _, end in self._acknowledged), default=0)
            self._total_rows = float(max(rows_seen, last_acknowledged))
        self.monitor.check()

    def _check_unreadable(self, row: int) -> None:
        """Called with the number of an unreadable row, before the row is recorded.

        It is called for each unreadable row, not for each batch, because it takes long to find all
        unreadable rows of a long batch.

        Raises: `Stopped` if too many rows are unreadable, or if all rows of the first block are
            unreadable with the same error.
        """
        count = len(self._unreadable)
        if count > self._max_failures:
            raise Stopped("too many rows are unreadable")
        is_block = row == count == FIRST_BLOCK_ROWS and self._has_failure_limit
        if is_block and have_one_error(error for error, _ in self._unreadable.values()):
            self.stop_after_block(count)
            raise Stopped("no row of the first block can be read")

    def stop_after_block(self, rows: int) -> None:
        """Stores the reason of a stop after the first block, which has this number of rows."""
        self._block_reason = first_block_reason(rows)

    def _record_unreadable(self, row: int, error: EncodeError, raw: Any) -> None:
        """Records an unreadable row, unless `limit` excludes it or an earlier run has loaded it."""
        if self._limit is not None and row >= self._limit:
            return
        if next(ranges_without(row, row + 1, self._acknowledged), None) is not None:
            if self._is_reading and row not in self._unreadable:
                self._check_unreadable(row)
            self._unreadable.setdefault(row, (error, raw))
            self._new_unreadable.add(row)

    def _excluded_rows(self, first: int, count: int) -> Ranges:
        """The rows not to send: all acknowledged rows, and the unreadable rows of the batch."""
        end = first + count
        unreadable = [(row, row + 1) for row in self._new_unreadable if first <= row < end]
        self._new_unreadable.clear()
        if not unreadable:
            return self._acknowledged
        return merged_ranges([*self._acknowledged, *unreadable])

    @property
    def unreadable_rows(self) -> int:
        """The number of rows that could not be read."""
        return len(self._unreadable)

    def listed_failures(self, failures: list[BulkFailure]) -> list[BulkFailure]:
        """Adds the file and the line to each of `failures`. Returns them together with the failures
        of the unreadable rows, sorted by row.
        """
        if self._source is not None:
            locate_failures(self._source, failures, self._pairs, shows_values=self._shows_values)
        unreadable = [BulkFailure(row, error) for row, (error, _) in self._unreadable.items()]
        return sorted([*failures, *unreadable], key=lambda failure: failure.row)

    def _with_unreadable(self, report: BulkReport) -> BulkReport:
        """Returns the report, with the rows that could not be read among its failures, and with the
        file and line of each failure.
        """
        failures = self.listed_failures(report.failures)
        if not self._unreadable:
            return report
        rows = max(report.rows, 1 + max(self._unreadable))
        # A load with too many failures counts as stopped, even if all rows were read and sent.
        stopped = report.stopped or len(failures) > self._max_failures
        return dataclasses.replace(report, rows=rows, failures=failures, stopped=stopped)

    def finished_report(self, report: BulkReport) -> BulkReport:
        """Ends the monitor, and returns the report of this run, with `earlier_rows`."""
        if self._source is None:
            return self._with_stop_reason(report)
        report = self.monitor.end(report)
        rows = sum(end - first for first, end in ranges_without(0, report.rows, self._acknowledged))
        earlier = sum(end - first for first, end in self._acknowledged)
        report = dataclasses.replace(report, rows=rows, earlier_rows=earlier)
        return self._with_stop_reason(report)

    def dry_run_report(self, report: BulkReport) -> BulkReport:
        """Writes the file `rejects` of a dry run, and returns the report of the dry run."""
        rows = report.rows + len(self._unreadable)
        return self._with_stop_reason(dataclasses.replace(self._reject(report), rows=rows))

    def _with_stop_reason(self, report: BulkReport) -> BulkReport:
        """Adds the reason to the report of a load that was stopped because rows failed."""
        is_exceeded = self.monitor.is_limit_exceeded or len(report.failures) > self._max_failures
        if not is_exceeded and self._block_reason is None:
            return report
        tried_rows = report.earlier_rows + report.succeeded + len(report.failures)
        untried_rows = max(0, round(self._total_rows or 0) - tried_rows)
        verb = "row was" if untried_rows == 1 else "rows were"
        is_estimate = self._source is not None and not self._is_total_exact
        untried = f"{'about ' if is_estimate else ''}{untried_rows:,} {verb}"
        return with_stop_reason(
            report, self._failure_limit, untried if untried_rows else None, self._block_reason
        )

    def _reject(self, report: BulkReport) -> BulkReport:
        """Writes the rows that failed, with their numbers and errors, as JSON lines.

        Returns: the report, with the unreadable rows among its failures.
        """
        self._is_reading = False
        report = self._with_unreadable(report)
        if self._source is None or self._rejects is None or not report.failures:
            return report
        errors = {failure.row: failure.error for failure in report.failures}
        write_rejects(
            self._rejects, self._source, errors, self._unreadable, self._record_unreadable
        )
        return report


def _with_first_block(ranges: Ranges) -> Ranges:
    """Returns the ranges, with the first range cut after the first block if it is longer."""
    if not ranges or ranges[0][1] - ranges[0][0] <= FIRST_BLOCK_ROWS:
        return ranges
    (first, end), *following = ranges
    return [(first, first + FIRST_BLOCK_ROWS), (first + FIRST_BLOCK_ROWS, end), *following]


def _resume_path(options: Mapping[str, Any]) -> Any:
    """Returns the checkpoint to resume from. For `"auto"`, it is `checkpoint`, if the file exists.

    Raises: `ConfigError` for `"auto"` without a checkpoint.
    """
    checkpoint, resume = options["checkpoint"], options["resume"]
    if resume != "auto":
        return resume
    if checkpoint is None:
        raise ConfigError('resume="auto" needs checkpoint=, the file to go on from if it is there')
    return checkpoint if Path(checkpoint).exists() else None
