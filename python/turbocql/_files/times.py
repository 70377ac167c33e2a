"""Parses dates, times, timestamps and durations, also those that Python's `datetime` lacks."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any

from .._cql.durations import read_duration
from ..types import Time

__all__ = [
    "ZONE_PATTERN",
    "days_of",
    "duration_of",
    "duration_parts_of",
    "milliseconds_of",
    "nanoseconds_of",
]

ZONE_PATTERN = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
"""The offset from UTC at the end of a timestamp."""
_DATE_PATTERN = r"([+-]?)([0-9]{4,9})-([0-9]{2})-([0-9]{2})"
_DATE = re.compile(_DATE_PATTERN)
_CLOCK_PATTERN = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
_INSTANT = re.compile(rf"{_DATE_PATTERN}[T ]{_CLOCK_PATTERN}{ZONE_PATTERN}?")
_NANOSECONDS = re.compile(r"(-?[0-9]{1,19})ns")
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DAY_NS = 86_400_000_000_000


def _days_since_1970(sign: str, year: str, month: str, day: str) -> int:
    """The days since 1970 of a date in the proleptic Gregorian calendar."""
    signed_year = -int(year) if sign == "-" else int(year)
    # The calendar repeats after 400 years.
    cycles, year_in_cycle = divmod(signed_year - 2000, 400)
    ordinal = datetime.date(2000 + year_in_cycle, int(month), int(day)).toordinal()
    return ordinal - _EPOCH + cycles * 146_097


def days_of(text: str) -> int:
    """The days since 1970 of a date, also outside the years 1 to 9999.

    Raises: `ValueError` for other text.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("expected a date as YYYY-MM-DD")
    try:
        days = _days_since_1970(*match.groups())
    except ValueError as error:
        raise ValueError(f"expected a date as YYYY-MM-DD: {error}") from error
    if not -(2**31) <= days < 2**31:
        raise ValueError("expected a date from -5877641-06-23 to +5881580-07-11")
    return days


def nanoseconds_of(text: str) -> int:
    """The nanoseconds since midnight of a time.

    Raises: `ValueError` for other text.
    """
    expected = "expected a time as HH:MM:SS.nnnnnnnnn"
    match = _NANOSECONDS.fullmatch(text)
    if match is not None and -(2**63) <= int(match[1]) < 2**63:
        return int(match[1])
    clock_match = re.fullmatch(_CLOCK_PATTERN, text)
    if clock_match is None:
        raise ValueError(expected)
    try:
        return _nanoseconds_of_clock(*clock_match.groups())
    except ValueError as error:
        raise ValueError(f"{expected}: {error}") from error


def _nanoseconds_of_clock(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    nanosecond = int((fraction or "0").ljust(9, "0"))
    return Time.of(int(hour), int(minute), int(second or 0), nanosecond).nanoseconds


def milliseconds_of(text: str) -> int:
    """The milliseconds since 1970 of a timestamp, also outside the years 1 to 9999.

    Raises: `ValueError` for other text, or for a timestamp finer than a millisecond.
    """
    expected = "expected a timestamp as YYYY-MM-DDTHH:MM:SS.mmmZ"
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(expected)
    try:
        nanoseconds = _nanoseconds_since_1970(match)
    except ValueError as error:
        raise ValueError(f"{expected}: {error}") from error
    milliseconds, remainder = divmod(nanoseconds, 1_000_000)
    if remainder:
        raise ValueError("expected a timestamp in whole milliseconds")
    if not -(2**63) <= milliseconds < 2**63:
        raise ValueError("expected a timestamp from the year -292275054 to +292278993")
    return milliseconds


def _nanoseconds_since_1970(match: re.Match[str]) -> int:
    sign, year, month, day, hour, minute, second, fraction, zone, _ = match.groups()
    time_of_day = _nanoseconds_of_clock(hour, minute, second, fraction)
    if zone is not None and zone != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        if int(digits[2:]) > 59 or int(digits[:2]) > 23:
            raise ValueError(f"no offset of a time zone: {zone}")
        offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000_000_000
        time_of_day -= -offset if zone[0] == "-" else offset
    return _days_since_1970(sign, year, month, day) * _DAY_NS + time_of_day


def duration_of(text: str) -> dict[str, int]:
    """The months, days and nanoseconds of a duration.

    Raises: `ValueError` for other text.
    """
    if text.startswith("{"):
        try:
            cell = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(
                "expected a duration such as 1mo2d3ns, or an object of its parts"
            ) from None
        parts: dict[str, int] = duration_parts_of(cell)
        return parts
    duration = read_duration(text)
    return {"months": duration.months, "days": duration.days, "nanoseconds": duration.nanoseconds}


def duration_parts_of(cell: Any) -> Any:
    """The months, days and nanoseconds of a duration, which JSON has as a text or as an object.

    Returns `None` for null.

    Raises: `ValueError` for any other value.
    """
    if isinstance(cell, str):
        return duration_of(cell)
    if cell is None:
        return None
    bits_by_part = {"months": 32, "days": 32, "nanoseconds": 64}
    if not isinstance(cell, dict) or set(cell) != set(bits_by_part):
        raise ValueError("expected a duration as text or as months, days and nanoseconds")
    for part, bits in bits_by_part.items():
        if type(cell[part]) is not int or not -(2 ** (bits - 1)) <= cell[part] < 2 ** (bits - 1):
            raise ValueError(f"expected {part} as a whole number of {bits} bits")
    return cell
