"""Rules for Python values of scalar types that turbocql and scylla-driver encode differently."""

from __future__ import annotations

import array
import datetime
import ipaddress
import socket
import struct
from collections import UserString
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
from cassandra import util

import turbocql

from .cases import Difference
from .rule import TAKEN, Rule, encoding, gives, only_they_take, only_we_take

UTC = datetime.timezone.utc
_OWN = (turbocql.Date, turbocql.Time, turbocql.Timestamp, turbocql.Duration)


def _indexed(value: Any) -> bool:
    """Returns whether a value has `__index__` and is not an ordinary `int`.

    It returns `False` for an `int` (but not for an instance of a subclass), a `bool`, a class, and
    an instance of a class in `_OWN`.
    """
    exact = type(value) is int or isinstance(value, (bool, *_OWN, type))
    return not exact and hasattr(value, "__index__")


def _other_integers(d: Difference) -> bool:
    kinds = ("varint", "decimal", "date", "time", "timestamp")
    if not only_we_take(d, *kinds) or not _indexed(d.given):
        return False
    same: bool = d.ours == gives(_their_bytes, d, d.given.__index__())
    return same or _many_digits(d.given)


def _their_bytes(d: Difference, value: Any) -> Any:
    return d.case.shape.reference.serialize(value, d.case.protocol)


def _many_digits(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite() and len(value.as_tuple().digits) > 4300
    return isinstance(value, int) and value.bit_length() > 14_000


def _texts_by_encode(d: Difference) -> bool:
    texts = only_they_take(d, "text", "ascii") and not isinstance(d.given, str)
    return texts and d.theirs == gives(d.given.encode, "ascii" if d.kind == "ascii" else "utf-8")


def _floats_by_conversion(d: Difference) -> bool:
    if not only_they_take(d, "float", "double") or isinstance(d.given, (float, int)):
        return False
    real = isinstance(d.given, Real)
    form = ">f" if d.kind == "float" else ">d"
    return not real and d.theirs == gives(lambda: struct.pack(form, float(d.given)))


def _zeros(d: Difference) -> bool:
    if not only_they_take(d, "varint"):
        return False
    if isinstance(d.given, np.bool_):
        return bool(d.theirs == bytes([bool(d.given)]))
    return not hasattr(d.given, "__index__") and d.theirs == b"\0"


def _decimals_by_constructor(d: Difference) -> bool:
    if not only_they_take(d, "decimal") or isinstance(d.given, (Decimal, int)):
        return False
    return bool(d.theirs == gives(lambda: _their_bytes(d, Decimal(d.given))))


def _blobs_by_constructor(d: Difference) -> bool:
    if not only_they_take(d, "blob") or isinstance(d.given, (bytes, bytearray)):
        return False
    arrays = isinstance(d.given, (memoryview, array.array, np.ndarray))
    view = memoryview(d.given) if arrays else None
    plain = view is not None and view.format == "B" and view.ndim == 1
    return not plain and d.theirs == gives(bytes, d.given)


def _addresses(d: Difference) -> bool:
    """Returns whether only the reference encodes the text, because it is not four decimal numbers.

    An example is "127.1": `socket.inet_aton` accepts this IPv4 address, but `ipaddress` does not.
    """
    if not only_they_take(d, "inet") or not isinstance(d.given, str):
        return False
    plain = gives(ipaddress.IPv4Address, d.given)
    return not isinstance(plain, ipaddress.IPv4Address) and d.theirs == socket.inet_aton(d.given)


def _networks(d: Difference) -> bool:
    interface = isinstance(d.given, (ipaddress.IPv4Interface, ipaddress.IPv6Interface))
    return only_they_take(d, "inet") and interface and bool(d.theirs == d.given.packed)


def _scopes(d: Difference) -> bool:
    scope = getattr(d.given, "scope_id", None) is not None
    return only_they_take(d, "inet") and scope and bool(d.theirs == d.given.packed)


def _time_zone(d: Difference) -> bool:
    time = isinstance(d.given, datetime.time) and d.given.tzinfo is not None
    return only_they_take(d, "time") and time


def _outside_the_day(d: Difference) -> bool:
    raw = getattr(d.given, "nanosecond_time", d.given)
    return only_they_take(d, "time") and isinstance(raw, int) and raw < 0


def _texts_as_dates(d: Difference) -> bool:
    return only_they_take(d, "date", "time") and isinstance(d.given, str)


def _signs(d: Difference) -> bool:
    if not only_they_take(d, "duration") or not _is_duration(d.given):
        return False
    parts = _parts_of(d.given)
    whole = all(isinstance(part, int) for part in parts)
    return whole and _within(parts) and min(parts) < 0 < max(parts)


def _is_duration(value: Any) -> bool:
    return isinstance(value, (util.Duration, turbocql.Duration))


def _parts_of(value: Any) -> tuple[Any, Any, Any]:
    return value.months, value.days, value.nanoseconds


def _within(parts: tuple[int, int, int]) -> bool:
    months, days, nanoseconds = parts
    narrow = all(-(2**31) <= part < 2**31 for part in (months, days))
    return narrow and -(2**63) <= nanoseconds < 2**63


def _long_durations(d: Difference) -> bool:
    if not only_they_take(d, "duration") or not isinstance(d.given, util.Duration):
        return False
    parts = _parts_of(d.given)
    return all(isinstance(part, int) for part in parts) and not _within(parts)


def _duration_numbers(d: Difference) -> bool:
    if not only_they_take(d, "duration") or not isinstance(d.given, util.Duration):
        return False
    parts = _parts_of(d.given)
    return not all(hasattr(part, "__index__") for part in parts)


def _like_durations(d: Difference) -> bool:
    return only_they_take(d, "duration") and not _is_duration(d.given)


def _versions(d: Difference) -> bool:
    uuid = isinstance(d.given, UUID)
    return only_they_take(d, "timeuuid") and uuid and bool(d.given.int >> 76 & 0xF != 1)


def _like_uuids(d: Difference) -> bool:
    return only_they_take(d, "uuid", "timeuuid") and not isinstance(d.given, UUID)


def _floats_as_timestamps(d: Difference) -> bool:
    number = isinstance(d.given, float)
    return only_they_take(d, "timestamp") and number and d.theirs == struct.pack(">q", int(d.given))


def _edge_of_calendar(d: Difference) -> bool:
    if not only_we_take(d, "timestamp") or not isinstance(d.given, datetime.datetime):
        return False
    zone = d.given.utcoffset()
    naive = d.given.replace(tzinfo=None)
    moved = gives(lambda: naive - zone) if zone else naive
    return not isinstance(moved, datetime.datetime)


def _offset_parts(d: Difference) -> bool:
    aware = isinstance(d.given, datetime.datetime) and d.encoding and d.kind == "timestamp"
    both = aware and not d.we_refuse and not d.they_refuse
    offset = d.given.utcoffset() if both else None
    return offset is not None and offset.microseconds != 0


def _own_types(d: Difference) -> bool:
    return only_we_take(d, "date", "time", "timestamp") and isinstance(d.given, _OWN)


def _digits(d: Difference) -> bool:
    return only_we_take(d, "decimal") and _many_digits(d.given) and not _indexed(d.given)


def _booleans(d: Difference) -> bool:
    if not only_they_take(d, "boolean") or isinstance(d.given, (bool, np.bool_)):
        return False
    return bool(d.theirs == struct.pack(">b", d.given))


SCALAR: Sequence[Rule] = [
    Rule(
        "integers-of-other-classes",
        TAKEN,
        "Every integer is one, whatever its class: Python says so by __index__.",
        _other_integers,
        encoding("varint", np.int64(-3)),
    ),
    Rule(
        "turbocql-s-own-types",
        TAKEN,
        "They are what turbocql gives where Python has no type of its own.",
        _own_types,
        encoding("timestamp", turbocql.Timestamp(5)),
    ),
    Rule(
        "text-by-its-encode-method",
        TAKEN,
        "Text is str; an object that is encoded in some way of its own need not be text.",
        _texts_by_encode,
        encoding("text", UserString("ab")),
    ),
    Rule(
        "integers-as-booleans",
        TAKEN,
        "A number in a boolean column is most often a column mistaken, and 2 is no boolean.",
        _booleans,
        encoding("boolean", 2),
    ),
    Rule(
        "numpy-s-booleans",
        TAKEN,
        "NumPy's True is a boolean.",
        lambda d: only_we_take(d, "boolean") and isinstance(d.given, np.bool_),
        encoding("boolean", np.True_),
        # On CPython 3.10, both drivers encode NumPy's True. The last NumPy release for 3.10 still
        # allows `struct` to pack it.
        since=(3, 11),
    ),
    Rule(
        "numbers-by-float-conversion",
        TAKEN,
        "Most decimals have no binary equal, and complex numbers lose a part.",
        _floats_by_conversion,
        encoding("double", Decimal("0.1")),
    ),
    Rule(
        "zeros-and-numpy-s-booleans-as-varint",
        TAKEN,
        "The reference looks only for equality with 0; 1.0 it refuses as turbocql refuses both.",
        _zeros,
        encoding("varint", 0.0),
    ),
    Rule(
        "floats-text-and-tuples-as-decimals",
        TAKEN,
        "0.1 would become the 55 digits of its binary neighbour.",
        _decimals_by_constructor,
        encoding("decimal", 0.1),
    ),
    Rule(
        "decimals-of-thousands-of-digits",
        TAKEN,
        "The type has no such limit; Python's conversion of integers to text has.",
        _digits,
        encoding("decimal", Decimal("9" * 5000)),
    ),
    Rule(
        "blobs-by-the-bytes-constructor",
        TAKEN,
        "bytes(5) is five zero bytes, not the number 5.",
        _blobs_by_constructor,
        encoding("blob", 5),
    ),
    Rule(
        "uuids-by-their-bytes-attribute",
        TAKEN,
        "Whatever has an attribute of that name would be stored, of any length.",
        _like_uuids,
        encoding("uuid", SimpleNamespace(bytes=b"ab")),
    ),
    Rule(
        "uuids-of-other-versions-as-timeuuid",
        TAKEN,
        "The server refuses them: a timeuuid is one of version 1.",
        _versions,
        encoding("timeuuid", UUID(int=5)),
    ),
    Rule(
        "short-and-octal-addresses",
        TAKEN,
        "010.1.1.1 is 8.1.1.1 to some and 10.1.1.1 to others; 1.2.3.4 x is none.",
        _addresses,
        encoding("inet", "010.1.1.1"),
    ),
    Rule(
        "addresses-with-a-network",
        TAKEN,
        "The network would be lost.",
        _networks,
        encoding("inet", ipaddress.ip_interface("10.0.0.1/8")),
    ),
    Rule(
        "addresses-with-a-scope",
        TAKEN,
        "The scope would be lost.",
        _scopes,
        encoding("inet", ipaddress.ip_address("fe80::1%eth0")),
    ),
    Rule(
        "datetimes-as-dates",
        TAKEN,
        "The time of day would be lost, and the day depends on the time zone.",
        lambda d: only_they_take(d, "date") and isinstance(d.given, datetime.datetime),
        encoding("date", datetime.datetime(2024, 1, 1, 12)),
    ),
    Rule(
        "booleans-as-raw-dates-and-times",
        TAKEN,
        "True would be the second day of the year -5877641.",
        lambda d: only_they_take(d, "date", "time") and isinstance(d.given, bool),
        encoding("date", True),
    ),
    Rule(
        "text-as-dates-and-times",
        TAKEN,
        "23:59:60 would be stored as a time outside the day, and a tenth digit as 100 ms.",
        _texts_as_dates,
        encoding("time", "23:59:60"),
    ),
    Rule(
        "times-before-midnight",
        TAKEN,
        "A time of day is not negative.",
        _outside_the_day,
        encoding("time", -1),
    ),
    Rule(
        "times-with-a-time-zone",
        TAKEN,
        "The time zone would be lost.",
        _time_zone,
        encoding("time", datetime.time(1, tzinfo=UTC)),
    ),
    Rule(
        "floats-as-timestamps",
        TAKEN,
        "What is below a millisecond would be lost, and time.time() is seconds.",
        _floats_as_timestamps,
        encoding("timestamp", 1.5),
    ),
    Rule(
        "instants-just-outside-the-calendar",
        TAKEN,
        "They fit a timestamp; only their datetime in UTC cannot be.",
        _edge_of_calendar,
        encoding(
            "timestamp",
            datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=14))),
        ),
    ),
    Rule(
        "offsets-with-microseconds",
        TAKEN,
        "The reference takes the offset's seconds away, but not its microseconds.",
        _offset_parts,
        encoding(
            "timestamp",
            datetime.datetime(
                2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(microseconds=5000))
            ),
        ),
    ),
    Rule(
        "timedeltas-as-durations",
        TAKEN,
        "Days and the rest in nanoseconds lose nothing.",
        lambda d: only_we_take(d, "duration") and isinstance(d.given, datetime.timedelta),
        encoding("duration", datetime.timedelta(1, 2, 3)),
    ),
    Rule(
        "durations-of-mixed-signs",
        TAKEN,
        "The server refuses them.",
        _signs,
        encoding("duration", turbocql.Duration(1, -1, 0)),
    ),
    Rule(
        "durations-beyond-their-bits",
        TAKEN,
        "The server refuses them: months and days have 32 bits.",
        _long_durations,
        encoding("duration", util.Duration(2**31, 0, 0)),
    ),
    Rule(
        "durations-of-floats-and-text",
        TAKEN,
        "1.5 months would become 1 month.",
        _duration_numbers,
        encoding("duration", util.Duration(1.5, 0, 0)),
    ),
    Rule(
        "objects-like-durations",
        TAKEN,
        "Whatever has attributes of these three names need not be a duration.",
        _like_durations,
        encoding("duration", SimpleNamespace(months=1, days=2, nanoseconds=3)),
    ),
]
