"""Tests of results in which pages without rows come before pages with rows.

ScyllaDB sends pages without rows when it reads many deleted rows. Here a proxy in front of a
Cassandra sends them before each page.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.changing_proxy import ERROR, EXECUTE, QUERY, RESULT, Answer, ChangingProxy

import turbocql
import turbocql.aio
from turbocql import errors
from turbocql.testing import Cassandra

EMPTY = 2
TABLE = "empty_pages"


def emptied(body: bytes, state: bytes) -> bytes:
    """Removes the rows from a RESULT of int columns, and replaces its paging state."""
    _, flags, columns = struct.unpack_from(">iii", body)
    at = 12
    if flags & 2:
        (length,) = struct.unpack_from(">i", body, at)
        at += 4 + length
    begin = at

    def text() -> None:
        nonlocal at
        (length,) = struct.unpack_from(">H", body, at)
        at += 2 + length

    if not flags & 4:
        if flags & 1:
            text()
            text()
        for _ in range(columns):
            if not flags & 1:
                text()
                text()
            text()
            at += 2
    head = struct.pack(">iii", 2, flags | 2, columns) + struct.pack(">i", len(state)) + state
    return head + body[begin:at] + struct.pack(">i", 0)


class Emptying:
    """While `on` is set, sends pages without rows before each page of a read."""

    def __init__(self) -> None:
        self.on, self.pause_s, self.sent = threading.Event(), 0.0, 0
        self.most = EMPTY
        self._kept: dict[bytes, Answer] = {}

    def __call__(self, answer: Answer) -> bytes:
        is_read = answer.request_opcode in (QUERY, EXECUTE) and self.on.is_set()
        if not is_read:
            return answer.frame()
        marks = [mark for mark in self._kept if mark in answer.request_body]
        if answer.opcode == ERROR and marks:
            # This proxy made the paging state of the request, so the node refused it.
            kept, (mark,) = self._kept[marks[0]], marks
            if mark.endswith(b"-%d" % self.most):
                return answer.with_body(kept.body, opcode=RESULT).frame()
            return self._empty(answer, kept, mark[:-1] + b"%d" % (int(mark[-1:]) + 1))
        if answer.opcode != RESULT or answer.body[:4] != b"\0\0\0\2":
            return answer.frame()
        return self._empty(answer, answer, b"EMPTY-%d-1" % len(self._kept))

    def _empty(self, answer: Answer, kept: Answer, mark: bytes) -> bytes:
        self._kept[mark] = kept
        self.sent += 1
        time.sleep(self.pause_s)
        return answer.with_body(emptied(kept.body, mark), opcode=RESULT).frame()


@pytest.fixture
def emptying() -> Emptying:
    return Emptying()


@pytest.fixture
def proxy(cassandra: Cassandra, keyspace: str, emptying: Emptying) -> Iterator[str]:
    point = cassandra.contact_points[0]
    with turbocql.connect(point, keyspace=keyspace) as session:
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (pk int, ck int, PRIMARY KEY (pk, ck))"
        )
        insert = session.prepare(f"INSERT INTO {TABLE} (pk, ck) VALUES (1, ?)")
        session.execute_many(insert, [(ck,) for ck in range(5)]).raise_for_failures()
    with ChangingProxy(point, emptying) as between:
        yield between.contact_point


HOW: dict[str, Callable[[turbocql.Rows[Any]], Any]] = {
    "one": lambda rows: rows.page() and rows.one() == rows.page()[0],
    "scalar": lambda rows: rows.scalar() == 0,
    "all": lambda rows: [row.ck for row in rows.all()] == [*range(5)],
    "iteration": lambda rows: [row.ck for row in rows] == [*range(5)],
    "page": lambda rows: len(rows.page()) > 0,
    "batches": lambda rows: sum(batch.num_rows for batch in rows.batches()) == 5,
    "numpy": lambda rows: rows.to_numpy()["ck"].tolist() == [*range(5)],
}


@pytest.mark.parametrize("page_size", [5000, 2])
@pytest.mark.parametrize("kind", ["text", "prepared", "bound"])
@pytest.mark.parametrize("how", HOW)
def test_rows_after_empty_pages(
    how: str, kind: str, page_size: int, proxy: str, keyspace: str, emptying: Emptying
) -> None:
    with turbocql.connect(proxy, keyspace=keyspace) as session:
        text = f"SELECT ck FROM {TABLE} WHERE pk = {1 if kind == 'text' else '?'}"
        statement = text if kind == "text" else session.prepare(text)
        emptying.on.set()
        if isinstance(statement, str):
            rows = session.execute(statement, page_size=page_size)
        elif kind == "prepared":
            rows = session.execute(statement, (1,), page_size=page_size)
        else:
            rows = session.execute(statement.bind((1,)), page_size=page_size)
        assert HOW[how](rows)
        assert emptying.sent >= EMPTY


def test_no_rows_at_all(proxy: str, keyspace: str, emptying: Emptying) -> None:
    with turbocql.connect(proxy, keyspace=keyspace) as session:
        emptying.on.set()
        select = f"SELECT ck FROM {TABLE} WHERE pk = 77"
        assert session.execute(select).one() is None
        assert session.execute(select).scalar() is None
        with pytest.raises(errors.NoRow):
            session.execute(select).one_or_raise()


def test_exactly_one_row(proxy: str, keyspace: str, emptying: Emptying) -> None:
    with turbocql.connect(proxy, keyspace=keyspace) as session:
        emptying.on.set()
        select = f"SELECT ck FROM {TABLE} WHERE pk = 1"
        assert session.execute(f"{select} AND ck = 3").one_or_raise() == (3,)
        with pytest.raises(errors.MultipleRows):
            session.execute(select).one_or_raise()


def test_the_asynchronous_api(proxy: str, keyspace: str, emptying: Emptying) -> None:
    async def scenario() -> None:
        async with turbocql.aio.connect(proxy, keyspace=keyspace) as session:
            emptying.on.set()
            row = (await session.execute(f"SELECT ck FROM {TABLE} WHERE pk = 1")).one()
            assert row is not None
            assert row.ck == 0
            rows = await session.execute(f"SELECT ck FROM {TABLE} WHERE pk = 1")
            assert [row.ck for row in await rows.all()] == [*range(5)]

    asyncio.run(scenario())


def test_the_time_limit_holds(proxy: str, keyspace: str, emptying: Emptying) -> None:
    text = f"SELECT ck FROM {TABLE} WHERE pk = 1"
    with turbocql.connect(proxy, keyspace=keyspace) as session:
        emptying.on.set()
        emptying.pause_s, emptying.most = 0.4, 4
        began = time.monotonic()
        rows = session.execute(text, timeout_s=1.0)
        assert time.monotonic() - began < 1.5
        # `execute` stopped requesting pages when its time limit ended. `one` requests the pages
        # after them.
        row = rows.one()
        assert row is not None
        assert row.ck == 0

    async def scenario() -> None:
        async with turbocql.aio.connect(proxy, keyspace=keyspace) as session:
            rows = await session.execute(text, timeout_s=1.0)
            with pytest.raises(errors.Error, match="the first pages have no rows"):
                rows.one()
            with pytest.raises(errors.Error, match="the first pages have no rows"):
                rows.scalar()
            assert [row.ck async for row in rows] == [*range(5)]
            only = await session.execute(f"{text} AND ck = 3", timeout_s=1.0)
            assert await only.one_or_raise() == (3,)

    asyncio.run(scenario())


def test_scans(proxy: str, keyspace: str, emptying: Emptying) -> None:
    async def scenario() -> None:
        async with turbocql.aio.connect(proxy, keyspace=keyspace) as session:
            assert (await session.scan(TABLE)).one() is not None

    # Most token ranges of this table have no rows, so a scan gets pages without rows also without
    # the proxy's pages.
    with turbocql.connect(proxy, keyspace=keyspace) as session:
        for _ in range(5):
            assert session.scan(TABLE).one() is not None
    asyncio.run(scenario())


def test_database_api(proxy: str, keyspace: str, emptying: Emptying) -> None:
    with turbocql.connect(proxy, keyspace=keyspace) as session:
        cursor = turbocql.dbapi.Connection(session).cursor()
        emptying.on.set()
        cursor.execute(f"SELECT ck FROM {TABLE} WHERE pk = 1")
        assert cursor.fetchone() == (0,)
        assert cursor.fetchall() == [(1,), (2,), (3,), (4,)]
