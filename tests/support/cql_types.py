"""CQL types as trees, with sample values and functions that help to compare values.

The witness, tests/support/witness.py, reads values with scylla-driver and prints them in a certain
form. `canonical` converts a value that turbocql decoded to the same form. `parse_json` converts
parsed JSON of the server, in which objects are lists of pairs, to a value with the same `canonical`
form. `identical` compares Python values and their classes.
"""

from __future__ import annotations

import datetime
import json
import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from uuid import UUID

from turbocql import Date, Duration, FrozenMap, Time, Timestamp

__all__ = [
    "SCALARS",
    "Kind",
    "ListOf",
    "MapOf",
    "Scalar",
    "SetOf",
    "TupleOf",
    "Udt",
    "VectorOf",
    "identical",
]

UTC = datetime.timezone.utc


class Kind(ABC):
    """A CQL type."""

    @property
    @abstractmethod
    def cql(self) -> str:
        """The CQL of the type inside another type, with `frozen` where the server requires it."""

    @property
    def column(self) -> str:
        """The CQL of the type as the type of a column."""
        return self.cql

    @abstractmethod
    def canonical(self, value: Any) -> Any:
        """Converts a value that turbocql decoded to the form that the witness prints."""

    @abstractmethod
    def parse_json(self, parsed: Any) -> Any:
        """Converts the server's JSON of a value to a value with the same `canonical` form."""

    def cell(self, value: Any) -> Any:
        """Converts a value like `canonical`, but also accepts `None`."""
        return None if value is None else self.canonical(value)

    def parse_cell(self, parsed: Any) -> Any:
        """Converts a value like `parse_json`, but also accepts `None`."""
        return None if parsed is None else self.parse_json(parsed)

    def parse_key(self, text: str) -> Any:
        """Parses a key of a map. In JSON, a key is always a string.

        If the type of the key is not a text, the string itself contains JSON.
        """
        parsed = json.loads(text, parse_float=Decimal, object_pairs_hook=list)
        return self.parse_cell(parsed)


@dataclass(frozen=True)
class Scalar(Kind):
    """A scalar type. `samples` are values that a read returns exactly as they were written."""

    name: str
    samples: Sequence[Any]
    to_canonical: Callable[[Any], Any]
    from_json: Callable[[Any], Any]
    json_text: bool = False
    """Whether the server writes values of the type as JSON strings."""

    @property
    def cql(self) -> str:
        return self.name

    def canonical(self, value: Any) -> Any:
        return self.to_canonical(value)

    def parse_json(self, parsed: Any) -> Any:
        return self.from_json(parsed)

    def parse_key(self, text: str) -> Any:
        return self.parse_json(text) if self.json_text else super().parse_key(text)


@dataclass(frozen=True)
class ListOf(Kind):
    element: Kind

    @property
    def cql(self) -> str:
        return f"frozen<{self.column}>"

    @property
    def column(self) -> str:
        return f"list<{self.element.cql}>"

    def canonical(self, value: Any) -> Any:
        return [self.element.cell(part) for part in value]

    def parse_json(self, parsed: Any) -> Any:
        return [self.element.parse_cell(part) for part in parsed]


@dataclass(frozen=True)
class SetOf(Kind):
    element: Kind

    @property
    def cql(self) -> str:
        return f"frozen<{self.column}>"

    @property
    def column(self) -> str:
        return f"set<{self.element.cql}>"

    def canonical(self, value: Any) -> Any:
        return sorted((self.element.cell(part) for part in value), key=json.dumps)

    def parse_json(self, parsed: Any) -> Any:
        return [self.element.parse_cell(part) for part in parsed]


@dataclass(frozen=True)
class MapOf(Kind):
    key: Kind
    value: Kind

    @property
    def cql(self) -> str:
        return f"frozen<{self.column}>"

    @property
    def column(self) -> str:
        return f"map<{self.key.cql}, {self.value.cql}>"

    def canonical(self, value: Any) -> Any:
        entries = value.items() if isinstance(value, Mapping) else value
        pairs = [[self.key.cell(key), self.value.cell(part)] for key, part in entries]
        return sorted(pairs, key=json.dumps)

    def parse_json(self, parsed: Any) -> Any:
        return [(self.key.parse_key(key), self.value.parse_cell(v)) for key, v in parsed]


@dataclass(frozen=True)
class TupleOf(Kind):
    parts: tuple[Kind, ...]

    @property
    def cql(self) -> str:
        return f"frozen<tuple<{', '.join(part.cql for part in self.parts)}>>"

    def canonical(self, value: Any) -> Any:
        return [kind.cell(part) for kind, part in zip(self.parts, value, strict=True)]

    def parse_json(self, parsed: Any) -> Any:
        return tuple(kind.parse_cell(part) for kind, part in zip(self.parts, parsed, strict=True))


@dataclass(frozen=True)
class Udt(Kind):
    name: str
    fields: tuple[tuple[str, Kind], ...]

    @property
    def cql(self) -> str:
        return f"frozen<{self.name}>"

    @property
    def column(self) -> str:
        return self.name

    @property
    def create(self) -> str:
        """The statement that creates the type."""
        fields = ", ".join(f"{name} {kind.cql}" for name, kind in self.fields)
        return f"CREATE TYPE {self.name} ({fields})"

    def canonical(self, value: Any) -> Any:
        parts = value if isinstance(value, tuple) else value.values()
        return {
            name: kind.cell(part) for (name, kind), part in zip(self.fields, parts, strict=True)
        }

    def parse_json(self, parsed: Any) -> Any:
        fields = dict(parsed)
        return tuple(kind.parse_cell(fields[name]) for name, kind in self.fields)


@dataclass(frozen=True)
class VectorOf(Kind):
    element: Kind
    dimension: int

    @property
    def cql(self) -> str:
        return f"vector<{self.element.cql}, {self.dimension}>"

    def canonical(self, value: Any) -> Any:
        assert len(value) == self.dimension
        return [self.element.cell(part) for part in value]

    def parse_json(self, parsed: Any) -> Any:
        return [self.element.parse_cell(part) for part in parsed]


def identical(expected: Any, got: Any) -> bool:
    """Returns whether two values are equal and have the same class, and all their parts too.

    A NaN equals a NaN with the same bits, and 0.0 does not equal -0.0. Where `expected` has a
    tuple, `got` may have a named tuple.
    """
    if isinstance(expected, tuple) and hasattr(got, "_fields"):
        return isinstance(got, tuple) and _all(expected, tuple(got))
    if type(expected) is not type(got):
        return False
    if isinstance(expected, float):
        return struct.pack(">d", expected) == struct.pack(">d", got)
    if isinstance(expected, Decimal):
        return bool(expected.as_tuple() == got.as_tuple())
    if isinstance(expected, list | tuple):
        return _all(expected, got)
    if isinstance(expected, set | frozenset):
        return _all(sorted(expected, key=repr), sorted(got, key=repr))
    if isinstance(expected, dict | FrozenMap):
        return _all(sorted(expected.items(), key=repr), sorted(got.items(), key=repr))
    return bool(expected == got)


def _all(expected: Sequence[Any], got: Sequence[Any]) -> bool:
    return len(expected) == len(got) and all(map(identical, expected, got))


def _decimal(value: Decimal) -> Any:
    sign, digits, exponent = value.as_tuple()
    return [sign, "".join(map(str, digits)), exponent]


def _days(value: Any) -> int:
    return (value if isinstance(value, Date) else Date.from_date(value)).days


def _milliseconds(value: Any) -> int:
    return (value if isinstance(value, Timestamp) else Timestamp.from_datetime(value)).milliseconds


def _date_of(text: str) -> Any:
    return datetime.date.fromisoformat(text)


def _time_of(text: str) -> Time:
    clock, _, fraction = text.partition(".")
    hour, minute, second = map(int, clock.split(":"))
    return Time.of(hour, minute, second, int(fraction.ljust(9, "0") or 0))


def _timestamp_of(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)


_UNITS = {
    "y": (12, 0, 0),
    "mo": (1, 0, 0),
    "w": (0, 7, 0),
    "d": (0, 1, 0),
    "h": (0, 0, 3_600_000_000_000),
    "m": (0, 0, 60_000_000_000),
    "s": (0, 0, 1_000_000_000),
    "ms": (0, 0, 1_000_000),
    "us": (0, 0, 1_000),
    "ns": (0, 0, 1),
}


def _duration_of(text: str) -> Duration:
    sign = -1 if text.startswith("-") else 1
    parts = [0, 0, 0]
    number = unit = ""
    for character in text.lstrip("-") + "0":
        if character.isdigit() and unit:
            for i, factor in enumerate(_UNITS[unit.replace("µ", "u")]):
                parts[i] += sign * int(number) * factor
            number = unit = ""
        if character.isdigit():
            number += character
        else:
            unit += character
    return Duration(*parts)


def _integer(name: str, bits: int) -> Scalar:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return Scalar(name, (0, 1, -1, low, high, low + 1), str, int)


def _single(number: float) -> float:
    narrow: float = struct.unpack(">f", struct.pack(">f", number))[0]
    return narrow


def _hex(number: float) -> str:
    return "nan" if math.isnan(number) else float(number).hex()


def _float_of(parsed: Any) -> float:
    return float(parsed)


UUIDS = (
    UUID(int=0),
    UUID(int=(1 << 128) - 1),
    UUID("12345678-1234-5678-1234-567812345678"),
)
TIME_UUIDS = (
    UUID("13814000-1dd2-11b2-8080-808080808080"),  # the smallest at 1970-01-01 00:00
    UUID("d2177dd0-eaa2-11de-a572-001b779c76e3"),
    UUID("ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f"),
)

SCALARS = (
    Scalar("ascii", ("", "a", "The quick brown fox", "\0\x7f"), str, str, json_text=True),
    Scalar("text", ("", "ä", "日本語 \U0001f680", 'line\nand "quote"\\'), str, str, json_text=True),
    _integer("tinyint", 8),
    _integer("smallint", 16),
    _integer("int", 32),
    _integer("bigint", 64),
    Scalar("varint", (0, -1, 127, 128, -129, 10**40, -(2**200)), str, int),
    Scalar(
        "float",
        (0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, _single(3.4028235e38), _single(1.4e-45)),
        _hex,
        lambda parsed: _single(float(parsed)),
    ),
    Scalar(
        "double",
        (0.0, 0.1, -1e300, math.inf, -math.inf, math.nan, 1.7976931348623157e308, 5e-324),
        _hex,
        _float_of,
    ),
    Scalar(
        "decimal",
        (Decimal("0"), Decimal("1.50"), Decimal("-12345678901234567890.123"), Decimal("1E-30")),
        _decimal,
        Decimal,
    ),
    Scalar("boolean", (True, False), bool, bool),
    Scalar(
        "blob",
        (b"", b"\0", bytes(range(256)), b"turbocql"),
        bytes.hex,
        lambda text: bytes.fromhex(text.removeprefix("0x")),
        json_text=True,
    ),
    Scalar("uuid", UUIDS, str, UUID, json_text=True),
    Scalar("timeuuid", TIME_UUIDS, str, UUID, json_text=True),
    Scalar(
        "inet",
        (
            IPv4Address("127.0.0.1"),
            IPv4Address("255.255.255.255"),
            IPv6Address("::1"),
            IPv6Address("2001:db8::ff00:42:8329"),
        ),
        str,
        ip_address,
        json_text=True,
    ),
    Scalar(
        "date",
        (
            datetime.date(1970, 1, 1),
            datetime.date(2024, 2, 29),
            datetime.date.min,
            datetime.date.max,
        ),
        _days,
        _date_of,
        json_text=True,
    ),
    Scalar(
        "time",
        (Time(0), Time.of(8, 12, 54, 123_456_789), Time(86_399_999_999_999), Time(1)),
        lambda time: time.nanoseconds,
        _time_of,
        json_text=True,
    ),
    Scalar(
        "timestamp",
        (
            datetime.datetime(1970, 1, 1, tzinfo=UTC),
            datetime.datetime(2024, 2, 29, 12, 34, 56, 789_000, tzinfo=UTC),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
            datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        ),
        _milliseconds,
        _timestamp_of,
        json_text=True,
    ),
    Scalar(
        "duration",
        (
            Duration(0, 0, 0),
            Duration(1, 2, 3),
            Duration(-1, -2, -3),
            Duration(2**31 - 1, 2**31 - 1, 2**63 - 1),
            Duration(0, 0, -86_400_000_000_000),
        ),
        lambda duration: [duration.months, duration.days, duration.nanoseconds],
        _duration_of,
        json_text=True,
    ),
)
