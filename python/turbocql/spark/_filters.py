"""Converts Spark's filters on key columns to conditions in CQL."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple
from uuid import UUID

from pyspark.sql import datasource as spark

from .._cql.names import quoted

__all__ = ["Keys", "pushed"]

_MAX_QUERIED_PARTITIONS = 256
"""The maximum number of partitions that are queried one by one. If the filters allow more, the
table is scanned."""
_COMPARISONS = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}


class Keys(NamedTuple):
    """The conditions in CQL by which the server evaluates some filters of a query of Spark."""

    where: str
    """The condition. It is on clustering columns, and also on the whole partition key if
    `bind_values_by_partition` is not empty.
    """
    values: tuple[Any, ...]
    """The values of the comparisons with clustering columns. A scan binds these."""
    bind_values_by_partition: tuple[tuple[Any, ...], ...]
    """For each queried partition, the values that the condition binds; empty for a scan."""


def pushed(
    filters: Sequence[Any], columns: Sequence[tuple[str, str, str, int]]
) -> tuple[Keys | None, list[Any]]:
    """Returns the conditions for the filters that the server can evaluate, and the other filters.

    Spark itself evaluates the other filters. A filter that the server might evaluate differently
    from Spark is one of these. `columns` describes the table's columns: name, kind, CQL type and
    position.
    """
    types = {name: cql_type for name, _, cql_type, _ in columns}
    partition = _in_order(columns, "partition_key")
    clustering = _in_order(columns, "clustering")
    key_options: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    bounds: dict[tuple[str, str], tuple[Any, Any]] = {}
    for filter_ in filters:
        column = _column(filter_)
        if column in partition and column not in key_options:
            options = _options(filter_, types[column])
            if options:
                key_options[column] = (filter_, options)
        elif column in clustering and type(filter_) in _COMPARISONS:
            sign = _COMPARISONS[type(filter_)]
            bound_value = _value(filter_.value, types[column], is_equality=sign == "=")
            # The server accepts one equality per column, or one lower and one upper bound. Spark
            # evaluates further filters on the column.
            ends = {"=": "=<>", "<": "=<", ">": "=>"}[sign[0]]
            is_free = not any((column, end) in bounds for end in ends)
            if bound_value is not None and is_free:
                bounds[column, sign[0]] = (filter_, (f"{quoted(column)} {sign} ?", bound_value))
    conditions = [condition for _, (condition, _) in bounds.values()]
    values = tuple(value for _, (_, value) in bounds.values())
    pushed_filters = [filter_ for filter_, _ in bounds.values()]
    bind_values_by_partition: tuple[tuple[Any, ...], ...] = ()
    if len(key_options) == len(partition):
        options_of = [key_options[name][1] for name in partition]
        if math.prod(map(len, options_of)) <= _MAX_QUERIED_PARTITIONS:
            bind_values_by_partition = tuple(
                (*key, *values) for key in itertools.product(*options_of)
            )
            pushed_filters += [filter_ for filter_, _ in key_options.values()]
            conditions = [f"{quoted(name)} = ?" for name in partition] + conditions
    if not conditions:
        return None, list(filters)
    remaining_filters = [
        filter_
        for filter_ in filters
        if not any(filter_ is pushed_filter for pushed_filter in pushed_filters)
    ]
    return Keys(" AND ".join(conditions), values, bind_values_by_partition), remaining_filters


def _in_order(columns: Sequence[tuple[str, str, str, int]], key_kind: str) -> list[str]:
    return [
        name
        for _, name in sorted(
            (position, name) for name, kind, _, position in columns if kind == key_kind
        )
    ]


def _column(filter_: Any) -> str:
    attribute: tuple[str, ...] = getattr(filter_, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _options(filter_: Any, cql_type: str) -> tuple[Any, ...] | None:
    """Returns the values that a filter allows, without duplicates.

    Returns `None` if the server cannot look up these values.
    """
    if type(filter_) is spark.EqualTo:
        allowed_values: Sequence[Any] = [filter_.value]
    elif type(filter_) is spark.In:
        allowed_values = filter_.value
    else:
        return None
    # In SQL, no value equals null, so nulls are left out.
    key_values = [
        _value(value, cql_type, is_equality=True) for value in allowed_values if value is not None
    ]
    if any(
        isinstance(key_value, str) and not 0 < len(key_value.encode("utf-8", "replace")) < 2**16
        for key_value in key_values
    ):
        return None  # the server refuses keys that are empty or too long
    return None if any(value is None for value in key_values) else tuple(dict.fromkeys(key_values))


def _value(value: Any, cql_type: str, *, is_equality: bool) -> Any:
    """Returns a value in the form that turbocql binds.

    Returns `None` if the server might compare the value differently from Spark.
    """
    read = _READERS.get(cql_type)
    if read is None and is_equality:
        read = _EQUALITY.get(cql_type)
    return None if read is None else read(value)


def _integer(bits: int) -> Callable[[Any], int | None]:
    return lambda value: value if type(value) is int and -(2**bits) <= value < 2**bits else None


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _ascii(value: Any) -> str | None:
    return value if type(value) is str and value.isascii() else None


def _flag(value: Any) -> bool | None:
    return value if type(value) is bool else None


def _date(value: Any) -> date | None:
    return value if type(value) is date else None


def _time(value: Any) -> datetime | None:
    # Timestamps on the server are whole milliseconds. So a time with a fraction of a millisecond
    # cannot equal a timestamp.
    if type(value) is not datetime or value.tzinfo is None or value.microsecond % 1000:
        return None
    return value


def _uuid(value: Any) -> UUID | None:
    """Returns the UUID of a text; `None` unless the text has the exact form that `str` writes."""
    try:
        parsed = UUID(value)
    except (AttributeError, TypeError, ValueError):
        return None
    return parsed if str(parsed) == value else None


_READERS: dict[str, Callable[[Any], Any]] = {
    "tinyint": _integer(7),
    "smallint": _integer(15),
    "int": _integer(31),
    "bigint": _integer(63),
    "text": _text,
    "ascii": _ascii,
    "boolean": _flag,
    "date": _date,
    "timestamp": _time,
}
_EQUALITY: dict[str, Callable[[Any], Any]] = {"uuid": _uuid, "timeuuid": _uuid}
"""Types that can be compared for equality only: Spark orders UUIDs as texts, the server does
not."""
