"""Writes results for other programs: CSV, JSON lines and Arrow, in the same forms as unloads."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from .._files.from_text import library
from .._files.to_text import cells_of, csv_column, csv_type
from ..rows import Rows
from ._ends import FAILED, CommandExit

__all__ = ["write_rows"]


def write_rows(
    rows: Rows[Any],
    form: str,
    out: BinaryIO | None = None,
    *,
    head: bool = True,
    limit: int | None = None,
) -> int:
    """Writes a result to standard output, or to `out`. Returns the number of rows.

    `head` says whether CSV has a line with the names of the columns. `limit` is the maximum number
    of rows.
    """
    pa = library()
    target: BinaryIO = sys.stdout.buffer if out is None else out
    schema = pa.schema(rows)
    if form == "arrow":
        return _arrow(pa, rows, schema, target, limit)
    write = _csv(pa, schema, target, head) if form == "csv" else _jsonl(schema, target)
    count = 0
    for batch in _batches(pa, rows, limit):
        for begin in range(0, batch.num_rows, 16_384):
            write(batch.slice(begin, 16_384))
        count += batch.num_rows
        target.flush()
    return count


def _batches(pa: Any, rows: Rows[Any], limit: int | None) -> Iterator[Any]:
    rows_left = limit
    for batch in rows.batches():
        record_batch = pa.record_batch(batch)
        yield record_batch if rows_left is None else record_batch.slice(0, rows_left)
        if rows_left is not None:
            rows_left -= min(rows_left, record_batch.num_rows)
            if not rows_left:
                return


def _arrow(pa: Any, rows: Rows[Any], schema: Any, target: BinaryIO, limit: int | None) -> int:
    count = 0
    # pyarrow would close the file that it writes to, such as standard output. So pyarrow gets a
    # buffer, and this function copies its bytes to `target`.
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, schema) as writer:
        for batch in _batches(pa, rows, limit):
            writer.write_batch(batch)
            count += batch.num_rows
            target.write(buffer.getvalue())
            buffer.seek(0)
            buffer.truncate()
    target.write(buffer.getvalue())
    target.flush()
    return count


def _csv(pa: Any, schema: Any, target: BinaryIO, head: bool) -> Callable[[Any], None]:
    import pyarrow.csv

    typed = pa.schema([(field.name, csv_type(field, None)) for field in schema])
    options = pyarrow.csv.WriteOptions(include_header=False)
    if head:
        empty = typed.empty_table()
        buffer = io.BytesIO()
        pyarrow.csv.write_csv(empty, buffer)
        target.write(buffer.getvalue())

    def write(batch: Any) -> None:
        columns = [
            csv_column(column, field, None)
            for field, column in zip(schema, batch.columns, strict=True)
        ]
        buffer = io.BytesIO()
        pyarrow.csv.write_csv(pa.RecordBatch.from_arrays(columns, schema=typed), buffer, options)
        target.write(buffer.getvalue())

    return write


def _jsonl(schema: Any, target: BinaryIO) -> Callable[[Any], None]:
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
    names = schema.names
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise CommandExit(
            FAILED, f"an object has no two values for {doubled[0]!r}: rename one by AS"
        )

    def write(batch: Any) -> None:
        cells = [
            cells_of(column, field, None)
            for field, column in zip(schema, batch.columns, strict=True)
        ]
        rows = zip(*cells, strict=True)
        lines = [encode(dict(zip(names, row, strict=True))) + "\n" for row in rows]
        target.write("".join(lines).encode())

    return write
