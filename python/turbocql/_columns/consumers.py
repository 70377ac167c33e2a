"""Converts the pages of results to objects of pyarrow, polars, pandas and NumPy, for the modules
`turbocql.rows` and `turbocql.bulk`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import _core, errors
from ..columns import Batch, Batches, ColumnTypes
from .packages import needed

__all__ = [
    "LOSSLESS",
    "Arrays",
    "Frame",
    "check_same_columns",
    "consume",
    "for_polars",
    "gatherer",
    "polars_frame",
    "pyarrow_table",
]

LOSSLESS = ColumnTypes()


def gatherer(
    first_page: _core.RawPage, types: ColumnTypes | None, rows_per_batch: int | None
) -> _core.Gatherer:
    """Makes a `Gatherer` for a result. A `Gatherer` makes record batches from pages, all of which
    have the columns of `first_page`.

    Raises: `TypeError` unless `types` is a `ColumnTypes`; `ConfigError` for a `rows_per_batch` out
        of range.
    """
    types = LOSSLESS if types is None else types
    if not isinstance(types, ColumnTypes):
        raise TypeError(
            f"types must be a ColumnTypes, got {type(types).__name__}: pass"
            ' for example turbocql.columns.ColumnTypes(uuid="text")'
        )
    max_rows = 2**31 - 1
    if rows_per_batch is not None and (
        type(rows_per_batch) is not int or not 1 <= rows_per_batch <= max_rows
    ):
        raise errors.ConfigError(
            f"rows_per_batch must be from 1 to {max_rows:,}, got {rows_per_batch!r}"
        )
    return _core.Gatherer(first_page, types._profile(), rows_per_batch)


def check_same_columns(results: Sequence[Any]) -> None:
    """Raises `Error` unless there is at least one result, and all results have the same columns."""
    if not results:
        raise errors.Error(
            "there is no result, so the columns are not known: no row of values was sent, or all"
            " failed"
        )
    columns_of_first, *columns_of_others = (
        ", ".join(f"{name} {cql_type}" for _, _, name, cql_type in rows._columns)
        for rows in results
    )
    if not columns_of_first:
        raise errors.Error(
            "the results have no columns: this is for statements that return rows, such as SELECT"
        )
    for columns in columns_of_others:
        if columns != columns_of_first:
            raise errors.Error(
                "the results have different columns, so they are not one table:"
                f" {columns_of_first}; {columns or 'none'}"
            )


def consume(batches: Batches, read: Callable[[Any], Any]) -> Any:
    """Returns `read(batches)`.

    Raises: the turbocql error that ended the stream, if there is one, instead of the error that
        `read` raised.
    """
    try:
        return read(batches)
    except BaseException:
        raised = batches._gatherer.take_raised()
        if raised is not None:
            raise raised from None
        raise


def pyarrow_table(batches: Any) -> Any:
    """Makes a `pyarrow.Table` from a stream, or from a pair: a list of batches, and the `Gatherer`
    that knows their schema.
    """
    pa: Any = needed("pyarrow", "to_arrow()")

    if isinstance(batches, Batches):
        return pa.table(batches)
    record_batches, schema = batches
    return pa.Table.from_batches(map(pa.record_batch, record_batches), pa.schema(schema))


def for_polars(types: ColumnTypes | None) -> ColumnTypes | None:
    """Returns `types` unchanged.

    Raises: `ConfigError` if polars lacks one of the types.
    """
    if isinstance(types, ColumnTypes) and types.duration == "interval":
        raise errors.ConfigError("polars has no intervals: leave duration='struct'")
    return types


def polars_frame(batches: Any) -> Any:
    """Makes a `polars.DataFrame` from a stream, or from a pair: a list of batches, and the
    `Gatherer` that knows their schema.
    """
    pl: Any = needed("polars", "to_polars()")

    if isinstance(batches, Batches):
        return pl.DataFrame(batches)
    record_batches, schema = batches
    empty = pl.DataFrame(_Empty(schema))
    return pl.concat([empty, *map(pl.DataFrame, record_batches)])


class _Empty:
    """A stream without batches."""

    def __init__(self, schema: _core.Gatherer) -> None:
        self._schema = schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._schema.stream(self, True)

    def next_page(self) -> None:
        """The native core calls this method. The stream has no pages."""


def _object_array(values: list[Any]) -> Any:
    array = _numpy().empty(len(values), object)
    array[:] = values
    return array


def _numpy() -> Any:
    return needed("numpy", "to_numpy()")


_DTYPES = {
    **{"tinyint": "i1", "smallint": "<i2", "int": "<i4", "bigint": "<i8", "counter": "<i8"},
    **{"float": "<f4", "double": "<f8", "boolean": "?"},
    **{"timestamp": "<M8[ms]", "time": "<m8[ns]", "date": "<i4"},
}
_VECTOR = re.compile(r"vector<(tinyint|smallint|int|bigint|float|double|timestamp), (\d+)>")


def _dtype(cql_type: str) -> tuple[str, int | None] | None:
    """The dtype of a column's array, and the dimension of its vectors; `None` for objects."""
    match = _VECTOR.fullmatch(cql_type)
    if match:
        return _DTYPES[match[1]], int(match[2])
    return (_DTYPES[cql_type], None) if cql_type in _DTYPES else None


class _Array:
    """A column of a result. Its values are added batch by batch, and become one NumPy array."""

    def __init__(self, position: int, cql_type: str) -> None:
        self._position, self._cql_type = position, cql_type
        self._parts: list[Any] = []
        self._validity: list[Any] = []

    def add(self, batch: Batch, rows: Callable[[], list[tuple[Any, ...]]]) -> None:
        """Appends a batch. `rows` decodes its rows, and is called only if the values of the column
        cannot be read as numbers.
        """
        np, position, dtype = _numpy(), self._position, _dtype(self._cql_type)
        numbers_and_flags = None if dtype is None else batch.numbers(position)
        if dtype is None or numbers_and_flags is None:
            self._parts.append(_object_array([row[position] for row in rows()]))
            self._validity.append(None)
            return
        numbers, flags = numbers_and_flags
        array = np.frombuffer(numbers, dtype[0])
        if dtype[1] is not None:
            array = array.reshape(len(batch), dtype[1])
        elif self._cql_type == "date":
            array = array.astype("<i8").view("<M8[D]")
        self._parts.append(array)
        self._validity.append(None if flags is None else np.frombuffer(flags, "?"))

    def to_numpy(self) -> Any:
        """The column as an array, which is masked if there are nulls."""
        np, dtype = _numpy(), _dtype(self._cql_type)
        if not self._parts:
            if dtype is None:
                return np.empty(0, object)
            dtype_name = "<M8[D]" if self._cql_type == "date" else dtype[0]
            return np.empty(0 if dtype[1] is None else (0, dtype[1]), dtype_name)
        array = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        if all(valid is None for valid in self._validity):
            return array
        valid = np.concatenate(
            [
                np.ones(len(part), "?") if valid is None else valid
                for part, valid in zip(self._parts, self._validity, strict=True)
            ]
        )
        mask = np.repeat(~valid[:, None], array.shape[1], 1) if array.ndim == 2 else ~valid
        return np.ma.MaskedArray(array, mask)

    def objects(self) -> Any:
        """The column as an array of objects. A vector is an array, and a null is `None`."""
        array = self.to_numpy()
        if array.dtype == object and array.ndim == 1:
            return array
        mask = _numpy().ma.getmaskarray(array)
        nulls = mask.any(axis=1) if array.ndim == 2 else mask
        values = _numpy().ma.getdata(array)
        return _object_array(
            [None if null else value for value, null in zip(values, nulls, strict=True)]
        )


class Arrays:
    """The columns of a result as NumPy arrays."""

    def __init__(
        self, first_page: _core.RawPage, columns: Iterable[tuple[str, str, str, str]]
    ) -> None:
        self._names = [column[2] for column in columns]
        duplicates = [name for name in self._names if self._names.count(name) > 1]
        if duplicates:
            raise errors.Error(
                f"two columns are called {duplicates[0]!r}: a dict has one of each name"
            )
        self._types = [column[3] for column in columns]
        self._arrays = _core.PageArrays(first_page)
        native_positions = self._arrays.places()
        self._objects: dict[int, list[Any]] = {
            position: [] for position in range(len(self._names)) if position not in native_positions
        }

    def add(self, page: _core.RawPage, rows: Callable[[], list[tuple[Any, ...]]]) -> None:
        """Appends a page; `rows` decodes it."""
        self._arrays.append(page)
        if self._objects:
            decoded = rows()
            for position, objects in self._objects.items():
                objects += [row[position] for row in decoded]

    def by_column(self) -> dict[str, Any]:
        """Returns a dict from the name of each column to its array."""
        return {name: self._array(position) for position, name in enumerate(self._names)}

    def _array(self, position: int) -> Any:
        np, dtype = _numpy(), _dtype(self._types[position])
        if position in self._objects:
            return _object_array(self._objects[position])
        column_data = self._arrays.take(position)
        if isinstance(column_data, list):
            return np.fromiter(column_data, object, len(column_data))
        numbers, flags = column_data
        dtype_name, dimension = dtype or ("", None)
        array = np.frombuffer(numbers, "<M8[D]" if self._types[position] == "date" else dtype_name)
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
    """The batches of a page, each with a function that returns its rows.

    The page is decoded once, when the first of these functions is called.
    """
    last: Batch | None
    batches = gatherer.append(page)
    last = gatherer.finish()
    batches += [] if last is None else [last]
    decoded: list[list[tuple[Any, ...]]] = []
    begin = 0
    for batch in batches:

        def rows_of_batch(
            begin: int = begin, end: int = begin + len(batch)
        ) -> list[tuple[Any, ...]]:
            if not decoded:
                decoded.append(rows())
            return decoded[0][begin:end]

        yield batch, rows_of_batch
        begin += len(batch)


_READ_BY_ARROW = {"ascii", "text", "blob", "boolean", "timestamp", "float", "double"}
_NULLABLE_INTS = {
    **{"tinyint": "Int8", "smallint": "Int16", "int": "Int32"},
    **{"bigint": "Int64", "counter": "Int64"},
}
"""Maps CQL types to the dtypes of pandas that hold integers and nulls."""


class Frame:
    """The columns of a result as a pandas frame.

    Arrow converts numbers, booleans, texts, bytes and timestamps. Other values are the same Python
    objects as in rows, unless `types` selects a type for them that is not the default type.
    """

    def __init__(
        self,
        first_page: _core.RawPage,
        columns: Iterable[tuple[str, str, str, str]],
        types: ColumnTypes | None,
    ) -> None:
        types = LOSSLESS if types is None else types
        self._gatherer = gatherer(first_page, types, None)
        self._batches: list[Batch] = []
        is_read_by_arrow = {
            "decimal": types.decimal != "text",
            "varint": types.varint != "text",
            "duration": types.duration != "struct",
            "uuid": types.uuid != "uuid",
            "timeuuid": types.uuid != "uuid",
            "time": types.time != "time64",
        }
        self._types = [column[3] for column in columns]
        # If an `_Array` gets an empty type, it has Python objects. Times and dates need this.
        self._objects = [
            _Array(position, "" if _dtype(cql_type) and cql_type in ("time", "date") else cql_type)
            for position, cql_type in enumerate(self._types)
            if cql_type not in _READ_BY_ARROW
            and cql_type not in _NULLABLE_INTS
            and not is_read_by_arrow.get(cql_type)
        ]

    def add(self, page: _core.RawPage, rows: Callable[[], list[tuple[Any, ...]]]) -> None:
        """Appends a page; `rows` decodes it."""
        for batch, rows_of_batch in _batches_of(self._gatherer, page, rows):
            self._batches.append(batch)
            for array in self._objects:
                array.add(batch, rows_of_batch)

    def to_pandas(self) -> Any:
        """The pages as a `pandas.DataFrame`."""
        pd: Any = needed("pandas", "to_pandas()")
        pa: Any = needed("pyarrow", "to_pandas()")
        table = pyarrow_table((self._batches, self._gatherer))
        for array in self._objects:
            # The loop below replaces this column of the frame, so Arrow need not convert it.
            field, column = table.field(array._position), table.column(array._position)
            table = table.set_column(array._position, field.name, pa.nulls(len(column), pa.bool_()))
        frame = table.to_pandas()
        for array in self._objects:
            frame.isetitem(array._position, array.objects())
        for position, cql_type in enumerate(self._types):
            column = table.column(position)
            if cql_type in _NULLABLE_INTS and column.null_count:
                frame.isetitem(
                    position, pd.array(column.to_pylist(), dtype=_NULLABLE_INTS[cql_type])
                )
        return frame
