"""Tests the bytes of every kind of Python value that each CQL type accepts."""

from __future__ import annotations

import array
import struct
from collections import OrderedDict, UserDict, UserList, deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest

from turbocql import Date, Duration, FrozenMap, Time, Timestamp
from turbocql.codec import decode, encode

TIMEUUID = UUID("d2177dd0-eaa2-11de-a572-001b779c76e3")


class Index:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Text(str):
    __slots__ = ()


class Int(int):
    pass


class NoOffset(tzinfo):
    def utcoffset(self, _instant: datetime | None) -> None:
        return None

    dst = utcoffset

    def tzname(self, _instant: datetime | None) -> None:
        return None


SCALARS: list[tuple[str, Any, str]] = [
    ("ascii", "az", "617a"),
    ("ascii", "", ""),
    ("text", "grün", "6772c3bc6e"),
    ("text", Text("a"), "61"),
    ("text", np.str_("a"), "61"),
    ("varchar", "\x00", "00"),
    ("tinyint", -128, "80"),
    ("tinyint", np.uint8(127), "7f"),
    ("smallint", Int(-2), "fffe"),
    ("smallint", np.int16(-2), "fffe"),
    ("int", 2**31 - 1, "7fffffff"),
    ("int", -(2**31), "80000000"),
    ("int", True, "00000001"),
    ("int", Index(7), "00000007"),
    ("int", np.int64(7), "00000007"),
    ("int", np.array(7), "00000007"),
    ("bigint", -(2**63), "8000000000000000"),
    ("bigint", np.uint64(2**63 - 1), "7fffffffffffffff"),
    ("counter", 5, "0000000000000005"),
    ("varint", 0, "00"),
    ("varint", 128, "0080"),
    ("varint", -129, "ff7f"),
    ("varint", np.int8(-1), "ff"),
    ("varint", Index(2**64), "010000000000000000"),
    ("varint", -(2**200), "ff" + "00" * 25),
    ("float", 1.5, "3fc00000"),
    ("float", 1, "3f800000"),
    ("float", np.float32(0.1), "3dcccccd"),
    ("float", np.float16(1.5), "3fc00000"),
    ("float", 3.4028235e38, "7f7fffff"),
    ("float", float("inf"), "7f800000"),
    ("float", float("-inf"), "ff800000"),
    ("float", -0.0, "80000000"),
    ("float", 1e-60, "00000000"),
    ("double", 0.1, "3fb999999999999a"),
    ("double", np.float64(0.1), "3fb999999999999a"),
    ("double", np.int32(-1), "bff0000000000000"),
    ("double", Fraction(3, 2), "3ff8000000000000"),
    ("double", Index(2), "4000000000000000"),
    ("decimal", Decimal("3.14"), "00000002013a"),
    ("decimal", Decimal("-0.0"), "0000000100"),
    ("decimal", Decimal("1E+3"), "fffffffd01"),
    ("decimal", Decimal("1E+2147483648"), "8000000001"),
    ("decimal", 314, "00000000013a"),
    ("decimal", Decimal(10**50), "00000000" + (10**50).to_bytes(21, "big").hex()),
    ("boolean", True, "01"),
    ("boolean", False, "00"),
    ("boolean", np.True_, "01"),
    ("blob", b"\x00\xff", "00ff"),
    ("blob", bytearray(b"ab"), "6162"),
    ("blob", memoryview(b"abcd")[::2], "6163"),
    ("blob", array.array("B", [1, 2]), "0102"),
    ("blob", np.array([3, 2, 1], np.uint8)[::-1], "010203"),
    ("blob", b"", ""),
    ("'org.example.Odd'", b"ab", "6162"),
    ("uuid", UUID(int=1), "00" * 15 + "01"),
    ("timeuuid", TIMEUUID, "d2177dd0eaa211dea572001b779c76e3"),
    ("inet", IPv4Address("127.0.0.1"), "7f000001"),
    ("inet", "127.0.0.1", "7f000001"),
    ("inet", IPv6Address("::1"), "00" * 15 + "01"),
    ("inet", "::1", "00" * 15 + "01"),
    ("date", date(1970, 1, 1), "80000000"),
    ("date", date(2024, 2, 29), "80004d46"),
    ("date", Date(-(2**31)), "00000000"),
    ("date", 2**31 + 1, "80000001"),
    ("date", np.uint32(2**32 - 1), "ffffffff"),
    ("time", time(8, 12, 54, 123456), "00001ae5c31f8600"),
    ("time", time(0), "0000000000000000"),
    ("time", Time(86_399_999_999_999), "00004e94914effff"),
    ("time", 1000, "00000000000003e8"),
    ("time", np.int64(1000), "00000000000003e8"),
    ("timestamp", datetime(1970, 1, 1, 0, 0, 1, 1999), "00000000000003e9"),
    ("timestamp", datetime(1970, 1, 1, tzinfo=timezone.utc), "0000000000000000"),
    ("timestamp", datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "00" * 8),
    ("timestamp", datetime(1970, 1, 1, tzinfo=NoOffset()), "00" * 8),
    ("timestamp", datetime(1969, 12, 31, 23, 59, 59, 999999), "ffffffffffffffff"),
    ("timestamp", date(1970, 1, 2), "0000000005265c00"),
    ("timestamp", -1, "ffffffffffffffff"),
    ("timestamp", np.int64(1000), "00000000000003e8"),
    ("timestamp", Timestamp(2**63 - 1), "7fffffffffffffff"),
    ("duration", Duration(1, 2, 3), "020406"),
    ("duration", timedelta(days=2, microseconds=1), "000487d0"),
    ("duration", timedelta(microseconds=-1), "000087cf"),
    ("duration", timedelta(days=-1, microseconds=-1), "000187cf"),
]


@pytest.mark.parametrize(("cql_type", "value", "expected"), SCALARS)
def test_scalars(cql_type: str, value: Any, expected: str) -> None:
    assert encode(cql_type, value).hex() == expected
    assert encode(f"tuple<{cql_type}>", (value,)).hex() == f"{len(expected) // 2:08x}" + expected


INTS = "00000002" + "00000004" + "00000001" + "00000004" + "00000002"


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (1, 2),
        range(1, 3),
        deque([1, 2]),
        UserList([1, 2]),
        {1: "a", 2: "b"}.keys(),
        array.array("q", [1, 2]),
        array.array("i", [1, 2]),
        np.array([1, 2], object),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sequences_encode_as_lists_and_sets(value: Any) -> None:
    assert encode("list<int>", value).hex() == INTS
    assert encode("set<int>", value).hex() == INTS
    assert encode("vector<int, 2>", value).hex() == "0000000100000002"
    assert encode("tuple<int, int>", list(value)).hex() == INTS[8:]


def test_memoryviews_of_numbers_encode_as_arrays() -> None:
    for view in (
        memoryview(array.array("h", [1, 2])),
        np.array([1, 5, 2]).data[::2],
    ):
        assert encode("list<int>", view).hex() == INTS
        assert encode("vector<int, 2>", view).hex() == "0000000100000002"


@pytest.mark.parametrize("value", [{1, 2}, frozenset({1, 2}), {1: 0, 2: 0}.keys()])
def test_sets_from_sets(value: Any) -> None:
    assert encode("set<int>", value).hex() == INTS


@pytest.mark.parametrize("order", ["<", ">", "="])
@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("element", ["tinyint", "smallint", "int", "bigint", "float", "double"])
def test_an_array_encodes_like_a_list_of_its_elements(element: str, kind: str, order: str) -> None:
    numbers = np.array([0, 1, 100, 7], order + kind)
    if kind[0] == "f" and element not in ("float", "double"):
        with pytest.raises(ValueError, match=rf"^value\[0\]: .*{element}"):
            encode(f"list<{element}>", numbers)
        return
    read_only = numbers.copy()
    read_only.flags.writeable = False
    for shown in (numbers, read_only, numbers[::2], numbers[::-1], numbers[1:1]):
        elements = shown.tolist()
        assert encode(f"list<{element}>", shown) == encode(f"list<{element}>", elements)
        if elements:
            vector = f"vector<{element}, {len(elements)}>"
            assert encode(vector, shown) == encode(vector, elements)


def test_elements_of_arrays_are_converted_exactly() -> None:
    for dtype, element in ((np.float32, "float"), (np.float64, "double"), (np.int64, "bigint")):
        bits = np.frombuffer(bytes(range(200, 248)), dtype)
        size = len(bits)
        assert encode(f"vector<{element}, {size}>", bits) == bits.byteswap().tobytes()
    # An int in an array must be encoded like a single int. For this number, rounding it first to a
    # double and then to a float would return another float than rounding it directly to a float.
    number = 2**53 + 2**29 + 1
    assert encode("vector<float, 1>", np.array([number])) == encode("float", number)


def test_arrays_of_more_dimensions_are_sequences_of_arrays() -> None:
    square = np.arange(6).reshape(2, 3)
    rows = [[0, 1, 2], [3, 4, 5]]
    for cql_type in ("list<list<int>>", "vector<vector<int, 3>, 2>", "list<vector<float, 3>>"):
        assert encode(cql_type, square) == encode(cql_type, rows)
        assert encode(cql_type, np.asfortranarray(square)) == encode(cql_type, rows)


def test_arrays_of_other_things() -> None:
    assert encode("list<boolean>", np.array([True, False])) == encode(
        "list<boolean>", [True, False]
    )
    assert encode("vector<text, 2>", np.array(["a", "b"])) == b"\x01a\x01b"
    assert encode("list<int>", np.array([1, None], object)) == encode("list<int>", [1, None])


def test_a_vector_of_numbers_accepts_encoded_bytes() -> None:
    data = struct.pack(">2f", 1.5, -2)
    assert encode("vector<float, 2>", data) == data
    assert encode("vector<float, 2>", bytearray(data)) == data


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        OrderedDict(a=1),
        MappingProxyType({"a": 1}),
        UserDict(a=1),
        FrozenMap(a=1),
        {"a": np.int8(1)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_maps(value: Any) -> None:
    assert encode("map<text, int>", value).hex() == "0000000100000001610000000400000001"


def test_short_tuples_are_encoded_without_the_missing_elements() -> None:
    cql_type = "tuple<int, text>"
    assert encode(cql_type, (1, "a")).hex() == "00000004000000010000000161"
    assert encode(cql_type, [1, None]).hex() == "0000000400000001ffffffff"
    assert encode(cql_type, (1,)).hex() == "0000000400000001"
    assert encode(cql_type, ()) == b""
    assert encode("tuple<int, int>", UserList([1])).hex() == "0000000400000001"
    assert encode("tuple<int, int>", np.array([1, 2])) == encode("tuple<int, int>", (1, 2))


ADDRESS = 'address{street text, "Zip Code" int, note text}'


class Plain:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


@dataclass
class Address:
    street: str
    note: str | None = None


class LikeARecord(NamedTuple):
    Zip_Code: int
    street: str


class Reordered(NamedTuple):
    note: str
    street: str


def test_user_defined_types_by_field_name() -> None:
    full = encode(ADDRESS, ("Main", 7, "x"))
    assert full.hex() == "000000044d61696e00000004000000070000000178"
    for value in (
        ["Main", 7, "x"],
        {"note": "x", "Zip Code": 7, "street": "Main"},
        UserDict({"note": "x", "Zip Code": 7, "street": "Main"}),
        SimpleNamespace(**{"note": "x", "Zip Code": 7, "street": "Main", "more": 1}),
        Plain(**{"note": "x", "Zip Code": 7, "street": "Main"}),
        decode(ADDRESS, full),
    ):
        assert encode(ADDRESS, value) == full


def test_missing_fields_of_user_defined_types_are_null() -> None:
    short = encode(ADDRESS, ("Main", None, None))
    assert short.hex() == "000000044d61696effffffffffffffff"
    for value in (("Main",), ["Main"], {"street": "Main"}, Address("Main"), Plain(street="Main")):
        assert encode(ADDRESS, value) == short
    assert encode(ADDRESS, Reordered("x", "Main")) == encode(ADDRESS, ("Main", None, "x"))
    assert encode(ADDRESS, {}) == b"\xff" * 12


def test_records_are_encoded_by_field_names_not_attribute_names() -> None:
    # This record lacks the last field, because it was decoded before the field was added to the
    # type. The attribute for its field "Zip Code" is `Zip_Code`.
    before = decode('address{street text, "Zip Code" int}', encode(ADDRESS, ("Main", 7))[:-4])
    assert before._fields == ("street", "Zip_Code")
    assert encode(ADDRESS, before) == encode(ADDRESS, ("Main", 7, None))
    with pytest.raises(ValueError, match='no field "Zip_Code"'):
        encode(ADDRESS, LikeARecord(1, "Main"))


def test_nulls_are_encoded_inside_all_types_except_vectors() -> None:
    for cql_type, value, expected in (
        ("list<int>", [None], "00000001ffffffff"),
        ("set<int>", [None], "00000001ffffffff"),
        ("map<int, int>", {None: None}, "00000001ffffffffffffffff"),
        ("tuple<int>", (None,), "ffffffff"),
        ("u{a int}", (None,), "ffffffff"),
        ("vector<list<int>, 1>", [[None]], "0800000001ffffffff"),
    ):
        assert encode(cql_type, value).hex() == expected


def test_vectors_of_types_of_a_fixed_width_have_no_lengths() -> None:
    assert encode("vector<uuid, 1>", [UUID(int=1)]) == UUID(int=1).bytes
    assert encode("vector<boolean, 3>", [True, False, True]) == b"\1\0\1"
    assert encode("vector<smallint, 2>", np.array([1, 2], np.int16)) == b"\2\0\1\2\0\2"
    assert encode("vector<vector<float, 1>, 2>", [[1.5], [2]]).hex() == "3fc0000040000000"


def test_frozen_does_not_change_the_bytes() -> None:
    assert encode("frozen<list<frozen<set<int>>>>", [{1}]) == encode("list<set<int>>", [{1}])


@pytest.mark.parametrize("text", ["", "lost<int>", "vector<int, -1>", "unknown", "list<int>>"])
def test_text_that_is_no_type(text: str) -> None:
    with pytest.raises(ValueError, match="not a CQL type"):
        encode(text, None)
