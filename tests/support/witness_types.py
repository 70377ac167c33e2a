"""Edge-case values of every CQL type, and the JSON that Cassandra reads and writes for them.

The types come from tests/support/cql_types.py, but this module has its own samples for most of
them. `read_date` and `read_timestamp` accept years before 1 and after 9999. `values` builds values
for any nested type. `json_of` converts a value to JSON from which the server makes the same value.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from ipaddress import ip_address
from itertools import cycle, islice
from typing import Any
from uuid import UUID

from tests.support.cql_types import (
    SCALARS,
    TIME_UUIDS,
    UTC,
    UUIDS,
    Kind,
    ListOf,
    MapOf,
    Scalar,
    SetOf,
    TupleOf,
    Udt,
    VectorOf,
    identical,
)

from turbocql import Date, Duration, FrozenMap, Time, Timestamp

__all__ = [
    "AWKWARD",
    "COUNTER",
    "INT",
    "LEAVES",
    "SHAPES",
    "UNWRITABLE",
    "json_of",
    "one_of",
    "parse",
    "refusal",
    "same",
    "shape",
    "term_of",
    "values",
]

CYCLE_DAYS, CYCLE_YEARS = 146_097, 400
"""The Gregorian calendar repeats after this many days and years."""
START = datetime.date(2000, 1, 1)
"""The first day of a cycle of the calendar."""
START_DAYS = (START - datetime.date(1970, 1, 1)).days


def days_of(text: str) -> int:
    """Converts a date to days since 1970. The year may have a sign and any number of digits."""
    found = re.fullmatch(r"([+-]?\d+)-(\d\d)-(\d\d)", text)
    assert found, text
    year, month, day = map(int, found.groups())
    cycles, rest = divmod(year - START.year, CYCLE_YEARS)
    within = datetime.date(START.year + rest, month, day) - START
    return START_DAYS + cycles * CYCLE_DAYS + within.days


def date_text(days: int) -> str:
    """Returns the text of a date as the server writes it, with a plus sign for years after 9999."""
    cycles, rest = divmod(days - START_DAYS, CYCLE_DAYS)
    date = START + datetime.timedelta(rest)
    year = date.year + cycles * CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{date.month:02}-{date.day:02}"


def _in_calendar(days: int) -> bool:
    return _FIRST_DAY <= days <= _LAST_DAY


_FIRST_DAY, _LAST_DAY = days_of("0001-01-01"), days_of("9999-12-31")


def read_date(text: str) -> Any:
    days = days_of(text)
    return datetime.date.fromisoformat(text) if _in_calendar(days) else Date(days)


def read_timestamp(text: str) -> Any:
    day, clock = re.split("[T ]", text.removesuffix("Z"))
    days = days_of(day)
    if _in_calendar(days):
        return datetime.datetime.fromisoformat(f"{day} {clock}").replace(tzinfo=UTC)
    hour, minute, second, millisecond = map(int, re.split("[:.]", clock))
    return Timestamp(
        ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + millisecond,
    )


_single = float.fromhex

_MORE: dict[str, tuple[Any, ...]] = {
    "ascii": ("", "\0\x1b\x7f", 'null "\\', "a"),
    "text": (
        "",
        "a\0b",
        "\U0010ffff\U0001f680",
        "\u2028\ud7ff\ue000\uffff",
        "\x7f\x80",
        '"\\/\b\f\n\r\t',
        "e\u0301 is not \u00e9",
        "null",
    ),
    "varint": (0, -1, 127, 128, -128, -129, 255, 256, 2**63, -(2**63) - 1, 2**1000 + 1, -(10**300)),
    "float": (
        -0.0,
        _single("0x1.99999ap-4"),  # 0.1
        _single("0x1p-149"),  # the smallest subnormal
        _single("-0x1.fffffcp-127"),  # the largest subnormal, negative
        _single("0x1p-126"),
        _single("-0x1.fffffep127"),  # the largest finite number, negative
        _single("0x1p24"),
        _single("-0x1.555556p-2"),
    ),
    "double": (
        -0.0,
        0.1,
        5e-324,
        -2.225073858507201e-308,
        2.2250738585072014e-308,
        -1.7976931348623157e308,
        1e23,
        2.0**53,
        -1 / 3,
    ),
    "decimal": (
        *map(Decimal, ("0E-20", "-0.10", "1E+10", "1.50", "1E-2000", "-1E+2147483647")),
        Decimal("7E-2147483647"),
        Decimal("-" + "9" * 60 + ".000"),
    ),
    "blob": (b"", b"\0", b"\x80\xff" * 70, bytes(range(256))),
    "uuid": (*UUIDS, UUID("80000000-0000-4000-8000-000000000001")),
    "timeuuid": TIME_UUIDS,
    "inet": (
        *map(ip_address, ["0.0.0.0", "255.255.255.255", "::", "fe80::1", "1:0:0:2::3"]),
        ip_address("ffff:" * 7 + "ffff"),
    ),
    "date": (
        datetime.date.min,
        datetime.date.max,
        datetime.date(1900, 2, 28),
        Date(-(2**31)),
        Date(2**31 - 1),
        Date(-719_163),  # the last day of the year 0
        Date(-719_529),  # the last day of the year -1
        Date(2_932_897),  # the first day of the year 10000
    ),
    "time": (
        Time(0),
        Time(1),
        Time(3_600_000_000_000),
        Time(86_399_999_999_999),
        Time(123_456_789),
    ),
    "timestamp": (
        datetime.datetime(1, 1, 1, tzinfo=UTC),
        datetime.datetime(1582, 10, 14, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        Timestamp(253_402_300_800_000),  # the year 10000
        Timestamp(2**63 - 1),
    ),
    "duration": (
        Duration(0, 0, 0),
        Duration(14, 9, 90_061_001_002_003),
        Duration(0, 0, -1),
        Duration(-1, 0, 0),
        Duration(0, 64, 0),
        Duration(2**31 - 1, 2**31 - 1, 2**63 - 1),
        Duration(1 - 2**31, 1 - 2**31, 1 - 2**63),
    ),
}

_READ = {"date": read_date, "timestamp": read_timestamp}

AWKWARD: Mapping[str, Scalar] = {
    scalar.name: replace(
        scalar,
        samples=_MORE.get(scalar.name, scalar.samples),
        from_json=_READ.get(scalar.name, scalar.from_json),
    )
    for scalar in SCALARS
}
"""Every scalar type except counter. All samples can be written as JSON and read from JSON."""

COUNTER = Scalar("counter", (0, -1, 2**63 - 1, -(2**63)), str, int)
"""The counter type as an element. Only vectors accept it."""

INT = AWKWARD["int"]

SHAPES: Mapping[str, Callable[[Kind], Kind]] = {
    "list": ListOf,
    "set": SetOf,
    "key": lambda kind: MapOf(kind, INT),
    "value": lambda kind: MapOf(INT, kind),
    "tuple": lambda kind: TupleOf((kind, INT, kind)),
    "vector": lambda kind: VectorOf(kind, 3),
}
"""Maps the name of a position inside another type to a function that puts a type into this
position. Fields of UDTs are left out."""


def shape(path: str, kind: Kind) -> Kind:
    """Returns `kind` nested in the types of `path`: `"list set"` is a list of sets."""
    for name in reversed(path.split()):
        kind = SHAPES[name](kind)
    return kind


LEAVES: Sequence[Scalar] = (*AWKWARD.values(), COUNTER)


def refusal(path: str, leaf: Scalar) -> str | None:
    """Returns the server's error for `leaf` nested in `path`, or `None` if there is no error."""
    place = path.split()[-1] if path else "alone"
    if leaf is COUNTER and place != "vector":
        if place == "tuple":
            return "Counters are not allowed inside tuples"
        return "Counters are not allowed inside collections"
    if leaf.name == "duration" and place == "set":
        return "Durations are not allowed inside sets"
    if leaf.name == "duration" and place == "key":
        return "Durations are not allowed as map keys"
    return None


UNWRITABLE = ("set vector counter", "key vector counter")
"""Columns that the server creates but cannot write, because it cannot sort the vectors in them."""

_ONE_OF: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "list": ("[{0}]", lambda value: [value]),
    "set": ("{{{0}}}", lambda value: {value}),
    "key": ("{{{0}: 1}}", lambda value: {value: 1}),
    "value": ("{{1: {0}}}", lambda value: {1: value}),
    "tuple": ("({0}, 1, {0})", lambda value: (value, 1, value)),
    "vector": ("[{0}, {0}, {0}]", lambda value: [value] * 3),
}


def one_of(path: str, value: Any) -> Any:
    """Returns a container that holds `value` one or more times.

    A map or a tuple also holds the number 1.
    """
    return _ONE_OF[path][1](value)


def term_of(path: str, term: str) -> str:
    """Returns a CQL literal for the container that `one_of` returns.

    `term` is the CQL literal of the value in the container.
    """
    return _ONE_OF[path][0].format(term)


# Values


def values(kind: Kind) -> list[Any]:
    """Returns values of a type, as turbocql decodes them.

    Together they contain all samples, empty containers, and the nulls that JSON can express.
    """
    if isinstance(kind, Scalar):
        return list(kind.samples)
    if isinstance(kind, ListOf):
        parts = values(kind.element)
        return [parts, [parts[-1]] * 2, []]
    if isinstance(kind, SetOf):
        parts = [hashable(kind.element, part) for part in values(kind.element)]
        return [set(parts), {parts[-1]}, set()]
    if isinstance(kind, MapOf):
        keys = [hashable(kind.key, key) for key in values(kind.key)]
        parts = values(kind.value)
        pairs = zip(cycle(keys), islice(cycle(parts), max(len(keys), len(parts))), strict=False)
        chunks = iter(lambda: dict(islice(pairs, len(keys))), {})
        return [*chunks, {}]
    if isinstance(kind, VectorOf):
        parts, size = values(kind.element), kind.dimension
        return [
            list(islice(cycle(parts), start, start + size)) for start in range(0, len(parts), size)
        ]
    return _records([part for _, part in kind.fields] if isinstance(kind, Udt) else kind)


def _records(kinds: Sequence[Kind] | Kind) -> list[Any]:
    """Returns values of a tuple or UDT.

    In two of them, every second part is null. In one of them, all parts are null.
    """
    if isinstance(kinds, TupleOf):
        kinds = kinds.parts
    assert isinstance(kinds, Sequence)
    columns = [values(kind) for kind in kinds]
    rows = [
        tuple(column[(row + shift) % len(column)] for shift, column in enumerate(columns))
        for row in range(max(map(len, columns)))
    ]
    odd = tuple(part if place % 2 else None for place, part in enumerate(rows[0]))
    even = tuple(None if place % 2 else part for place, part in enumerate(rows[-1]))
    return [*rows, odd, even, (None,) * len(columns)]


def hashable(kind: Kind, value: Any) -> Any:
    """Converts a value to the form that turbocql decodes inside sets and map keys."""
    if value is None or isinstance(kind, Scalar):
        return value
    if isinstance(kind, ListOf | VectorOf):
        return tuple(hashable(kind.element, part) for part in value)
    if isinstance(kind, SetOf):
        return frozenset(hashable(kind.element, part) for part in value)
    if isinstance(kind, MapOf):
        return FrozenMap(
            {hashable(kind.key, key): hashable(kind.value, part) for key, part in value.items()}
        )
    assert isinstance(kind, TupleOf | Udt)
    return tuple(hashable(part, cell) for part, cell in zip(_parts(kind), value, strict=True))


def _parts(kind: TupleOf | Udt) -> list[Kind]:
    return [part for _, part in kind.fields] if isinstance(kind, Udt) else list(kind.parts)


def same(kind: Kind, expected: Any, got: Any) -> bool:
    """Returns whether two values are equal and have the same class, and all their parts too.

    The order of sets and maps does not matter. A UDT in `got` must be a named tuple.
    """
    if expected is None or isinstance(kind, Scalar):
        return identical(expected, got)
    if isinstance(kind, Udt):
        names = tuple(name for name, _ in kind.fields)
        if not isinstance(got, tuple) or getattr(got, "_fields", None) != names:
            return False
    elif type(expected) is not type(got):
        return False
    if len(expected) != len(got):
        return False
    if isinstance(kind, SetOf):
        expected, got = _ordered(kind.element, expected), _ordered(kind.element, got)
    if isinstance(kind, MapOf):
        pairs = zip(_ordered(kind.key, expected), _ordered(kind.key, got), strict=True)
        return all(
            same(kind.key, one, two) and same(kind.value, expected[one], got[two])
            for one, two in pairs
        )
    if isinstance(kind, TupleOf | Udt):
        return all(map(same, _parts(kind), expected, got))
    assert isinstance(kind, ListOf | SetOf | VectorOf)
    return all(same(kind.element, one, two) for one, two in zip(expected, got, strict=True))


def _ordered(kind: Kind, parts: Any) -> list[Any]:
    return sorted(parts, key=lambda part: json.dumps(kind.cell(part)))


# JSON


def json_of(kind: Kind, value: Any) -> Any:
    """Returns an object for `json.dumps`. Cassandra makes `value` from the resulting JSON."""
    if value is None:
        return None
    if isinstance(kind, Scalar):
        convert = _SCALAR_JSON.get(kind.name)
        return convert(value) if convert else value
    if isinstance(kind, ListOf | SetOf | VectorOf):
        return [json_of(kind.element, part) for part in value]
    if isinstance(kind, MapOf):
        return {
            _key(kind.key, json_of(kind.key, key)): json_of(kind.value, part)
            for key, part in value.items()
        }
    assert isinstance(kind, TupleOf | Udt)
    parts = [json_of(part, cell) for part, cell in zip(_parts(kind), value, strict=True)]
    if isinstance(kind, Udt):
        return dict(zip((name for name, _ in kind.fields), parts, strict=True))
    return parts


def _key(kind: Kind, told: Any) -> str:
    """Returns a key of a JSON object.

    If the key is a scalar whose JSON is a string, it is unchanged. All other keys become a string
    that contains JSON.
    """
    if isinstance(kind, Scalar) and isinstance(told, str):
        return told
    return json.dumps(told)


def _float(value: float) -> Any:
    """Returns a finite number unchanged, and Java's text for a NaN or an infinity."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


def _blob(value: bytes) -> str:
    return f"0x{value.hex()}"


def _date(value: Any) -> str:
    return date_text(value.days) if isinstance(value, Date) else str(value)


def _time(value: Time) -> str:
    seconds, fraction = divmod(value.nanoseconds, 1_000_000_000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{fraction:09}"


def _timestamp(value: Any) -> str:
    """Returns an instant as text.

    If the server could not parse the year, the text is the number of milliseconds.
    """
    if isinstance(value, Timestamp):
        return str(value.milliseconds)
    return f"{value.date()} {value:%H:%M:%S}.{value.microsecond // 1000:03}Z"


def _duration(value: Duration) -> str:
    parts = value.months, value.days, value.nanoseconds
    sign = "-" if min(parts) < 0 else ""
    months, days, nanoseconds = map(abs, parts)
    return f"{sign}{months}mo{days}d{nanoseconds}ns"


_SCALAR_JSON: Mapping[str, Callable[[Any], Any]] = {
    "float": _float,
    "double": _float,
    # Decimals are strings, because the server would first parse a JSON number as a double.
    "decimal": str,
    "blob": _blob,
    "uuid": str,
    "timeuuid": str,
    "inet": str,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "duration": _duration,
}


def parse(said: str | None) -> Any:
    """Parses JSON. Objects become lists of pairs, so that no entry with a repeated key is lost."""
    if said is None:
        return None
    return json.loads(said, parse_float=Decimal, object_pairs_hook=list)
