"""Checks that values of every type, nested a few levels deep, decode as documented."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from turbocql import Date, Duration, FrozenMap, Time, Timestamp
from turbocql.codec import decode, encode

UTC = timezone.utc


@dataclass(frozen=True)
class Case:
    """A type, a value to encode, and the expected decoded value.

    `hashed` is the expected decoded value inside a set or a map key.
    """

    cql_type: str
    given: Any
    expected: Any
    hashed: Any


def signed(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return st.integers(low, high) | st.sampled_from([low, -1, 0, 1, high])


def durations() -> st.SearchStrategy[Duration]:
    parts = st.tuples(
        st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
    )
    sign = st.sampled_from([1, -1])
    return st.builds(lambda p, s: Duration(s * p[0], s * p[1], s * p[2]), parts, sign)


def timeuuids() -> st.SearchStrategy[UUID]:
    return st.integers(0, 2**128 - 1).map(lambda n: UUID(int=n, version=1))


def same(value: Any) -> Any:
    return value


def as_instant(value: datetime) -> datetime:
    """Converts a datetime to UTC and rounds it down to milliseconds."""
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    utc = aware.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def as_milliseconds(value: int) -> datetime | Timestamp:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
    except OverflowError:
        return Timestamp(value)


def as_day(value: int) -> date | Date:
    ordinal = value + date(1970, 1, 1).toordinal()
    in_calendar = 1 <= ordinal <= date.max.toordinal()
    return date.fromordinal(ordinal) if in_calendar else Date(value)


def as_duration(value: timedelta) -> Duration:
    return Duration.from_timedelta(value)


ZONES: Any = st.none() | st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
INSTANTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 30), timezones=ZONES)
# These strategies never draw -0.0, because -0.0 and 0.0 are the same element of a Python set and
# the same key of a dict.
DOUBLES = st.floats().map(lambda x: x + 0.0)
FLOATS = st.floats(width=32).map(lambda x: x + 0.0)

SCALARS: dict[str, list[tuple[st.SearchStrategy[Any], Any]]] = {
    "ascii": [(st.text(st.characters(max_codepoint=127)), same)],
    "text": [(st.text(), same)],
    "tinyint": [(signed(8), same), (signed(8).map(np.int8), int)],
    "smallint": [(signed(16), same), (signed(16).map(np.int16), int)],
    "int": [(signed(32), same), (signed(32).map(np.int64), int)],
    "bigint": [(signed(64), same), (signed(64).map(np.int64), int)],
    "counter": [(signed(64), same)],
    "varint": [(st.integers(), same), (signed(300), same)],
    "float": [(FLOATS, same), (FLOATS.map(np.float32), float), (signed(24), float)],
    "double": [(DOUBLES, same), (DOUBLES.map(np.float64), float), (signed(53), float)],
    "decimal": [(st.decimals(allow_nan=False, allow_infinity=False), same), (signed(90), Decimal)],
    "boolean": [(st.booleans(), same), (st.booleans().map(np.bool_), bool)],
    "blob": [(st.binary(), same), (st.binary().map(bytearray), bytes)],
    "'org.example.Odd'": [(st.binary(), same)],
    "uuid": [(st.uuids(), same)],
    "timeuuid": [(timeuuids(), same)],
    "inet": [
        (st.ip_addresses(), same),
        (st.ip_addresses(v=4).map(str), IPv4Address),
        (st.ip_addresses(v=6).map(str), IPv6Address),
    ],
    "date": [(st.dates(), same), (signed(32).map(Date), lambda d: as_day(d.days))],
    "time": [
        (st.times(), Time.from_time),
        (st.integers(0, 86_399_999_999_999), Time),
        (st.integers(0, 86_399_999_999_999).map(Time), same),
    ],
    "timestamp": [
        (INSTANTS, as_instant),
        (signed(64), as_milliseconds),
        (signed(64).map(Timestamp), lambda t: as_milliseconds(t.milliseconds)),
    ],
    "duration": [(durations(), same), (st.timedeltas(), as_duration)],
}


@st.composite
def scalars(draw: st.DrawFn, cql_type: str) -> Case:
    strategy, back = draw(st.sampled_from(SCALARS[cql_type]))
    value = draw(strategy)
    expected = back(value)
    return Case(cql_type, value, expected, expected)


def nulls(case: Case) -> st.SearchStrategy[Case]:
    return st.sampled_from([case] * 7 + [Case(case.cql_type, None, None, None)])


@st.composite
def cases(draw: st.DrawFn, cql_type: str | None = None, depth: int = 3) -> Case:
    """Draws a case of `cql_type`, or of any type if `cql_type` is `None`."""
    cql_type = cql_type or draw(types(depth))
    if cql_type in SCALARS:
        return draw(scalars(cql_type))
    name, inner = split(cql_type)
    if name == "frozen":
        case = draw(cases(inner[0]))
        return Case(cql_type, case.given, case.expected, case.hashed)
    if name == "map":
        return draw(maps(cql_type, inner))
    if name in ("tuple", "udt"):
        parts = [draw(nulls(draw(cases(part)))) for part in inner]
        return draw(records(cql_type, parts)) if name == "udt" else of_tuple(cql_type, parts)
    size = int(inner[1]) if name == "vector" else draw(st.integers(0, 3))
    parts = [draw(cases(inner[0])) for _ in range(size)]
    if name != "vector":
        parts = [draw(nulls(part)) for part in parts]
    if name == "set":
        return of_set(cql_type, parts)
    given_as = draw(st.sampled_from([list, tuple]))
    return Case(
        cql_type,
        given_as(part.given for part in parts),
        [part.expected for part in parts],
        tuple(part.hashed for part in parts),
    )


@st.composite
def maps(draw: st.DrawFn, cql_type: str, inner: list[str]) -> Case:
    entries = [(draw(nulls(draw(cases(inner[0])))), draw(nulls(draw(cases(inner[1])))))]
    entries *= draw(st.integers(0, 1))
    return Case(
        cql_type,
        FrozenMap({key.hashed: value.given for key, value in entries}),
        {key.hashed: value.expected for key, value in entries},
        FrozenMap({key.hashed: value.hashed for key, value in entries}),
    )


@st.composite
def records(draw: st.DrawFn, cql_type: str, parts: list[Case]) -> Case:
    names = [f"f{i}" for i in range(len(parts))]
    values = [part.given for part in parts]
    shape = draw(st.sampled_from(["tuple", "list", "dict"]))
    given_as: Any = {
        "tuple": tuple(values),
        "list": values,
        "dict": dict(zip(names, values, strict=True)),
    }[shape]
    return Case(
        cql_type,
        given_as,
        Record(names, [part.expected for part in parts]),
        Record(names, [part.hashed for part in parts]),
    )


class Record(tuple[Any, ...]):
    """The expected value of a UDT. It resembles an instance of the UDT's named tuple class.

    The codec creates such a class for each UDT.
    """

    def __new__(cls, names: Iterable[str], values: Iterable[Any]) -> Record:
        record = super().__new__(cls, values)
        record._fields = tuple(names)
        return record

    _fields: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name not in self._fields:
            raise AttributeError(name)
        return self[self._fields.index(name)]


def of_tuple(cql_type: str, parts: list[Case]) -> Case:
    return Case(
        cql_type,
        tuple(part.given for part in parts),
        tuple(part.expected for part in parts),
        tuple(part.hashed for part in parts),
    )


def of_set(cql_type: str, parts: list[Case]) -> Case:
    hashed = [part.hashed for part in parts]
    return Case(cql_type, [part.given for part in parts], set(hashed), frozenset(hashed))


def split(cql_type: str) -> tuple[str, list[str]]:
    """Splits a type into its name and its parts: `map<a, list<b>>` into `map` and `[a, list<b>]`.

    The parts of a UDT are the types of its fields.
    """
    name = cql_type[: min(i for i in map(cql_type.find, "<{") if i >= 0)]
    inner, level, start = cql_type[len(name) + 1 : -1], 0, 0
    parts = []
    for i, mark in enumerate(inner + ","):
        level += (mark in "<{") - (mark in ">}")
        if mark == "," and level == 0:
            parts.append(inner[start:i].strip())
            start = i + 1
    if name == "udt":
        parts = [part.partition(" ")[2] for part in parts]
    return name, parts


def types(depth: int) -> st.SearchStrategy[str]:
    scalar = st.sampled_from(sorted(SCALARS))
    if depth == 0:
        return scalar
    inner = types(depth - 1)
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        scalar,
        inner.map(lambda t: f"list<{t}>"),
        inner.map(lambda t: f"set<{t}>"),
        inner.map(lambda t: f"frozen<{t}>"),
        st.tuples(inner, inner).map(lambda kv: f"map<{kv[0]}, {kv[1]}>"),
        several.map(lambda ts: f"tuple<{', '.join(ts)}>"),
        several.map(lambda ts: f"udt{{{', '.join(f'f{i} {t}' for i, t in enumerate(ts))}}}"),
        st.tuples(inner, st.integers(1, 3)).map(lambda tn: f"vector<{tn[0]}, {tn[1]}>"),
    )


def exact(value: Any) -> Any:
    """Converts a value to a form for strict comparison.

    If two forms are equal, the values are equal, and so are their classes, the signs of their float
    zeros, their scales and their field names. The forms of two NaNs are equal.
    """
    if isinstance(value, float):
        return "nan" if value != value else struct.pack(">d", value)
    if isinstance(value, Decimal):
        # A CQL decimal has no negative zero.
        sign, digits, exponent = value.as_tuple()
        return "Decimal", sign if any(digits) else 0, str(int("".join(map(str, digits)))), exponent
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return "record", value._fields, [exact(part) for part in value]
    if isinstance(value, (list, tuple)):
        return type(value), [exact(part) for part in value]
    if isinstance(value, (dict, FrozenMap)):
        return type(value), [(exact(k), exact(v)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted((exact(part) for part in value), key=repr)
    if isinstance(value, datetime):
        return value, value.tzinfo
    return type(value), value


@settings(max_examples=300)
@given(cases())
def test_values_decode_as_documented(case: Case) -> None:
    decoded = decode(case.cql_type, encode(case.cql_type, case.given))
    assert exact(decoded) == exact(case.expected)


@settings(max_examples=120)
@given(cases())
def test_decoded_values_can_be_encoded(case: Case) -> None:
    data = encode(case.cql_type, case.given)
    again = encode(case.cql_type, decode(case.cql_type, data))
    assert exact(decode(case.cql_type, again)) == exact(decode(case.cql_type, data))
    if "set<" not in case.cql_type:
        assert again == data


@settings(max_examples=120)
@given(cases(depth=2))
def test_set_elements_and_map_keys_are_hashable(case: Case) -> None:
    as_key = f"map<frozen<{case.cql_type}>, int>"
    count, one = struct.pack(">i", 1), struct.pack(">ii", 4, 1)
    data = encode(case.cql_type, case.given)
    (key,) = decode(as_key, count + struct.pack(">i", len(data)) + data + one)
    assert exact(key) == exact(case.hashed)
    hash(key)


def test_every_scalar_type_is_drawn_from() -> None:
    for cql_type in SCALARS:

        @settings(max_examples=40)
        @given(scalars(cql_type))
        def check(case: Case) -> None:
            decoded = decode(case.cql_type, encode(case.cql_type, case.given))
            assert exact(decoded) == exact(case.expected)

        check()
