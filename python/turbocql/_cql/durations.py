"""Reads durations from text, in the forms that servers read."""

from __future__ import annotations

import re

from ..types import Duration

__all__ = ["read_duration"]

_UNITS = re.compile(
    r"(?=[0-9])(?:([0-9]+)y)?(?:([0-9]+)mo)?(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?"
    r"(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?(?:([0-9]+)(?:us|\u00b5s))?(?:([0-9]+)ns)?",
    re.IGNORECASE | re.ASCII,
)
_ISO_DESIGNATORS = re.compile(
    r"P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?()(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?()()()",
    re.ASCII,
)
_ISO_WEEKS = re.compile(r"P()()([0-9]+)W()()()()()()()", re.ASCII)
_ISO_DIGITS = re.compile(
    r"P([0-9]{4})-([0-9]{2})()-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})()()()", re.ASCII
)
_FORMS = (_UNITS, _ISO_DESIGNATORS, _ISO_WEEKS, _ISO_DIGITS)
"""Each form has a group for years, months, weeks, days, hours, minutes, seconds, milliseconds,
microseconds and nanoseconds."""
_EXPECTED = (
    "expected a duration such as 1mo2d3ns, or in ISO 8601, such as P1Y2M3DT4H5M6S, with months and"
    " days of 32 bits and nanoseconds of 64 bits"
)
_NANOSECONDS = (3_600_000_000_000, 60_000_000_000, 1_000_000_000, 1_000_000, 1000, 1)


def read_duration(text: str) -> Duration:
    """Parses a duration such as `1y2mo3w4d5h6m7s8ms9us10ns`, or a duration in ISO 8601.

    ISO 8601 has three forms: `P1Y2M3DT4H5M6S`, `P2W` and `P0001-02-03T04:05:06`. A `-` before any
    form makes all parts negative.

    Raises: `ValueError` for other text, and for a part out of its range.
    """
    unsigned = text.removeprefix("-")
    match = next((match for form in _FORMS if (match := form.fullmatch(unsigned))), None)
    if match is None:
        raise ValueError(_EXPECTED)
    years, months, weeks, days, *clock_parts = (int(part or 0) for part in match.groups())
    nanoseconds = sum(part * unit for part, unit in zip(clock_parts, _NANOSECONDS, strict=True))
    sign = -1 if text.startswith("-") else 1
    parts = (years * 12 + months, weeks * 7 + days, nanoseconds)
    try:
        return Duration(*(sign * part for part in parts))
    except OverflowError as error:
        raise ValueError(f"{_EXPECTED}: {error}") from None
