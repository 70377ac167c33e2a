"""Tests decoding: the Python values that bytes become, and the bytes that are refused."""

from __future__ import annotations

import struct
from datetime import date, datetime, timezone
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID, SafeUUID

import numpy as np
import pytest

from turbocql import Date, Duration, FrozenMap, Time, Timestamp
from turbocql.codec import decode, encode
from turbocql.errors import DecodeError, EncodeError

NULL = b"\xff\xff\xff\xff"
UTC = timezone.utc


def cell(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def count(*cells: bytes, groups: int | None = None) -> bytes:
    return struct.pack(">i", len(cells) if groups is None else groups) + b"".join(cells)


ONE = cell(b"\0\0\0\1")


@pytest.mark.parametrize(
    ("cql_type", "data", "expected"),
    [
        ("ascii", "61", "a"),
        ("text", "", ""),
        ("tinyint", "ff", -1),
        ("counter", "0000000000000005", 5),
        ("varint", "000000000000000000000000000000000000ff", 255),
        ("varint", "80" + "00" * 30, -(2**247)),
        ("float", "3dcccccd", 0.10000000149011612),
        ("double", "3fb999999999999a", 0.1),
        ("decimal", "00000002013a", Decimal("3.14")),
        ("boolean", "00", False),
        ("boolean", "02", True),
        ("blob", "", b""),
        ("blob", "00ff", b"\x00\xff"),
        ("'org.example.Odd'", "00", b"\x00"),
        ("uuid", "00" * 15 + "01", UUID(int=1)),
        ("inet", "7f000001", IPv4Address("127.0.0.1")),
        ("inet", "00" * 15 + "01", IPv6Address("::1")),
        ("date", "80004d46", date(2024, 2, 29)),
        ("time", "0000000000000001", Time(1)),
        ("timestamp", "ffffffffffffffff", datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        ("duration", "020406", Duration(1, 2, 3)),
    ],
)
def test_scalars(cql_type: str, data: str, expected: Any) -> None:
    decoded = decode(cql_type, bytes.fromhex(data))
    assert decoded == expected
    assert type(decoded) is type(expected)
    assert decode(f"frozen<{cql_type}>", bytes.fromhex(data)) == expected


def test_a_decimal_keeps_its_scale_beyond_any_precision() -> None:
    digits = "123456789" * 20
    assert str(decode("decimal", encode("decimal", Decimal(f"-{digits}.00")))) == f"-{digits}.00"
    assert decode("decimal", bytes.fromhex("8000000001")) == Decimal("1E+2147483648")
    assert decode("decimal", bytes.fromhex("7fffffff01")) == Decimal("1E-2147483647")


def test_a_uuid_has_all_attributes() -> None:
    decoded = decode("uuid", bytes(range(16)))
    assert decoded.is_safe is SafeUUID.unknown
    assert (hash(decoded), str(decoded)) == (
        hash(UUID(bytes=bytes(range(16)))),
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
    )


@pytest.mark.parametrize(
    "cql_type",
    [
        *("tinyint", "smallint", "int", "bigint", "counter", "varint", "float", "double"),
        *("decimal", "boolean", "uuid", "timeuuid", "inet", "date", "time", "timestamp"),
        *("duration", "list<int>", "set<int>", "map<int, int>", "vector<int, 2>"),
    ],
)
def test_zero_bytes_are_none_where_no_value_has_zero_bytes(cql_type: str) -> None:
    assert decode(cql_type, b"") is None
    assert decode(f"list<{cql_type}>", count(cell(b""))) == [None]
    assert decode(f"tuple<{cql_type}, int>", cell(b"") + ONE) == (None, 1)
    assert decode(cql_type, b"", numpy_vectors=True, naive_timestamps=True) is None


def test_dates_and_timestamps_beyond_the_calendar_stay_exact() -> None:
    first, last = -719_162, 2_932_896
    for days in (first, last):
        assert decode("date", encode("date", Date(days))) == Date(days).to_date()
    for days in (-(2**31), first - 1, last + 1, 2**31 - 1):
        assert decode("date", encode("date", Date(days))) == Date(days)
    day = 86_400_000
    assert decode("timestamp", encode("timestamp", first * day)) == datetime(1, 1, 1, tzinfo=UTC)
    end = datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)
    assert decode("timestamp", encode("timestamp", (last + 1) * day - 1)) == end
    for milliseconds in (-(2**63), first * day - 1, (last + 1) * day, 2**63 - 1):
        data = encode("timestamp", milliseconds)
        assert decode("timestamp", data) == Timestamp(milliseconds)
        assert decode("timestamp", data, naive_timestamps=True) == Timestamp(milliseconds)


def test_naive_timestamps_apply_at_any_depth() -> None:
    data = count(cell(encode("timestamp", 1)))
    naive, aware = datetime(1970, 1, 1, 0, 0, 0, 1000), datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)
    assert decode("list<timestamp>", data) == [aware]
    assert decode("list<timestamp>", data, naive_timestamps=True) == [naive]
    assert decode("set<timestamp>", data, naive_timestamps=True) == {naive}


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("float", "float32"), ("double", "float64"), ("int", "int32"), ("bigint", "int64")],
)
def test_numpy_vectors_decodes_numbers_to_arrays(element: str, dtype: str) -> None:
    cql_type = f"vector<{element}, 3>"
    data = encode(cql_type, [1, -2, 100])
    assert decode(cql_type, data) == [1, -2, 100]
    array = decode(cql_type, data, numpy_vectors=True)
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.dtype(dtype)
    assert array.dtype.isnative
    assert array.tolist() == [1, -2, 100]
    array[0] = 5
    assert encode(cql_type, array) == encode(cql_type, [5, -2, 100])
    (inner,) = decode(f"list<{cql_type}>", count(cell(data)), numpy_vectors=True)
    assert isinstance(inner, np.ndarray)


def test_numpy_vectors_leaves_other_vectors_as_sequences() -> None:
    for cql_type, value in (("vector<text, 1>", ["a"]), ("vector<smallint, 2>", [1, 2])):
        assert decode(cql_type, encode(cql_type, value), numpy_vectors=True) == value
    hashed = decode("set<vector<int, 1>>", count(ONE), numpy_vectors=True)
    assert hashed == {(1,)}


@pytest.mark.parametrize(
    ("cql_type", "data", "expected"),
    [
        ("set<list<int>>", count(cell(count(ONE))), {(1,)}),
        ("set<set<int>>", count(cell(count(ONE))), {frozenset({1})}),
        (
            "set<map<int, list<int>>>",
            count(cell(count(ONE, cell(count(ONE)), groups=1))),
            {FrozenMap({1: (1,)})},
        ),
        (
            "map<list<int>, list<int>>",
            count(cell(count(ONE)), cell(count(ONE)), groups=1),
            {(1,): [1]},
        ),
        ("set<tuple<list<int>>>", count(cell(cell(count(ONE)))), {((1,),)}),
        ("set<vector<int, 1>>", count(cell(b"\0\0\0\1")), {(1,)}),
        ("set<u{a list<int>}>", count(cell(cell(count(ONE)))), {((1,),)}),
    ],
)
def test_set_elements_and_map_keys_are_hashable(cql_type: str, data: bytes, expected: Any) -> None:
    assert decode(cql_type, data) == expected


def test_null_elements_at_every_depth() -> None:
    cases: list[tuple[str, bytes, Any]] = [
        ("list<int>", count(NULL, ONE), [None, 1]),
        ("set<int>", count(NULL, ONE), {None, 1}),
        ("map<int, int>", count(NULL, ONE, ONE, NULL, groups=2), {None: 1, 1: None}),
        ("tuple<int, int>", NULL + ONE, (None, 1)),
        ("u{a int, b int}", NULL + ONE, (None, 1)),
        ("list<list<int>>", count(cell(count(NULL)), NULL), [[None], None]),
        ("set<list<int>>", count(cell(count(NULL)), NULL), {(None,), None}),
        ("list<tuple<u{a set<int>}>>", count(cell(cell(cell(count(NULL))))), [(({None},),)]),
        (
            "map<int, map<int, int>>",
            count(ONE, cell(count(ONE, NULL, groups=1)), groups=1),
            {1: {1: None}},
        ),
        ("vector<list<int>, 1>", b"\x08" + count(NULL), [[None]]),
    ]
    for cql_type, data, expected in cases:
        assert decode(cql_type, data) == expected, cql_type


def test_short_tuples_and_short_and_long_user_defined_types() -> None:
    assert decode("tuple<int, text>", ONE) == (1, None)
    assert decode("tuple<int, text>", b"") == (None, None)
    udt = "u{a int, b text}"
    assert decode(udt, ONE) == (1, None)
    assert decode(udt, b"") == (None, None)
    # The type on the server may have more fields than the decoder knows. Their bytes follow the
    # bytes of the known fields, and the decoder ignores them.
    assert decode(udt, ONE + cell(b"x") + ONE) == (1, "x")
    assert decode(f"list<{udt}>", count(cell(ONE), cell(NULL * 5))) == [
        (1, None),
        (None, None),
    ]


def test_a_user_defined_type_is_a_named_record() -> None:
    record = decode('app."Home Address"{"Zip Code" int, class text, zip int}', ONE + NULL + ONE)
    assert type(record).__name__ == "Home_Address"
    assert record._fields == ("Zip_Code", "field_1", "zip")
    assert (record.Zip_Code, record.field_1, record.zip) == (1, None, 1)
    assert repr(record) == "Home_Address(Zip_Code=1, field_1=None, zip=1)"


def test_invalid_stored_values_are_still_decoded() -> None:
    """Invalid stored values decode without an error, so that the rest of a page can be read."""
    for cql_type in ("text", "ascii"):
        assert decode(cql_type, b"a\xc3\xff") == "a\udcc3\udcff"
        assert (
            decode(cql_type, b"\xed\xa0\x80").encode("utf-8", "surrogateescape") == b"\xed\xa0\x80"
        )
    late = decode("time", (86_400_000_000_000).to_bytes(8, "big"))
    assert (late.nanoseconds, late.within_day) == (86_400_000_000_000, False)
    with pytest.raises(EncodeError, match="outside a day"):
        encode("time", late)
    assert decode("decimal", b"\0\0\0\2").as_tuple() == (0, (0,), -2)


MALFORMED = [
    ("int", b"\0", "", "int", "expected 4 bytes, got 1"),
    ("bigint", b"\0" * 9, "", "bigint", "expected 8 bytes, got 9"),
    ("inet", b"\0" * 5, "", "inet", "neither 4 nor 16"),
    ("uuid", b"\0" * 15, "", "uuid", "expected 16 bytes"),
    ("decimal", b"\0" * 3, "", "decimal", "4 more bytes"),
    ("duration", b"\2\4", "", "duration", "1 more bytes"),
    ("duration", b"\2\4\6\0", "", "duration", "left over"),
    ("duration", b"\xff" * 9 + b"\0\0", "", "duration", "beyond 32 bits"),
    ("list<int>", b"\x7f\xff\xff\xff", "", "list<int>", "2147483647 elements in 4 bytes"),
    ("list<int>", b"\xff\xff\xff\xff", "", "list<int>", "-1 elements"),
    ("list<int>", count(ONE) + b"\0", "", "list<int>", "1 bytes left over"),
    ("list<int>", count(ONE, cell(b"ab")), "value[1]", "int", "expected 4 bytes, got 2"),
    ("set<int>", count(cell(b"\xff")), "value[0]", "int", "got 1"),
    ("map<text, int>", count(cell(b"a"), cell(b"b"), groups=1), 'value["a"]', "int", "got 1"),
    ("map<int, int>", count(cell(b"a"), ONE, groups=1), "value[key #0]", "int", "got 1"),
    ("tuple<int, int>", ONE + cell(b"a"), "value[1]", "int", "got 1"),
    ("tuple<int>", ONE + b"\0", "", "tuple<int>", "1 bytes left over"),
    ("tuple<int, int>", ONE + b"\0\0", "value[1]", "tuple<int, int>", "needs 4 more bytes"),
    ("u{a int, b list<int>}", ONE + cell(count(cell(b"a"))), "value.b[0]", "int", "got 1"),
    ("vector<float, 2>", b"\0" * 4, "", "vector<float, 2>", "expected 8 bytes, got 4"),
    ("vector<text, 2>", b"\1a", "value[1]", "vector<text, 2>", "more bytes"),
    ("vector<date, 2>", b"\4\0\0\0\0\1\xff", "value[1]", "date", "got 1"),
    ("vector<vector<date, 1>, 1>", b"\2\1\xff", "value[0][0]", "date", "got 1"),
]


@pytest.mark.parametrize(("cql_type", "data", "path", "inner", "said"), MALFORMED)
def test_malformed_bytes(cql_type: str, data: bytes, path: str, inner: str, said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(cql_type, data)
    error = caught.value
    assert (error.path, error.cql_type) == (path, inner)
    message = str(error)
    assert message.startswith(f"{path}: malformed {inner}" if path else f"malformed {inner}")
    assert said in message


def test_a_malformed_vector_is_refused_as_an_array_too() -> None:
    with pytest.raises(DecodeError, match="expected 8 bytes, got 7"):
        decode("vector<float, 2>", b"\0" * 7, numpy_vectors=True)


def test_absurdly_large_vectors_are_refused_at_once() -> None:
    cql_type = "vector<vector<vector<vector<double, 65535>, 65535>, 65535>, 65535>"
    with pytest.raises(DecodeError, match="malformed vector"):
        decode(cql_type, b"\0" * 64)
