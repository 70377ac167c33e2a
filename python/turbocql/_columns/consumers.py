"""Consumers of Arrow streams, and NumPy arrays of batches: for `turbocql.rows`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .. import _core, errors
from ..columns import Batch, Batches, ColumnTypes

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "LOSSLESS",
    "Arrays",
    "Frame",
    "consumed",
    "for_polars",
    "gatherer",
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
    most = 2**31 - 1
    if rows_per_batch is not None and (
        type(rows_per_batch) is not int or not 1 <= rows_per_batch <= most
    ):
        raise errors.ConfigError(
            f"rows_per_batch must be from 1 to {most:,}, got {rows_per_batch!r}"
        )
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


def for_polars(types: ColumnTypes | None) -> ColumnTypes | None:
    """The same types, unless polars has none of them."""
    if isinstance(types, ColumnTypes) and types.duration == "interval":
        raise errors.ConfigError("polars has no intervals: leave duration='struct'")
    return types


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
        return self._schema.stream(self, True)

    def next_page(self) -> None:
        """There is none."""


def _object_array(values: list[Any]) -> Any:
    made = _numpy().empty(len(values), object)
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
_VECTOR = re.compile(r"vector<(tinyint|smallint|int|bigint|float|double|timestamp), (\d+)>")


def _dtype(cql_type: str) -> tuple[str, int | None] | None:
    """The type of a column's array, and the dimension of its vectors; None for objects."""
    found = _VECTOR.fullmatch(cql_type)
    if found:
        return _DTYPES[found[1]], int(found[2])
    return (_DTYPES[cql_type], None) if cql_type in _DTYPES else None


class _Array:
    """A column of a result as a NumPy array, batch by batch."""

    def __init__(self, place: int, cql_type: str) -> None:
        self._place, self._cql_type = place, cql_type
        self._parts: list[Any] = []
        self._valid: list[Any] = []

    def add(self, batch: Batch, rows: Callable[[], list[tuple[Any, ...]]]) -> None:
        """Appends a batch. `rows` gives its rows, for a column that is not numbers."""
        np, place, dtype = _numpy(), self._place, _dtype(self._cql_type)
        found = None if dtype is None else batch.numbers(place)
        if dtype is None or found is None:
            self._parts.append(_object_array([row[place] for row in rows()]))
            self._valid.append(None)
            return
        numbers, flags = found
        array = np.frombuffer(numbers, dtype[0])
        if dtype[1] is not None:
            array = array.reshape(len(batch), dtype[1])
        elif self._cql_type == "date":
            array = array.astype("<i8").view("<M8[D]")
        self._parts.append(array)
        self._valid.append(None if flags is None else np.frombuffer(flags, "?"))

    def made(self) -> Any:
        """The array; a masked one if there are nulls."""
        np, dtype = _numpy(), _dtype(self._cql_type)
        if not self._parts:
            if dtype is None:
                return np.empty(0, object)
            kind = "<M8[D]" if self._cql_type == "date" else dtype[0]
            return np.empty(0 if dtype[1] is None else (0, dtype[1]), kind)
        whole = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        if all(valid is None for valid in self._valid):
            return whole
        valid = np.concatenate(
            [
                np.ones(len(part), "?") if valid is None else valid
                for part, valid in zip(self._parts, self._valid, strict=True)
            ]
        )
        mask = np.repeat(~valid[:, None], whole.shape[1], 1) if whole.ndim == 2 else ~valid
        return np.ma.MaskedArray(whole, mask)

    def objects(self) -> Any:
        """An array of objects: of vectors an array each."""
        made = self.made()
        if made.dtype == object and made.ndim == 1:
            return made
        mask = _numpy().ma.getmaskarray(made)
        nulls = mask.any(axis=1) if made.ndim == 2 else mask
        values = _numpy().ma.getdata(made)
        return _object_array(
            [None if null else value for value, null in zip(values, nulls, strict=True)]
        )


class Arrays:
    """The columns of a result as NumPy arrays."""

    def __init__(self, first: _core.RawPage, columns: Iterable[tuple[str, str, str, str]]) -> None:
        self._names = [column[2] for column in columns]
        doubled = [name for name in self._names if self._names.count(name) > 1]
        if doubled:
            raise errors.Error(
                f"two columns are called {doubled[0]!r}: a dict has one of each name"
            )
        self._types = [column[3] for column in columns]
        self._arrays = _core.PageArrays(first)
        read = self._arrays.places()
        self._objects: dict[int, list[Any]] = {
            place: [] for place in range(len(self._names)) if place not in read
        }

    def add(self, page: _core.RawPage, rows: Callable[[], list[tuple[Any, ...]]]) -> None:
        """Appends a page; `rows` decodes it."""
        self._arrays.append(page)
        if self._objects:
            decoded = rows()
            for place, objects in self._objects.items():
                objects += [row[place] for row in decoded]

    def made(self) -> dict[str, Any]:
        """The arrays, by column."""
        return {name: self._array(place) for place, name in enumerate(self._names)}

    def _array(self, place: int) -> Any:
        np, dtype = _numpy(), _dtype(self._types[place])
        if place in self._objects:
            return _object_array(self._objects[place])
        taken = self._arrays.take(place)
        if isinstance(taken, list):
            return np.fromiter(taken, object, len(taken))
        numbers, flags = taken
        kind, dimension = dtype or ("", None)
        array = np.frombuffer(numbers, "<M8[D]" if self._types[place] == "date" else kind)
        if dimension is not None:
            array = array.reshape(-1, dimension)
        if flags is None:
            return array
        mask = np.frombuffer(flags, "?")
        return np.ma.MaskedArray(
            array, mask if dimension is None else mask[:, None].repeat(dimension, 1)
        )


def _batches_of(
    gatherer: _core.Gatherer,
    page: _core.RawPage,
    rows: Callable[[], list[tuple[Any, ...]]],
) -> Iterable[tuple[Batch, Callable[[], list[tuple[Any, ...]]]]]:
    """The batches of a page, and what gives the rows of each, decoded once."""
    last: Batch | None
    batches = gatherer.append(page)
    last = gatherer.finish()
    batches += [] if last is None else [last]
    decoded: list[list[tuple[Any, ...]]] = []
    begin = 0
    for batch in batches:

        def of_batch(begin: int = begin, end: int = begin + len(batch)) -> list[tuple[Any, ...]]:
            if not decoded:
                decoded.append(rows())
            return decoded[0][begin:end]

        yield batch, of_batch
        begin += len(batch)


_PLAIN = {"ascii", "text", "blob", "boolean", "timestamp", "float", "double"}
_INTS = {
    **{"tinyint": "Int8", "smallint": "Int16", "int": "Int32"},
    **{"bigint": "Int64", "counter": "Int64"},
}
"""The types of pandas in which a null is no number."""


class Frame:
    """The columns of a result as a pandas frame: numbers and texts by Arrow, other values as rows
    have them.
    """

    def __init__(
        self,
        first: _core.RawPage,
        columns: Iterable[tuple[str, str, str, str]],
        types: ColumnTypes | None,
    ) -> None:
        types = LOSSLESS if types is None else types
        self._gatherer = gatherer(first, types, None)
        self._batches: list[Batch] = []
        narrowed = {
            "decimal": types.decimal != "text",
            "varint": types.varint != "text",
            "duration": types.duration != "struct",
            "uuid": types.uuid != "uuid",
            "timeuuid": types.uuid != "uuid",
            "time": types.time != "time64",
        }
        self._types = [column[3] for column in columns]
        self._objects = [
            _Array(place, "" if _dtype(kind) and kind in ("time", "date") else kind)
            for place, kind in enumerate(self._types)
            if kind not in _PLAIN and kind not in _INTS and not narrowed.get(kind)
        ]

    def add(self, page: _core.RawPage, rows: Callable[[], list[tuple[Any, ...]]]) -> None:
        """Appends a page; `rows` decodes it."""
        for batch, of_batch in _batches_of(self._gatherer, page, rows):
            self._batches.append(batch)
            for array in self._objects:
                array.add(batch, of_batch)

    def made(self) -> Any:
        """The frame."""
        pa: Any = importlib.import_module("pyarrow")
        pd: Any = importlib.import_module("pandas")
        table = pyarrow_table((self._batches, self._gatherer))
        for array in self._objects:
            # Objects take its place.
            field, column = table.field(array._place), table.column(array._place)
            table = table.set_column(array._place, field.name, pa.nulls(len(column), pa.bool_()))
        frame = table.to_pandas()
        for array in self._objects:
            frame.isetitem(array._place, array.objects())
        for place, kind in enumerate(self._types):
            column = table.column(place)
            if kind in _INTS and column.null_count:
                frame.isetitem(place, pd.array(column.to_pylist(), dtype=_INTS[kind]))
        return frame
