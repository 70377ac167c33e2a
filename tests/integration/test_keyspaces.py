"""Tests that all connections of a session use the same keyspace, even if a `USE` fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from tests.support.nodes import eventually, paused

import turbocql
import turbocql.aio
from turbocql import errors
from turbocql.testing import Cassandra

NAMES = ("keyspaces_a", "keyspaces_b")


@pytest.fixture(scope="module", autouse=True)
def keyspaces(cassandra_three: Cassandra) -> Iterator[None]:
    """Creates two keyspaces, each with a table `here` whose only row has the keyspace's name."""
    with turbocql.connect(cassandra_three.contact_points) as session:
        for name in NAMES:
            session.execute(
                f"CREATE KEYSPACE {name} WITH replication ="
                " {'class': 'NetworkTopologyStrategy', 'replication_factor': 3}"
            )
            session.execute(f"CREATE TABLE {name}.here (k int PRIMARY KEY, name text)")
            insert = f"INSERT INTO {name}.here (k, name) VALUES (1, '{name}')"
            session.execute(insert, consistency="ALL")
        yield
        for name in NAMES:
            session.execute(f"DROP KEYSPACE {name}")


def read_from_all(session: turbocql.Session, seconds: float = 1.0) -> set[tuple[str | None, str]]:
    """Reads the table `here` for some time. The statements do not name a keyspace.

    Returns pairs. Each pair has a coordinator, and the keyspace from which this coordinator read.
    """
    found = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        rows = session.execute("SELECT name FROM here WHERE k = 1", consistency="ONE")
        found.add((rows.coordinator, rows.one_or_raise().name))
    return found


def all_use(session: turbocql.Session, name: str | None, nodes: int = 3) -> bool:
    found = read_from_all(session)
    return {of for _, of in found} == {name} and len(found) == nodes


def test_many_uses_while_a_node_hangs(cassandra_three: Cassandra) -> None:
    for hung in cassandra_three.nodes[1:]:
        with turbocql.connect(cassandra_three.contact_points, timeout_s=5) as session:
            session.use_keyspace(NAMES[0])
            with paused(hung):
                assert eventually(lambda: any(node.silent for node in session.nodes), 30)
                for number in range(21):
                    session.use_keyspace(NAMES[(number + 1) % 2])
            assert eventually(lambda: all(node.connected for node in session.nodes), 30)
            assert {name for _, name in read_from_all(session, 3)} == {NAMES[1]}
            assert eventually(lambda: all_use(session, NAMES[1]), 30)


def test_a_use_that_fails_at_its_deadline(cassandra_three: Cassandra) -> None:
    hung = cassandra_three.nodes[2]
    with turbocql.connect(cassandra_three.contact_points, timeout_s=10) as session:
        session.use_keyspace(NAMES[0])
        failed = 0
        for _ in range(4):
            with paused(hung):
                try:
                    session.execute(f"/* late */ USE {NAMES[1]}", timeout_s=0.15)
                except errors.RequestTimeout:
                    failed += 1
            assert eventually(lambda: all_use(session, session.keyspace), 30)
            session.use_keyspace(NAMES[0])
        assert failed


def test_a_canceled_use(cassandra_three: Cassandra) -> None:
    async def read(session: turbocql.aio.AsyncSession) -> set[str]:
        query = "SELECT name FROM here WHERE k = 1"
        rows = [await session.execute(query, consistency="ONE") for _ in range(30)]
        return {(await of.one_or_raise()).name for of in rows}

    async def cancel() -> None:
        async with turbocql.aio.connect(cassandra_three.contact_points) as session:
            await session.use_keyspace(NAMES[0])
            for number in range(20):
                using = asyncio.create_task(session.use_keyspace(NAMES[(number + 1) % 2]))
                await asyncio.sleep(0 if number % 2 else 0.001)
                using.cancel()
                with suppress(asyncio.CancelledError):
                    await using
                # Some connections may change their keyspace only after the cancellation, so the
                # test reads several times.
                for _ in range(20):
                    await asyncio.sleep(0.3)
                    if await read(session) == {session.keyspace}:
                        break
                assert await read(session) == {session.keyspace}

    asyncio.run(cancel())


def test_uses_in_several_threads(cassandra_three: Cassandra) -> None:
    with turbocql.connect(cassandra_three.contact_points) as session, ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            uses = [pool.submit(session.use_keyspace, NAMES[number % 2]) for number in range(200)]
            for use in uses:
                use.result()
            assert all_use(session, session.keyspace)
