"""Tables written to files: what `Session.unload` and its twin share."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from .._checks import check_choice, check_flag, check_int
from .._files.writer import Sink, open_sink
from .._options import UnloadOptions
from ..bulk import Progress, UnloadReport
from ..columns import Batch
from .load_files import told
from .scan import Known, Scan

__all__ = ["Unload"]

_OWN: dict[str, Any] = {
    **{"format": None, "compression": None, "files": 1, "overwrite": False, "progress": None},
    "limit": None,
}
_EVERY_S = 0.5


class Unload:
    """An unload: first its arguments, then the table, at last its batches."""

    def __init__(
        self,
        table: str,
        keyspace: str | None,
        path: str | os.PathLike[str],
        options: UnloadOptions,
    ) -> None:
        unknown = options.keys() - UnloadOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(UnloadOptions.__annotations__)
            raise TypeError(f"unload has no option {sorted(unknown)[0]!r}; it has {known}")
        own = {**_OWN, **{name: value for name, value in options.items() if name in _OWN}}
        others: Any = {name: value for name, value in options.items() if name not in _OWN}
        self.scan = Scan(table, keyspace, others)
        check_choice("format", own["format"], (None, "parquet", "csv", "jsonl", "arrow"))
        check_int("files", own["files"], 1, 100_000)
        check_flag("overwrite", own["overwrite"])
        if own["limit"] is not None:
            check_int("limit", own["limit"], 0, 2**63 - 1)
        self._path, self._own = path, own
        self._tell = told(own["progress"])
        self._types: dict[str, str] = {}
        self._sink: Sink | None = None
        self._rows = self._bytes = 0
        self._began = self._told = time.monotonic()

    def match(self, known: Known) -> None:
        """Takes the table's columns. `known` is the answer to `TABLE`."""
        self._types = {name: cql_type for name, _, cql_type, _ in known}

    def begin(self, rows: Any) -> None:
        """Opens the files."""
        pa: Any = importlib.import_module("pyarrow")
        self._sink = open_sink(
            self._path,
            format=self._own["format"],
            schema=pa.schema(rows._gatherer(None)),
            types=self._types,
            compression=self._own["compression"],
            files=self._own["files"],
            overwrite=self._own["overwrite"],
        )

    def write(self, batch: Batch) -> bool:
        """Writes some rows. Returns whether more are wanted."""
        pa: Any = importlib.import_module("pyarrow")
        made = pa.record_batch(batch)
        most = self._own["limit"]
        if most is not None:
            made = made.slice(0, most - self._rows)
        if self._sink is not None:
            self._sink.write(made)
        self._rows += made.num_rows
        self._bytes += made.nbytes
        if self._tell is not None and time.monotonic() - self._told >= _EVERY_S:
            self._told = time.monotonic()
            self._tell(self._progress(ended=False))
        return most is None or self._rows < most

    def end(self) -> UnloadReport:
        """Moves the files to their names."""
        files = () if self._sink is None else tuple(self._sink.close())
        if self._tell is not None:
            self._tell(self._progress(ended=True))
        return UnloadReport(self._rows, files, sum(file.stat().st_size for file in files))

    def abandon(self) -> None:
        """Removes what was written."""
        if self._sink is not None:
            self._sink.abort()

    def _progress(self, *, ended: bool) -> Progress:
        elapsed = time.monotonic() - self._began
        return Progress(
            rows=self._rows,
            failed=0,
            bytes=self._bytes,
            rows_per_s=self._rows / elapsed if elapsed else 0.0,
            elapsed_s=elapsed,
            left_s=0.0 if ended else None,
            share=1.0 if ended else None,
            window=0,
            in_flight=0,
            retried=0,
            batched=0,
            earlier_rows=0,
            ended=ended,
        )
