"""Converts numbers of Ray's rows to the widths of the table's columns, without loss.

A row of Ray is a dict of Python objects. Arrow columns made of such rows have integers of 64 bits,
and doubles. `Session.load` refuses a column that is wider than the table's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute

from ..codec import CqlType
from ..errors import EncodeError

__all__ = ["fitted"]

_INTEGERS = {
    **{"bigint": pa.int64(), "int": pa.int32(), "smallint": pa.int16(), "tinyint": pa.int8()},
}
_DURATION = {"months": pa.int32(), "days": pa.int32(), "nanoseconds": pa.int64()}


def fitted(table: pa.Table, types: Mapping[str, str | None]) -> pa.Table:
    """Returns the table with its numbers in the widths of their columns' CQL types.

    `types` has the CQL type of each column, by name.

    Raises: `EncodeError` for a number that does not fit its width.
    """
    for index, field in enumerate(table.schema):
        try:
            cql_type = CqlType(types.get(field.name) or "blob")
        except ValueError:
            continue  # a user-defined type
        target = _narrow(field.type, cql_type)
        if target == field.type:
            continue
        try:
            column = _cast(table.column(index), target)
        except pa.ArrowInvalid as error:
            reason = f'column "{field.name}": expected {cql_type}, got {field.type}: {error}'
            raise EncodeError(reason) from error
        table = table.set_column(
            index, pa.field(field.name, target, metadata=field.metadata), column
        )
    return table


def _narrow(kind: pa.DataType, cql_type: CqlType) -> pa.DataType:
    """Returns `kind` with its numbers in the widths of the CQL type.

    If the types differ in more than the widths of numbers, returns `kind` itself.
    """
    while cql_type.kind == "frozen":
        (cql_type,) = cql_type.subtypes
    if cql_type.kind in _INTEGERS and (pa.types.is_integer(kind) or pa.types.is_float64(kind)):
        return _INTEGERS[cql_type.kind]
    if cql_type.kind == "float" and pa.types.is_float64(kind):
        return pa.float32()
    names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    if cql_type.kind == "duration" and names == list(_DURATION):
        return pa.struct(
            [pa.field(name, arrow_type, nullable=False) for name, arrow_type in _DURATION.items()]
        )
    if cql_type.kind in ("list", "set", "vector") and hasattr(kind, "value_type"):
        inner = _narrow(kind.value_type, cql_type.subtypes[0])
        if inner != kind.value_type:
            return pa.list_(inner)
    return kind


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_struct(target):
        return pa.chunked_array([_struct(chunk, target) for chunk in column.chunks], target)
    if pa.types.is_integer(target) and pa.types.is_floating(column.type):
        # NumPy has no null integers, so it turns a column of integers and nulls into floats, with
        # NaN for null. Here, NaN becomes null again.
        nan = pa.compute.is_nan(column)
        column = pa.compute.if_else(nan, pa.scalar(None, column.type), column)
    converted = column.cast(target)
    if _has_floats(target) and not _is_equal(converted, column):
        raise pa.ArrowInvalid("a number has no such form in 32 bits")
    return converted


def _struct(array: pa.StructArray, target: pa.StructType) -> pa.StructArray:
    mask = array.is_null()
    parts = [
        part.fill_null(0).cast(field.type)
        for part, field in zip(array.flatten(), target, strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)


def _has_floats(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(getattr(kind, "value_type", kind)))


def _is_equal(converted: Any, column: Any) -> bool:
    """Whether converted floats of 32 bits equal the doubles of the column."""
    if hasattr(converted.type, "value_type"):
        converted, column = pa.compute.list_flatten(converted), pa.compute.list_flatten(column)
    pc: Any = pa.compute
    widened = converted.cast(column.type)
    both_nan = pc.and_(pc.is_nan(widened), pc.is_nan(column))
    equalities: list[bool | None] = pc.or_(pc.equal(widened, column), both_nan).unique().to_pylist()
    return False not in equalities
