"""Writes tables to files, for `Session.unload` and `AsyncSession.unload`."""

from __future__ import annotations

import os
import time
from typing import Any

from .._checks import check_choice, check_flag, check_int, with_nearest
from .._files.from_text import library
from .._files.writer import Sink, open_sink
from .._options import UnloadOptions
from ..bulk import Progress, UnloadReport
from ..columns import Batch
from .monitor import progress_callback
from .scan import Scan, TableColumns

__all__ = ["DEFAULTS", "Unload"]

DEFAULTS: dict[str, Any] = {
    **{"format": None, "compression": None, "files": 1, "overwrite": False, "progress": None},
    "limit": None,
}
"""The default values of the options of `unload` that are not options of `scan`."""
_REPORT_INTERVAL_S = 0.5


class Unload:
    """An unload. `__init__` checks options, `match` stores types, and `write` writes a batch."""

    def __init__(
        self,
        table: str,
        keyspace: str | None,
        path: str | os.PathLike[str],
        options: UnloadOptions,
    ) -> None:
        unknown_names = options.keys() - UnloadOptions.__annotations__.keys()
        if unknown_names:
            name = sorted(unknown_names)[0]
            problem = f"unload has no option {name!r}"
            raise TypeError(with_nearest(problem, name, UnloadOptions.__annotations__))
        settings: dict[str, Any] = {**DEFAULTS, **options}
        own_options = {name: settings.pop(name) for name in DEFAULTS}
        scan_options: Any = settings
        self.scan = Scan(table, keyspace, scan_options)
        check_choice("format", own_options["format"], (None, "parquet", "csv", "jsonl", "arrow"))
        check_int("files", own_options["files"], 1, 100_000)
        check_flag("overwrite", own_options["overwrite"])
        if own_options["limit"] is not None:
            check_int("limit", own_options["limit"], 0, 2**63 - 1)
        self._path, self._options = path, own_options
        self._report_progress = progress_callback(own_options["progress"])
        self._types: dict[str, str] = {}
        self._sink: Sink | None = None
        self._rows = self._bytes = 0
        self._began_at = self._reported_at = time.monotonic()

    def match(self, table_columns: TableColumns) -> None:
        """Stores the types of the table's columns. `table_columns` are the rows that the query
        `TABLE` of the module `scan` returns.
        """
        self._types = {name: cql_type for name, _, cql_type, _ in table_columns}

    def begin(self, rows: Any) -> None:
        """Opens the files. `rows` is the result of the scan. The files get its schema."""
        pa = library()
        self._sink = open_sink(
            self._path,
            format=self._options["format"],
            schema=pa.schema(rows._gatherer(None)),
            types=self._types,
            compression=self._options["compression"],
            files=self._options["files"],
            overwrite=self._options["overwrite"],
        )

    def write(self, batch: Batch) -> bool:
        """Writes the rows of a batch, up to the limit. Returns whether the limit allows more."""
        pa = library()
        record_batch = pa.record_batch(batch)
        limit = self._options["limit"]
        if limit is not None:
            record_batch = record_batch.slice(0, limit - self._rows)
        if self._sink is not None:
            self._sink.write(record_batch)
        self._rows += record_batch.num_rows
        self._bytes += record_batch.nbytes
        now = time.monotonic()
        if self._report_progress is not None and now - self._reported_at >= _REPORT_INTERVAL_S:
            self._reported_at = now
            self._report_progress(self._progress(ended=False))
        return limit is None or self._rows < limit

    def end(self) -> UnloadReport:
        """Completes the files, and gives them their names."""
        files = () if self._sink is None else tuple(self._sink.close())
        if self._report_progress is not None:
            self._report_progress(self._progress(ended=True))
        return UnloadReport(self._rows, files, sum(file.stat().st_size for file in files))

    def abandon(self) -> None:
        """Removes the files."""
        if self._sink is not None:
            self._sink.abort()

    def _progress(self, *, ended: bool) -> Progress:
        elapsed_s = time.monotonic() - self._began_at
        return Progress(
            rows=self._rows,
            failed=0,
            bytes=self._bytes,
            rows_per_s=self._rows / elapsed_s if elapsed_s else 0.0,
            elapsed_s=elapsed_s,
            left_s=0.0 if ended else None,
            share=1.0 if ended else None,
            window=0,
            in_flight=0,
            retried=0,
            batched=0,
            earlier_rows=0,
            ended=ended,
        )
