"""Loads from files: what they have beside loads of columns."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import _core
from .._checks import check_choice, check_int
from .._columns.pieces import Columns
from .._files.atomic import replace_file
from .._files.cells import cells_of
from .._files.source import Source, open_source
from ..bulk import BulkFailure, BulkReport, Progress
from ..errors import ConfigError, EncodeError
from .checkpoint import Checkpoint, Ranges, joined, left_of
from .monitor import Watch, shown_progress

__all__ = ["Files", "is_files", "told"]


def is_files(data: Any) -> bool:
    """Whether the data of a load is a path, a pattern of paths, or a list of them."""
    if isinstance(data, (str, os.PathLike)):
        return True
    is_list = isinstance(data, (list, tuple)) and bool(data)
    return is_list and all(isinstance(item, (str, os.PathLike)) for item in data)


class Files:
    """The files of a load, its checkpoint and its rejects."""

    def __init__(
        self, options: Mapping[str, Any], truncates: bool, most_share: float | None
    ) -> None:
        self._format, self._csv = options["format"], options["csv"]
        check_choice("format", self._format, (None, "parquet", "csv", "jsonl", "arrow"))
        self._checkpoint, self._resume = options["checkpoint"], _resumed(options)
        self._rejects = None if options["rejects"] is None else Path(options["rejects"])
        self._tell = told(options["progress"])
        self._limit: int | None = options["limit"]
        if self._limit is not None:
            check_int("limit", self._limit, 0, 2**63 - 1)
        self._is_tried: bool = options["dry_run"]
        self._truncates, self._most_share = truncates, most_share
        self._nulls: str = options["nulls"]
        self._timestamp: int | str | None = options["timestamp"]
        self._source: Source | None = None
        self._done: Ranges = []
        self._most: int = options["most"]
        self._unread: dict[int, tuple[EncodeError, Any]] = {}
        self._fresh: set[int] = set()
        self._rows = 0
        self._total: float | None = None
        self._is_exact = False
        self.watch = self._watch(None)

    @property
    def are_read(self) -> bool:
        """Whether the data is files."""
        return self._source is not None

    def _outputs(self) -> dict[str, Path]:
        """The files that are written, by option."""
        outputs = {"checkpoint": self._checkpoint, "resume": self._resume, "rejects": self._rejects}
        return {name: Path(path) for name, path in outputs.items() if path is not None}

    def check_unused(self) -> None:
        """Raises `ConfigError` if an option is for files only."""
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
    ) -> Columns:
        """The columns of files, and their rows when they are asked for."""
        self._source = open_source(
            data, format=self._format, types=types, rename=rename, csv=self._csv, udts=udts
        )
        inputs = {os.path.realpath(file.path) for file in self._source.files}
        for name, path in self._outputs().items():
            if os.path.realpath(path) in inputs:
                raise ConfigError(f"{name} is one of the files of the data: {path}")
        return Columns(self._source.names, self._pieces(self._source))

    def begin(self, statement: str, types: Mapping[str, str], pairs: Mapping[str, str]) -> None:
        """Reads the checkpoint. The statement is what the rows are sent with, `types` are those of
        its columns, `pairs` the data's column for each.
        """
        if self._source is None:
            return
        outputs = self._outputs()
        if self._is_tried:
            # No row is acknowledged.
            outputs = {}
        path, rejects = outputs.get("checkpoint", outputs.get("resume")), self._rejects
        if path is not None:
            self._begin(path, statement, types, pairs)
        if rejects is not None:
            if any(os.path.realpath(rejects) == os.path.realpath(it) for it in (path,) if it):
                raise ConfigError(f"rejects and the checkpoint are one file: {rejects}")
            _check_rejects(rejects)
            # Where it cannot be written, nothing is sent.
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
            self._done = Checkpoint(self._resume, load).read()
        self.watch = self._watch(Checkpoint(path, load))

    def _watch(self, checkpoint: Checkpoint | None) -> Watch:
        return Watch(
            checkpoint=checkpoint,
            done=self._done,
            tell=self._tell,
            total=self._rows_of_all,
            most=self._most,
            most_share=self._most_share,
            unread=lambda: len(self._unread),
            read=lambda: self._rows,
            ended=self._reject,
        )

    def expect(self, rows: int | None) -> None:
        """Notes how many rows there are, of data that is not files."""
        if self._source is None:
            self._total = rows

    def _rows_of_all(self) -> float | None:
        """The number of rows of the whole data; of files that do not tell it, an estimate."""
        return self._total

    def _estimate(self, source: Source, read: int) -> None:
        """Estimates the number of rows from those that were read, by the bytes that they have."""
        if self._is_exact:
            return
        known = source.rows
        if known is None:
            done, total = source.position()
            known = round(read * total / done) if done else None
        else:
            self._is_exact = True
        if known is not None:
            self._total = float(known if self._limit is None else min(known, self._limit))

    def _pieces(self, source: Source) -> Iterator[_core.Piece]:
        """The rows that were not acknowledged before."""

        def is_done(first: int, count: int) -> bool:
            return next(left_of(first, first + count, self._done), None) is None

        last = 0
        for first, batch in source.batches(is_done, self._note):
            if self._limit is not None:
                if first >= self._limit:
                    break
                batch = batch.slice(0, self._limit - first)
            self._rows += len(batch)
            last = first + len(batch)
            self._estimate(source, last)
            for begin, end in left_of(first, first + len(batch), self._left_out(first, len(batch))):
                self.watch.check()
                part = batch.slice(begin - first, end - begin)
                schema, array = part.__arrow_c_array__()
                yield _core.Piece.of_array(schema, array, begin)
        if self._total is not None and not self._is_exact:
            # All rows were read.
            self._total = float(max(last, max((end for _, end in self._done), default=0)))
        self.watch.check()

    def _note(self, row: int, error: EncodeError, raw: Any) -> None:
        """Notes a row that cannot be read, unless it was loaded before: then it is not read."""
        if self._limit is not None and row >= self._limit:
            return
        if next(left_of(row, row + 1, self._done), None) is not None:
            self._unread.setdefault(row, (error, raw))
            self._fresh.add(row)

    def _left_out(self, first: int, count: int) -> Ranges:
        """The rows that are not sent: they were acknowledged, or cannot be read."""
        unread = [(row, row + 1) for row in self._fresh if first <= row < first + count]
        self._fresh.clear()
        return joined([*self._done, *unread]) if unread else self._done

    @property
    def unread(self) -> int:
        """The number of rows that could not be read."""
        return len(self._unread)

    def _whole(self, report: BulkReport) -> BulkReport:
        """The report with the rows that could not be read among the failures."""
        if not self._unread:
            return report
        unread = [BulkFailure(row, error) for row, (error, _) in self._unread.items()]
        failures = sorted([*report.failures, *unread], key=lambda failure: failure.row)
        rows = max(report.rows, 1 + max(self._unread))
        # As for rows that the server refuses, also where the last row was one too many.
        stopped = report.stopped or len(failures) > self._most
        return dataclasses.replace(report, rows=rows, failures=failures, stopped=stopped)

    def ended(self, report: BulkReport) -> BulkReport:
        """The report of the rows of this run."""
        if self._source is None:
            return report
        report = self.watch.end(report)
        rows = sum(end - first for first, end in left_of(0, report.rows, self._done))
        earlier = sum(end - first for first, end in self._done)
        return dataclasses.replace(report, rows=rows, earlier_rows=earlier)

    def tried(self, report: BulkReport) -> BulkReport:
        """The report of a load that has sent nothing."""
        rows = report.rows + len(self._unread)
        return dataclasses.replace(self._reject(report), rows=rows)

    def _reject(self, report: BulkReport) -> BulkReport:
        """Writes the rows that failed, with their numbers and errors, one in a line of JSON."""
        report = self._whole(report)
        if self._source is None or self._rejects is None or not report.failures:
            return report
        errors: dict[int, Any] = {failure.row: failure.error for failure in report.failures}

        def has_none(first: int, count: int) -> bool:
            return not any(first <= row < first + count for row in errors)

        told: dict[int, tuple[Any, Any]] = dict(self._unread)
        for first, batch in self._source.batches(has_none, self._note):
            for row in range(first, first + len(batch)):
                if row not in errors or row in told:
                    continue
                one = batch.slice(row - first, 1)
                pairs = zip(one.columns, one.schema, strict=True)
                values = {field.name: cells_of(column, field, None)[0] for column, field in pairs}
                told[row] = (errors[row], values)
        lines = []
        for row, (error, data) in sorted(told.items()):
            reason = f"{type(error).__name__}: {error}"
            line = {"row": row, "error": reason, "data": data}
            text = json.dumps(line, default=str, ensure_ascii=False)
            if not _is_unicode(text):
                # JSON can have half of a surrogate pair, and UTF-8 cannot.
                text = json.dumps(line, default=str)
            lines.append(f"{text}\n")
        replace_file(self._rejects, "".join(lines).encode())
        return report


def _resumed(options: Mapping[str, Any]) -> Any:
    """The checkpoint to go on from. `"auto"` is the one of `checkpoint`, if it is there.

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
    """Raises `ConfigError` if a file is something else than the rejects of an earlier load."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        first = file.readline(1 << 20)
    if first and not first.startswith(b'{"row": '):
        raise ConfigError(f"rejects: {path} is there, and has no rejects: pass another name")


def told(progress: Any) -> Callable[[Progress], object] | None:
    """What is called with the progress."""
    if progress is None or progress is False:
        return None
    if progress is True:
        # Shown with the first news: before, the call may be refused.
        shown: list[Callable[[Progress], object]] = []

        def show(now: Progress) -> None:
            if not shown:
                shown.append(shown_progress())
            shown[0](now)

        return show
    if not callable(progress):
        raise TypeError(f"progress must be True or a callable, got {type(progress).__name__}")
    tell: Callable[[Progress], object] = progress
    return tell
