"""The parts of a load that only files have: formats, checkpoints and rejects."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _core
from .._checks import check_choice, check_int, nearest
from .._columns.pieces import Columns
from .._files.atomic import replace_file
from .._files.from_text import library
from .._files.reader import Selection
from .._files.source import Source, open_source
from .._files.to_text import cells_of
from ..bulk import BulkFailure, BulkReport, Progress
from ..errors import ConfigError, EncodeError
from .checkpoint import Checkpoint, Ranges, merged_ranges, ranges_without
from .locating import locate_failures
from .monitor import Monitor, shown_progress

__all__ = ["Files", "is_files", "progress_callback"]


def is_files(data: Any) -> bool:
    """Whether the data of a load is a path, a pattern of paths, or a list of these."""
    if isinstance(data, (str, os.PathLike)):
        return True
    is_list = isinstance(data, (list, tuple)) and bool(data)
    return is_list and all(isinstance(item, (str, os.PathLike)) for item in data)


class Files:
    """The files of a load, its checkpoint and its rejects."""

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
        """The data's column for each column of the table that the load writes."""
        self._acknowledged: Ranges = []
        self._max_failures: int = options["max_failures"]
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
        """Advice for CSV files whose header has none of the table's columns; else an empty text."""
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
        """A piece without rows for each distinct schema of the files, with its first file."""
        schemas: list[Any] = []
        for path, schema in () if self._source is None else self._source.schemas():
            if not any(schema.equals(earlier, check_metadata=True) for earlier in schemas):
                schemas.append(schema)
                reader = library().RecordBatchReader.from_batches(schema, [])
                yield path, _core.ArrowStream(reader.__arrow_c_stream__()).empty()

    def _outputs(self) -> dict[str, Path]:
        """The files that the load writes, by the names of their options."""
        outputs = {"checkpoint": self._checkpoint, "resume": self._resume, "rejects": self._rejects}
        return {name: Path(path) for name, path in outputs.items() if path is not None}

    def check_unused(self) -> None:
        """Raises `ConfigError` if an option is set that only loads of files have."""
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
        """Reads the checkpoint, and creates the rejects. `statement` is the INSERT of the rows,
        `types` are the types of the written columns, and `pairs` names the data's column for each.

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
            _check_rejects(rejects)
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
        """Stores the number of rows of data that is not files; `None` if it is unknown."""
        if self._source is None:
            self._total_rows = rows

    def _get_total_rows(self) -> float | None:
        """The number of rows to load, which may be estimated; `None` if it is not known."""
        return self._total_rows

    def _estimate(self, source: Source, rows_read: int) -> None:
        """Stores the number of rows from the metadata, or estimates it by the rows so far."""
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
        """Yields the readable rows below the limit that no earlier run has loaded."""

        def is_acknowledged(first: int, count: int) -> bool:
            return next(ranges_without(first, first + count, self._acknowledged), None) is None

        rows_seen = 0
        for first, batch in source.batches(is_acknowledged, self._record_unreadable):
            if self._limit is not None:
                if first >= self._limit:
                    break
                batch = batch.slice(0, self._limit - first)
            self._rows_read += len(batch)
            rows_seen = first + len(batch)
            self._estimate(source, rows_seen)
            excluded = self._excluded_rows(first, len(batch))
            for begin, end in ranges_without(first, first + len(batch), excluded):
                self.monitor.check()
                part = batch.slice(begin - first, end - begin)
                schema, array = part.__arrow_c_array__()
                yield _core.Piece.of_array(schema, array, begin)
        if self._total_rows is not None and not self._is_total_exact:
            # All rows were read.
            last_acknowledged = max((end for _, end in self._acknowledged), default=0)
            self._total_rows = float(max(rows_seen, last_acknowledged))
        self.monitor.check()

    def _record_unreadable(self, row: int, error: EncodeError, raw: Any) -> None:
        """Records an unreadable row below the limit, unless an earlier run has loaded it."""
        if self._limit is not None and row >= self._limit:
            return
        if next(ranges_without(row, row + 1, self._acknowledged), None) is not None:
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
        """The failures with their places, and the rows that could not be read, by row."""
        if self._source is not None:
            locate_failures(self._source, failures, self._pairs, shows_values=self._shows_values)
        unreadable = [BulkFailure(row, error) for row, (error, _) in self._unreadable.items()]
        return sorted([*failures, *unreadable], key=lambda failure: failure.row)

    def _with_unreadable(self, report: BulkReport) -> BulkReport:
        """The report with places, and with the rows that could not be read among its failures."""
        failures = self.listed_failures(report.failures)
        if not self._unreadable:
            return report
        rows = max(report.rows, 1 + max(self._unreadable))
        # A load has stopped if it has too many failures, even if they include its last row.
        stopped = report.stopped or len(failures) > self._max_failures
        return dataclasses.replace(report, rows=rows, failures=failures, stopped=stopped)

    def finished_report(self, report: BulkReport) -> BulkReport:
        """Ends the monitor, and returns the report of this run, with `earlier_rows`."""
        if self._source is None:
            return report
        report = self.monitor.end(report)
        rows = sum(end - first for first, end in ranges_without(0, report.rows, self._acknowledged))
        earlier = sum(end - first for first, end in self._acknowledged)
        return dataclasses.replace(report, rows=rows, earlier_rows=earlier)

    def dry_run_report(self, report: BulkReport) -> BulkReport:
        """Writes the rejects of a dry run, and returns its report."""
        rows = report.rows + len(self._unreadable)
        return dataclasses.replace(self._reject(report), rows=rows)

    def _reject(self, report: BulkReport) -> BulkReport:
        """Writes the rows that failed, with their numbers and errors, as JSON lines.

        Returns: the report with the rows that could not be read.
        """
        report = self._with_unreadable(report)
        if self._source is None or self._rejects is None or not report.failures:
            return report
        errors: dict[int, Any] = {failure.row: failure.error for failure in report.failures}

        rejected_rows: dict[int, tuple[Any, Any]] = dict(self._unreadable)
        try:
            self._read_rejects(self._source, errors, rejected_rows, reads_all=True)
        except EncodeError:
            # A column that is not loaded may be damaged.
            self._read_rejects(self._source, errors, rejected_rows, reads_all=False)
        lines = []
        for row, (error, data) in sorted(rejected_rows.items()):
            reason = f"{type(error).__name__}: {error}"
            line = {"row": row, "error": reason, "data": data}
            text = json.dumps(line, default=str, ensure_ascii=False)
            if not _is_unicode(text):
                # JSON can express a lone surrogate, and UTF-8 cannot.
                text = json.dumps(line, default=str)
            lines.append(f"{text}\n")
        replace_file(self._rejects, "".join(lines).encode())
        return report

    def _read_rejects(
        self,
        source: Source,
        errors: Mapping[int, Any],
        rejected_rows: dict[int, tuple[Any, Any]],
        *,
        reads_all: bool,
    ) -> None:
        """Adds the rows of `errors`, with their errors and values, to `rejected_rows`."""

        def has_no_failures(first: int, count: int) -> bool:
            return not any(first <= row < first + count for row in errors)

        batches = source.batches(has_no_failures, self._record_unreadable, reads_all=reads_all)
        for first, batch in batches:
            for row in range(first, first + len(batch)):
                if row not in errors or row in rejected_rows:
                    continue
                single_row = batch.slice(row - first, 1)
                columns_and_fields = zip(single_row.columns, single_row.schema, strict=True)
                values = {
                    field.name: cells_of(column, field, None)[0]
                    for column, field in columns_and_fields
                }
                rejected_rows[row] = (errors[row], values)


def _resume_path(options: Mapping[str, Any]) -> Any:
    """The path of the checkpoint to resume from; for `"auto"`, of `checkpoint` if the file exists.

    Raises: `ConfigError` for `"auto"` without a checkpoint.
    """
    checkpoint, resume = options["checkpoint"], options["resume"]
    if resume != "auto":
        return resume
    if checkpoint is None:
        raise ConfigError('resume="auto" needs checkpoint=, the file to go on from if it is there')
    return checkpoint if Path(checkpoint).exists() else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_rejects(path: Path) -> None:
    """Raises `ConfigError` if a file is not empty and is not the rejects of an earlier load."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        first_line = file.readline(1 << 20)
    if first_line and not first_line.startswith(b'{"row": '):
        raise ConfigError(f"rejects: {path} is there, and has no rejects: pass another name")


def progress_callback(progress: Any) -> Callable[[Progress], object] | None:
    """The callback for the option `progress`; `None` if progress is not reported.

    Raises: `TypeError` unless `progress` is a callable, a bool or `None`.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        # The bar is created at the first report, because the call may be refused before that.
        callbacks: list[Callable[[Progress], object]] = []

        def show(report: Progress) -> None:
            if not callbacks:
                callbacks.append(shown_progress())
            callbacks[0](report)

        return show
    if not callable(progress):
        raise TypeError(f"progress must be True or a callable, got {type(progress).__name__}")
    callback: Callable[[Progress], object] = progress
    return callback
