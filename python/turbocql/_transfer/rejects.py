"""The rejects of a load of files: the failed rows, with their errors, as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._files.atomic import replace_file
from .._files.reader import OnUnreadable
from .._files.source import Source
from .._files.to_text import cells_of
from ..errors import ConfigError, EncodeError

__all__ = ["check_rejects", "write_rejects"]


def check_rejects(path: Path) -> None:
    """Raises `ConfigError` if a file is not empty and is not the rejects of an earlier load."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        first_line = file.readline(1 << 20)
    if first_line and not first_line.startswith(b'{"row": '):
        raise ConfigError(f"rejects: {path} is there, and has no rejects: pass another name")


def write_rejects(
    path: Path,
    source: Source,
    errors: Mapping[int, Any],
    unreadable: Mapping[int, tuple[Any, Any]],
    on_unreadable: OnUnreadable,
) -> None:
    """Writes the rows of `errors`, with their numbers, errors and values.

    The rows are read again. `unreadable` has the errors and texts of rows that could not be read
    before: they are written too. `on_unreadable` is called for each row that cannot be read now.
    """
    rejected_rows = dict(unreadable)
    try:
        _read(source, errors, rejected_rows, on_unreadable, reads_all=True)
    except EncodeError:
        # A column that the load does not use may be damaged. So only loaded columns are read now.
        _read(source, errors, rejected_rows, on_unreadable, reads_all=False)
    lines = []
    for row, (error, data) in sorted(rejected_rows.items()):
        reason = f"{type(error).__name__}: {error}"
        line = {"row": row, "error": reason, "data": data}
        text = json.dumps(line, default=str, ensure_ascii=False)
        if not _is_unicode(text):
            # UTF-8 cannot encode a lone surrogate. So the line is written with JSON's escapes.
            text = json.dumps(line, default=str)
        lines.append(f"{text}\n")
    replace_file(path, "".join(lines).encode())


def _read(
    source: Source,
    errors: Mapping[int, Any],
    rejected_rows: dict[int, tuple[Any, Any]],
    on_unreadable: OnUnreadable,
    *,
    reads_all: bool,
) -> None:
    """Adds the rows of `errors`, with their errors and values, to `rejected_rows`."""

    def has_no_failures(first: int, count: int) -> bool:
        return not any(first <= row < first + count for row in errors)

    for first, batch in source.batches(has_no_failures, on_unreadable, reads_all=reads_all):
        for row in range(first, first + len(batch)):
            if row not in errors or row in rejected_rows:
                continue
            single_row = batch.slice(row - first, 1)
            columns_and_fields = zip(single_row.columns, single_row.schema, strict=True)
            values = {
                field.name: cells_of(column, field, None)[0] for column, field in columns_and_fields
            }
            rejected_rows[row] = (errors[row], values)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
