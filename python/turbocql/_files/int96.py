"""Times of Parquet as INT96, which Spark, Hive and Impala write.

pyarrow reads them in nanoseconds, whose 64 bits hold the years 1677 to 2262: other times wrap
around. In milliseconds they are right, but the digits below are lost. Both readings together tell
the time, since a wrapped number is right modulo 2**64.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from .reader import inner_fields
from .text import library

__all__ = ["columns_of", "whole"]

_NS_PER_MS = 1_000_000
_FIRST_MS, _LAST_MS = -9_223_372_036_853, 9_223_372_036_853
"""Times that nanoseconds of 64 bits hold."""
_LAST_MS_OF_US = 2**63 // 1000 - 1


def columns_of(file: Any) -> list[str]:
    """The columns of a `ParquetFile` that are INT96, or have such values within them."""
    schema = file.metadata.schema
    leaves = iter(schema.column(number).physical_type for number in range(len(schema.names)))
    found = []
    for field in file.schema_arrow:
        if "INT96" in list(islice(leaves, _leaves_of(field.type))):
            found.append(field.name)
    return found


def _leaves_of(kind: Any) -> int:
    """The number of columns that Parquet has for a type."""
    return sum(_leaves_of(part.type) for part in inner_fields(kind)) or 1


def whole(fine: Any, coarse: Any) -> Any:
    """An array of the times of `fine`, in nanoseconds that may have wrapped around, and `coarse`,
    in milliseconds: at any depth, and in the finest unit that holds all of them.

    Raises: `ValueError` for a time that neither tells.
    """
    pa = library()
    types, of = pa.types, fine.type
    if types.is_timestamp(of):
        return fine if of == coarse.type else _times(fine, coarse)
    if types.is_struct(of):
        columns = [whole(fine.field(n), coarse.field(n)) for n in range(of.num_fields)]
        fields = [of.field(n).with_type(it.type) for n, it in enumerate(columns)]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=fine.is_null())
    if types.is_map(of):
        entries = whole(fine.values, coarse.values)
        key, value = entries.type.field(0), entries.type.field(1)
        return _with_values(fine, pa.map_(key, value, of.keys_sorted), entries, 2)
    if types.is_list(of) or types.is_large_list(of):
        values = whole(fine.values, coarse.values)
        make = pa.list_ if types.is_list(of) else pa.large_list
        return _with_values(fine, make(of.value_field.with_type(values.type)), values, 2)
    if types.is_fixed_size_list(of):
        values = whole(fine.values, coarse.values)
        made = pa.list_(of.value_field.with_type(values.type), of.list_size)
        return _with_values(fine, made, values, 1)
    return fine


def _with_values(array: Any, of: Any, values: Any, own: int) -> Any:
    """An array of lists with other values; `own` of its buffers are not those of values."""
    return library().Array.from_buffers(
        of, len(array), array.buffers()[:own], offset=array.offset, children=[values]
    )


def _times(fine: Any, coarse: Any) -> Any:
    pa = library()
    pc, zone = pa.compute, fine.type.tz
    milliseconds = coarse.cast(pa.int64())
    # Both wrap around, so the difference is right.
    rest = pc.subtract(fine.cast(pa.int64()), pc.multiply(milliseconds, _NS_PER_MS))
    ends, below = pc.min_max(milliseconds).as_py(), pc.min_max(rest).as_py()
    if ends["min"] is None:
        return fine
    if below["min"] < 0 or below["max"] >= _NS_PER_MS:
        raise ValueError("an INT96 time beyond its day")
    if ends["min"] >= _FIRST_MS and ends["max"] <= _LAST_MS:
        return fine
    if not below["max"]:
        return milliseconds.cast(pa.timestamp("ms", zone))
    if max(-ends["min"], ends["max"]) > _LAST_MS_OF_US:
        raise ValueError("INT96 times finer than a millisecond, and beyond the year 294246")
    # A load without `truncate_time` refuses what is finer than a millisecond: it must see it.
    finer = pc.max_element_wise(pc.divide(rest, 1000), pc.cast(pc.greater(rest, 0), pa.int64()))
    microseconds = pc.add(pc.multiply(milliseconds, 1000), finer)
    return microseconds.cast(pa.timestamp("us", zone))
