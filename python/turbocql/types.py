"""Python types for CQL values that have no equivalent in Python's standard library.

`date` and `timestamp` values in the years 1 to 9999 are read as `datetime.date` and
`datetime.datetime`. Values outside those years are read as [`Date`][turbocql.types.Date] and
[`Timestamp`][turbocql.types.Timestamp], which are exact. `time` and `duration` are always read as
[`Time`][turbocql.types.Time] and [`Duration`][turbocql.types.Duration].
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Final, TypeVar, final

__all__ = ["UNSET", "Date", "Duration", "FrozenMap", "Time", "Timestamp", "UnsetType"]

K = TypeVar("K")
V = TypeVar("V")

_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_NANOSECONDS_PER_DAY = 86_400_000_000_000
_MILLISECONDS_PER_DAY = 86_400_000


def _civil(days: int) -> tuple[int, int, int]:
    """Converts days since 1970-01-01 to year, month and day of the Gregorian calendar."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def _iso_date(days: int) -> str:
    year, month, day = _civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _checked_int(name: str, value: object, bits: int) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(f"{name} must fit {bits} bits, got {value}")
    return int(value)


@final
@dataclass(frozen=True, order=True)
class Date:
    """A CQL `date`: a day of the proleptic Gregorian calendar.

    Results contain a `Date` only for days outside the years 1 to 9999.

    Units: `days` since 1970-01-01, from -2**31 to 2**31 - 1.
    """

    __slots__ = ("days",)
    days: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "days", _checked_int("days", self.days, 32))

    @classmethod
    def from_date(cls, date: datetime.date) -> Date:
        """The `Date` of the same day."""
        return cls(date.toordinal() - _EPOCH_ORDINAL)

    def to_date(self) -> datetime.date:
        """The `datetime.date` of the same day.

        Raises: `OverflowError` outside the years 1 to 9999.
        """
        try:
            return datetime.date.fromordinal(self.days + _EPOCH_ORDINAL)
        except (ValueError, OverflowError):
            raise OverflowError(f"{self} is outside the years 1 to 9999") from None

    @property
    def year(self) -> int:
        """The year. Year 0 is the year before year 1."""
        return _civil(self.days)[0]

    @property
    def month(self) -> int:
        """The month, 1 to 12."""
        return _civil(self.days)[1]

    @property
    def day(self) -> int:
        """The day of the month, 1 to 31."""
        return _civil(self.days)[2]

    def __str__(self) -> str:
        return _iso_date(self.days)

    def __reduce__(self) -> tuple[type[Date], tuple[int]]:
        return Date, (self.days,)


@final
@total_ordering
class Time:
    """A CQL `time`: a time of day, exact to the nanosecond.

    A `Time` is equal to the `datetime.time` of the same time without a time zone, and has the same
    hash.

    Units: `nanoseconds` since midnight, from 0 to 86,399,999,999,999. Values outside this range
        can be read, because servers store them when another program sends them. They cannot be
        written.

    Example:
        >>> Time.of(8, 12, 54, 123_456_789)
        Time('08:12:54.123456789')
    """

    __slots__ = ("nanoseconds",)
    nanoseconds: int

    def __init__(self, nanoseconds: int) -> None:
        object.__setattr__(self, "nanoseconds", _checked_int("nanoseconds", nanoseconds, 64))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Time is immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Time is immutable: cannot delete {name}")

    @classmethod
    def of(cls, hour: int, minute: int = 0, second: int = 0, nanosecond: int = 0) -> Time:
        """Makes a `Time` from hour, minute, second and nanosecond.

        Raises: `ValueError` for a part outside its range.
        """
        datetime.time(hour, minute, second)
        if not 0 <= nanosecond < 1_000_000_000:
            raise ValueError(f"nanosecond must be in 0..999999999, got {nanosecond}")
        return cls(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanosecond)

    @classmethod
    def from_time(cls, time: datetime.time) -> Time:
        """The `Time` of the same time of day.

        Raises: `ValueError` when `time` has a time zone.
        """
        if time.tzinfo is not None:
            raise ValueError("a CQL time has no time zone")
        return cls.of(time.hour, time.minute, time.second, time.microsecond * 1000)

    def to_time(self) -> datetime.time:
        """The `datetime.time` of the same time of day.

        Raises: `ValueError` when the value is not a whole number of microseconds, or is outside the
            day. Nothing is rounded.
        """
        if not self.within_day:
            raise ValueError(f"{self} is outside a day")
        microseconds, extra_nanoseconds = divmod(self.nanoseconds, 1000)
        if extra_nanoseconds:
            raise ValueError(f"{self} has nanoseconds, which datetime.time has no place for")
        seconds, microsecond = divmod(microseconds, 1_000_000)
        minutes, second = divmod(seconds, 60)
        return datetime.time(minutes // 60, minutes % 60, second, microsecond)

    @property
    def within_day(self) -> bool:
        """Whether the value is a time of day: at least 0 and less than 24 hours."""
        return 0 <= self.nanoseconds < _NANOSECONDS_PER_DAY

    @property
    def hour(self) -> int:
        """The hour: 0 to 23 for a time within the day."""
        return self.nanoseconds // 3_600_000_000_000

    @property
    def minute(self) -> int:
        """The minute, 0 to 59."""
        return self.nanoseconds // 60_000_000_000 % 60

    @property
    def second(self) -> int:
        """The second, 0 to 59."""
        return self.nanoseconds // 1_000_000_000 % 60

    @property
    def nanosecond(self) -> int:
        """The nanosecond within the second, 0 to 999,999,999."""
        return self.nanoseconds % 1_000_000_000

    def _nanoseconds_of(self, other: object) -> int | None:
        if isinstance(other, Time):
            return other.nanoseconds
        if isinstance(other, datetime.time) and other.tzinfo is None:
            return Time.from_time(other).nanoseconds
        return None

    def __eq__(self, other: object) -> bool:
        nanoseconds = self._nanoseconds_of(other)
        return NotImplemented if nanoseconds is None else self.nanoseconds == nanoseconds

    def __lt__(self, other: object) -> bool:
        nanoseconds = self._nanoseconds_of(other)
        return NotImplemented if nanoseconds is None else self.nanoseconds < nanoseconds

    def __hash__(self) -> int:
        if self.nanoseconds % 1000 or not self.within_day:
            return hash(self.nanoseconds)
        return hash(self.to_time())

    def __str__(self) -> str:
        if not self.within_day:
            return f"{self.nanoseconds}ns"
        text = f"{self.hour:02d}:{self.minute:02d}:{self.second:02d}"
        return f"{text}.{self.nanosecond:09d}" if self.nanosecond else text

    def __repr__(self) -> str:
        return f"Time('{self}')"

    def __reduce__(self) -> tuple[type[Time], tuple[int]]:
        return Time, (self.nanoseconds,)


@final
@dataclass(frozen=True, order=True)
class Timestamp:
    """A CQL `timestamp`: an instant, exact to the millisecond.

    Results contain a `Timestamp` only for instants outside the years 1 to 9999.

    Units: `milliseconds` since 1970-01-01T00:00:00Z, from -2**63 to 2**63 - 1.
    """

    __slots__ = ("milliseconds",)
    milliseconds: int

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "milliseconds", _checked_int("milliseconds", self.milliseconds, 64)
        )

    @classmethod
    def from_datetime(cls, instant: datetime.datetime) -> Timestamp:
        """The `Timestamp` of the same instant, rounded down to the millisecond.

        A naive `datetime` is taken as UTC.
        """
        if instant.utcoffset() is None:
            instant = instant.replace(tzinfo=datetime.timezone.utc)
        since_epoch = instant - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return cls(since_epoch // datetime.timedelta(milliseconds=1))

    def to_datetime(self) -> datetime.datetime:
        """The aware `datetime.datetime` of the same instant, in UTC.

        Raises: `OverflowError` outside the years 1 to 9999.
        """
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        try:
            return epoch + datetime.timedelta(milliseconds=self.milliseconds)
        except OverflowError:
            raise OverflowError(f"{self} is outside the years 1 to 9999") from None

    def __str__(self) -> str:
        days, milliseconds_of_day = divmod(self.milliseconds, _MILLISECONDS_PER_DAY)
        seconds, millisecond = divmod(milliseconds_of_day, 1000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"{_iso_date(days)}T{clock}.{millisecond:03d}Z"

    def __reduce__(self) -> tuple[type[Timestamp], tuple[int]]:
        return Timestamp, (self.milliseconds,)


_CLOCK = (
    *((3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s")),
    *((1_000_000, "ms"), (1000, "us"), (1, "ns")),
)


@final
@dataclass(frozen=True)
class Duration:
    """A CQL `duration`: months, days and nanoseconds, which cannot be converted into each other.

    A month has no fixed number of days, and a day has no fixed number of hours. Servers store
    only durations whose three parts have the same sign.

    Units: `months` and `days` are signed integers of 32 bits, `nanoseconds` of 64 bits.
    """

    __slots__ = ("days", "months", "nanoseconds")
    months: int
    days: int
    nanoseconds: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "months", _checked_int("months", self.months, 32))
        object.__setattr__(self, "days", _checked_int("days", self.days, 32))
        object.__setattr__(self, "nanoseconds", _checked_int("nanoseconds", self.nanoseconds, 64))

    @classmethod
    def from_timedelta(cls, delta: datetime.timedelta) -> Duration:
        """Splits `delta` into whole days and nanoseconds, both with the sign of `delta`."""
        total = delta // datetime.timedelta(microseconds=1)
        sign = -1 if total < 0 else 1
        days, microseconds = divmod(abs(total), 86_400_000_000)
        return cls(0, sign * days, sign * microseconds * 1000)

    def to_timedelta(self) -> datetime.timedelta:
        """Converts to a `timedelta`, with days of 24 hours.

        Raises: `ValueError` when there are months, or when the nanoseconds are not a whole number
            of microseconds.
        """
        if self.months:
            raise ValueError(f"{self} has months, which have no fixed length")
        if self.nanoseconds % 1000:
            raise ValueError(f"{self} has nanoseconds, which timedelta has no place for")
        return datetime.timedelta(days=self.days, microseconds=self.nanoseconds // 1000)

    def __str__(self) -> str:
        sign = "-" if min(self.months, self.days, self.nanoseconds) < 0 else ""
        years, months = divmod(abs(self.months), 12)
        parts = [(years, "y"), (months, "mo"), (abs(self.days), "d")]
        nanoseconds = abs(self.nanoseconds)
        for size, unit in _CLOCK:
            number, nanoseconds = divmod(nanoseconds, size)
            parts.append((number, unit))
        text = "".join(f"{number}{unit}" for number, unit in parts if number)
        return sign + (text or "0ns")

    def __reduce__(self) -> tuple[type[Duration], tuple[int, int, int]]:
        return Duration, (self.months, self.days, self.nanoseconds)


@final
class FrozenMap(Mapping[K, V]):
    """An immutable, hashable mapping, for a CQL `map` inside a set or as the key of a map.

    A `FrozenMap` is equal to a `dict` with the same entries.
    """

    __slots__ = ("_entries",)
    _entries: dict[K, V]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "_entries", dict(*args, **kwargs))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"FrozenMap is immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"FrozenMap is immutable: cannot delete {name}")

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMap):
            return self._entries == other._entries
        return self._entries == other

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return f"FrozenMap({self._entries!r})"

    def __reduce__(self) -> tuple[type[FrozenMap[K, V]], tuple[dict[K, V]]]:
        return FrozenMap, (self._entries,)


@final
class UnsetType:
    """The class of [`UNSET`][turbocql.types.UNSET]."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False

    def __copy__(self) -> UnsetType:
        return self

    def __deepcopy__(self, memo: object) -> UnsetType:
        return self

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Final = UnsetType()
"""A placeholder for a bind value that leaves the column as it is.

`UNSET` writes nothing, whereas `None` writes a null (a tombstone).
"""
