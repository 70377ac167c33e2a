"""Checks that a value beyond the range of its type raises `RangeError`.

The value can be nested in other types at any depth, and each API must raise the error.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from turbocql import Date, Duration, Time, Timestamp, _core
from turbocql.codec import RowEncoder, encode, find_serializer
from turbocql.errors import EncodeError, RangeError
from turbocql.protocol import BatchMessage, ExecuteMessage, QueryMessage

# Programs that were written for other drivers catch these exceptions.
THEIRS = (OverflowError, struct.error)


@pytest.fixture(params=[False, True], ids=["quick", "safe"], autouse=True)
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    _core.force_safe(request.param)
    yield
    _core.force_safe(False)


def tampered(cls: Any, *parts: int, **beyond: int) -> Any:
    """Returns an instance of a turbocql class with fields that its constructor would refuse."""
    value = cls(*parts)
    for name, number in beyond.items():
        object.__setattr__(value, name, number)
    return value


class Instant(datetime):
    """A datetime with a year beyond Python's range. Timestamps of pandas can have such a year."""

    @property
    def year(self) -> int:
        return 300_000


class Day(date):
    """A date with a year beyond Python's range."""

    @property
    def year(self) -> int:
        return 2**40


class Index:
    """An object that converts to an integer through `__index__` alone."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"Index({self.number})"

    def __index__(self) -> int:
        return self.number


def outside(bits: int) -> list[Any]:
    low, high = -(1 << (bits - 1)) - 1, 1 << (bits - 1)
    return [low, high, 10**30, -(10**30), Index(high)]


BEYOND: dict[str, tuple[Any, list[Any]]] = {
    "tinyint": (1, [*outside(8), np.int16(128), np.uint8(200)]),
    "smallint": (1, [*outside(16), np.int32(-40_000)]),
    "int": (1, [*outside(32), np.int64(2**31)]),
    "bigint": (1, [*outside(64), np.uint64(2**63)]),
    "counter": (1, outside(64)),
    "float": (1.0, [1e39, -1e39, 2**128, 10**400, np.float64(1e300)]),
    "double": (1.0, [10**400, -(10**400), Index(10**400)]),
    "decimal": (Decimal(1), [Decimal("1E+2147483649"), Decimal("1E-2147483648")]),
    "date": (date(2020, 1, 1), [2**32, -1, Day(1, 1, 1), tampered(Date, 0, days=2**31)]),
    "time": (
        0,
        [
            -1,
            86_400_000_000_000,
            2**63,
            Time(-1),
            Time(86_400_000_000_000),
            tampered(Time, 0, nanoseconds=2**63),
        ],
    ),
    "timestamp": (
        0,
        [2**63, -(2**63) - 1, Instant(1, 1, 1), tampered(Timestamp, 0, milliseconds=2**63)],
    ),
    "duration": (
        Duration(0, 0, 0),
        [
            tampered(Duration, 0, 0, 0, months=2**31),
            tampered(Duration, 0, 0, 0, days=-(2**31) - 1),
            tampered(Duration, 0, 0, 0, nanoseconds=2**63),
        ],
    ),
}
CASES = [(cql_type, value) for cql_type, (_, values) in BEYOND.items() for value in values]

# The arguments of each function are a type, a good value of this type, and a bad value. The
# function returns an outer type, a value of the outer type that contains the bad value, and a text
# with which the path in the error must end.
Depth = Callable[[str, Any, Any], tuple[str, Any, str]]
DEPTHS: dict[str, Depth] = {
    "list": lambda t, good, bad: (f"list<{t}>", [good, bad], "[1]"),
    "tuple of values": lambda t, good, bad: (f"list<{t}>", (good, bad), "[1]"),
    "set": lambda t, good, bad: (f"set<{t}>", [good, bad], "[1]"),
    "key": lambda t, good, bad: (f"map<{t}, text>", {bad: "a"}, "[key #0]"),
    "value": lambda t, good, bad: (f"map<text, {t}>", {"a": bad}, '["a"]'),
    "tuple": lambda t, good, bad: (f"tuple<text, {t}>", ("a", bad), "[1]"),
    "field": lambda t, good, bad: (f"u{{a text, b {t}}}", {"b": bad}, ".b"),
    "field by place": lambda t, good, bad: (f"u{{a text, b {t}}}", ("a", bad), ".b"),
    "vector": lambda t, good, bad: (f"vector<{t}, 2>", [good, bad], "[1]"),
    "deep": lambda t, good, bad: (
        f"list<frozen<map<text, frozen<tuple<int, u{{a vector<{t}, 1>}}>>>>>",
        [{}, {"x": (1, {"a": [bad]})}],
        '[1]["x"][1].a[0]',
    ),
}


def encoders(cql_type: str) -> dict[str, tuple[str, Callable[[Any], object]]]:
    """Returns functions that encode a value of a type, by name.

    Each function has a text with which the paths in its errors begin.
    """

    class Own:
        """A column type in Python that calls turbocql's serializer."""

        def __init__(self) -> None:
            self.serializer = find_serializer(cql_type)

        def serialize(self, value: Any, protocol_version: int) -> bytes:
            return self.serializer.serialize(value, protocol_version)

    row = RowEncoder([("c", cql_type)])
    own = RowEncoder([("c", Own())])
    return {
        "encode": ("", lambda value: encode(cql_type, value)),
        "serialize": ("", find_serializer(cql_type).serialize),
        "row": ('column "c"', lambda value: row.bind((value,))),
        "row by name": ('column "c"', lambda value: row.bind({"c": value})),
        "rows": ('row 1, column "c"', lambda value: row.bind_many([(None,), (value,)])),
        "columns": ('row 1, column "c"', lambda value: row.bind_columns({"c": [None, value]})),
        "own": ('column "c"', lambda value: own.bind((value,))),
    }


def beyond(call: Callable[[], object]) -> RangeError:
    with pytest.raises(THEIRS) as caught:
        call()
    error = caught.value
    assert type(error) is RangeError
    # Programs that were written before `RangeError` existed catch these classes.
    for cls in (EncodeError, ValueError, TypeError):
        assert isinstance(error, cls)
    same = pickle.loads(pickle.dumps(error))
    assert (type(same), str(same), vars(same)) == (RangeError, str(error), vars(error))
    return error


@pytest.mark.parametrize(("cql_type", "value"), CASES, ids=lambda value: repr(value)[:40])
def test_values_outside_other_types(cql_type: str, value: Any) -> None:
    for entry, (path, call) in encoders(cql_type).items():
        error = beyond(lambda: call(value))  # noqa: B023
        assert error.path.startswith(path), entry
        assert error.cql_type == cql_type or entry == "own"
        good = BEYOND[cql_type][0]
        assert call(good), entry


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("cql_type", "value"),
    [case for case in CASES if case[0] != "counter"],
    ids=lambda value: repr(value)[:40],
)
def test_values_inside_other_types(cql_type: str, value: Any, depth: str) -> None:
    outer, whole, path = DEPTHS[depth](cql_type, BEYOND[cql_type][0], value)
    for entry, (begins, call) in encoders(outer).items():
        error = beyond(lambda: call(whole))  # noqa: B023
        if entry != "own":
            assert error.path.startswith(begins), entry
            assert error.path.endswith(path), entry
            assert error.cql_type == cql_type


ARRAYS = [
    ("tinyint", np.array([1, 128], "int16")),
    ("tinyint", np.array([1, 128], "uint8")),
    ("smallint", np.array([1, -40_000], "int32")),
    ("int", np.array([1, 2**31], "int64")),
    ("int", np.array([1, 2**32 - 1], "uint32")),
    ("bigint", np.array([1, 2**63], "uint64")),
    ("float", np.array([1, 1e39], "float64")),
    ("int", np.array([1, 2**31], ">i8")),
    ("float", np.array([1, -1e39], ">f8")),
]


@pytest.mark.parametrize(("cql_type", "array"), ARRAYS, ids=repr)
def test_arrays(cql_type: str, array: Any) -> None:
    for outer in (f"list<{cql_type}>", f"vector<{cql_type}, 2>", f"set<{cql_type}>"):
        for _, call in encoders(outer).values():
            beyond(lambda: call(array))  # noqa: B023
    error = beyond(lambda: encode(f"tuple<int, vector<{cql_type}, 2>>", (1, array)))
    assert error.path.endswith("[1][1]")
    assert error.cql_type == cql_type


class Far(tzinfo):
    """A time zone that raises OverflowError. At the ends of the calendar, `zoneinfo` does too."""

    def utcoffset(self, instant: datetime | None) -> timedelta:
        raise OverflowError("date value out of range")

    def dst(self, instant: datetime | None) -> None:
        return None

    def tzname(self, instant: datetime | None) -> None:
        return None


def test_an_attribute_that_overflows_when_it_is_read() -> None:
    error = beyond(lambda: encode("list<timestamp>", [datetime(1, 1, 1, tzinfo=Far())]))
    assert isinstance(error.__cause__, OverflowError)
    assert error.path == "value[0]"


@pytest.mark.parametrize(
    ("cql_type", "value", "said"),
    [
        ("int", 2**31, "int 2147483648 is out of the range of int"),
        ("float", 1e39, "float 1e+39 is out of the range of float"),
        ("time", -1, "expected time, got int -1: nanoseconds outside a day (0 to 86399999999999)"),
        ("decimal", Decimal("1E-2147483648"), "a decimal's exponent of -2147483648 is beyond 32"),
    ],
)
def test_messages_of_range_errors(cql_type: str, value: Any, said: str) -> None:
    assert said in str(beyond(lambda: encode(cql_type, value)))


@pytest.mark.parametrize(
    ("cql_type", "value"),
    [
        ("int", "1"),
        ("int", 1.5),
        ("int", object()),
        ("float", "1"),
        ("decimal", Decimal("inf")),
        ("date", "2020-01-01"),
        ("list<int>", np.array([1.5])),
        ("vector<int, 1>", np.array([2.0**40])),
        ("vector<int, 3>", [1, 2]),
        ("ascii", "é"),
        ("timeuuid", b""),
    ],
    ids=repr,
)
def test_other_unfit_values_raise_no_range_error(cql_type: str, value: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        encode(cql_type, value)
    assert not isinstance(caught.value, OverflowError)


def test_durations_of_mixed_signs_raise_no_range_error() -> None:
    with pytest.raises(EncodeError, match="different signs") as caught:
        encode("duration", Duration(1, -1, 0))
    assert not isinstance(caught.value, OverflowError)


@pytest.mark.parametrize("number", [2**63, -(2**63), 10**30])
def test_numbers_of_messages(number: int) -> None:
    messages: list[Callable[[], Any]] = [
        lambda: QueryMessage("x", timestamp=number),
        lambda: ExecuteMessage(b"x", timestamp=number),
        lambda: BatchMessage(["x"], timestamp=number),
        lambda: QueryMessage("x", now_in_seconds=number),
        lambda: BatchMessage(["x"], now_in_seconds=number),
        lambda: QueryMessage("x", page_size=number),
        lambda: ExecuteMessage(b"x", page_size=number),
    ]
    for make in messages:
        assert "must be from" in str(beyond(lambda: make().encode(5)))  # noqa: B023
    with pytest.raises(EncodeError) as caught:
        QueryMessage("x", page_size="1")  # type: ignore[arg-type]
    assert not isinstance(caught.value, OverflowError)
