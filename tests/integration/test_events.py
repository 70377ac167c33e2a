"""Tests the streams of events of nodes and of the schema."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from typing import Any

import pytest
from tests.support.loops import Loop
from tests.support.nodes import eventually, paused

import turbocql
from turbocql.cluster import ClusterEvent
from turbocql.errors import ConfigError, RequestTimeout
from turbocql.testing import Cassandra


def change_schema(session: turbocql.Session[Any], keyspace: str) -> None:
    session.execute(
        f"CREATE KEYSPACE {keyspace} WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(f"CREATE TABLE {keyspace}.t (k int PRIMARY KEY)")
    session.execute(f"DROP KEYSPACE {keyspace}")


def test_changes_of_the_schema(points: list[str], number: int) -> None:
    keyspace = f"events_{number}"
    with turbocql.connect(points) as session, turbocql.connect(points) as other:
        with session.events() as events:
            change_schema(other, keyspace)
            seen: list[ClusterEvent] = []
            for event in events:
                if event.keyspace == keyspace:
                    seen.append(event)
                if event.change == "dropped" and event.target == "keyspace":
                    break
        changes = [(each.change, each.target, each.object) for each in seen]
        assert ("created", "keyspace", None) in changes
        assert ("created", "table", "t") in changes
        assert {each.name for each in seen} == {"schema changed"}
        assert seen[0].node == session.nodes[0].at
        assert seen[0].datacenter == session.nodes[0].datacenter
        assert abs(seen[0].at.timestamp() - seen[-1].at.timestamp()) < 60
        assert (events.closed, events.dropped) == (True, 0)


def test_a_node_that_hangs(cassandra_three: Cassandra) -> None:
    with turbocql.connect(cassandra_three.contact_points, keepalive_interval_s=600) as session:
        assert eventually(lambda: all(node.connected for node in session.nodes))
        events = session.events()
        names: list[tuple[str, str | None]] = []
        node = cassandra_three.nodes[2]

        def collect() -> None:
            names.extend((event.name, event.node) for event in events)

        collecting = threading.Thread(target=collect)
        collecting.start()
        with paused(node):
            while not names:
                with contextlib.suppress(RequestTimeout):
                    session.execute("SELECT key FROM system.local", timeout_s=0.2)
        assert eventually(lambda: len(names) >= 2)
    # The stream ends when the session is closed.
    collecting.join(10)
    assert not collecting.is_alive()
    assert names[:2] == [
        ("node silent", node.contact_point),
        ("node answers again", node.contact_point),
    ]


def test_the_oldest_events_are_dropped(points: list[str], number: int) -> None:
    with turbocql.connect(points) as session:
        with pytest.raises(ConfigError, match="capacity"):
            session.events(capacity=0)
        small, large = session.events(capacity=1), session.events()
        abandoned = session.events()
        del abandoned
        gc.collect()
        change_schema(session, f"few_events_{number}")
        assert eventually(lambda: small.dropped >= 2)
        assert next(small).change == "dropped"
        assert next(large).change == "created"
    assert list(small) == []
    later = session.events()
    assert (later.closed, list(later)) == (True, [])


async def test_an_asynchronous_stream(loop: Loop, points: list[str], number: int) -> None:
    async with turbocql.aio.connect(points) as session:
        events = session.events()
        waiting = asyncio.ensure_future(events.__anext__())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task"):
            await events.__anext__()
        await session.execute(
            f"CREATE KEYSPACE async_events_{loop.name}_{number} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        assert (await waiting).keyspace == f"async_events_{loop.name}_{number}".lower()
        # Canceling a wait for an event loses no event.
        waiting = asyncio.ensure_future(events.__anext__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await session.execute(f"DROP KEYSPACE async_events_{loop.name}_{number}")
        async with events:
            async for event in events:
                assert event.change == "dropped"
                break
        assert [event async for event in events] == []
