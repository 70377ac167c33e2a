"""Reads INT96 times of Parquet, which Spark, Hive and Impala write.

pyarrow reads INT96 as nanoseconds. 64 bits of nanoseconds hold the years 1677 to 2262, and other
times wrap around. If INT96 is read as milliseconds, all times are correct, but their finer digits
are lost. The exact time can be computed from the milliseconds and the nanoseconds, because a number
that has wrapped around is still correct modulo 2**64.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from .from_text import library
from .reader import inner_fields

__all__ = ["exact_times", "int96_columns"]

_NS_PER_MS = 1_000_000
_FIRST_MS, _LAST_MS = -9_223_372_036_853, 9_223_372_036_853
"""Times between these two milliseconds, counted from 1970, fit in 64 bits of nanoseconds."""
_LAST_MS_OF_US = 2**63 // 1000 - 1
"""The last millisecond of the times that fit in 64 bits of microseconds."""


def int96_columns(file: Any) -> list[str]:
    """The names of the columns of a `ParquetFile` that are or contain INT96 times."""
    schema = file.metadata.schema
    leaves = iter(schema.column(number).physical_type for number in range(len(schema.names)))
    names = []
    for field in file.schema_arrow:
        if "INT96" in list(islice(leaves, _count_leaves(field.type))):
            names.append(field.name)
    return names


def _count_leaves(arrow_type: Any) -> int:
    """The number of physical columns that Parquet stores a type in."""
    return sum(_count_leaves(part.type) for part in inner_fields(arrow_type)) or 1


def exact_times(fine: Any, coarse: Any) -> Any:
    """The times of an array, in a unit whose range holds all of them.

    The unit is the nanosecond if its range is wide enough; else the millisecond if all times are
    whole milliseconds; else the microsecond, although finer digits are then lost.

    `fine` has the times in nanoseconds, which may have wrapped around. `coarse` has the same times
    in milliseconds. Both arrays may be nested.

    Raises: `ValueError` if the microsecond is needed and its range is too narrow, or if the time
        within a day, which INT96 stores beside the day, is negative or longer than a day.
    """
    pa = library()
    types, arrow_type = pa.types, fine.type
    if types.is_timestamp(arrow_type):
        return fine if arrow_type == coarse.type else _exact_timestamps(fine, coarse)
    if types.is_struct(arrow_type):
        columns = [
            exact_times(fine.field(n), coarse.field(n)) for n in range(arrow_type.num_fields)
        ]
        fields = [arrow_type.field(n).with_type(column.type) for n, column in enumerate(columns)]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=fine.is_null())
    if types.is_map(arrow_type):
        entries = exact_times(fine.values, coarse.values)
        key, value = entries.type.field(0), entries.type.field(1)
        return _with_values(fine, pa.map_(key, value, arrow_type.keys_sorted), entries, 2)
    if types.is_list(arrow_type) or types.is_large_list(arrow_type):
        values = exact_times(fine.values, coarse.values)
        make_list = pa.list_ if types.is_list(arrow_type) else pa.large_list
        list_type = make_list(arrow_type.value_field.with_type(values.type))
        return _with_values(fine, list_type, values, 2)
    if types.is_fixed_size_list(arrow_type):
        values = exact_times(fine.values, coarse.values)
        list_type = pa.list_(arrow_type.value_field.with_type(values.type), arrow_type.list_size)
        return _with_values(fine, list_type, values, 1)
    return fine


def _with_values(array: Any, arrow_type: Any, values: Any, buffer_count: int) -> Any:
    """Returns a copy of an array of lists with other `values`. Keeps `buffer_count` buffers."""
    return library().Array.from_buffers(
        arrow_type,
        len(array),
        array.buffers()[:buffer_count],
        offset=array.offset,
        children=[values],
    )


def _exact_timestamps(fine: Any, coarse: Any) -> Any:
    pa = library()
    pc, time_zone = pa.compute, fine.type.tz
    milliseconds = coarse.cast(pa.int64())
    # Both operands may have wrapped around modulo 2**64. The difference is correct all the same,
    # because it is small.
    nanoseconds = pc.subtract(fine.cast(pa.int64()), pc.multiply(milliseconds, _NS_PER_MS))
    range_ms, range_ns = pc.min_max(milliseconds).as_py(), pc.min_max(nanoseconds).as_py()
    if range_ms["min"] is None:
        return fine
    if range_ns["min"] < 0 or range_ns["max"] >= _NS_PER_MS:
        raise ValueError("an INT96 time beyond its day")
    if range_ms["min"] >= _FIRST_MS and range_ms["max"] <= _LAST_MS:
        return fine
    if not range_ns["max"]:
        return milliseconds.cast(pa.timestamp("ms", time_zone))
    if max(-range_ms["min"], range_ms["max"]) > _LAST_MS_OF_US:
        raise ValueError("INT96 times finer than a millisecond, and beyond the year 294246")
    # A load without `truncate_time` must refuse times that are finer than a millisecond. So
    # rounding must not turn such a time into a whole millisecond: its microseconds are at least 1.
    is_finer = pc.cast(pc.greater(nanoseconds, 0), pa.int64())
    microsecond_parts = pc.max_element_wise(pc.divide(nanoseconds, 1000), is_finer)
    microseconds = pc.add(pc.multiply(milliseconds, 1000), microsecond_parts)
    return microseconds.cast(pa.timestamp("us", time_zone))
