"""Splits columns of a program's data into pieces, which the native core encodes and sends."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from .. import _core
from .._checks import class_name
from ..errors import EncodeError
from .arrays import MAX_PIECE_BYTES, Arrow, Numbers, Objects, numpy, refused
from .frames import (
    IsWanted,
    arrow_column,
    check_collected,
    foreign_stream,
    has_objects,
    invalid,
    module_of,
    readable_names,
    series_column,
    with_index,
    without_unwanted,
)
from .no_columns import no_column, no_columns, rows_instead

__all__ = ["Columns", "columns_of", "first_missing", "refused"]

_MAX_PIECE_ROWS = 16_384


class Columns(NamedTuple):
    """The names of the columns, and their rows in pieces. The first piece may have no rows."""

    names: list[str]
    pieces: Iterator[_core.Piece]
    rows: int | None = None
    """The number of rows; `None` if it is not known before the data is read."""


def _all_wanted(name: str) -> bool:
    return True


def columns_of(data: Any, is_wanted: IsWanted = _all_wanted) -> Columns | None:
    """Returns the columns of Arrow data, of a mapping of arrays, of a pandas frame, or of an
    iterable of these; `None` for an iterable without items.

    Columns that `is_wanted` excludes may have any type, and may be missing from the pieces.

    Raises: `TypeError` for other data; `EncodeError` for columns that do not fit together, and for
        a column of a type that cannot be read.
    """
    try:
        return _columns_of(data, is_wanted)
    except StopIteration as error:
        # If the `StopIteration` reached the caller, it would end the caller's iteration without an
        # error.
        raise RuntimeError(f"{class_name(data)} raised StopIteration") from error


def _columns_of(data: Any, is_wanted: IsWanted) -> Columns | None:
    check_collected(data)
    if module_of(data) == "pandas" and hasattr(data, "iloc"):
        return _of_pandas(data, is_wanted)
    if module_of(data) == "polars" and hasattr(data, "columns"):
        names = readable_names(data, is_wanted)
        if has_objects(data):
            return _of_mapping({name: data[name] for name in data.columns}, is_wanted)
        readable = data if len(names) == len(data.columns) else data.select(names)
        return _of_arrow(readable, is_wanted)._replace(names=list(data.columns))
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _of_arrow(data, is_wanted)
    if isinstance(data, Mapping):
        return _of_mapping(data, is_wanted)
    is_text_or_array = isinstance(data, (str, bytes, bytearray)) or module_of(data) == "numpy"
    if isinstance(data, Iterable) and not is_text_or_array:
        columns = _of_items(iter(data), is_wanted)
        if columns is None or not isinstance(data, (list, tuple)):
            return columns
        counts = [_rows_of(item) for item in data]
        known_counts = [count for count in counts if count is not None]
        return columns._replace(
            rows=sum(known_counts) if len(known_counts) == len(counts) else None
        )
    raise no_columns(data)


def _of_arrow(data: Any, is_wanted: IsWanted) -> Columns:
    """The columns of an object with the Arrow PyCapsule interface."""
    if module_of(data) == "pyarrow" and hasattr(data, "schema"):
        readable = without_unwanted(data, is_wanted)
        columns = _of_capsules(readable)
        return columns if readable is data else columns._replace(names=list(data.schema.names))
    try:
        return _of_capsules(data)
    except EncodeError as error:
        names, readable = foreign_stream(data, is_wanted, error)
    return _of_capsules(readable)._replace(names=names)


def _of_capsules(data: Any) -> Columns:
    if hasattr(data, "__arrow_c_stream__"):
        stream = _core.ArrowStream(data.__arrow_c_stream__())
        empty = stream.empty()
        pieces = chain([empty], _with_names(stream, empty.names))
        return Columns(empty.names, pieces, _rows_of(data))
    try:
        piece = _core.Piece.of_array(*data.__arrow_c_array__())
    except EncodeError as error:
        names = data.schema.names if module_of(data) == "pyarrow" else []
        named_error = invalid(error, names)
        if named_error is None:
            raise
        raise named_error from error
    return Columns(piece.names, iter([piece]), len(piece))


def _with_names(stream: Iterator[_core.Piece], names: Sequence[str]) -> Iterator[_core.Piece]:
    """The pieces of a stream. An error for invalid data names the invalid column."""
    while True:
        try:
            piece = next(stream, None)
        except EncodeError as error:
            named_error = invalid(error, names)
            if named_error is None:
                raise
            raise named_error from error
        if piece is None:
            return
        yield piece


def _rows_of(data: Any) -> int | None:
    """The number of rows of a table, a frame or a mapping; `None` if it is not known."""
    if isinstance(data, Mapping):
        counts = {len(values) if hasattr(values, "__len__") else None for values in data.values()}
        return counts.pop() if len(counts) == 1 else None
    is_frame = module_of(data) in ("pyarrow", "polars", "pandas")
    return len(data) if is_frame and hasattr(data, "__len__") else None


def _of_items(items: Iterator[Any], is_wanted: IsWanted) -> Columns | None:
    """The columns of an iterator of record batches, tables or dicts; `None` if it is empty."""
    for item in items:
        if isinstance(item, (list, tuple, str, bytes)):
            raise rows_instead(item)
        first_columns = columns_of(item, is_wanted)
        if first_columns is not None:
            break
    else:
        return None

    def remaining_pieces() -> Iterator[_core.Piece]:
        for item in items:
            columns = columns_of(item, is_wanted)
            if columns is None:
                continue
            if set(columns.names) != set(first_columns.names):
                raise refused(
                    f"a later part of the data has the columns {columns.names}, the first has"
                    f" {first_columns.names}"
                )
            yield from columns.pieces

    return Columns(first_columns.names, chain(first_columns.pieces, remaining_pieces()))


def _of_mapping(data: Mapping[str, Any], is_wanted: IsWanted) -> Columns:
    for name in data:
        if not isinstance(name, str):
            raise TypeError(f"the names of columns must be str, got {name!r}")
    columns = {name: _column(name, values) for name, values in data.items() if is_wanted(name)}
    lengths = {name: len(column) for name, column in columns.items()}
    rows = max(lengths.values(), default=0)
    for name, length in lengths.items():
        if length != rows:
            longest = max(lengths, key=lengths.__getitem__)
            raise refused(f'column "{name}" has {length} rows, and column "{longest}" has {rows}')
    return Columns(list(data), _pieces(columns, rows, 0), rows)


def _pieces(
    columns: Mapping[str, Numbers | Arrow | Objects], rows: int, first_row: int
) -> Iterator[_core.Piece]:
    """Yields pieces of columns of equal length. `first_row` is the number of their first row in the
    data.
    """
    row_bytes = sum(column.row_bytes for column in columns.values())
    max_rows = max(1, min(_MAX_PIECE_ROWS, MAX_PIECE_BYTES // max(1, row_bytes)))
    begin = 0
    # If there are no rows, one piece without rows is yielded, because the types of the columns are
    # needed.
    while begin < rows or not rows:
        count = min(
            [max_rows, rows - begin, *(column.run(begin, max_rows) for column in columns.values())]
        )
        for name, column in columns.items():
            # The program may have changed the length of the column since the rows were counted.
            if len(column) != rows:
                raise refused(
                    f'column "{name}" has changed its length from {rows} to {len(column)}'
                )
        parts = [(name, column.part(begin, count)) for name, column in columns.items()]
        yield _core.Piece.of_columns(first_row + begin, count, parts)
        if not rows:
            return
        begin += count


def _column(name: str, values: Any) -> Numbers | Arrow | Objects:
    """Makes a column from an Arrow array, an array of NumPy or with `__dlpack__`, or a list."""
    if isinstance(values, (list, tuple, range)):
        return Objects(values)
    check_collected(values)
    if module_of(values) == "polars":
        readable_names(values, _all_wanted, name)
        if has_objects(values):
            return Objects(values.to_list())
    if module_of(values) == "pandas":
        pd: Any = importlib.import_module("pandas")
        return series_column(name, values if isinstance(values, pd.Series) else pd.Series(values))
    if module_of(values) != "numpy" and (
        hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")
    ):
        return arrow_column(name, values)
    array = _array(name, values)
    if array.ndim == 0:
        raise refused(f'column "{name}": expected an array of rows, got a single value')
    kind = array.dtype.kind
    if kind in "OT" or (kind in "US" and not array.dtype.itemsize):
        return Objects(array)
    return Numbers(name, array)


def _array(name: str, values: Any) -> Any:
    np = numpy()
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "__dlpack__"):
        try:
            return np.from_dlpack(values)
        except Exception as error:
            raise refused(
                f'column "{name}": {class_name(values)} cannot be read by DLPack as an array'
                f" of the CPU and of a type that NumPy has: {error}"
            ) from error
    if hasattr(values, "__array__"):
        return np.asarray(values)
    raise no_column(name, values)


def _not_a_name(name: object) -> TypeError:
    """The error for a column of a frame whose name is not a str."""
    advice = "frame.columns = frame.columns.map(str)"
    if isinstance(name, tuple):
        advice = 'frame.columns = ["_".join(filter(None, name)) for name in frame.columns]'
    return TypeError(f"the names of columns must be str, got {name!r}: in pandas, {advice}")


def _of_pandas(frame: Any, is_wanted: IsWanted) -> Columns:
    """The columns of a frame. Objects are encoded value by value, other columns as Arrow data."""
    pd: Any = importlib.import_module("pandas")
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"data must be a pandas DataFrame, not {class_name(frame)}: use to_frame()")
    frame = with_index(frame)
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise _not_a_name(name)
        if names.count(name) > 1:
            raise refused(f"the data has two columns {name!r}")
    wanted_names = [name for name in names if is_wanted(name)]

    def pieces() -> Iterator[_core.Piece]:
        for begin in range(0, max(1, len(frame)), _MAX_PIECE_ROWS):
            part = frame.iloc[begin : begin + _MAX_PIECE_ROWS]
            columns = {name: series_column(name, part[name]) for name in wanted_names}
            yield from _pieces(columns, len(part), begin)

    return Columns(names, pieces(), len(frame))


def first_missing(data: Any, names: list[str]) -> tuple[int, str] | None:
    """The first row that lacks a value in one of the columns, with the column's name.

    It is `None` if there is no such row, or if the data cannot be read twice.
    """
    columns, row_offset = _columns_if_rereadable(data, names, names.__contains__), 0
    if columns is None:
        return None
    for piece in columns.pieces:
        row_and_column = piece.first_missing(names)
        if row_and_column is not None:
            return row_offset + row_and_column[0], row_and_column[1]
        row_offset += len(piece)
    return None


def _columns_if_rereadable(data: Any, names: list[str], is_wanted: IsWanted) -> Columns | None:
    if module_of(data) == "pandas" and hasattr(data, "iloc"):
        return _of_pandas(with_index(data)[names], is_wanted)
    if isinstance(data, Mapping):
        columns = {name: data[name] for name in names}
        if not all(map(_column_can_be_read_again, columns.values())):
            return None
        return _of_mapping(columns, is_wanted)
    if _can_be_read_again(data) and module_of(data) in ("pyarrow", "polars"):
        return columns_of(data.select(names))
    # A list may contain streams, which can be read only once.
    if isinstance(data, (list, tuple)) and all(map(_can_be_read_again, data)):
        return _of_items(iter(data), is_wanted)
    return None


def _can_be_read_again(data: Any) -> bool:
    """Whether columns can be read twice: tables, frames and mappings can."""
    is_table = module_of(data) in ("pyarrow", "polars") and hasattr(data, "select")
    is_frame = module_of(data) == "pandas" and hasattr(data, "iloc")
    return is_table or is_frame or isinstance(data, Mapping)


def _column_can_be_read_again(values: Any) -> bool:
    """Whether a column can be read twice.

    If a library other than those named here exports the column as an Arrow stream, the stream may
    be readable only once.
    """
    is_library_column = module_of(values) in ("numpy", "pandas", "polars", "pyarrow")
    return is_library_column or not hasattr(values, "__arrow_c_stream__")
