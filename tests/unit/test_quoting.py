"""Tests of `quote_identifier` and `quote_literal` without a server."""

from __future__ import annotations

import array
import datetime
import enum
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turbocql import UNSET, Duration, FrozenMap, Secret, Time, quote_identifier, quote_literal
from turbocql._cql.literals import literal
from turbocql.codec import CqlType
from turbocql.errors import EncodeError

UTC = datetime.timezone.utc


class Point(NamedTuple):
    x: int
    order: str


@dataclass
class Size:
    width: int
    height: float | None = None


class Color(str, enum.Enum):
    RED = "it's red"


class Level(enum.IntEnum):
    LOW = 1


class Sly(str):
    """A str whose `replace` and `__str__` return other text."""

    def replace(self, *_: Any) -> str:
        return "'; DROP TABLE t; --"

    def __str__(self) -> str:
        return "x"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        ("it's", "'it''s'"),
        ("", "''"),
        (Color.RED, "'it''s red'"),
        (Level.LOW, "1"),
        (True, "true"),
        (np.bool_(False), "false"),
        (b"\x00\xff", "0x00ff"),
        (bytearray(b"a"), "0x61"),
        (memoryview(b"a"), "0x61"),
        (-(2**70), str(-(2**70))),
        (np.int64(5), "5"),
        (1.5, "1.5"),
        (np.float64(1.5), "1.5"),
        (np.float32(0.5), "0.5"),
        (Fraction(1, 4), "0.25"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (Decimal("1.10"), "1.10"),
        (Decimal("1E+3"), "1E+3"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime.datetime(2024, 2, 29, 12, 30), "'2024-02-29 12:30:00.000Z'"),
        (
            datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            "'2023-12-31 22:00:00.000Z'",
        ),
        (datetime.datetime(1582, 10, 4, tzinfo=UTC), "-12220243200000"),
        (datetime.date(2024, 2, 29), "'2024-02-29'"),
        (datetime.time(1, 2, 3, 4), "'01:02:03.000004000'"),
        (Time.of(23), "'23:00:00'"),
        (datetime.timedelta(days=-1, microseconds=-1), "-1d1us"),
        (Duration(14, 2, 3), "1y2mo2d3ns"),
        (ip_address("10.0.0.1"), "'10.0.0.1'"),
        (ip_address("::1"), "'::1'"),
        ([], "[]"),
        ([1, [None]], "[1, [null]]"),
        (range(2), "[0, 1]"),
        (array.array("h", [1, 2]), "[1, 2]"),
        (np.array([1.5, -2.0], np.float32), "[1.5, -2.0]"),
        (np.array([[1], [2]]), "[[1], [2]]"),
        (set(), "{}"),
        ({2, 1}, "{1, 2}"),
        (frozenset({"b'"}), "{'b'''}"),
        ({"k'": [1]}, "{'k''': [1]}"),
        (FrozenMap({1: "a"}), "{1: 'a'}"),
        ((1, "a", None), "(1, 'a', null)"),
        (Point(1, "o'"), "{x: 1, \"order\": 'o'''}"),
        ([Size(1)], "[{height: null, width: 1}]"),
        (Sly("a'b"), "'a''b'"),
    ],
)
def test_values(value: object, expected: str) -> None:
    assert quote_literal(value) == expected


@pytest.mark.parametrize(
    ("value", "cql_type", "expected"),
    [
        ((1, 2), "list<int>", "[1, 2]"),
        ([2, 1, 2], "frozen<set<int>>", "{1, 2}"),
        ({(1, 2)}, "set<frozen<list<int>>>", "{[1, 2]}"),
        ((0.1, 2), "vector<float, 2>", "[0.1, 2.0]"),
        ({"x": 1}, CqlType.udt("p", {"x": "int", "Zip Code": "text"}), '{x: 1, "Zip Code": null}'),
        (datetime.date(2024, 1, 1), "timestamp", "'2024-01-01 00:00:00.000Z'"),
        (0, "timestamp", "'1970-01-01 00:00:00.000Z'"),
        ("::1", "inet", "'::1'"),
        (datetime.timedelta(hours=1), "duration", "1h"),
        (None, "int", "null"),
    ],
)
def test_values_of_a_type(value: object, cql_type: Any, expected: str) -> None:
    assert quote_literal(value, cql_type) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "class object has no CQL literal"),
        (Secret("hunter2"), "Secret has no CQL literal"),
        (UNSET, "UnsetType has no CQL literal"),
        (1j, "complex has no CQL literal"),
        ((), "at least one value"),
        (Decimal("NaN"), "a CQL decimal is finite"),
        (Time(-1), "within a day"),
        (datetime.time(1, tzinfo=UTC), "no time zone"),
        (Duration(1, -1, 0), "one sign"),
        (IPv6Address("fe80::1%eth0"), "without a scope"),
        (IPv6Address("::ffff:10.0.0.1"), "as 10.0.0.1"),
        ("\ud800", "half a surrogate pair"),
        ([10**5000], "so many digits"),
        (np.ma.masked_array([1, 2], [True, False]), "masked array"),
        (np.datetime64("NaT", "s"), "datetime64 has no CQL literal"),
        ([{"a": object()}], "class object has no CQL literal"),
    ],
)
def test_values_without_a_literal(value: object, message: str) -> None:
    with pytest.raises(EncodeError, match=message) as caught:
        quote_literal(value)
    assert "hunter2" not in str(caught.value)


def test_values_that_a_type_refuses() -> None:
    with pytest.raises(EncodeError, match="int"):
        quote_literal("1", "int")
    with pytest.raises(EncodeError, match="smallint"):
        quote_literal([70_000], "list<smallint>")
    with pytest.raises(ValueError, match="nonsense"):
        quote_literal(1, "nonsense")


def test_cyclic_values() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError, match="nested too deeply"):
        quote_literal(endless)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["users"], '"users"'),
        (["Users"], '"Users"'),
        (["app", "select"], '"app"."select"'),
        (['a"; DROP TABLE t; --'], '"a""; DROP TABLE t; --"'),
        ([Sly('a"b')], '"a""b"'),
        (["Länge\n"], '"Länge\n"'),
    ],
)
def test_names(names: list[str], expected: str) -> None:
    assert quote_identifier(*names) == expected


def test_names_that_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one character"):
        quote_identifier("app", "")
    with pytest.raises(TypeError, match="must be a str, got NoneType"):
        quote_identifier(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="UTF-8"):
        quote_identifier("\ud800")


_TEXTS = st.text(alphabet=st.sampled_from("'\"\\;-/*$ a\0\n\u2019\uff07"), max_size=12)
_VALUES = st.recursive(
    _TEXTS | st.binary() | st.floats() | st.integers() | st.booleans() | st.dates() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_TEXTS, inner, max_size=3)
        | st.lists(inner, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=8,
)


@given(_VALUES)
def test_no_value_ends_its_literal_early(value: Any) -> None:
    """Outside its quoted texts, a literal has no quote, no semicolon and no comment."""
    bare = re.sub(r"'(?:[^']|'')*'", "", quote_literal(value))
    assert re.fullmatch(r"[\w.+:,()\[\]{} -]*", bare)
    assert "--" not in bare


@given(_TEXTS.filter(bool))
def test_no_name_ends_its_quotes_early(name: str) -> None:
    assert re.fullmatch(r'"(?:[^"]|"")+"', quote_identifier(name))


def test_the_fields_of_an_object_have_the_types_of_their_names() -> None:
    @dataclass
    class Visit:
        at: int
        day: int

    visit = CqlType("frozen<shop.visit{day date, at time}>")

    def shown(value: object, cql_type: CqlType | None) -> str:
        return f"{value} as {cql_type}"

    assert literal(Visit(at=1, day=2), visit, shown) == "{day: 2 as date, at: 1 as time}"
