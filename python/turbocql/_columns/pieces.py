"""Splits columns of a program's data into pieces that the native core writes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _core, errors
from .no_columns import class_name, no_column, no_columns, rows_instead

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Columns", "columns_of", "first_missing", "refused"]

_MAX_PIECE_ROWS = 16_384
_MAX_PIECE_BYTES = 4 << 20
"""The maximum size of a piece. Arrays are copied piece by piece, so that no array is in memory
twice."""

_UNITS = ("D", "s", "ms", "us", "ns")


class Columns(NamedTuple):
    """The names of the columns, and their rows in pieces. The first piece may have no rows."""

    names: list[str]
    pieces: Iterator[_core.Piece]
    rows: int | None = None
    """The number of rows; `None` if it is not known before the data is read."""


def refused(reason: str) -> errors.EncodeError:
    """An `EncodeError` for data that does not fit. The caller raises it."""
    error: errors.EncodeError = errors.from_codec("encode", reason, "", "columns")  # type: ignore[assignment]
    return error


def columns_of(data: Any) -> Columns | None:
    """The columns of Arrow data, of a mapping of arrays, of a pandas frame, or of an iterable of
    these. It is `None` for an iterable without items.

    Raises: `TypeError` for other data; `EncodeError` for columns that do not fit together.
    """
    try:
        return _columns_of(data)
    except StopIteration as error:
        # A `StopIteration` would end the caller's iteration without an error.
        raise RuntimeError(f"{class_name(data)} raised StopIteration") from error


def _columns_of(data: Any) -> Columns | None:
    if _module(data) == "pandas" and hasattr(data, "iloc"):
        return _of_pandas(data)
    if _module(data) == "polars" and hasattr(data, "columns") and _has_objects(data):
        return _of_mapping({name: data[name] for name in data.columns})
    if hasattr(data, "__arrow_c_stream__"):
        stream = _core.ArrowStream(data.__arrow_c_stream__())
        empty = stream.empty()
        return Columns(empty.names, chain([empty], stream), _rows_of(data))
    if hasattr(data, "__arrow_c_array__"):
        piece = _core.Piece.of_array(*data.__arrow_c_array__())
        return Columns(piece.names, iter([piece]), len(piece))
    if isinstance(data, Mapping):
        return _of_mapping(data)
    is_text_or_array = isinstance(data, (str, bytes, bytearray)) or _module(data) == "numpy"
    if isinstance(data, Iterable) and not is_text_or_array:
        columns = _of_items(iter(data))
        if columns is None or not isinstance(data, (list, tuple)):
            return columns
        counts = [_rows_of(item) for item in data]
        known_counts = [count for count in counts if count is not None]
        return columns._replace(
            rows=sum(known_counts) if len(known_counts) == len(counts) else None
        )
    raise no_columns(data)


def _module(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def _rows_of(data: Any) -> int | None:
    """The number of rows of a table, a frame or a mapping; `None` if it is not known."""
    if isinstance(data, Mapping):
        counts = {len(values) if hasattr(values, "__len__") else None for values in data.values()}
        return counts.pop() if len(counts) == 1 else None
    is_frame = _module(data) in ("pyarrow", "polars", "pandas")
    return len(data) if is_frame and hasattr(data, "__len__") else None


def _has_objects(data: Any) -> bool:
    """Whether a frame or series of polars has Python objects, exported to Arrow as addresses."""
    pl: Any = importlib.import_module("polars")
    dtypes = data.schema.values() if isinstance(data, pl.DataFrame) else [data.dtype]
    return any(dtype == pl.Object for dtype in dtypes)


def _of_items(items: Iterator[Any]) -> Columns | None:
    """The columns of an iterator of record batches, tables or dicts; `None` if it is empty."""
    for item in items:
        if isinstance(item, (list, tuple, str, bytes)):
            raise rows_instead(item)
        first_columns = columns_of(item)
        if first_columns is not None:
            break
    else:
        return None

    def remaining_pieces() -> Iterator[_core.Piece]:
        for item in items:
            columns = columns_of(item)
            if columns is None:
                continue
            if set(columns.names) != set(first_columns.names):
                raise refused(
                    f"a later part of the data has the columns {columns.names}, the first has"
                    f" {first_columns.names}"
                )
            yield from columns.pieces

    return Columns(first_columns.names, chain(first_columns.pieces, remaining_pieces()))


def _of_mapping(data: Mapping[str, Any]) -> Columns:
    for name in data:
        if not isinstance(name, str):
            raise TypeError(f"the names of columns must be str, got {name!r}")
    columns = {name: _column(name, values) for name, values in data.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    rows = max(lengths.values(), default=0)
    for name, length in lengths.items():
        if length != rows:
            longest = max(lengths, key=lengths.__getitem__)
            raise refused(f'column "{name}" has {length} rows, and column "{longest}" has {rows}')
    return Columns(list(columns), _pieces(columns, rows, 0), rows)


def _pieces(
    columns: Mapping[str, _Numbers | _Arrow | _Objects], rows: int, first_row: int
) -> Iterator[_core.Piece]:
    """Pieces of columns of equal length. `first_row` is the position in the data of their row 0."""
    row_bytes = sum(column.row_bytes for column in columns.values())
    max_rows = max(1, min(_MAX_PIECE_ROWS, _MAX_PIECE_BYTES // max(1, row_bytes)))
    begin = 0
    while begin < rows or not rows:
        count = min(
            [max_rows, rows - begin, *(column.run(begin, max_rows) for column in columns.values())]
        )
        for name, column in columns.items():
            # Another thread, or a producer, may have changed the column.
            if len(column) != rows:
                raise refused(
                    f'column "{name}" has changed its length from {rows} to {len(column)}'
                )
        parts = [(name, column.part(begin, count)) for name, column in columns.items()]
        yield _core.Piece.of_columns(first_row + begin, count, parts)
        if not rows:
            return
        begin += count


def _column(name: str, values: Any) -> _Numbers | _Arrow | _Objects:
    """A column: an array of NumPy or with `__dlpack__`, an Arrow array, or a list of objects."""
    if isinstance(values, (list, tuple, range)):
        return _Objects(values)
    if _module(values) == "polars" and _has_objects(values):
        return _Objects(values.to_list())
    if _module(values) == "pandas":
        pd: Any = importlib.import_module("pandas")
        return _of_series(values if isinstance(values, pd.Series) else pd.Series(values))
    if _module(values) != "numpy":
        if hasattr(values, "__arrow_c_stream__"):
            return _Arrow(_core.ArrowColumn.of_stream(values.__arrow_c_stream__()))
        if hasattr(values, "__arrow_c_array__"):
            return _Arrow(_core.ArrowColumn.of_array(*values.__arrow_c_array__()))
    array = _array(name, values)
    if array.ndim == 0:
        raise refused(f'column "{name}": expected an array of rows, got a single value')
    kind = array.dtype.kind
    if kind in "OT" or (kind in "US" and not array.dtype.itemsize):
        return _Objects(array)
    return _Numbers(name, array)


def _array(name: str, values: Any) -> Any:
    np = _numpy()
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


def _numpy() -> ModuleType:
    import numpy as np

    return np


class _Arrow:
    """A column from an Arrow producer. It is not copied."""

    row_bytes = 0

    def __init__(self, column: _core.ArrowColumn) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def run(self, begin: int, max_rows: int) -> int:
        return self._column.run(begin)

    def part(self, begin: int, count: int) -> tuple[_core.ArrowColumn, int]:
        return self._column, begin


class _Objects:
    """A column of Python objects, which are encoded as the values of rows are."""

    row_bytes = _MAX_PIECE_BYTES // 512
    """This size limits a piece to 512 rows: objects are encoded while the GIL is held, on event
    loops too."""

    def __init__(self, values: Any, is_missing: Callable[[Any], bool] | None = None) -> None:
        self._values, self._is_missing = values, is_missing

    def __len__(self) -> int:
        return len(self._values)

    def run(self, begin: int, max_rows: int) -> int:
        count = max(0, min(max_rows, len(self) - begin))
        # Texts, bytes and lists are limited to `_MAX_PIECE_BYTES` by their lengths.
        while count > 1:
            try:
                size = sum(map(len, self._values[begin : begin + count]))
            except TypeError:
                break
            if size <= _MAX_PIECE_BYTES:
                break
            count //= 2
        return count

    def part(self, begin: int, count: int) -> list[Any]:
        part = self._values[begin : begin + count]
        values = part.tolist() if hasattr(part, "tolist") else list(part)
        if self._is_missing is None:
            return values
        return [None if self._is_missing(value) else value for value in values]


class _Numbers:
    """An array of numbers, times or texts of fixed width. A row is a single value or a vector."""

    def __init__(self, name: str, array: Any) -> None:
        np = _numpy()
        self._name = name
        self._mask = None
        if isinstance(array, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(array)
            self._mask = mask if mask.any() else None
            array = np.ma.getdata(array)
        self._kind, self._array = self._typed_array(array)
        self.row_bytes = self._array.dtype.itemsize * max(1, int(np.prod(array.shape[1:])))

    def _typed_array(self, array: Any) -> tuple[str, Any]:
        """The core's name for the array's type, and the array converted to that type.

        Raises: `EncodeError` for a dtype that no CQL type takes.
        """
        dtype = array.dtype
        if dtype.kind in "mM":
            unit, count = _numpy().datetime_data(dtype)
            if unit in ("h", "m") or (unit in ("s", "ms", "us", "ns") and count != 1):
                array = self._rescaled(array, unit, count)
                unit = "s" if unit in "hm" else unit
            elif unit not in _UNITS or count != 1 or (dtype.kind, unit) == ("m", "D"):
                raise self._unsupported_dtype(dtype)
            return f"{dtype.kind}8[{unit}]", array
        if dtype.kind in "US":
            return f"{dtype.kind}{dtype.itemsize // (4 if dtype.kind == 'U' else 1)}", array
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise self._unsupported_dtype(dtype)
        return f"{dtype.kind}{dtype.itemsize}", array

    def _rescaled(self, array: Any, unit: str, count: int) -> Any:
        """Converts hours and minutes to seconds, and multiples of any other unit to this unit.

        Raises: `EncodeError` if a converted time has more than 64 bits.
        """
        np = _numpy()
        factor = count * {"h": 3600, "m": 60}.get(unit, 1)
        numbers = array.astype(array.dtype.newbyteorder("="), copy=False).view("i8")
        max_count = (2**63 - 1) // factor
        # NumPy's multiplication would overflow silently. The smallest int64 is "not a time".
        out_of_range_mask = (numbers > max_count) | ((numbers < -max_count) & (numbers != -(2**63)))
        if out_of_range_mask.any():
            row = int(np.argwhere(out_of_range_mask)[0][0])
            raise refused(f'column "{self._name}", row {row}: a time beyond 64 bits of seconds')
        return array.astype(f"{array.dtype.kind}8[{'s' if unit in 'hm' else unit}]")

    def _unsupported_dtype(self, dtype: Any) -> errors.EncodeError:
        return refused(f'column "{self._name}": no CQL type takes arrays of {dtype}')

    def __len__(self) -> int:
        return len(self._array)

    def run(self, begin: int, max_rows: int) -> int:
        return max(0, len(self) - begin)

    def part(self, begin: int, count: int) -> tuple[str, list[int], Any, list[bool] | None]:
        np = _numpy()
        part = self._array[begin : begin + count]
        # NumPy copies the part only if it is not contiguous or not little-endian.
        part = np.ascontiguousarray(part, part.dtype.newbyteorder("<"))
        data = part.reshape(-1).view("u1")
        return self._kind, list(self._array.shape[1:]), data, self._valid(begin, count)

    def _valid(self, begin: int, count: int) -> list[bool] | None:
        if self._mask is None:
            return None
        mask = self._mask[begin : begin + count].reshape(count, -1)
        any_masked, all_masked = mask.any(axis=1), mask.all(axis=1)
        partly_masked_rows = _numpy().flatnonzero(any_masked & ~all_masked)
        if len(partly_masked_rows):
            row = begin + partly_masked_rows[0]
            raise refused(f'column "{self._name}", row {row}: a part of the vector is masked')
        valid: list[bool] = (~any_masked).tolist()
        return valid


def _of_pandas(frame: Any) -> Columns:
    """The columns of a frame. Columns of objects are encoded by value, other columns by Arrow."""
    pd: Any = importlib.import_module("pandas")
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"data must be a pandas DataFrame, not {class_name(frame)}: use to_frame()")
    frame = _with_index(frame)
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the names of columns must be str, got {name!r}")
        if names.count(name) > 1:
            raise refused(f"the data has two columns {name!r}")

    def pieces() -> Iterator[_core.Piece]:
        for begin in range(0, max(1, len(frame)), _MAX_PIECE_ROWS):
            part = frame.iloc[begin : begin + _MAX_PIECE_ROWS]
            columns = {name: _of_series(part[name]) for name in names}
            yield from _pieces(columns, len(part), begin)

    return Columns(names, pieces(), len(frame))


def _of_series(series: Any) -> _Arrow | _Objects:
    """A column of a frame. In a column of objects, NaN, `NA` and `NaT` are missing values."""
    pd: Any = importlib.import_module("pandas")

    def is_missing(value: Any) -> bool:
        is_nan = isinstance(value, float) and value != value
        return is_nan or value is pd.NA or value is pd.NaT

    if series.dtype == object:
        return _Objects(series.to_numpy(), is_missing)
    pa: Any = importlib.import_module("pyarrow")
    array = pa.Array.from_pandas(series)
    if isinstance(array, pa.ChunkedArray):
        return _Arrow(_core.ArrowColumn.of_stream(array.__arrow_c_stream__()))
    return _Arrow(_core.ArrowColumn.of_array(*array.__arrow_c_array__()))


def _with_index(frame: Any) -> Any:
    """Converts the named levels of a frame's index to columns. Other levels are left out.

    Raises: `EncodeError` if a name is used twice.
    """
    index_names = [name for name in frame.index.names if name is not None]
    for name in index_names:
        if name in frame.columns or index_names.count(name) > 1:
            raise refused(f"the frame has two columns {name!r}, one of them in its index")
    return frame.reset_index(level=index_names) if index_names else frame


def first_missing(data: Any, names: list[str]) -> tuple[int, str] | None:
    """The first row that lacks a value in one of the columns, with the column's name.

    It is `None` if there is no such row, or if the data cannot be read twice.
    """
    columns, row_offset = _columns_if_rereadable(data, names), 0
    if columns is None:
        return None
    for piece in columns.pieces:
        row_and_column = piece.first_missing(names)
        if row_and_column is not None:
            return row_offset + row_and_column[0], row_and_column[1]
        row_offset += len(piece)
    return None


def _columns_if_rereadable(data: Any, names: list[str]) -> Columns | None:
    if _module(data) == "pandas" and hasattr(data, "iloc"):
        return _of_pandas(_with_index(data)[names])
    if isinstance(data, Mapping):
        columns = {name: data[name] for name in names}
        return (
            _of_mapping(columns) if all(map(_column_can_be_read_again, columns.values())) else None
        )
    if _can_be_read_again(data) and _module(data) in ("pyarrow", "polars"):
        return columns_of(data.select(names))
    # A list may contain streams, which can be read only once.
    if isinstance(data, (list, tuple)) and all(map(_can_be_read_again, data)):
        return _of_items(iter(data))
    return None


def _can_be_read_again(data: Any) -> bool:
    """Whether columns can be read twice: tables, frames and mappings can."""
    is_table = _module(data) in ("pyarrow", "polars") and hasattr(data, "select")
    is_frame = _module(data) == "pandas" and hasattr(data, "iloc")
    return is_table or is_frame or isinstance(data, Mapping)


def _column_can_be_read_again(values: Any) -> bool:
    """Whether a column can be read twice. A stream of an unknown library cannot."""
    is_library_column = _module(values) in ("numpy", "pandas", "polars", "pyarrow")
    return is_library_column or not hasattr(values, "__arrow_c_stream__")
