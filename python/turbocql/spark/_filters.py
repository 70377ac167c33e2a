"""Filters of Spark on key columns, as conditions in CQL."""

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

_MOST_PARTITIONS = 256
"""The keys that are worth a query each; more are found by a scan."""
_COMPARISONS = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}


class Keys(NamedTuple):
    """What was taken of a query's filters."""

    where: str
    """The condition on the clustering columns; with `whole`, on all of the key."""
    values: tuple[Any, ...]
    whole: tuple[tuple[Any, ...], ...]
    """The values of the condition for each partition that is asked for; empty for a scan."""


def pushed(
    filters: Sequence[Any], known: Sequence[tuple[str, str, str, int]]
) -> tuple[Keys | None, list[Any]]:
    """What the server can evaluate of these filters, and the filters that are left for Spark.

    `known` are the columns of the table. Spark evaluates what is left, so a doubtful filter is.
    """
    types = {name: cql_type for name, _, cql_type, _ in known}
    partition = _in_order(known, "partition_key")
    clustering = _in_order(known, "clustering")
    chosen: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    bounds: dict[tuple[str, str], tuple[Any, Any]] = {}
    for filter_ in filters:
        column = _column(filter_)
        if column in partition and column not in chosen:
            options = _options(filter_, types[column])
            if options:
                chosen[column] = (filter_, options)
        elif column in clustering and type(filter_) in _COMPARISONS:
            sign = _COMPARISONS[type(filter_)]
            made = _value(filter_.value, types[column], is_equality=sign == "=")
            # The server takes one relation of equality, or one for each end.
            ends = {"=": "=<>", "<": "=<", ">": "=>"}[sign[0]]
            is_free = not any((column, end) in bounds for end in ends)
            if made is not None and is_free:
                bounds[column, sign[0]] = (filter_, (f"{quoted(column)} {sign} ?", made))
    conditions = [condition for _, (condition, _) in bounds.values()]
    values = tuple(value for _, (_, value) in bounds.values())
    taken = [filter_ for filter_, _ in bounds.values()]
    whole: tuple[tuple[Any, ...], ...] = ()
    if len(chosen) == len(partition):
        options_of = [chosen[name][1] for name in partition]
        if math.prod(map(len, options_of)) <= _MOST_PARTITIONS:
            whole = tuple((*key, *values) for key in itertools.product(*options_of))
            taken += [filter_ for filter_, _ in chosen.values()]
            conditions = [f"{quoted(name)} = ?" for name in partition] + conditions
    if not conditions:
        return None, list(filters)
    left = [it for it in filters if not any(it is one for one in taken)]
    return Keys(" AND ".join(conditions), values, whole), left


def _in_order(known: Sequence[tuple[str, str, str, int]], wanted: str) -> list[str]:
    return [name for _, name in sorted((at, name) for name, kind, _, at in known if kind == wanted)]


def _column(filter_: Any) -> str:
    attribute: tuple[str, ...] = getattr(filter_, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _options(filter_: Any, cql_type: str) -> tuple[Any, ...] | None:
    """The values that a filter allows, each once."""
    if type(filter_) is spark.EqualTo:
        given: Sequence[Any] = [filter_.value]
    elif type(filter_) is spark.In:
        given = filter_.value
    else:
        return None
    # SQL's null equals nothing.
    made = [_value(value, cql_type, is_equality=True) for value in given if value is not None]
    if any(
        isinstance(it, str) and not 0 < len(it.encode("utf-8", "replace")) < 2**16 for it in made
    ):
        return None  # the server refuses such keys, and has no rows of them
    return None if any(value is None for value in made) else tuple(dict.fromkeys(made))


def _value(value: Any, cql_type: str, *, is_equality: bool) -> Any:
    """A value as turbocql binds it; `None` if the server might compare it otherwise than Spark."""
    read = _READERS.get(cql_type)
    if read is None and is_equality:
        read = _EQUALITY.get(cql_type)
    return None if read is None else read(value)


def _whole(bits: int) -> Callable[[Any], int | None]:
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
    # The server has milliseconds. A time between two of them equals none of them.
    if type(value) is not datetime or value.tzinfo is None or value.microsecond % 1000:
        return None
    return value


def _uuid(value: Any) -> UUID | None:
    """A UUID, if the text is the one that Spark has for it."""
    try:
        made = UUID(value)
    except (AttributeError, TypeError, ValueError):
        return None
    return made if str(made) == value else None


_READERS: dict[str, Callable[[Any], Any]] = {
    "tinyint": _whole(7),
    "smallint": _whole(15),
    "int": _whole(31),
    "bigint": _whole(63),
    "text": _text,
    "ascii": _ascii,
    "boolean": _flag,
    "date": _date,
    "timestamp": _time,
}
_EQUALITY: dict[str, Callable[[Any], Any]] = {"uuid": _uuid, "timeuuid": _uuid}
"""Texts of UUIDs are in another order than UUIDs."""
