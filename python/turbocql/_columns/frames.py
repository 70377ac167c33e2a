"""Reads columns of polars, pyarrow, pandas and other libraries, which export some of their types to
Arrow wrongly or not at all.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from .._checks import class_name
from ..errors import ConfigError, EncodeError
from .arrays import Arrow, Objects, refused

__all__ = [
    "IsWanted",
    "arrow_column",
    "check_collected",
    "foreign_stream",
    "has_objects",
    "invalid",
    "module_of",
    "readable_names",
    "series_column",
    "with_index",
    "without_unwanted",
]

IsWanted = Callable[[str], bool]
"""A function that takes the name of a column of the data, and returns whether the column is loaded.
A column that is not loaded may have any type."""
_LEAVE_OUT = "or leave it out with columns="


def module_of(data: Any) -> str:
    """The name of the package that the class of an object belongs to."""
    return type(data).__module__.partition(".")[0]


def check_collected(data: Any) -> None:
    """Raises `TypeError` for a lazy frame of polars, which has no rows before it is collected."""
    if module_of(data) == "polars" and type(data).__name__ == "LazyFrame":
        raise TypeError(
            "a polars LazyFrame is a query that has not run: pass its result, frame.collect()"
        )


def has_objects(data: Any) -> bool:
    """Whether a frame or series of polars has Python objects. Polars exports addresses for them."""
    pl: Any = importlib.import_module("polars")
    return any(dtype == pl.Object for dtype in _dtypes_by_name(data).values())


def _dtypes_by_name(data: Any) -> Mapping[str, Any]:
    pl: Any = importlib.import_module("polars")
    return data.schema if isinstance(data, pl.DataFrame) else {data.name: data.dtype}


def readable_names(data: Any, is_wanted: IsWanted, name: str | None = None) -> list[str]:
    """Returns the names of the columns of a frame or series of polars, without the columns whose
    type Arrow lacks.

    `name` replaces the name of a series.

    Raises: `EncodeError` if Arrow lacks the type of a wanted column.
    """
    names = []
    for own_name, dtype in _dtypes_by_name(data).items():
        column = own_name if name is None else name
        if not _has_128_bits(dtype):
            names.append(column)
        elif is_wanted(column):
            raise refused(
                f'column "{column}": expected a type that Arrow has, got {dtype} of polars: cast it'
                f" to a smaller integer, or to pl.String for a varint, {_LEAVE_OUT}"
            )
    return names


def _has_128_bits(dtype: Any) -> bool:
    """Whether a type of polars is or contains an integer of 128 bits, which Arrow does not have."""
    if type(dtype).__name__ in ("Int128", "UInt128") or str(dtype) in ("Int128", "UInt128"):
        return True
    parts = [field.dtype for field in getattr(dtype, "fields", ())]
    if getattr(dtype, "inner", None) is not None:
        parts.append(dtype.inner)
    return any(map(_has_128_bits, parts))


def without_unwanted(data: Any, is_wanted: IsWanted) -> Any:
    """Removes the unwanted columns from a table or record batch of pyarrow. From a reader of
    pyarrow, removes only the unwanted columns that are unions.

    Raises: `EncodeError` for a wanted column that is a union.
    """
    wanted, without_unions = [], []
    for position, field in enumerate(data.schema):
        is_union = _has_union(field.type)
        if is_wanted(field.name):
            wanted.append(position)
            if is_union:
                raise refused(
                    f'column "{field.name}": there is no CQL type for {field.type}, a union:'
                    f" convert it to another type, {_LEAVE_OUT}"
                )
        if not is_union:
            without_unions.append(position)
    if hasattr(data, "select"):
        return data if len(wanted) == len(data.schema) else data.select(wanted)
    if len(without_unions) == len(data.schema):
        return data
    pa: Any = importlib.import_module("pyarrow")
    schema = pa.schema([data.schema.field(position) for position in without_unions])
    return pa.RecordBatchReader.from_batches(schema, _selected(data, without_unions))


def _selected(reader: Any, positions: list[int]) -> Iterator[Any]:
    return (batch.select(positions) for batch in reader)


def _has_union(arrow_type: Any) -> bool:
    types: Any = importlib.import_module("pyarrow.types")
    if types.is_union(arrow_type):
        return True
    if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type):
        return _has_union(arrow_type.value_type)
    if hasattr(arrow_type, "storage_type"):
        return _has_union(arrow_type.storage_type)
    parts = (arrow_type.field(number) for number in range(arrow_type.num_fields))
    return any(_has_union(part.type) for part in parts)


def foreign_stream(data: Any, is_wanted: IsWanted, error: EncodeError) -> tuple[list[str], Any]:
    """Reads data with pyarrow, because the native core has refused it with `error`.

    Returns the names of all columns, and a reader of pyarrow without the unwanted columns that are
    unions.

    Raises: `EncodeError`. If `error` is not about the type of a column, it is `error` itself. If
        pyarrow cannot read the data, the error does not name the column. If a wanted column is a
        union, the error names this column.
    """
    reason = _reason_of_type(error)
    if reason is None:
        raise error
    try:
        pa: Any = importlib.import_module("pyarrow")
        reader = pa.RecordBatchReader.from_stream(data)
    except Exception:  # pyarrow is missing, or the data cannot be read again
        raise refused(
            f"a column of {class_name(data)} {reason}: convert it to another type, or leave it out"
            " of the data"
        ) from error
    return list(reader.schema.names), without_unwanted(reader, is_wanted)


def _reason_of_type(error: EncodeError) -> str | None:
    """Says why the native core does not read a column; `None` if `error` has another reason."""
    message = str(error)
    if message == "unions are not read":
        return "is a union, for which there is no CQL type"
    match = re.search(r'The datatype "+([^"]+)"+ is still not supported', message)
    return None if match is None else f"has a type that is not read, {match[1]} of Arrow"


def invalid(error: EncodeError, names: Sequence[str]) -> EncodeError | None:
    """The error for a record batch that is not valid Arrow data, with the column's name.

    `names` are the columns of the batch, and `error` is the native core's error. Returns `None` if
    `error` already names the column, or is not about a column.
    """
    match = re.search(r"child #(\d+) invalid: (?:Invalid argument error: )?(.*)", str(error))
    if match is None or int(match[1]) >= len(names):
        return None
    return refused(f'column "{names[int(match[1])]}": expected valid data of Arrow: {match[2]}')


def arrow_column(name: str, values: Any) -> Arrow:
    """A column of an object with the Arrow PyCapsule interface.

    Raises: `EncodeError`, with the column's name, for Arrow data that the native core refuses.
    """
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return Arrow(_core.ArrowColumn.of_stream(values.__arrow_c_stream__()))
        return Arrow(_core.ArrowColumn.of_array(*values.__arrow_c_array__()))
    except EncodeError as error:
        reason = _reason_of_type(error)
        message = f" {reason}: convert it to another type, {_LEAVE_OUT}" if reason else f": {error}"
        raise refused(f'column "{name}"{message}') from error


def series_column(name: str, series: Any) -> Arrow | Objects:
    """A column of pandas. In a column of objects, NaN, `NA` and `NaT` are missing values.

    Raises: `EncodeError`, with the column's name, for a column that pyarrow cannot convert.
    """
    pd: Any = importlib.import_module("pandas")

    def is_missing(value: Any) -> bool:
        is_nan = isinstance(value, float) and value != value
        return is_nan or value is pd.NA or value is pd.NaT

    if series.dtype == object:
        return Objects(series.to_numpy(), is_missing)
    try:
        pa: Any = importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise ConfigError("columns of pandas are read by pyarrow: pip install pyarrow") from error
    try:
        array = pa.Array.from_pandas(series)
    except Exception as error:  # the exception depends on the pandas type
        reason = " ".join(str(error).split()) or type(error).__name__
        raise refused(
            f'column "{name}": expected a type of pandas that pyarrow can convert, got'
            f" {series.dtype}: {reason}. Convert it, such as by astype(object), {_LEAVE_OUT}"
        ) from error
    return arrow_column(name, array)


def with_index(frame: Any) -> Any:
    """Converts the named levels of a frame's index to columns. Other levels are left out.

    Raises: `EncodeError` if a name is used twice.
    """
    index_names = [name for name in frame.index.names if name is not None]
    for name in index_names:
        if name in frame.columns or index_names.count(name) > 1:
            raise refused(f"the frame has two columns {name!r}, one of them in its index")
    return frame.reset_index(level=index_names) if index_names else frame
