"""Tests turbocql's own types for CQL values that no Python type can hold."""

from __future__ import annotations

import copy
import datetime
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turbocql import UNSET, Date, Duration, FrozenMap, Time, Timestamp
from turbocql.types import UnsetType

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
VALUES = [
    Date(-5),
    Time.of(8, 12, 54, 123_456_789),
    Timestamp(-1),
    Duration(1, 2, 3),
    FrozenMap(a=1),
    UNSET,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_copies_and_pickles_are_equal(value: Any) -> None:
    copies = [copy.copy(value), copy.deepcopy(value)]
    copies += [pickle.loads(pickle.dumps(value, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for same in copies:
        assert same == value
        assert type(same) is type(value)
        assert hash(same) == hash(value)
    if value is UNSET:
        assert all(same is UNSET for same in copies)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_nothing_can_be_set(value: Any) -> None:
    for name in ("days", "nanoseconds", "milliseconds", "_entries", "other"):
        # A frozen dataclass with slots raises TypeError for unknown names.
        with pytest.raises((AttributeError, TypeError)):
            setattr(value, name, 1)
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize(
    ("make", "low", "high"),
    [
        (Date, -(2**31), 2**31 - 1),
        (Timestamp, -(2**63), 2**63 - 1),
        (lambda n: Duration(n, 0, 0), -(2**31), 2**31 - 1),
        (lambda n: Duration(0, n, 0), -(2**31), 2**31 - 1),
        (lambda n: Duration(0, 0, n), -(2**63), 2**63 - 1),
    ],
    ids=["date", "timestamp", "months", "days", "nanoseconds"],
)
def test_ranges(make: Callable[[Any], object], low: int, high: int) -> None:
    assert make(low) != make(high)
    for number in (low - 1, high + 1):
        with pytest.raises(OverflowError, match=f"must fit .* bits, got {number}"):
            make(number)
    for other in (1.0, "1", None):
        with pytest.raises(TypeError, match="must be an int"):
            make(other)


@given(st.dates())
def test_dates_agree_with_datetime(day: datetime.date) -> None:
    date = Date.from_date(day)
    assert date.days == (day - datetime.date(1970, 1, 1)).days
    assert date.to_date() == day
    assert (date.year, date.month, date.day) == (day.year, day.month, day.day)
    assert str(date) == day.isoformat()


def test_dates_outside_the_calendar() -> None:
    draw = random.Random(7)
    for _ in range(300):
        # The Gregorian calendar repeats every 400 years, or 146,097 days.
        day = datetime.date.fromordinal(draw.randint(1, 146_097))
        cycles = draw.randint(-14_000, 14_000)
        date = Date(Date.from_date(day).days + cycles * 146_097)
        assert (date.year, date.month, date.day) == (day.year + cycles * 400, day.month, day.day)


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0, "1970-01-01"),
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
        (-719_893, "-0001-01-01"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (-(2**31), "-5877641-06-23"),
        (2**31 - 1, "+5881580-07-11"),
    ],
)
def test_dates_as_the_server_writes_them(days: int, text: str) -> None:
    assert str(Date(days)) == text


@pytest.mark.parametrize("days", [-719_163, 2_932_897, -(2**31), 2**31 - 1])
def test_dates_outside_the_calendar_are_no_dates_of_python(days: int) -> None:
    with pytest.raises(OverflowError):
        Date(days).to_date()


def test_order() -> None:
    assert Date(-1) < Date(0) <= Date(0) < Date(1)
    assert Timestamp(-1) < Timestamp(0) <= Timestamp(0) < Timestamp(1)
    mixed: list[Any] = [Time(2), datetime.time(0), Time(1)]
    assert sorted(mixed) == [Time(0), Time(1), Time(2)]
    others: list[Any] = [Date(0), Timestamp(0), 0]
    for other in others:
        with pytest.raises(TypeError):
            Time(0) < other  # noqa: B015


@given(st.times())
def test_times_agree_with_datetime(clock: datetime.time) -> None:
    time = Time.from_time(clock)
    assert time.to_time() == clock
    assert time == clock
    assert clock == time
    assert hash(time) == hash(clock)
    assert time.nanosecond == clock.microsecond * 1000
    assert (time.hour, time.minute, time.second) == (clock.hour, clock.minute, clock.second)
    # A server writes a time either with nine digits after the decimal point or without a decimal
    # point.
    assert str(time).ljust(18 if clock.microsecond else 8, "0") == str(time)
    assert str(time).startswith(clock.isoformat())


@given(st.integers(0, 86_399_999_999_999), st.integers(0, 86_399_999_999_999))
def test_times_are_their_nanoseconds(one: int, two: int) -> None:
    a, b = Time(one), Time(two)
    assert (a == b) is (one == two)
    assert (a < b) is (one < two)
    assert (a >= b) is (one >= two)
    assert Time.of(a.hour, a.minute, a.second, a.nanosecond) == a
    if one % 1000:
        with pytest.raises(ValueError, match=r"has nanoseconds, which datetime\.time"):
            a.to_time()


def test_times_are_equal_to_times_without_a_zone_only() -> None:
    noon = Time.of(12)
    assert {noon: 1}[datetime.time(12)] == 1  # type: ignore[index]
    assert noon != datetime.time(12, tzinfo=UTC)
    assert noon != datetime.time(12, 0, 0, 1)
    assert noon != noon.nanoseconds
    with pytest.raises(ValueError, match="no time zone"):
        Time.from_time(datetime.time(12, tzinfo=UTC))


@pytest.mark.parametrize(
    "parts", [(24,), (-1,), (0, 60), (0, 0, 60), (0, 0, 0, 10**9), (0, 0, 0, -1)]
)
def test_parts_of_a_time_out_of_range(parts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must be in"):
        Time.of(*parts)


@pytest.mark.parametrize("nanoseconds", [-1, 86_400_000_000_000, -(2**63), 2**63 - 1])
def test_the_error_for_a_time_outside_the_day(nanoseconds: int) -> None:
    time = Time(nanoseconds)
    assert not time.within_day
    assert str(time) == f"{nanoseconds}ns"
    assert hash(time) == hash(Time(nanoseconds))
    assert time not in (datetime.time(0), datetime.time(23, 59, 59, 999_999))
    with pytest.raises(ValueError, match="outside a day"):
        time.to_time()


def test_time_strings() -> None:
    assert str(Time.of(8, 12, 54)) == "08:12:54"
    assert str(Time.of(8, 12, 54, 1)) == "08:12:54.000000001"
    assert repr(Time.of(8, 12, 54, 100_000_000)) == "Time('08:12:54.100000000')"


ZONES = st.integers(-1439, 1439).map(lambda m: datetime.timezone(datetime.timedelta(minutes=m)))
INSTANTS = st.datetimes(
    datetime.datetime(2, 1, 1), datetime.datetime(9998, 12, 31), timezones=ZONES
)


@given(INSTANTS)
def test_timestamps_agree_with_datetime(instant: datetime.datetime) -> None:
    timestamp = Timestamp.from_datetime(instant)
    below = datetime.timedelta(microseconds=instant.microsecond % 1000)
    assert timestamp.to_datetime() == instant - below
    assert timestamp.to_datetime().tzinfo is UTC
    assert timestamp.milliseconds * datetime.timedelta(milliseconds=1) == instant - below - EPOCH
    shown = timestamp.to_datetime().isoformat(timespec="milliseconds")
    assert str(timestamp) == shown.replace("+00:00", "Z")


def test_the_lowest_and_highest_timestamps() -> None:
    naive = datetime.datetime(1970, 1, 1, 0, 0, 1)
    assert Timestamp.from_datetime(naive) == Timestamp(1000)
    assert str(Timestamp(2**63 - 1)) == "+292278994-08-17T07:12:55.807Z"
    assert str(Timestamp(-(2**63))) == "-292275055-05-16T16:47:04.192Z"
    assert Timestamp(253_402_300_799_999).to_datetime().year == 9999
    for milliseconds in (253_402_300_800_000, -62_135_596_800_001, 2**63 - 1, -(2**63)):
        with pytest.raises(OverflowError, match="outside the years 1 to 9999"):
            Timestamp(milliseconds).to_datetime()


@given(st.timedeltas())
def test_durations_from_timedeltas_and_back(delta: datetime.timedelta) -> None:
    duration = Duration.from_timedelta(delta)
    assert duration.to_timedelta() == delta
    assert duration.months == 0
    assert abs(duration.nanoseconds) < 86_400 * 10**9
    assert duration.days * duration.nanoseconds >= 0


def test_durations_that_are_no_timedeltas() -> None:
    with pytest.raises(ValueError, match="months, which have no fixed length"):
        Duration(1, 0, 0).to_timedelta()
    with pytest.raises(ValueError, match="nanoseconds, which timedelta has no place for"):
        Duration(0, 0, 1).to_timedelta()


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (Duration(0, 0, 0), "0ns"),
        (Duration(1, 2, 3), "1mo2d3ns"),
        (Duration(-1, -2, -3), "-1mo2d3ns"),
        (Duration(0, 2, 0), "2d"),
        (Duration(-(2**31), 0, -(2**63)), "-178956970y8mo2562047h47m16s854ms775us808ns"),
    ],
)
def test_duration_strings(duration: Duration, text: str) -> None:
    assert str(duration) == text


def test_equality_of_durations_is_that_of_their_parts() -> None:
    assert Duration(0, 1, 0) == Duration(0, 1, 0)
    assert len({Duration(0, 1, 0), Duration(0, 1, 0), Duration(0, 0, 86_400 * 10**9)}) == 2
    with pytest.raises(TypeError):
        Duration(0, 1, 0) < Duration(0, 2, 0)  # type: ignore[operator] # noqa: B015


def test_frozen_maps_are_mappings() -> None:
    entries: FrozenMap[str, int] = FrozenMap({"a": 1, "b": 2})
    assert entries == {"b": 2, "a": 1}
    assert entries == {"b": 2, "a": 1}
    assert entries == FrozenMap([("b", 2), ("a", 1)])
    assert hash(entries) == hash(FrozenMap(b=2, a=1))
    assert entries != {"a": 1}
    assert entries != [("a", 1), ("b", 2)]
    assert (entries["a"], entries.get("c"), len(entries), list(entries)) == (1, None, 2, ["a", "b"])
    assert {entries: 1}[FrozenMap(b=2, a=1)] == 1
    assert repr(FrozenMap(a=1)) == "FrozenMap({'a': 1})"
    with pytest.raises(KeyError):
        entries["c"]
    with pytest.raises(TypeError):
        entries["c"] = 1  # type: ignore[index]
    with pytest.raises(TypeError, match="unhashable"):
        hash(FrozenMap(a=[]))


def test_frozen_maps_keep_their_own_entries() -> None:
    source = {"a": 1}
    entries: FrozenMap[str, int] = FrozenMap(source)
    source["b"] = 2
    assert entries == {"a": 1}


def test_unset_is_false_and_shows_its_name() -> None:
    assert repr(UNSET) == "UNSET"
    assert not UNSET
    assert isinstance(UNSET, UnsetType)
