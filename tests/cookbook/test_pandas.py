"""Tests the recipe for DataFrames."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import turbocql

from .support import Program, is_shown_on


def test_a_frame_in_and_out(program: Program, session: turbocql.Session) -> None:
    assert is_shown_on("pandas.md", program("dataframe.py"))
    rows = session.execute("SELECT city, celsius, visits FROM weather").all()
    assert sorted(rows) == [("Bern", 7.5, 12), ("Oslo", -1.0, 3)]


def test_dataframes(program: Program, session: turbocql.Session) -> None:
    printed = program("from_pandas.py").replace(f"{session.keyspace}.", "app.")
    printed = re.sub(r"(4 of 4 rows loaded) in .*", r"\1 in 0.2 s (21/s)", printed)
    assert is_shown_on("pandas.md", printed), printed
    table = session.schema().keyspace(session.keyspace or "").table("prices")
    assert {column.name: column.cql_type for column in table.columns.values()} == {
        "symbol": "text",
        "at": "timestamp",
        "price": "decimal",
        "volume": "bigint",
        "venue": "text",
        "tags": "set<text>",
    }
    rows = session.execute("SELECT at, price, volume FROM prices WHERE symbol = 'ACME'").all()
    utc = datetime.timezone.utc
    assert [row.at for row in rows] == [
        datetime.datetime(2026, 3, 1, 8, tzinfo=utc),
        datetime.datetime(2026, 3, 1, 9, tzinfo=utc),
        datetime.datetime(2026, 3, 2, 8, tzinfo=utc),
    ]
    assert [row.price for row in rows] == [Decimal("10.10"), Decimal("10.25"), None]
    assert [row.volume for row in rows] == [100, None, 250]
    assert session.execute("SELECT count(*) FROM prices").scalar() == 5
