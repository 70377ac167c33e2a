"""Tests that conditional statements on a partition go to one replica of a simulated ScyllaDB."""

from __future__ import annotations

from tests.support.apis import Api

import turbocql
from turbocql.cluster import Node
from turbocql.testing import Cassandra, Scylla
from turbocql.testing.scylla import Request

from .arrivals import at_wrong_shards, executes, owner, pools_are_full, wait_until

KEYS = 40


def assert_at_owners(scylla: Scylla, nodes: tuple[Node, ...]) -> list[Request]:
    """Asserts that each EXECUTE on `copies` arrived at the first replica of its token.

    Returns these EXECUTEs.
    """
    requests = [request for request in executes(scylla) if "copies" in (request.text or "")]
    for request in requests:
        assert request.token is not None
        assert request.node == owner(nodes, request.token)
    return requests


async def test_conditions_go_to_the_first_replica_of_the_ring(
    cluster: Cassandra, scylla: Scylla, api: Api
) -> None:
    others = scylla.connections()
    async with api.connect(cluster.contact_points) as client:
        wait_until(lambda: pools_are_full(scylla, others=others))
        insert = await client.prepare("INSERT INTO copies.t (id, a) VALUES (?, ?) IF NOT EXISTS")
        update = await client.prepare("UPDATE copies.t SET a = ? WHERE id = ? IF a = ?")
        scylla.reset()
        for number in range(KEYS):
            for _ in range(3):
                await client.execute(insert, (number, "a"))
                await client.execute(update, ("b", number, "b"))
        nodes = client.session.nodes
    requests = assert_at_owners(scylla, nodes)
    assert len(requests) >= 6 * KEYS
    assert at_wrong_shards(requests) == []


async def test_execute_many_of_conditions_goes_to_the_first_replica(
    cluster: Cassandra, scylla: Scylla, api: Api
) -> None:
    async with api.connect(cluster.contact_points) as client:
        insert = await client.prepare("INSERT INTO copies.t (id, a) VALUES (?, ?) IF NOT EXISTS")
        scylla.reset()
        rows = [(number, "a") for number in range(KEYS)]
        assert (await client.execute_many(insert, rows)).succeeded == KEYS
        nodes = client.session.nodes
    assert len(assert_at_owners(scylla, nodes)) >= KEYS


async def test_conditional_batches_go_to_the_first_replica(
    cluster: Cassandra, scylla: Scylla, api: Api
) -> None:
    async with api.connect(cluster.contact_points) as client:
        insert = await client.prepare("INSERT INTO copies.t (id, a) VALUES (?, ?) IF NOT EXISTS")
        for number in range(KEYS):
            bound = insert.bind((number, "a"))
            batch = turbocql.Batch("unlogged")
            batch.add(bound)
            scylla.reset()
            await client.execute(batch)
            (request,) = (r for r in scylla.requests() if r.opcode == "BATCH")
            assert bound.token is not None
            assert request.node == owner(client.session.nodes, bound.token)


async def test_other_writes_go_to_all_replicas(
    cluster: Cassandra, scylla: Scylla, api: Api
) -> None:
    """Writes without a condition go to all replicas.

    So the conditions are the reason why the requests of the tests above go to one replica.
    """
    async with api.connect(cluster.contact_points) as client:
        insert = await client.prepare("INSERT INTO copies.t (id, a) VALUES (?, ?)")
        scylla.reset()
        for _ in range(60):
            await client.execute(insert, (1, "a"))
    assert {request.node for request in executes(scylla)} == {0, 1, 2}
