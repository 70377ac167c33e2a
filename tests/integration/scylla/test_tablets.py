"""Tests that requests follow tablets that move, split and merge, on a simulated ScyllaDB."""

from __future__ import annotations

import asyncio
import time

from tests.support.apis import Api, Client

import turbocql
from turbocql.testing import Cassandra, Scylla, Shards

from .arrivals import ROWS, SHARDS, arrived, executes, pools_are_full, wait_until


def misrouted(scylla: Scylla, session: turbocql.Session) -> int:
    """Reads all rows and returns the number of requests that arrived at a wrong node or shard."""
    select = session.prepare("SELECT * FROM tablets.t WHERE id = ?")

    def read() -> None:
        for number in range(ROWS):
            assert session.execute(select, (number,)).one() == (number, str(number))

    # The third node announces no tablets, so no request that it receives counts as misrouted.
    requests = arrived(scylla, read)
    assert len(requests) >= ROWS
    return sum(request.is_misrouted is True for request in requests)


def test_tablets_are_followed(scylla: Scylla, session: turbocql.Session) -> None:
    wait_until(lambda: misrouted(scylla, session) == 0)
    for change in (scylla.move, scylla.split, scylla.move, scylla.merge):
        change("tablets", "t")
        wait_until(lambda: misrouted(scylla, session) == 0)


def test_replicas_are_those_of_the_tablet(scylla: Scylla, session: turbocql.Session) -> None:
    scylla.move("tablets", "t")
    wait_until(lambda: misrouted(scylla, session) == 0)
    tablets = scylla.tablets("tablets", "t")
    select = session.prepare("SELECT * FROM tablets.t WHERE id = ?")
    told = 0
    for number in range(ROWS):
        bound = select.bind((number,))
        assert bound.token is not None
        (tablet,) = (t for t in tablets if t.first_token < bound.token <= t.last_token)
        expected = [(replica.host_id, replica.shard) for replica in tablet.replicas]
        if all(replica.node != 2 for replica in tablet.replicas):
            found = [(r.node.host_id, r.shard) for r in session.replicas(bound)]
            assert found == expected
            told += 1
    assert told > 0


async def test_concurrent_requests_follow_a_tablet_that_moves(
    cluster: Cassandra, scylla: Scylla, api: Api
) -> None:
    others = scylla.connections()
    async with api.connect(cluster.contact_points) as client:
        wait_until(lambda: pools_are_full(scylla, others=others))
        insert = await client.prepare("INSERT INTO tablets.t (id, a) VALUES (?, ?)")
        is_over = asyncio.Event()
        writing = asyncio.ensure_future(write_until(is_over, client, insert))
        try:
            for change in (scylla.move, scylla.split, scylla.move, scylla.merge):
                change("tablets", "t")
                await heals(scylla)
        finally:
            is_over.set()
            await writing


async def write_until(is_over: asyncio.Event, client: Client, insert: turbocql.Prepared) -> None:
    while not is_over.is_set():
        report = await client.execute_many(
            insert, [(number, str(number)) for number in range(ROWS)] * 5, concurrency=64
        )
        assert report.succeeded == 5 * ROWS


async def heals(scylla: Scylla) -> None:
    """Waits until all requests of half a second have arrived at replicas."""
    deadline = time.monotonic() + 30
    while True:
        scylla.reset()
        await asyncio.sleep(0.5)
        requests = executes(scylla)
        if len(requests) > 100 and not any(request.is_misrouted for request in requests):
            return
        assert time.monotonic() < deadline, "tablets were not followed within 30 s"


def test_tablets_of_version_2_are_followed(cluster: Cassandra, scylla: Scylla) -> None:
    """Requests also follow tablets in version 2 of the extension.

    In this version, the last byte of each EXECUTE is called the block. The block contains a part of
    the tablet version that the client knows, and the position of this part. If the tablet now has
    another version, the custom payload of the answer contains the new version and the replicas.
    """
    for node, count in SHARDS.items():
        scylla.set_shards(node, Shards(count, tablets_v2=True))
    try:
        with turbocql.connect(cluster.contact_points) as session:
            for listed in session.nodes[:2]:
                assert "TABLETS_ROUTING_V2_EXPERIMENTAL" in listed.extensions
                assert "TABLETS_ROUTING_V1" not in listed.extensions
            wait_until(lambda: misrouted(scylla, session) == 0)
            for change in (scylla.move, scylla.split, scylla.merge):
                change("tablets", "t")
                wait_until(lambda: misrouted(scylla, session) == 0)
    finally:
        for node, count in SHARDS.items():
            scylla.set_shards(node, Shards(count))
