"""A user's program that uses nearly the whole API. mypy and pyright check it in strict mode.

It can also be run: `python program.py host:port`. The calls of `assert_type` name types that a type
checker must infer. At run time, these calls do nothing.
"""

from __future__ import annotations

import asyncio
import datetime
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from typing_extensions import assert_type

import turbocql
import turbocql.aio
import turbocql.dbapi
from turbocql import (
    AsyncRows,
    Balancing,
    Batch,
    Config,
    Consistency,
    ConstantSpeculation,
    Error,
    ExecutionProfile,
    PagingTokens,
    Query,
    Rows,
    Secret,
    Session,
    Tls,
    errors,
)
from turbocql.aio import AsyncSession
from turbocql.cluster import Node, Replica, Trace
from turbocql.schema import Schema, Table
from turbocql.telemetry import Metrics

KEYSPACE = "typed"


@dataclass
class User:
    """A row as a dataclass."""

    id: int
    name: str | None = None


class Pair(NamedTuple):
    """A row as a named tuple."""

    id: int
    name: str | None


@dataclass(frozen=True)
class Size:
    """A value of a user-defined type."""

    width: int | None = None
    height: int | None = None


@dataclass
class Entry:
    """The values of a statement, by name."""

    id: int
    name: str | None
    box: Size | None = None


def settings(point: str) -> Config:
    """Returns settings for a session."""
    return Config(
        contact_points=[point],
        consistency=Consistency.LOCAL_ONE,
        serial_consistency="LOCAL_SERIAL",
        timeout_s=30,
        retry="default",
        speculation=ConstantSpeculation(delay_s=0.5),
        balancing=Balancing(token_aware=True),
        profiles={"slow": ExecutionProfile(timeout_s=120, retry="fallthrough")},
        compression="lz4",
        connections_per_node=1,
        keepalive_interval_s=10,
        tls=None,
        application_name="typed",
        application_version="1",
    )


def secrets(point: str) -> None:
    """Creates settings with passwords and keys, both as plain values and as a `Secret`."""
    secret = Secret("hunter2")
    assert_type(secret, Secret[str])
    assert_type(secret.reveal(), str)
    assert_type(Secret(b"key").reveal(), bytes)
    config = Config(contact_points=point, user="ann", password="hunter2")
    assert Config(contact_points=point, user="ann", password=secret) == config
    if isinstance(config.password, Secret):
        assert_type(config.password.reveal(), str)
    Config(tls=Tls(certificate=b"", key=Secret(b"key")), pickle_secrets=True)
    try:
        Config(port=0)
    except Error as error:
        print(error)


def synchronous(config: Config) -> None:
    """Uses the synchronous API."""
    with turbocql.connect(config=config) as session:
        session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        session.execute(
            f"CREATE KEYSPACE {KEYSPACE} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.use_keyspace(KEYSPACE)
        session.execute("CREATE TYPE size (width int, height int)")
        session.execute("CREATE TABLE users (id int PRIMARY KEY, name text, box frozen<size>)")
        session.register_type("size", Size)

        insert = session.prepare("INSERT INTO users (id, name, box) VALUES (?, ?, ?)")
        insert = insert.with_options(idempotent=True, consistency="ONE")
        bound = insert.bind((1, "one", Size(1, 2)))
        session.execute(bound, profile="slow", tracing=False)
        assert_type(bound.token, int | None)
        assert_type(bound.routing_key, bytes | None)
        report = session.execute_many(insert, ((i, f"number {i}", None) for i in range(2, 500)))
        assert_type(report.succeeded, int)
        session.execute(insert, Entry(500, "a dataclass", Size(3)))
        session.execute(insert.bind(Entry(501, None)))
        session.execute_many(insert, [Entry(i, "many") for i in range(502, 510)])
        batch = Batch("unlogged", timestamp=1_700_000_000_000_000)
        batch.add(insert, (1000, "batch", None))
        batch.add("INSERT INTO users (id, name) VALUES (?, ?)", Entry(1002, "in a batch"))
        batch.add(Query("DELETE FROM users WHERE id = 1001"))
        session.execute(batch)

        select = Query("SELECT id, name FROM users WHERE id = ?", page_size=10)
        users = session.execute(select, (1,), row=User)
        assert_type(users, Rows[User])
        user = users.one()
        assert_type(user, User | None)
        assert user is not None
        assert user.name == "one"
        pairs = session.execute("SELECT id, name FROM users", row=Pair, page_size=100)
        assert_type(pairs.all(), list[Pair])
        tuples = session.execute("SELECT id, name FROM users", rows="tuple")
        assert_type(tuples, Rows[tuple[Any, ...]])
        for page in session.execute("SELECT id FROM users", rows="dict", page_size=50).pages():
            assert_type(page, list[dict[str, Any]])
        first = session.execute("SELECT id FROM users", page_size=50)
        state = first.paging_state
        assert_type(state, bytes | None)
        assert len(session.execute("SELECT id FROM users", page_size=50, paging_state=state).page())
        for row in first:
            assert row.id is not None
        assert_type(session.execute(select, (1,), row=User).one_or_raise(), User)
        assert session.execute("SELECT count(*) FROM users").scalar() > 0
        tokens = PagingTokens(b"sixteen random bytes")
        assert state is not None
        token = tokens.sign(state, "SELECT id FROM users")
        assert_type(token, str)
        assert_type(tokens.verify(token, "SELECT id FROM users"), bytes)
        assert_type(tokens.sign(first.paging_state, select, (1,)), str | None)

        scanned = session.scan(f"{KEYSPACE}.users", columns=["id", "name"], row=User)
        assert_type(scanned, Rows[User])
        assert_type(session.scan("users", rows="tuple").all(), list[tuple[Any, ...]])
        assert_type(session.scan("users", rows="dict"), Rows[dict[str, Any]])
        assert_type(session.scan("users", columns=["id"]), Rows[Any])
        for found in session.scan(
            "users", columns=["id", "name"], consistency="local_one", row=Pair
        ):
            assert_type(found, Pair)

        condition = session.execute("UPDATE users SET name = 'x' WHERE id = 1 IF name = 'two'")
        assert_type(condition.applied, bool | None)
        assert condition.existing == {"name": "one"}
        traced = session.execute("SELECT id FROM users WHERE id = 1", tracing=True)
        assert_type(traced.trace(), Trace | None)

        assert_type(session.nodes, tuple[Node, ...])
        assert_type(session.replicas(bound), tuple[Replica, ...])
        assert_type(session.metrics(), Metrics)
        schema = session.schema()
        assert_type(schema, Schema)
        assert_type(schema.table(f"{KEYSPACE}.users"), Table)
        session.await_schema_agreement(timeout_s=30)
        session.forget_prepared()
        try:
            session.execute("SELECT nothing FROM users")
        except errors.InvalidQuery as error:
            assert_type(error.may_have_applied, bool)
        try:
            session.execute(insert, ("one", None, None))
        except errors.EncodeError as refused:
            print(refused)
        try:
            session.execute(insert, (2**31, None, None))
        except errors.RangeError as beyond:
            assert_type(beyond.path, str)
            print(beyond)


async def asynchronous(config: Config) -> None:
    """Uses the asynchronous API."""

    async def rows() -> AsyncIterator[tuple[int, str, Size]]:
        for i in range(2000, 2100):
            yield i, f"number {i}", Size(i)

    async with turbocql.aio.connect(config=config) as session:
        await session.use_keyspace(KEYSPACE)
        report = await session.execute_many(
            "INSERT INTO users (id, name, box) VALUES (?, ?, ?)", rows()
        )
        assert report.succeeded == 100
        await session.execute("INSERT INTO users (id, name) VALUES (?, ?)", Entry(2500, "awaited"))
        users = await session.execute("SELECT id, name FROM users WHERE id = 2001", row=User)
        user = users.one()
        assert_type(user, User | None)
        async for found in await session.execute("SELECT id, name FROM users", row=User):
            assert_type(found, User)
        assert_type(await users.one_or_raise(), User)
        scanned = await session.scan("users", columns=["id", "name"], row=User)
        assert_type(scanned, AsyncRows[User])
        assert_type(await session.scan("users", rows="dict"), AsyncRows[dict[str, Any]])
        async for pair in session.execute("SELECT id, name FROM users", row=Pair):
            assert_type(pair, Pair)
        async for row in session.scan("users"):
            assert row.id is not None
        task = asyncio.create_task(session.execute("SELECT id FROM users", rows="dict"))
        assert_type(await task, AsyncRows[dict[str, Any]])
        counted = await session.execute_many(
            "SELECT name FROM users WHERE id = ?", [(1,), (2000,)], results=True
        )
        assert counted.results is not None
        print([result.one().name for result in counted.results])
        assert_type(await session.schema(), Schema)
        await turbocql.aio.diagnosis(session)


def rows_of_the_session(point: str) -> None:
    """The type `Session` has one type parameter, which is the type of the session's rows."""
    select = "SELECT key FROM system.local"
    with turbocql.connect(point, rows="dict", timeout_s=30) as session:
        assert_type(session, Session[dict[str, Any]])
        assert_type(session.execute(select), Rows[dict[str, Any]])
        assert_type(session.execute(select).one_or_raise()["key"], Any)
        assert_type(session.execute(select, rows="tuple"), Rows[tuple[Any, ...]])
        assert_type(session.scan("system.local"), Rows[dict[str, Any]])
        takes_any_session(session)
    with turbocql.connect(point, rows="tuple") as tuples:
        assert_type(tuples.execute(select).one(), tuple[Any, ...] | None)
    with turbocql.connect(point, rows="named") as named:
        assert_type(named, Session[Any])
    with turbocql.connect(point) as plain:
        assert_type(plain, Session[Any])
        assert_type(plain.execute(select), Rows[Any])


def takes_any_session(session: Session) -> None:
    """Without a parameter, `Session` is the type of a session whose rows are `Any`."""
    assert session.execute("SELECT key FROM system.local").one_or_raise() is not None


async def rows_of_the_asynchronous_session(point: str) -> None:
    """The type `AsyncSession` also has one type parameter, the type of the session's rows."""
    select = "SELECT key FROM system.local"
    async with turbocql.aio.connect(point, rows="dict") as session:
        assert_type(session, AsyncSession[dict[str, Any]])
        assert_type(await session.execute(select), AsyncRows[dict[str, Any]])
    tuples = await turbocql.aio.connect(point, rows="tuple")
    assert_type((await tuples.execute(select)).one(), tuple[Any, ...] | None)
    await tuples.close()


def credentials() -> tuple[str, Secret[str]]:
    """Returns the user and the password of a new connection."""
    return "ann", Secret("hunter2")


def values_in_text() -> None:
    """Writes names and values into CQL, and makes time UUIDs."""
    assert_type(turbocql.quote_identifier("app", "users"), str)
    assert_type(turbocql.quote_literal([1, None], "list<int>"), str)
    moment = datetime.datetime(2026, 1, 31)
    assert_type(turbocql.datetime_from_uuid(turbocql.uuid_from_time(moment)), datetime.datetime)
    assert turbocql.min_uuid_from_time(moment) != turbocql.max_uuid_from_time(moment)
    Config(credentials=credentials)


def database_api(point: str) -> None:
    """Uses the database API of PEP 249."""
    with turbocql.dbapi.connect(point, keyspace=KEYSPACE) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT name FROM users WHERE id = ?", (1,))
        print(cursor.fetchone())
        cursor.execute("INSERT INTO users (id, name) VALUES (?, ?)", Entry(3000, "pep 249"))
        cursor.executemany("INSERT INTO users (id, name) VALUES (?, ?)", [Entry(3001, "many")])


def main(point: str) -> None:
    """Uses all APIs."""
    config = settings(point)
    secrets(point)
    synchronous(config)
    asyncio.run(asynchronous(config))
    rows_of_the_session(point)
    asyncio.run(rows_of_the_asynchronous_session(point))
    values_in_text()
    database_api(point)


if __name__ == "__main__":
    main(sys.argv[1])
