"""Converts values of a CQL type to one form, in which values of both drivers can be compared.

The drivers are turbocql and scylla-driver, "the reference". For some types they use different
classes: see `CONVERSIONS` and docs/differences.md. A value of any other class raises `Unexpected`.
"""

from __future__ import annotations

import datetime
import ipaddress
import struct
from collections import Counter
from decimal import Decimal
from typing import Any
from uuid import UUID

from cassandra import util

from turbocql.types import Date, Duration, FrozenMap, Time, Timestamp

from .shapes import Shape

EPOCH = datetime.datetime(1970, 1, 1)
EPOCH_DAY = EPOCH.toordinal()
MILLISECOND = datetime.timedelta(milliseconds=1)

conversions: Counter[str] = Counter()
"""The number of converted values for each key of `CONVERSIONS`."""

CONVERSIONS = {
    "inet": "`str` | `ipaddress.IPv4Address`, `ipaddress.IPv6Address`",
    "date": "`cassandra.util.Date` | `datetime.date`; outside the years 1 to 9999 `turbocql.Date`",
    "time": "`cassandra.util.Time` | `turbocql.Time`",
    "timestamp": "naive `datetime`, in UTC | aware `datetime`, in UTC",
    "duration": "`cassandra.util.Duration` | `turbocql.Duration`",
    "set": "`cassandra.util.SortedSet` | `set`; inside a set or a key `frozenset`",
    "map": "`cassandra.util.OrderedMapSerializedKey` | `dict`; inside a set or a key "
    "`turbocql.FrozenMap`",
    "list or vector inside a set or a key": "`list` | `tuple`",
    "user-defined type": "its own named tuple | its own named tuple",
}
"""Maps a CQL type to the classes of the reference, a "|", and the classes of turbocql.

docs/differences.md has the same texts.
"""


class Unexpected(TypeError):
    """The error for a value whose class, field names or time zone are not as expected."""


def _is(value: Any, *classes: type) -> Any:
    if type(value) not in classes:
        raise Unexpected(f"{value!r} is of {type(value)}")
    return value


def normal(shape: Shape, value: Any, *, ours: bool, hashable: bool = False) -> Any:
    """Returns a hashable form. Two forms are equal only if the values are equal bit for bit.

    If `ours` is true, turbocql decoded the value. If it is false, the reference decoded it.
    `hashable` says whether the value is inside a set or inside the key of a map.
    """
    shape = shape.bare
    if value is None:
        return None
    kind = shape.kind
    if kind in ("list", "vector"):
        _is(value, tuple if ours and hashable else list)
        if hashable:
            conversions["list or vector inside a set or a key"] += 1
        return tuple(normal(shape.parts[0], part, ours=ours, hashable=hashable) for part in value)
    if kind == "set":
        conversions["set"] += 1
        _is(value, *((frozenset if hashable else set,) if ours else (util.SortedSet,)))
        parts = [normal(shape.parts[0], part, ours=ours, hashable=True) for part in value]
        return tuple(sorted(parts, key=repr))
    if kind == "map":
        conversions["map"] += 1
        if ours:
            entries = _is(value, FrozenMap if hashable else dict).items()
        else:
            # `items()` looks keys up by their encoded bytes, but some keys cannot be encoded.
            entries = _is(value, util.OrderedMapSerializedKey)._items
        return tuple(
            sorted(
                (
                    (
                        normal(shape.parts[0], key, ours=ours, hashable=True),
                        normal(shape.parts[1], part, ours=ours, hashable=hashable),
                    )
                    for key, part in entries
                ),
                key=repr,
            )
        )
    if kind == "udt":
        conversions["user-defined type"] += 1
        if not isinstance(value, tuple) or value._fields != shape.names:  # type: ignore[attr-defined]
            raise Unexpected(f"{value!r} is no record of {shape.cql}")
    if kind in ("tuple", "udt"):
        if kind == "tuple":
            _is(value, tuple)
        pairs = zip(shape.parts, value, strict=True)
        return tuple(normal(part, item, ours=ours, hashable=hashable) for part, item in pairs)
    return _scalar(kind, value, ours)


def _scalar(kind: str, value: Any, ours: bool) -> Any:
    if kind in CONVERSIONS:
        conversions[kind] += 1
    if kind in ("ascii", "text"):
        return _is(value, str)
    if kind in ("tinyint", "smallint", "int", "bigint", "counter", "varint"):
        # CPython refuses to print integers of more than 4,300 digits in decimal.
        return value if -(2**64) < _is(value, int) < 2**64 else hex(value)
    if kind in ("float", "double"):
        return struct.pack(">d", _is(value, float))
    if kind == "decimal":
        return tuple(_is(value, Decimal).as_tuple())
    if kind == "boolean":
        return _is(value, bool)
    if kind == "blob":
        return _is(value, bytes)
    if kind in ("uuid", "timeuuid"):
        return _is(value, UUID).int
    if kind == "inet":
        if not ours:
            return ipaddress.ip_address(_is(value, str)).packed
        return _is(value, ipaddress.IPv4Address, ipaddress.IPv6Address).packed
    if kind == "date":
        if not ours:
            return _is(value, util.Date).days_from_epoch
        if type(value) is Date:
            return value.days
        return _is(value, datetime.date).toordinal() - EPOCH_DAY
    if kind == "time":
        return _is(value, Time).nanoseconds if ours else _is(value, util.Time).nanosecond_time
    if kind == "timestamp":
        return _milliseconds(value, ours)
    assert kind == "duration", kind
    duration = _is(value, Duration if ours else util.Duration)
    return duration.months, duration.days, duration.nanoseconds


def _milliseconds(value: Any, ours: bool) -> int:
    if ours and type(value) is Timestamp:
        milliseconds: int = value.milliseconds
        return milliseconds
    instant: datetime.datetime = _is(value, datetime.datetime)
    if instant.tzinfo is not (datetime.timezone.utc if ours else None):
        raise Unexpected(f"{value!r} has the time zone {instant.tzinfo}")
    return (instant.replace(tzinfo=None) - EPOCH) // MILLISECOND
