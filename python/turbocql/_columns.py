"""Consumers of Arrow streams, and NumPy arrays of batches: for `turbocql.rows`."""

from __future__ import annotations

import datetime
import decimal
import importlib
import re
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import _core, errors
from .columns import Batch, Batches, ColumnTypes
from .types import Date, Time

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "LOSSLESS",
    "Arrays",
    "consumed",
    "gatherer",
    "pandas_frame",
    "polars_frame",
    "pyarrow_table",
]

LOSSLESS = ColumnTypes()


def gatherer(
    first: _core.RawPage, types: ColumnTypes | None, rows_per_batch: int | None
) -> _core.Gatherer:
    """What makes batches of pages with the columns of the first."""
    types = LOSSLESS if types is None else types
    if not isinstance(types, ColumnTypes):
        raise TypeError(f"types must be a ColumnTypes, got {type(types).__name__}")
    if rows_per_batch is not None and (type(rows_per_batch) is not int or rows_per_batch < 1):
        raise errors.ConfigError(f"rows_per_batch must be at least 1, got {rows_per_batch!r}")
    return _core.Gatherer(first, types._profile(), rows_per_batch)


def consumed(batches: Batches, read: Callable[[Any], Any]) -> Any:
    """What a consumer makes of a stream. An error of the driver is raised as it was."""
    try:
        return read(batches)
    except BaseException:
        raised = batches._gatherer.take_raised()
        if raised is not None:
            raise raised from None
        raise


def pyarrow_table(batches: Any) -> Any:
    """A `pyarrow.Table` of a stream, or of a list of batches."""
    pa: Any = importlib.import_module("pyarrow")

    if isinstance(batches, Batches):
        return pa.table(batches)
    given, schema = batches
    return pa.Table.from_batches(map(pa.record_batch, given), pa.schema(schema))


def polars_frame(batches: Any) -> Any:
    """A `polars.DataFrame` of a stream, or of a list of batches."""
    pl: Any = importlib.import_module("polars")

    if isinstance(batches, Batches):
        return pl.DataFrame(batches)
    given, schema = batches
    empty = pl.DataFrame(_Empty(schema))
    return pl.concat([empty, *map(pl.DataFrame, given)])


class _Empty:
    """A stream of no batches."""

    def __init__(self, schema: _core.Gatherer) -> None:
        self._schema = schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._schema.stream(self)

    def next_page(self) -> None:
        """There is none."""


def _day(days: int) -> Any:
    """A date as rows have it."""
    try:
        return datetime.date.fromordinal(_EPOCH + days)
    except (ValueError, OverflowError):
        return Date(days)


_EPOCH = datetime.date(1970, 1, 1).toordinal()
_OBJECTS: dict[str, Callable[[Any], Any]] = {
    "decimal": decimal.Decimal,
    "varint": int,
    "uuid": lambda value: uuid.UUID(bytes=value),
    "timeuuid": lambda value: uuid.UUID(bytes=value),
    "time": Time,
    "date": _day,
}


def pandas_frame(table: Any, types: ColumnTypes | None) -> Any:
    """A `pandas.DataFrame`, with objects of Python where pandas has no type that loses nothing."""
    types = LOSSLESS if types is None else types
    usual = {
        "decimal": types.decimal == "text",
        "varint": types.varint == "text",
        "uuid": types.uuid == "uuid",
        "timeuuid": types.uuid == "uuid",
        "time": types.time == "time64",
        "date": True,
    }
    objects: dict[int, list[Any]] = {}
    for place, field in enumerate(table.schema):
        kind = (field.metadata or {}).get(b"cql_type", b"").decode()
        column = table.column(place)
        if not usual.get(kind):
            # pandas refuses UUIDs within other types.
            if "arrow.uuid" in str(field.type):
                objects[place] = column.to_pylist()
                table = table.set_column(place, field.name, column.is_null())
            continue
        if kind in ("time", "date"):
            column = column.cast("int64" if kind == "time" else "int32")
        chunks = [getattr(chunk, "storage", chunk).to_pylist() for chunk in column.chunks]
        make = _OBJECTS[kind]
        objects[place] = [None if one is None else make(one) for chunk in chunks for one in chunk]
        # Objects take its place.
        table = table.set_column(place, field.name, column.is_null())
    frame = table.to_pandas()
    for place, values in objects.items():
        frame.isetitem(place, _object_array(values))
    return frame


def _object_array(values: list[Any]) -> Any:
    np = _numpy()
    made = np.empty(len(values), object)
    made[:] = values
    return made


def _numpy() -> ModuleType:
    import numpy as np

    return np


_DTYPES = {
    **{"tinyint": "i1", "smallint": "<i2", "int": "<i4", "bigint": "<i8", "counter": "<i8"},
    **{"float": "<f4", "double": "<f8", "boolean": "?"},
    **{"timestamp": "<M8[ms]", "time": "<m8[ns]", "date": "<i4"},
}
_VECTOR = re.compile(r"vector<(\w+), (\d+)>")


class Arrays:
    """The columns of a result as NumPy arrays, batch by batch."""

    def __init__(self, columns: Iterable[tuple[str, str, str, str]]) -> None:
        self._names = [column[2] for column in columns]
        doubled = [name for name in self._names if self._names.count(name) > 1]
        if doubled:
            raise errors.Error(
                f"two columns are called {doubled[0]!r}: a dict has one of each name"
            )
        self._types = [column[3] for column in columns]
        self._parts: list[list[Any]] = [[] for _ in self._names]
        self._flags: list[list[Any]] = [[] for _ in self._names]

    @property
    def needs_objects(self) -> bool:
        """Whether a column is not numbers."""
        return any(self._dtype(cql_type) is None for cql_type in self._types)

    @staticmethod
    def _dtype(cql_type: str) -> tuple[str, int | None] | None:
        found = _VECTOR.fullmatch(cql_type)
        if found and found[1] in _DTYPES and found[1] not in ("boolean", "time", "date"):
            return _DTYPES[found[1]], int(found[2])
        return (_DTYPES[cql_type], None) if cql_type in _DTYPES else None

    def add(self, batch: Batch, rows: list[tuple[Any, ...]]) -> None:
        """Appends a batch; `rows` are its rows, where some column is not numbers."""
        np = _numpy()
        for place, cql_type in enumerate(self._types):
            dtype = self._dtype(cql_type)
            found = None if dtype is None else batch.numbers(place)
            if dtype is None or found is None:
                self._parts[place].append(_object_array([row[place] for row in rows]))
                self._flags[place].append(None)
                continue
            numbers, flags = found
            array = np.frombuffer(numbers, dtype[0])
            if dtype[1] is not None:
                array = array.reshape(len(batch), dtype[1])
            elif cql_type == "date":
                array = array.astype("<i8").view("<M8[D]")
            valid = None if flags is None else np.frombuffer(flags, "?")
            self._parts[place].append(array)
            self._flags[place].append(valid)

    def made(self) -> dict[str, Any]:
        """The arrays; masked where there are nulls."""
        return {name: self._whole(place) for place, name in enumerate(self._names)}

    def _whole(self, place: int) -> Any:
        np = _numpy()
        parts, flags = self._parts[place], self._flags[place]
        if not parts:
            dtype = self._dtype(self._types[place])
            if dtype is None:
                return np.empty(0, object)
            kind = "<M8[D]" if self._types[place] == "date" else dtype[0]
            return np.empty(0 if dtype[1] is None else (0, dtype[1]), kind)
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if all(valid is None for valid in flags):
            return whole
        valid = np.concatenate(
            [np.ones(len(p), "?") if v is None else v for p, v in zip(parts, flags, strict=True)]
        )
        mask = np.broadcast_to(~valid[:, None], whole.shape) if whole.ndim == 2 else ~valid
        return np.ma.MaskedArray(whole, mask)
