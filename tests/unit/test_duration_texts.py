"""Tests of durations that are read from text."""

from __future__ import annotations

import pytest

from turbocql import Duration
from turbocql._cql.durations import read_duration

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1y2mo3w4d5h6m7s8ms9us10ns", Duration(14, 25, 18_367_008_009_010)),
        ("5\u00b5s", Duration(0, 0, 5000)),
        ("2H30M", Duration(0, 0, 9000 * SECOND)),
        ("PT5M", Duration(0, 0, 300 * SECOND)),
        ("-PT5M", Duration(0, 0, -300 * SECOND)),
        ("P1Y2M", Duration(14, 0, 0)),
        ("P1Y2M3DT4H5M6S", Duration(14, 3, 14_706 * SECOND)),
        ("P2W", Duration(0, 14, 0)),
        ("-P2W", Duration(0, -14, 0)),
        ("P0001-02-03T04:05:06", Duration(14, 3, 14_706 * SECOND)),
        ("-P0001-02-03T04:05:06", Duration(-14, -3, -14_706 * SECOND)),
        ("PT0S", Duration(0, 0, 0)),
    ],
)
def test_the_forms_of_a_duration(text: str, expected: Duration) -> None:
    assert read_duration(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", "P", "-P", "PT", "P1YT", "P1", "1", "5x", "--5s", "P-5D", "PT5.5S", "P1W2D"),
        *("p1d", "1s1h", "P01-02-03T04:05:06", "PT\u0665M", "P1Y ", "P2147483648D"),
        "999999999999h",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        read_duration(text)
