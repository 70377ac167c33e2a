"""Tests that eight threads can share a session, its rows and its statements.

One thread may also close the session. On an interpreter built without the GIL, the threads run at
the same time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.threads import run_threads

import turbocql
from turbocql import errors
from turbocql.testing import Cassandra

THREADS = 8
ROWS = 200


@pytest.fixture(scope="module")
def table(cassandra: Cassandra) -> str:
    name = "threads.t"
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS threads WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {name} (p int, k int, v text, n list<int>,"
            " PRIMARY KEY (p, k))"
        )
        rows = [(0, k, f"row {k}", [k, k + 1]) for k in range(ROWS)]
        session.execute_many(f"INSERT INTO {name} (p, k, v, n) VALUES (?, ?, ?, ?)", rows)
    return name


def run_together(*works: Callable[[int], object]) -> None:
    """Runs eight threads. Each thread calls one of the functions.

    The same number of threads calls each function. If threads raise exceptions, this function
    raises the first one.
    """
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        start.wait()
        works[number % len(works)](number)

    run_threads(THREADS, run)


def expected_rows() -> list[tuple[Any, ...]]:
    return [(k, f"row {k}", [k, k + 1]) for k in range(ROWS)]


def test_threads_share_a_session(cassandra: Cassandra, table: str) -> None:
    """Threads read pages, single rows and columns, and write many rows."""
    with turbocql.connect(cassandra.contact_points) as session:
        text = f"SELECT k, v, n FROM {table} WHERE p = ?"
        until = time.monotonic() + 1.5

        def again(work: Callable[[int], object]) -> Callable[[int], None]:
            def repeat(number: int) -> None:
                while time.monotonic() < until:
                    work(number)

            return repeat

        def pages(_: int) -> None:
            assert list(session.execute(text, (0,), page_size=17)) == expected_rows()

        def named(_: int) -> None:
            row = session.execute(f"SELECT v FROM {table} WHERE p = ? AND k = ?", (0, 7)).one()
            assert row is not None
            assert row.v == "row 7"

        def columns(_: int) -> None:
            arrays = session.execute(f"SELECT k, v FROM {table} WHERE p = ?", (0,)).to_numpy()
            assert arrays["k"].tolist() == list(range(ROWS))

        def write(number: int) -> None:
            insert = f"INSERT INTO {table} (p, k, v) VALUES (?, ?, ?)"
            report = session.execute_many(insert, [(1 + number, k, "x") for k in range(50)])
            assert report.succeeded == 50

        run_together(again(pages), again(named), again(columns), again(write))
        deadline = time.monotonic() + 10
        while session.in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.in_flight == 0


def test_one_result_is_read_by_all(cassandra: Cassandra, table: str) -> None:
    """Several threads share one iteration, and each row goes to only one of them.

    While one thread fetches a page, the other threads get errors.
    """
    with turbocql.connect(cassandra.contact_points) as session:
        seen: list[Any] = []
        iteration = iter(session.execute(f"SELECT k, v, n FROM {table} WHERE p = 0", page_size=60))

        def read(_: int) -> None:
            try:
                seen.extend(iteration)
            except errors.Error as error:
                if "another" not in str(error):
                    raise

        run_together(read)
        assert len({row.k for row in seen}) == len(seen) <= ROWS


def test_a_session_is_closed_while_threads_use_it(cassandra: Cassandra, table: str) -> None:
    for _ in range(5):
        close_while_used(turbocql.connect(cassandra.contact_points), table)


def close_while_used(session: turbocql.Session, table: str) -> None:
    select = session.prepare(f"SELECT k, v, n FROM {table} WHERE p = ?")

    def use(_: int) -> None:
        while True:
            try:
                rows = list(session.execute(select, (0,), page_size=50))
            except errors.Error:
                if session.closed:
                    return
                raise
            assert rows == expected_rows()

    def close(number: int) -> None:
        time.sleep(0.02 * number)
        session.close()

    run_together(use, use, use, close)
    assert session.closed


def test_each_thread_runs_an_event_loop(cassandra: Cassandra, table: str) -> None:
    async def program(number: int) -> None:
        async with turbocql.aio.connect(cassandra.contact_points) as session:
            text = f"SELECT k, v, n FROM {table} WHERE p = 0 AND k = ?"
            for _ in range(5):
                keys = range(number, number + 20)
                results = await asyncio.gather(*(session.execute(text, (k,)) for k in keys))
                assert [[row.k for row in result.page()] for result in results] == [
                    [k] for k in keys
                ]
            rows = [
                row async for row in await session.execute(f"SELECT k FROM {table} WHERE p = 0")
            ]
            assert len(rows) == ROWS

    run_together(lambda number: asyncio.run(program(number)))
