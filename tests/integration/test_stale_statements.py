"""Tests of prepared statements that a server has evicted, or whose meaning has changed.

A server evicts statements if its cache is full. Schema changes and `USE` change the meaning of
statements.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from tests.support.apis import Api, Client
from tests.support.proxy import Tap

import turbocql
from turbocql import Batch, Prepared, Query, Session, errors
from turbocql.testing import Cassandra

MOMENT_S = 1.1
"""The time after which a session may prepare a text again: it does so at most once per second."""
REPLICATION = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


@pytest.fixture(scope="module")
def keyspaces(cassandra: Cassandra) -> tuple[str, str]:
    """Two keyspaces that have a table of the same name with different rows."""
    names = f"first_{uuid4().hex[:12]}", f"second_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra.contact_points) as session:
        for name in names:
            session.execute(f"CREATE KEYSPACE {name} {REPLICATION}")
            session.execute(f"CREATE TABLE {name}.t (p int, c int, v text, PRIMARY KEY (p, c))")
            insert = f"INSERT INTO {name}.t (p, c, v) VALUES (1, ?, ?)"
            session.execute_many(insert, ((c, name) for c in range(100)))
    return names


@pytest.fixture
def session(points: list[str], keyspaces: tuple[str, str]) -> Iterator[Session]:
    with turbocql.connect(points, keyspace=keyspaces[0], page_size=10) as session:
        yield session


async def test_all_pages_are_of_the_keyspace_of_the_first(
    api: Api, points: list[str], keyspaces: tuple[str, str]
) -> None:
    first, second = keyspaces
    async with api.connect(points, keyspace=first, page_size=10) as client:
        for text, values in (("SELECT v FROM t", None), ("SELECT v FROM t WHERE p = ?", (1,))):
            rows = await client.execute(text, values)
            await client.execute(f"USE {second}")
            if values is None:
                with pytest.raises(errors.ConfigError, match=f"from keyspace {first} to {second}"):
                    await rows.all()
            else:
                assert {row.v for row in await rows.all()} == {first}
            await client.execute(f"USE {first}")
        for name in (first, f'"{first}"'):
            rows = await client.execute(f"SELECT v FROM {name}.t")
            await client.execute(f"USE {second}")
            assert [row.v for row in await rows.all()] == [first] * 100
            await client.execute(f"USE {first}")


def run_prepared(session: Session, text: str) -> None:
    session.execute(session.prepare(text))


def run_with_values(session: Session, text: str) -> None:
    session.execute(text, ())


def run_many(session: Session, text: str) -> None:
    session.execute_many(text, [()])


def run_too_late(session: Session, text: str) -> None:
    """Executes a statement with such a short time limit that the call usually times out.

    The server still executes the statement.
    """
    try:
        session.execute(text, timeout_s=0.001)
    except errors.RequestTimeout:
        time.sleep(3)


@pytest.mark.parametrize("run", [run_prepared, run_with_values, run_many, run_too_late])
def test_no_schema_statement_leaves_old_types_behind(session: Session, run: Any) -> None:
    table = f"t_{uuid4().hex[:12]}"
    insert = f"INSERT INTO {table} (k, v) VALUES (1, ?)"
    session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v bigint)")
    session.execute(insert, (5,))
    run(session, f"DROP TABLE {table}")
    run(session, f"CREATE TABLE {table} (k int PRIMARY KEY, v double)")
    session.execute(insert, (5,))
    assert session.execute(f"SELECT v FROM {table}").one() == (5.0,)


def test_a_type_registered_again_is_written_with_its_new_field(
    session: Session, points: list[str], keyspaces: tuple[str, str]
) -> None:
    @dataclass(frozen=True)
    class Old:
        a: int

    @dataclass(frozen=True)
    class New:
        a: int
        b: int

    kind = f"u_{uuid4().hex[:12]}"
    session.execute(f"CREATE TYPE {kind} (a int)")
    session.execute(f"CREATE TABLE of_{kind} (k int PRIMARY KEY, u {kind})")
    session.register_type(kind, Old)
    insert, select = f"INSERT INTO of_{kind} (k, u) VALUES (1, ?)", f"SELECT u FROM of_{kind}"
    session.execute(insert, (Old(1),))
    with turbocql.connect(points, keyspace=keyspaces[0]) as other:
        other.execute(f"ALTER TYPE {kind} ADD b int")
    session.register_type(kind, New)
    session.execute(insert, (New(1, 2),))
    assert session.execute(select).one() == (New(1, 2),)


def test_a_prepare_begun_before_forget_prepared_is_not_cached(session: Session) -> None:
    """A statement whose PREPARE began before `forget_prepared` can be executed, but is not cached.

    It must not be cached, because its meaning may have changed between the PREPARE and the call of
    `forget_prepared`.
    """
    preparing: Any = session._core.prepare("SELECT v FROM t WHERE p = ?")
    session.forget_prepared()
    prepared: Prepared = preparing.wait()
    assert session.execute(prepared, (1,)).one() is not None
    assert session.prepared == ()
    session.execute(prepared.text, (1,))
    kept: Any = session.prepared
    assert [one.text for one in kept] == [prepared.text]


def test_a_closed_session_registers_no_type(points: list[str], keyspaces: tuple[str, str]) -> None:
    session = turbocql.connect(points, keyspace=keyspaces[0])
    session.close()
    with pytest.raises(errors.ClosedError):
        session.register_type("u", dict)


def test_a_server_that_forgets_at_once() -> None:
    """A server whose cache is full may evict new statements at once."""
    with (
        Cassandra(nodes=1, config={"prepared_statements_cache_size": "1MiB"}) as cassandra,
        turbocql.connect(cassandra.contact_points) as session,
    ):
        for number in range(1500):
            text = f"SELECT key AS k{number} FROM system.local WHERE key = ?"
            assert session.execute(text, ("local",)).one() == ("local",)
        kept: Any = session.execute("SELECT count(*) FROM system.prepared_statements").one()
        # The server must have evicted some statements. Otherwise, this test would test nothing.
        assert kept is not None
        assert kept[0] < 1500


async def execute_text(client: Client, text: str, values: tuple[Any, ...]) -> None:
    await client.execute(text, values)


async def execute_query(client: Client, text: str, values: tuple[Any, ...]) -> None:
    await client.execute(Query(text), values)


async def execute_batch(client: Client, text: str, values: tuple[Any, ...]) -> None:
    batch = Batch()
    batch.add(text, values)
    batch.add(text, values)
    await client.execute(batch)


async def execute_many(client: Client, text: str, values: tuple[Any, ...]) -> None:
    assert (await client.execute_many(text, [values, values])).failures == []


@pytest.mark.parametrize("run", [execute_text, execute_query, execute_batch, execute_many])
async def test_a_change_by_another_client_is_noticed(
    api: Api, points: list[str], keyspaces: tuple[str, str], run: Any
) -> None:
    kind, table = f"u_{uuid4().hex[:12]}", f"t_{uuid4().hex[:12]}"
    insert = f"INSERT INTO {table} (k, u, v) VALUES (1, ?, ?)"
    async with (
        api.connect(points, keyspace=keyspaces[0]) as client,
        api.connect(points, keyspace=keyspaces[0]) as other,
    ):
        await other.execute(f"CREATE TYPE {kind} (street text)")
        create = f"CREATE TABLE {table} (k int PRIMARY KEY, u frozen<{kind}>, v"
        await other.execute(f"{create} int)")
        await run(client, insert, ({"street": "a"}, 1))
        await other.execute(f"ALTER TYPE {kind} ADD zip int")
        time.sleep(MOMENT_S)
        await run(client, insert, ({"street": "a", "zip": 9}, 1))
        row = (await client.execute(f"SELECT u FROM {table}")).one()
        assert (row.u.street, row.u.zip) == ("a", 9)
        await other.execute(f"DROP TABLE {table}")
        await other.execute(f"{create} text)")
        time.sleep(MOMENT_S)
        await run(client, insert, (None, "one"))
        assert (await client.execute(f"SELECT v FROM {table}")).one() == ("one",)


async def test_values_that_do_not_fit_cost_one_request_a_second(
    api: Api, points: list[str], keyspaces: tuple[str, str]
) -> None:
    select = "SELECT v FROM t WHERE p = ?"
    with Tap(points[0]) as tap:
        async with api.connect(tap.contact_point, keyspace=keyspaces[0]) as client:
            await client.execute(select, (1,))
            time.sleep(MOMENT_S)
            began = time.monotonic()
            for _ in range(50):
                with pytest.raises(errors.EncodeError, match="expected int"):
                    await client.execute(select, ("one",))
            seconds = time.monotonic() - began
            assert 2 <= tap.count("PREPARE", select) <= 3 + seconds
            assert (await client.execute(select, (1,))).one() is not None


async def test_the_error_for_a_new_field_names_forget_prepared(
    api: Api, points: list[str], keyspaces: tuple[str, str]
) -> None:
    kind, table = f"u_{uuid4().hex[:12]}", f"t_{uuid4().hex[:12]}"
    insert = f"INSERT INTO {table} (k, u) VALUES (1, ?)"
    async with (
        api.connect(points, keyspace=keyspaces[0]) as client,
        api.connect(points, keyspace=keyspaces[0]) as other,
    ):
        await other.execute(f"CREATE TYPE {kind} (street text)")
        await other.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, u frozen<{kind}>)")
        prepared = await client.prepare(insert)
        await other.execute(f"ALTER TYPE {kind} ADD zip int")
        time.sleep(MOMENT_S)
        for _ in range(2):
            with pytest.raises(errors.EncodeError, match=r'no field "zip".*forget_prepared\(\)'):
                await client.execute(prepared, ({"zip": 9},))
        client.session.forget_prepared()
        prepared = await client.prepare(insert)
        await client.execute(prepared, ({"zip": 9},))
