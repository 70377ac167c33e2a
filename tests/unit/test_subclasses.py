"""Tests values of subclasses that behave differently from their base class."""

from __future__ import annotations

import datetime
import math
from collections import ChainMap, OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest

from turbocql import UNSET
from turbocql.codec import RowEncoder, encode, find_serializer
from turbocql.errors import EncodeError

INSTANT = datetime.datetime(2020, 2, 29, 3, 4, 5, 678_900)


class PlainDatetime(datetime.datetime):
    pass


class PlainDate(datetime.date):
    pass


class PlainTime(datetime.time):
    pass


class NotATime(datetime.datetime):
    """A datetime whose year and month are NaN, like `NaT` of pandas."""

    year = month = property(lambda self: math.nan)


class FarAway(datetime.datetime):
    """A datetime with a year above 9999. A pandas Timestamp can have such a year."""

    year = property(lambda self: 20_000)


class Months(datetime.timedelta):
    months = 1


class Nanoseconds(datetime.timedelta):
    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = datetime.timedelta.__hash__


class PlainDelta(datetime.timedelta):
    pass


def test_instants_by_their_attributes() -> None:
    plain = PlainDatetime(2020, 2, 29, 3, 4, 5, 678_900)
    assert encode("timestamp", plain) == encode("timestamp", INSTANT)
    assert encode("date", PlainDate(2020, 2, 29)) == encode("date", INSTANT.date())
    assert encode("timestamp", PlainDate(2020, 2, 29)) == encode("timestamp", INSTANT.date())
    assert encode("time", PlainTime(3, 4, 5, 6)) == encode("time", datetime.time(3, 4, 5, 6))
    far = int.from_bytes(encode("timestamp", FarAway(1, 3, 1)), "big", signed=True)
    # 20000-03-01 is 40 cycles of the calendar after 4000-03-01. A cycle has 400 years, or 146,097
    # days.
    days = (datetime.date(4000, 3, 1) - datetime.date(1970, 1, 1)).days + 40 * 146_097
    assert far == days * 86_400_000
    with pytest.raises(EncodeError, match="cannot be read"):
        encode("timestamp", NotATime(1, 1, 1))


def test_timedeltas_with_more_parts_are_refused() -> None:
    assert encode("duration", PlainDelta(3)) == encode("duration", datetime.timedelta(3))
    for span in (Months(3), Nanoseconds(3)):
        with pytest.raises(EncodeError, match="without years, months or nanoseconds"):
            encode("duration", span)


def test_wider_floats_do_not_become_infinite() -> None:
    for cql_type in ("float", "double"):
        with pytest.raises(EncodeError, match="out of the range"):
            encode(cql_type, np.longdouble("1e4000"))
        infinite = encode(cql_type, math.inf)
        assert encode(cql_type, np.longdouble("inf")) == infinite


def test_maps_in_their_own_order() -> None:
    ordered = OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert encode("map<text, int>", ordered) == encode("map<text, int>", {"b": 2, "a": 1})


@pytest.mark.parametrize("wrap", [lambda d: d, ChainMap, MappingProxyType, UserDict])
def test_binding_adds_no_entries_to_a_defaultdict(wrap: Any) -> None:
    given: defaultdict[str, int] = defaultdict(int, a=1)
    row = RowEncoder([("a", "int"), ("b", "int")]).bind(wrap(given))
    assert row.cells == [b"\0\0\0\1", UNSET]
    assert given == {"a": 1}


@dataclass
class Record:
    a: int
    once: InitVar[int] = 7
    shared: ClassVar[int] = 8
    late: int = field(init=False)

    @property
    def made(self) -> int:
        return 9


def test_only_fields_are_bound() -> None:
    record = Record(1)
    assert RowEncoder([("a", "int")]).bind(record).cells == [b"\0\0\0\1"]
    for name in ("once", "shared", "made", "__init__"):
        with pytest.raises(EncodeError, match=f'column "{name}".*has no such field'):
            RowEncoder([(name, "int")]).bind(record)
    with pytest.raises(EncodeError, match=r'column "late".*has no value for its field'):
        RowEncoder([("late", "int")]).bind(record)


class Labelled:
    """A sequence in which an index is a label and not a position, like in a pandas Series."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, label: int) -> Any:
        return self.values[-1 - label]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


def test_columns_are_iterated() -> None:
    rows = RowEncoder([("a", "int")]).bind_columns([Labelled(1, 2)])
    assert [row.cells for row in rows] == [[b"\0\0\0\1"], [b"\0\0\0\2"]]


class Loose(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self.lower() == str(other).lower()

    def __hash__(self) -> int:
        return hash(self.lower())


def test_type_texts_whose_class_redefines_equality() -> None:
    lower = find_serializer('u{"zip" int}')
    upper = find_serializer(Loose('u{"ZIP" int}'))
    assert upper.cql_type != lower.cql_type
    assert upper.cql_type.field_names == ("ZIP",)


def test_a_serializer_is_a_type() -> None:
    encoder = RowEncoder([("a", find_serializer("list<int>"))])
    assert str(encoder.types[0]) == "list<int>"
    with pytest.raises(EncodeError, match=r'column "a"\[1\]: expected int'):
        encoder.bind(([1, "x"],))


class Frame:
    """A table whose iteration yields the names of its columns, like that of a pandas DataFrame."""

    columns = dtypes = ("a", "b")

    def __len__(self) -> int:
        return 2

    def __getitem__(self, name: str) -> Any:
        return [1, 2]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.columns)


def test_data_frames_are_no_sequences() -> None:
    for cql_type in ("list<text>", "set<text>", "tuple<text, text>", "vector<text, 2>"):
        with pytest.raises(EncodeError, match="Frame"):
            encode(cql_type, Frame())
    encoder = RowEncoder([("a", "text"), ("b", "text")])
    with pytest.raises(EncodeError, match="Frame"):
        encoder.bind_columns([Frame()])
    for row in (Frame(), np.array([(b"x", 1)], dtype=[("b", "S1"), ("a", "i4")])[0]):
        with pytest.raises(EncodeError, match="values must be"):
            encoder.bind(row)


def test_named_tuples_that_do_not_fit_a_user_defined_type() -> None:
    pair = namedtuple("pair", "b a")  # noqa: PYI024
    assert encode("u{a int, b int}", pair(b=1, a=2)) == encode("u{a int, b int}", (2, 1))
    with pytest.raises(EncodeError, match='has no field "b"'):
        encode("u{a int, c int}", pair(1, 2))


def test_only_fields_go_into_a_user_defined_type() -> None:
    assert encode("u{a int, once int}", Record(1)) == encode("u{a int, once int}", (1, None))
    with pytest.raises(EncodeError, match='attribute "late" cannot be read'):
        encode("u{a int, late int}", Late(1))
    for value in (Record, math, dict):
        with pytest.raises(EncodeError, match="expected u"):
            encode("u{a int, pi double, copy int}", value)


@dataclass
class Late:
    __slots__ = ("a", "late")
    a: int
    late: int

    def __init__(self, a: int) -> None:
        self.a = a


def test_dates_with_a_day_that_their_month_lacks() -> None:
    class Impossible(datetime.date):
        month = property(lambda self: 2)

    with pytest.raises(EncodeError, match="out of the range"):
        encode("date", Impossible(2023, 1, 30))
