"""Lists edge cases of every scalar type, and values of classes that few types or none accept."""

from __future__ import annotations

import array
import datetime
import ipaddress
import struct
import types
from collections import ChainMap, Counter, UserDict, UserList, UserString, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from cassandra.util import Date, Duration, OrderedMap, SortedSet, Time

import turbocql

from .shapes import INTEGER_BITS

UTC = datetime.timezone.utc


class Int(int):
    """A subclass of `int`."""


class Float(float):
    """A subclass of `float`."""


class Str(str):
    """A subclass of `str`."""


class Bytes(bytes):
    """A subclass of `bytes`."""


class Instant(datetime.datetime):
    """A subclass of `datetime.datetime`."""


class Day(datetime.date):
    """A subclass of `datetime.date`."""


class Clock(datetime.time):
    """A subclass of `datetime.time`."""


class Number(Decimal):
    """A subclass of `Decimal`."""


class Identifier(UUID):
    """A subclass of `UUID`."""


class Index:
    """An object that converts to an integer through `__index__` alone."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"Index({self.number})"


class Floating:
    """An object that converts to a number through `__float__` alone."""

    def __float__(self) -> float:
        return 1.5

    def __repr__(self) -> str:
        return "Floating()"


class Nowhere(datetime.tzinfo):
    """A time zone whose offset is `None`."""

    def utcoffset(self, _: datetime.datetime | None) -> None:
        return None

    def dst(self, _: datetime.datetime | None) -> None:
        return None

    def tzname(self, _: datetime.datetime | None) -> str:
        return "nowhere"


def nan(bits: int) -> float:
    """Returns the NaN with this bit pattern."""
    number: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
    return number


NANS = [nan(bits) for bits in (0x7FF8 << 48, 0xFFF8 << 48, 0x7FF0_0000_0000_0001, 0x7FF9 << 48)]
NANS += [nan(0x7FF8_0000_2000_0000), nan(0xFFFF_FFFF_FFFF_FFFF), nan(0x7FF4 << 48)]


def integers(bits: int) -> list[Any]:
    """Returns integers around the limits of a type of `bits` bits, and values of other classes."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return [
        *(0, 1, -1, low, high, low + 1, high - 1, low - 1, high + 1, 2 * high + 1, 2**200),
        *(True, False, Int(7), Int(high), Index(5), Index(high + 1)),
        *(np.int8(5), np.uint8(100), np.int64(-3), np.uint64(2**64 - 1), np.bool_(True)),
        *(1.0, 0.0, 1.5, Decimal(1), "5", Fraction(2), np.float64(1), np.array(3), np.array([3])),
    ]


FLOATS = [
    *(0.0, -0.0, 1.5, 0.1, 5e-324, -5e-324, 1.4e-45, 7e-46, 7.006492321624085e-46, 1.17549435e-38),
    *(3.4028235e38, 3.4028234663852886e38, 3.4028235677973362e38, 3.4028235677973366e38, 1e39),
    *(-3.4028235e38, -3.4028235677973366e38, 1.7976931348623157e308, -1e308, 2.2250738585072e-308),
    *(float("inf"), float("-inf"), *NANS, 16_777_217.0, 9_007_199_254_740_993.0),
    *(0, 1, -1, True, 2**24 + 1, 2**53 + 1, 2**63, 2**64 + 1, 10**38, 10**400, Int(3), Index(5)),
    *(Float(2.5), Fraction(1, 3), Fraction(10**400), Decimal("1.5"), Decimal("NaN"), Floating()),
    *(np.float16(1.5), np.float32(0.1), np.float64(0.1), np.float64(1e39), np.longdouble("0.1")),
    *(np.int64(7), np.uint64(2**64 - 1), np.bool_(True), np.complex64(1 + 2j), 1j, "1.5", b"1.5"),
    *(np.array(1.5), np.array([1.5]), np.array([1.5, 2.5]), datetime.timedelta(1)),
]

VARINTS = [
    sign * (2**n + d) for n in (7, 8, 15, 63, 64, 127, 128) for d in (-1, 0, 1) for sign in (1, -1)
]
TEXTS = [
    *("", "a", "\0", "a\0b", "ä", "\x7f", "\x80", "日本語", "\U0001f680", "\U0010ffff", "e\u0301"),
    *("\ud800", "a\udfff", "\ud83d\ude80", "\ufeff", "\uffff", "x" * 70_000, "ä" * 500, Str("ab")),
    *(UserString("ab"), b"ab", b"", np.str_("ab"), np.bytes_(b"ab"), 5),
]

SUMMER = ZoneInfo("Europe/Berlin")
INSTANTS = [
    datetime.datetime(1970, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999),
    datetime.datetime(1900, 2, 28, 1, 2, 3, 4005, UTC),
    datetime.datetime(2024, 2, 29, 12, 34, 56, 789_999, UTC),
    datetime.datetime(2024, 10, 27, 2, 30, tzinfo=SUMMER, fold=0),
    datetime.datetime(2024, 10, 27, 2, 30, tzinfo=SUMMER, fold=1),
    datetime.datetime(2024, 3, 31, 2, 30, tzinfo=SUMMER, fold=0),
    datetime.datetime(2024, 3, 31, 2, 30, tzinfo=SUMMER, fold=1),
    datetime.datetime(1890, 1, 1, 12, tzinfo=SUMMER),
    datetime.datetime(2024, 10, 27, 2, 30, fold=1),
    datetime.datetime(2024, 1, 1, 12, tzinfo=Nowhere()),
    datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(seconds=-17))),
    datetime.datetime(
        2024, 1, 1, 12, 0, 0, 250_000, datetime.timezone(datetime.timedelta(microseconds=500_000))
    ),
    datetime.datetime.min,
    datetime.datetime.max,
    datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=14))),
    datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-12))),
    Instant(2001, 2, 3, 4, 5, 6, 7),
    datetime.date(1969, 12, 31),
    datetime.date.min,
    datetime.date.max,
    Day(2001, 2, 3),
]
TIMESTAMPS = [
    *(*INSTANTS, 0, 1, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, True, Int(7), Index(5)),
    *(1.0, 1.5, -1.5, 1e18, 1e19, float("nan"), Float(2.0), np.int64(7), np.float64(1.5)),
    *(np.datetime64(1, "s"), "2024-01-01", "2024-01-01T00:00:00Z", datetime.time(1), Date(5)),
    *(turbocql.Timestamp(5), turbocql.Timestamp(-(2**63)), turbocql.Date(5), Decimal(5)),
    datetime.timedelta(1),
]

DATES = [
    datetime.date(1970, 1, 1),
    datetime.date(1582, 10, 10),
    datetime.date.min,
    datetime.date.max,
    Day(2001, 2, 3),
    *INSTANTS[:3],
    datetime.datetime(2024, 1, 1, 0, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    *(Date(0), Date(-719_163), Date(2_932_897), Date(2**31 - 1), Date(-(2**31)), Date(2**31)),
    *(Date("2024-02-29"), turbocql.Date(5), turbocql.Date(-(2**31))),
    *(0, 1, 2**31, 2**32 - 1, 2**32, -1, True, Int(2**31), Index(2**31), np.int64(2**31)),
    *("2024-02-29", "2024-2-9", "+2024-02-29", "2023-02-29", "-0001-01-01", "10000-01-01", "", "x"),
    *(1.5, float(2**31), datetime.time(1), np.datetime64("2024-02-29"), datetime.timedelta(1)),
]

TIMES = [
    *(datetime.time(0), datetime.time(23, 59, 59, 999_999), datetime.time(1, 2, 3, 4, fold=1)),
    *(Clock(1, 2, 3), datetime.time(1, tzinfo=UTC), datetime.time(1, tzinfo=SUMMER)),
    *(Time(0), Time(86_399_999_999_999), Time(1), Time("08:12:54.123456789"), turbocql.Time(1)),
    *(0, 1, 86_399_999_999_999, 86_400_000_000_000, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1),
    *(True, Int(7), Index(7), np.int64(7), 1.5, 0.0, Time(-5)),
    *("08:12:54", "08:12:54.123456789", "08:12:54.5", "23:59:60", "23:59:61", "24:00:00", "8:1:2"),
    *("08:12:54.1234567891", "08:12", "", "x", "08:12:54.", "08:12:54.5.5", "23:59:60.999999999"),
    *(datetime.timedelta(1), datetime.datetime(2024, 1, 1, 5), Duration(0, 0, 5)),
]

DURATIONS = [
    *(Duration(), Duration(1, 2, 3), Duration(-1, -2, -3), Duration(1, -1, 0), Duration(0, 1, -1)),
    *(Duration(2**31 - 1, 2**31 - 1, 2**63 - 1), Duration(-(2**31), -(2**31), -(2**63))),
    *(
        Duration(2**31),
        Duration(0, -(2**31) - 1),
        Duration(0, 0, 2**63),
        Duration(0, 0, -(2**63) - 1),
    ),
    *(Duration(0, 0, 2**64), Duration(0, 0, 2**70), Duration(1.5, 2.5, 3.5), Duration(1.0, 2, 3)),
    *(Duration("1", 0, 0), Duration(None), Duration(True, 0, 0), Duration(np.int64(1), 2, 3)),
    *(Duration(*[2**n for _ in range(3)]) for n in (5, 6, 7, 12, 13, 14, 20, 27, 28)),
    *(Duration(0, 0, 2**n - d) for n in range(33, 63, 3) for d in (0, 1)),
    *(turbocql.Duration(1, 2, 3), turbocql.Duration(-1, 0, -5), turbocql.Duration(1, -2, 3)),
    *(
        datetime.timedelta(1, 2, 3),
        datetime.timedelta(-1),
        datetime.timedelta.max,
        5,
        "1d",
        (1, 2, 3),
    ),
    types.SimpleNamespace(months=1, days=2, nanoseconds=3),
]

DECIMALS = [
    *map(Decimal, ("0", "-0", "0E+10", "-0.00", "1.50", "-1.5", "1E-30", "1E+30", "1E+2147483648")),
    *map(Decimal, ("1E-2147483647", "1E-2147483648", "1E+2147483649", "NaN", "-NaN", "sNaN")),
    *map(Decimal, ("Infinity", "-Infinity", "NaN123", "9" * 38, "9" * 39, "-" + "9" * 39)),
    *(Decimal((0, (7,) * 5000, -3)), Decimal(2**127), Decimal(-(2**127)), Decimal(2**127 - 1)),
    *(
        Number("1.5"),
        0,
        1,
        -1,
        True,
        10**40,
        10**5000,
        Int(7),
        Index(7),
        np.int64(7),
        np.uint8(200),
    ),
    *(1.5, 0.1, float("nan"), Float(1.5), np.float64(1.5), "1.50", "1e5", "NaN", "x", ""),
    *((0, (1, 5), -1), (0, (), 0), [0, (1, 5), -1], Fraction(1, 2), 1j, b"1.5", datetime.time(1)),
]

BLOBS = [
    *(
        b"",
        b"\0",
        bytes(range(256)),
        b"x" * 70_000,
        bytearray(b"ab"),
        memoryview(b"abc"),
        Bytes(b"ab"),
    ),
    *(memoryview(b"abcdef")[::2], memoryview(b"abcdef")[::-1], memoryview(bytearray(b"ab"))),
    *(memoryview(b"abcdef").cast("B", (2, 3)), memoryview(array.array("i", [1, 2]))),
    *(array.array("B", b"ab"), array.array("b", b"ab"), array.array("i", [1, 2]), array.array("d")),
    *(
        np.frombuffer(b"abc", "u1"),
        np.array([1, 2], "i1"),
        np.array([1, 2]),
        np.zeros((2, 2), "u1"),
    ),
    *(np.bytes_(b"ab"), np.int64(3), np.uint8(3), np.array(3), np.float64(1.5), np.array([256])),
    *(5, 0, -1, True, Index(3), [1, 2], (1, 2), [], (), [256], [-1], {1, 2}, {1: 2}, range(3)),
    *("ab", "", UserString("ab"), 1.5, UUID(int=5), ipaddress.ip_address(5), deque([1, 2]), ["a"]),
]

UUIDS = [
    UUID(int=0),
    UUID(int=2**128 - 1),
    UUID("12345678-1234-5678-1234-567812345678"),
    UUID("d2177dd0-eaa2-11de-a572-001b779c76e3"),
    UUID("ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f"),
    Identifier("d2177dd0-eaa2-11de-a572-001b779c76e3"),
    *("d2177dd0-eaa2-11de-a572-001b779c76e3", bytes(16), 5, types.SimpleNamespace(bytes=b"ab")),
    types.SimpleNamespace(bytes=UUID("d2177dd0-eaa2-11de-a572-001b779c76e3").bytes),
]

ADDRESSES = [
    *map(
        ipaddress.ip_address, ("0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "::1", "2001:db8::")
    ),
    *map(ipaddress.ip_address, ("::ffff:1.2.3.4", "fe80::1%eth0", "ffff:" * 7 + "ffff")),
    *(
        "0.0.0.0",
        "127.0.0.1",
        "::1",
        "2001:DB8::ff00:42:8329",
        "::ffff:1.2.3.4",
        "::1.2.3.4",
        "1::",
    ),
    *(
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "1:2:3:4:5:6:1.2.3.4",
        "0001:2::",
        "1::8:0",
        "::0000:1",
    ),
    *("127.1", "1", "0x7f.1", "010.1.1.1", "1.2.3.4 x", "1.2.3.4\n", " 1.2.3.4", "1.2.3.256"),
    *(
        "1.2.3",
        "4294967295",
        "fe80::1%eth0",
        "fe80::1%1",
        "00001::",
        "1::2::3",
        ":::",
        "",
        "localhost",
    ),
    *(
        "1.2.3.4:80",
        "[::1]",
        "::1/64",
        "1.2.3.4/8",
        "1.2.3.4.5",
        "1:2:3:4:5:6:7:8:9",
        "::g",
        "1.2.3.\0",
    ),
    *(Str("1.2.3.4"), UserString("1.2.3.4"), b"1.2.3.4", bytes(4), bytes(16), 5, 2**31),
    *(ipaddress.ip_interface("1.2.3.4/8"), ipaddress.ip_interface("::1/64")),
    *(ipaddress.ip_network("1.2.3.0/24"), ["1.2.3.4"], [":"], {":": 1}, ("::1",)),
]

BOOLEANS = [
    *(True, False, np.bool_(True), np.bool_(False), 0, 1, 2, -1, 127, 128, -128, -129, Int(1)),
    *(Index(1), np.int8(1), 1.0, "true", "", b"\1", None.__class__, Decimal(1), [], np.array(True)),
]

EDGES: dict[str, list[Any]] = {
    "ascii": TEXTS,
    "text": TEXTS,
    **{kind: integers(bits) for kind, bits in INTEGER_BITS.items()},
    "varint": [*integers(64), *VARINTS, 10**1300, -(10**5000), -0.0, 0j, Decimal("0.00")],
    "float": FLOATS,
    "double": FLOATS,
    "decimal": DECIMALS,
    "boolean": BOOLEANS,
    "blob": BLOBS,
    "uuid": UUIDS,
    "timeuuid": UUIDS,
    "inet": ADDRESSES,
    "date": DATES,
    "time": TIMES,
    "timestamp": TIMESTAMPS,
    "duration": DURATIONS,
}

WRONG: list[Any] = [
    *(True, 0, 1, -5, 2**63, 2**64, 2**130, 1.5, 0.0, float("nan"), 1j, Int(3), Float(1.5)),
    *(
        "",
        "a",
        "ab",
        "1",
        "2024-01-01",
        "\ud800",
        Str("xy"),
        UserString("ab"),
        b"",
        b"abc",
        Bytes(b"x"),
    ),
    *(bytearray(b"abc"), memoryview(b"abc"), array.array("i", [1, 2]), array.array("d", [1.5])),
    *(
        (),
        (1, 2),
        ("a", "b"),
        [],
        [1, 2],
        ["a"],
        [[1]],
        [None],
        [(1, 2), (3, 4)],
        range(2),
        deque(),
    ),
    *(set(), {1}, {"a"}, frozenset({1, 2}), {}, {"a": 1}, {1: "a"}, {0: 1, 1: 2}, {"f0": 1}),
    *({}.keys(), {1: 2}.keys(), {1: 2}.values(), {1: 2}.items(), ChainMap({"a": 1}), UserDict(a=1)),
    *(UserList([1]), types.MappingProxyType({"a": 1}), Counter("ab"), OrderedMap([(1, 2)])),
    *(SortedSet([1, 2]), frozenset(), turbocql.FrozenMap({1: 2}), iter([])),
    *(Decimal("1.5"), Decimal("NaN"), Fraction(1, 2), UUID(int=5), ipaddress.ip_address("1.2.3.4")),
    *(datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1), datetime.time(1), UTC),
    *(
        datetime.timedelta(1),
        Date(1),
        Time(1),
        Duration(1, 2, 3),
        turbocql.Date(1),
        turbocql.Time(1),
    ),
    *(turbocql.Timestamp(1), turbocql.Duration(1, 2, 3), turbocql.UNSET, int, str, list, len, ...),
    *(object(), NotImplemented, types.SimpleNamespace(a=1), types.SimpleNamespace(f0=1, name="x")),
    *(np.int64(1), np.float32(1.5), np.bool_(True), np.array([1, 2]), np.array([[1, 2], [3, 4]])),
    *(np.array(1), np.array(["a", "b"]), np.datetime64("2024-01-01"), np.array([1, None], object)),
    *(
        np.ma.masked_array([1, 2], [False, True]),
        np.array([], "f4"),
        np.zeros((2, 0)),
        np.str_("ab"),
    ),
]
"""Values that are tried at random with every type."""
