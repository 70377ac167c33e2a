"""Tests of lists that are not frozen, on three nodes that each choose their own write times."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import turbocql
import turbocql.aio
from turbocql.testing import Cassandra

SPACE = "several_nodes"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def session(cassandra_three: Cassandra) -> Iterator[turbocql.Session]:
    with turbocql.connect(cassandra_three.contact_points) as opened:
        opened.execute(
            f"CREATE KEYSPACE IF NOT EXISTS {SPACE} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        opened.use_keyspace(SPACE)
        yield opened


@pytest.fixture
def table(session: turbocql.Session) -> str:
    """Creates a table for one test and returns its name.

    The tests cannot share a table, even with a TRUNCATE before each test. A replica may apply a
    write of an earlier test after the TRUNCATE. If a later test then writes the same list with the
    same timestamp, the list contains the elements of both writes.
    """
    name = f"lists_{next(NUMBERS)}"
    session.execute(
        f"CREATE TABLE {name} (k int, c int, l list<int>, s list<int> static, PRIMARY KEY (k, c))"
    )
    return name


def lists(session: turbocql.Session, name: str) -> set[tuple[Any, ...]]:
    rows = session.execute(f"SELECT l, s FROM {name}", consistency="ALL")
    return {(tuple(row.l), None if row.s is None else tuple(row.s)) for row in rows}


def repeated(count: int, times: int) -> dict[str, list[Any]]:
    """Returns columns in which each key is repeated in `times` consecutive rows."""
    return {
        "k": [place // times for place in range(count)],
        "c": [0] * count,
        "l": [[1, 2]] * count,
    }


@pytest.mark.parametrize("stamp", [None, 1_700_000_000_000_000])
@pytest.mark.parametrize("batches", [True, False])
def test_a_key_several_times(
    session: turbocql.Session, table: str, batches: bool, stamp: int | None
) -> None:
    data = repeated(1500, 3)
    assert session.load(table, data, batches=batches, timestamp=stamp).succeeded == 1500
    assert lists(session, table) == {((1, 2), None)}


def test_static_lists(session: turbocql.Session, table: str) -> None:
    count = 900
    data = {
        "k": [place // 30 for place in range(count)],
        "c": list(range(count)),
        "l": [[1, 2]] * count,
        "s": [[3, 4]] * count,
    }
    for batches in (True, False):
        assert session.load(table, data, batches=batches).succeeded == count
        assert lists(session, table) == {((1, 2), (3, 4))}


def test_asynchronous_loads(
    cassandra_three: Cassandra, session: turbocql.Session, table: str
) -> None:
    async def scenario() -> None:
        points = cassandra_three.contact_points
        async with turbocql.aio.connect(points, keyspace=SPACE) as opened:
            assert (await opened.load(table, repeated(900, 3))).succeeded == 900

    asyncio.run(scenario())
    assert lists(session, table) == {((1, 2), None)}


@pytest.mark.parametrize("how", ["option", "text", "batch"])
def test_a_write_time_is_not_sent_twice(
    cassandra_three: Cassandra, session: turbocql.Session, table: str, how: str
) -> None:
    """A write with a fixed timestamp is not sent speculatively.

    If it were, two coordinators would write the list with the same timestamp, and each element
    would be stored twice.
    """
    stamp = 1_700_000_000_000_000
    with turbocql.connect(
        cassandra_three.contact_points,
        keyspace=SPACE,
        speculation=turbocql.ConstantSpeculation(delay_s=0.001, max_attempts=2),
    ) as eager:
        text = f"INSERT INTO {table} (k, c, l) VALUES (?, 0, ?)"
        insert = eager.prepare(text + (f" USING TIMESTAMP {stamp}" if how == "text" else ""))
        for k in range(200):
            if how == "batch":
                batch = turbocql.Batch(timestamp=stamp, idempotent=True)
                batch.add(insert, (k, [1, 2]))
                eager.execute(batch)
                continue
            time = stamp if how == "option" else None
            eager.execute(insert, (k, [1, 2]), idempotent=True, timestamp=time)
    assert lists(session, table) == {((1, 2), None)}


def test_rows_of_one_key_are_not_mixed(session: turbocql.Session) -> None:
    session.execute(
        "CREATE TABLE IF NOT EXISTS mixed (k int PRIMARY KEY, s set<int>, a int, b int)"
    )
    session.execute("TRUNCATE mixed")
    keys = [place // 3 for place in range(3000)]
    which = [place % 3 for place in range(3000)]
    data = {"k": keys, "s": [{it} for it in which], "a": which, "b": [2 - it for it in which]}
    assert session.load("mixed", data).succeeded == 3000
    rows = session.execute("SELECT s, a, b FROM mixed", consistency="ALL")
    assert {(frozenset(row.s), row.a, row.b) for row in rows} <= {
        (frozenset({it}), it, 2 - it) for it in range(3)
    }


def test_static_values_are_not_mixed(session: turbocql.Session) -> None:
    session.execute(
        "CREATE TABLE IF NOT EXISTS shared (k int, c int, a int static, b int static,"
        " s set<int> static, PRIMARY KEY (k, c))"
    )
    count = 2000
    which = [place % 2 for place in range(count)]
    data = {
        "k": [place // 10 for place in range(count)],
        "c": list(range(count)),
        "a": which,
        "b": [1 - it for it in which],
        "s": [{it} for it in which],
    }
    for batches in (True, False):
        session.execute("TRUNCATE shared")
        assert session.load("shared", data, batches=batches).succeeded == count
        rows = session.execute("SELECT DISTINCT k, a, b, s FROM shared", consistency="ALL")
        found = {(row.a, row.b, frozenset(row.s)) for row in rows}
        assert found <= {(0, 1, frozenset({0})), (1, 0, frozenset({1}))}
