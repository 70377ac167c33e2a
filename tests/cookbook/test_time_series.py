"""Tests the recipe for time series in buckets."""

from __future__ import annotations

import datetime

import turbocql

from .support import Program, is_shown_on


def test_time_series(program: Program, session: turbocql.Session) -> None:
    printed = program("time_series.py")
    assert is_shown_on("time-series.md", printed), printed
    buckets = session.execute("SELECT DISTINCT sensor, day FROM readings", rows="tuple").all()
    march = [("roof", datetime.date(2026, 3, day)) for day in range(1, 8)]
    assert sorted(buckets) == [("cellar", datetime.date(2026, 3, 1)), *march]
    assert session.execute("SELECT count(*) FROM readings").scalar() == 865
    for sensor, seconds in (("cellar", 3600), ("roof", 7_776_000)):
        select = "SELECT ttl(value) FROM readings WHERE sensor = ? AND day = '2026-03-01' LIMIT 1"
        ttl = session.execute(select, (sensor,)).scalar()
        assert seconds - 300 < ttl <= seconds
