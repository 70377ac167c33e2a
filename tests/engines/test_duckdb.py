"""Tests scans of live tables in DuckDB."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from tests.engines.rows import COLUMNS, Sums, sums_of_arrow, table_of, total
from tests.engines.support import Faults, Tables, during

import turbocql
import turbocql.duckdb

pytestmark = pytest.mark.cassandra

ALL_COLUMNS = ", ".join(f'"{name}"' for name in COLUMNS)


@pytest.fixture(scope="module")
def session(config: turbocql.Config) -> Iterator[turbocql.Session]:
    with turbocql.connect(config=config) as opened:
        yield opened


@pytest.fixture(scope="module")
def table(tables: Tables, session: turbocql.Session) -> str:
    """Returns the name of a table with all rows."""
    name = tables.new("duckdb")
    for first in range(0, tables.count, 100_000):
        session.load(name, table_of(range(first, min(first + 100_000, tables.count))))
    return name


@pytest.fixture(scope="module")
def connection(session: turbocql.Session, table: str) -> Any:
    """Returns a DuckDB connection where the table is registered as `live`."""
    opened = duckdb.connect()
    opened.register("live", turbocql.duckdb.scan(opened, session, table))
    return opened


def read_sums(connection: Any, batch_rows: int) -> Sums:
    """Returns the sums of the table as read by DuckDB."""
    reader = connection.sql(f"SELECT {ALL_COLUMNS} FROM live").to_arrow_reader(batch_rows)
    return total(map(sums_of_arrow, reader))


def test_reads(connection: Any, tables: Tables) -> None:
    assert read_sums(connection, 100_000) == tables.expected


def test_aggregates(connection: Any, tables: Tables) -> None:
    rows = connection.sql("SELECT count(*), sum(id) FROM live").fetchall()
    assert rows == [(tables.count, tables.expected.ids)]


def test_filters(connection: Any) -> None:
    rows = connection.sql("SELECT name FROM live WHERE id = 77 OR ratio = 1.0 ORDER BY id")
    assert rows.fetchall() == [("row 7",), ("row 77",)]


def test_conditions_of_the_scan(
    connection: Any, session: turbocql.Session, table: str, count: int
) -> None:
    some = turbocql.duckdb.scan(
        connection, session, table, where="bucket = ?", values=[7], columns=["id"]
    )
    assert some.columns == ["id"]
    assert some.aggregate("count(*)").fetchall() == [(len(range(7, count, 1000)),)]


def test_a_limit_ends_the_reading(connection: Any) -> None:
    assert len(connection.sql("SELECT * FROM live LIMIT 5").fetchall()) == 5


def test_reads_while_a_node_is_killed(connection: Any, tables: Tables, faults: Faults) -> None:
    def fault() -> None:
        time.sleep(0.3)
        faults.kill_node()

    assert during(fault, lambda: read_sums(connection, 20_000)) == tables.expected
