"""Adds the file, the line and the value to the errors of rows that the native core refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .._files.reasons import shown
from .._files.source import Source
from ..bulk import BulkFailure
from ..errors import CodecError, EncodeError, InvalidQuery

__all__ = ["locate_failures", "name_setting", "naming_settings", "show_values"]

_MAX_LOCATED = 1000
"""The maximum number of a load's failures whose errors name the file. Such an error also names the
line or the row."""
_MAX_SHOWN = 10
"""The maximum number of a load's failures whose errors also have the value and, for a text file,
the line. To find these, the load reads its files again."""
_STATEMENT = "; statement: "


def name_setting(error: BaseException, settings: Mapping[str, Any]) -> None:
    """Puts the name of the data's column into an error about a TTL or a write time. The name
    replaces `[ttl]` or `[timestamp]`, which are the server's names of the bind markers.

    `settings` maps `[ttl]` and `[timestamp]` to the name of the column that has the TTLs or write
    times. If no column has them, the value is not a str.
    """
    for marker, name in settings.items():
        if isinstance(name, str) and isinstance(error, CodecError):
            pair = f'column "{marker}"', f'column "{name}"'
            error.args = (str(error).replace(*pair, 1),)
            error.path = error.path.replace(*pair, 1)


@contextmanager
def naming_settings(settings: Mapping[str, Any]) -> Iterator[None]:
    """Applies `name_setting` to an error that is raised in the `with` block."""
    try:
        yield
    except CodecError as error:
        name_setting(error, settings)
        raise


def locate_failures(
    source: Source,
    failures: Sequence[BulkFailure],
    pairs: Mapping[str, str],
    *,
    shows_values: bool,
) -> None:
    """Adds the file, the row and the value to the errors of rows that do not fit their columns.

    `pairs` maps columns of the table to columns of the data. The first 1000 errors get the file and
    the row or line. The first 10 errors also get the value, if `shows_values` is true. To find the
    values, the files are read again, so the errors get no values if the files are large.
    """
    refusals = (EncodeError, InvalidQuery)
    unfit = [failure for failure in failures if isinstance(failure.error, refusals)]
    shown_count = _MAX_SHOWN if source.is_quick_to_read_again else 0
    shown_rows = [failure.row for failure in unfit[:shown_count]] if shows_values else []
    values_by_row = _values(source, shown_rows)
    for number, failure in enumerate(unfit[:_MAX_LOCATED]):
        location = source.location(failure.row, finds_line=number < shown_count)
        message, mark, statement = str(failure.error).partition(_STATEMENT)
        if location is None or message.startswith(location[0]):
            continue
        separator = ": "
        if isinstance(failure.error, EncodeError):
            separator = ", "
            value = values_by_row.get(failure.row, {}).get(_column(failure.error, pairs))
            if value is not None:
                message += f"; the value is {_shown(value)}"
        failure.error.args = (f"{': '.join(location)}{separator}{message}{mark}{statement}",)


def show_values(data: Any, failures: Sequence[BulkFailure], pairs: Mapping[str, str]) -> None:
    """Adds values to the errors of the first 10 rows that do not fit, if the data is a table, a
    frame or a dict of arrays. Errors about Python objects have the value already.
    """
    unfit = [failure for failure in failures if isinstance(failure.error, EncodeError)]
    for failure in unfit[:_MAX_SHOWN]:
        message, mark, statement = str(failure.error).partition(_STATEMENT)
        if not re.search(r", got (an?|nanoseconds) ", message):
            continue
        try:
            value = _cell(data, _column(failure.error, pairs), failure.row)
        except Exception:  # the data is of another kind, or has no such row any more
            continue
        if value is not None:
            text = f"{message}; the value is {_shown(value)}{mark}{statement}"
            failure.error.args = (text,)


def _cell(data: Any, column: str, row: int) -> Any:
    """The value in a column and a row of a table, a frame or a dict of arrays."""
    values = data[column]
    value = values.iloc[row] if hasattr(values, "iloc") else values[row]
    return value.as_py() if hasattr(value, "as_py") else value


def _column(error: Any, pairs: Mapping[str, str]) -> str:
    """The data's column that an error is about; empty if the error names none."""
    path: str = error.path
    for target, name in pairs.items():
        if path == f'column "{target}"' or path.startswith(f'column "{target}"['):
            return name
    return path.removeprefix('column "').removesuffix('"')


def _shown(value: Any) -> str:
    if isinstance(value, str):
        # The `repr` of NumPy's class for texts is `np.str_('text')`.
        return shown(str(value))
    if isinstance(value, (bytes, list, dict, tuple)):
        return shown(value)
    # The text of a number, a time or a UUID is plainer than its `repr`.
    return str(value)


def _values(source: Source, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Returns the values of `rows` by row and column.

    Returns no values if the files cannot be read again.
    """
    values: dict[int, dict[str, Any]] = {}

    def has_no_row(first: int, count: int) -> bool:
        return not any(first <= row < first + count for row in rows)

    if not rows:
        return values
    try:
        for first, batch in source.batches(has_no_row, lambda row, error, raw: None):
            for row in rows:
                if first <= row < first + len(batch):
                    values[row] = _values_of_row(batch, row - first)
            if len(values) == len(set(rows)):
                break
    except (EncodeError, OSError):
        pass
    return values


def _values_of_row(batch: Any, position: int) -> dict[str, Any]:
    values = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            values[name] = column[position].as_py()
        except Exception:  # pyarrow cannot show some values, such as times with nanoseconds
            values[name] = None
    return values
