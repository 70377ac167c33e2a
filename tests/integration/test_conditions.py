"""Tests of conditional and plain writes in a session that sends client timestamps."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import turbocql
import turbocql.aio
from turbocql import Batch

TABLE = "conditions"


@pytest.fixture
def session(points: list[str], keyspace: str) -> Any:
    with turbocql.connect(points, keyspace=keyspace, client_timestamps=True) as opened:
        opened.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (k int PRIMARY KEY, v int)")
        yield opened


@pytest.mark.filterwarnings("ignore:this session writes with the client's time")
@pytest.mark.parametrize(("first", "then"), [(0, 1), (1, 0)])
def test_a_conditional_write_after_a_plain_one_wins(
    session: turbocql.Session, number: int, first: int, then: int
) -> None:
    insert = session.prepare(f"INSERT INTO {TABLE} (k, v) VALUES (?, ?)")
    update = session.prepare(f"UPDATE {TABLE} SET v = ? WHERE k = ? IF v = ?")
    select = session.prepare(f"SELECT v FROM {TABLE} WHERE k = ?")
    for k in range(number * 1000, number * 1000 + 150):
        session.execute(insert, (k, first))
        assert session.execute(update, (then, k, first)).applied
        assert session.execute(select, (k,)).one().v == then  # type: ignore[union-attr]
        # A plain write after a conditional one also wins.
        session.execute(insert, (k, first))
        assert session.execute(select, (k,)).one().v == first  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:this session writes with the client's time")
def test_deletes_and_texts(session: turbocql.Session, number: int) -> None:
    select = session.prepare(f"SELECT v FROM {TABLE} WHERE k = ?")
    for k in range(number * 1000, number * 1000 + 100):
        session.execute(f"INSERT INTO {TABLE} (k, v) VALUES ({k}, 0)")
        assert session.execute(f"DELETE FROM {TABLE} WHERE k = {k} IF v = 0").applied
        assert session.execute(select, (k,)).one() is None
        session.execute(f"INSERT INTO {TABLE} (k, v) VALUES (?, 0)", (k,))
        batch = Batch()
        batch.add(f"UPDATE {TABLE} SET v = 5 WHERE k = {k} IF v = 0")
        assert session.execute(batch).applied
        assert session.execute(select, (k,)).one().v == 5  # type: ignore[union-attr]


def _text(session: turbocql.Session) -> None:
    session.execute(f"INSERT INTO {TABLE} (k, v) VALUES (-1, 0) IF NOT EXISTS")


def _prepared(session: turbocql.Session) -> None:
    session.execute(f"UPDATE {TABLE} SET v = ? WHERE k = -1 IF v = 9", (9,))


def _many(session: turbocql.Session) -> None:
    session.execute_many(f"DELETE FROM {TABLE} WHERE k = ? IF v = 9", [(-1,)])


def _batch(session: turbocql.Session) -> None:
    batch = Batch()
    batch.add(f"UPDATE {TABLE} SET v = 5 WHERE k = -1 IF v = 9")
    session.execute(batch)


@pytest.mark.parametrize("call", [_text, _prepared, _many, _batch])
def test_a_session_warns_once(
    session: turbocql.Session, call: Callable[[turbocql.Session], None]
) -> None:
    session.execute(f"DELETE FROM {TABLE} WHERE k IN (-2, -3)")
    session.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (k int PRIMARY KEY, v int)")
    with pytest.warns(RuntimeWarning, match=r"client_timestamps=True.*condition"):
        call(session)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(session)


def test_the_asynchronous_api_warns(points: list[str], keyspace: str) -> None:
    async def scenario() -> None:
        async with turbocql.aio.connect(
            points, keyspace=keyspace, client_timestamps=True
        ) as opened:
            with pytest.warns(RuntimeWarning, match="client_timestamps"):
                await opened.execute(f"UPDATE {TABLE} SET v = 1 WHERE k = -1 IF v = 9")

    asyncio.run(scenario())


def test_other_sessions_do_not_warn(points: list[str], keyspace: str) -> None:
    with turbocql.connect(points, keyspace=keyspace) as opened, warnings.catch_warnings():
        warnings.simplefilter("error")
        _text(opened)
        _batch(opened)
