"""Tests of load balancing policies, and of the session's view of the cluster, on three nodes."""

from __future__ import annotations

import asyncio
import dataclasses
from ipaddress import ip_address
from typing import Any
from uuid import uuid4

import pytest
from tests.support.apis import Api, Client
from tests.support.nodes import eventually, paused

import turbocql
from turbocql import (
    Balancing,
    ConstantSpeculation,
    ExecutionProfile,
    LatencyAwareness,
    PercentileSpeculation,
    errors,
)
from turbocql.cluster import Replica
from turbocql.testing import Cassandra

INSERT = "INSERT INTO t (k, v) VALUES (?, ?)"
SELECT = "SELECT v FROM t WHERE k = ?"


@pytest.fixture(scope="module")
def keyspace(cassandra_three: Cassandra) -> str:
    """A keyspace with replication factor 2 on three nodes, with one table."""
    name = f"balanced_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra_three.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {name} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}"
        )
        session.execute(f"CREATE TABLE {name}.t (k int PRIMARY KEY, v text)")
    cassandra_three.wait_until_settled()
    return name


@pytest.fixture(scope="module")
def everywhere(cassandra_three: Cassandra) -> str:
    """A keyspace with replication factor 3 on three nodes, with one table."""
    name = f"everywhere_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra_three.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {name} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        # With ALWAYS, a coordinator also sends each read to a second replica. So the read succeeds
        # even if the first replica is paused.
        session.execute(
            f"CREATE TABLE {name}.t (k int PRIMARY KEY, v text) WITH speculative_retry = 'ALWAYS'"
        )
    cassandra_three.wait_until_settled()
    return name


async def coordinators(client: Client, **options: Any) -> set[str | None]:
    """Returns the coordinators of 40 requests with different keys."""
    results = [await client.execute(SELECT, (key,), **options) for key in range(40)]
    return {result.rows.coordinator for result in results}


async def test_nodes_and_replicas(api: Api, cassandra_three: Cassandra, keyspace: str) -> None:
    points = cassandra_three.contact_points
    # The test reads the cluster's nodes from system.local and system.peers. On each node,
    # system.local describes this node, and system.peers describes the other nodes. So the test must
    # read both tables from the same node.
    profiles = {"one": ExecutionProfile(balancing=Balancing(allowed=points[:1]))}
    async with api.connect(
        points[:1], keyspace=keyspace, consistency="ONE", profiles=profiles
    ) as client:
        session = client.session
        nodes = session.nodes
        assert [f"{node.address}:{node.port}" for node in nodes] == sorted(points)
        system = {}
        for text in (
            "SELECT host_id, data_center, rack, tokens FROM system.local",
            "SELECT host_id, data_center, rack, tokens FROM system.peers",
        ):
            for row in await (await client.execute(text, profile="one")).all():
                tokens = tuple(sorted(int(token) for token in row.tokens))
                system[row.host_id] = (row.data_center, row.rack, tokens)
        assert {n.host_id: (n.datacenter, n.rack, n.tokens) for n in nodes} == system
        assert all(node.shards is None and node.enabled for node in nodes)
        assert eventually(lambda: all(node.connected for node in session.nodes), timeout_s=30)
        assert session.cluster_name
        select = await client.prepare(SELECT)
        for key in range(20):
            bound = select.bind((key,))
            await client.execute(INSERT, (key, "v"), consistency="ALL")
            row = (await client.execute("SELECT token(k) AS t FROM t WHERE k = ?", (key,))).one()
            assert bound.token == row.t
            assert bound.routing_key == key.to_bytes(4, "big")
            replicas = session.replicas(bound)
            assert len(replicas) == 2
            assert all(replica.shard is None for replica in replicas)
            at = {f"{replica.node.address}:{replica.node.port}" for replica in replicas}
            asked = {(await client.execute(bound)).rows.coordinator for _ in range(4)}
            assert asked <= at
        everything = (await client.prepare("SELECT v FROM t")).bind()
        assert everything.token is None
        assert everything.routing_key is None
        with pytest.raises(errors.ConfigError, match="whole partition key"):
            session.replicas(everything)
        await client.call("refresh_nodes")
        assert await client.call("await_schema_agreement") == (
            (await client.execute("SELECT schema_version AS v FROM system.local")).one().v
        )
        metrics = session.metrics()
        assert metrics.requests > 20
        assert metrics.connections >= 3
        assert metrics.latency.count == metrics.requests


async def test_an_allow_list(api: Api, cassandra_three: Cassandra, keyspace: str) -> None:
    points = cassandra_three.contact_points
    second = points[1].rsplit(":", 1)[0]
    profiles = {"second": ExecutionProfile(balancing=Balancing(allowed=[points[1]]))}
    async with api.connect(
        points, keyspace=keyspace, consistency="ONE", profiles=profiles
    ) as client:
        assert await coordinators(client, profile="second") == {points[1]}
        assert await coordinators(client) == set(points)
    async with api.connect(
        points[1], keyspace=keyspace, consistency="ONE", balancing=Balancing(allowed=[second])
    ) as client:
        assert await coordinators(client) == {points[1]}
        enabled = {node.address for node in client.session.nodes if node.enabled}
        assert enabled == {ip_address(second)}


async def test_policies_of_every_kind(api: Api, cassandra_three: Cassandra, keyspace: str) -> None:
    points = cassandra_three.contact_points
    async with api.connect(points[:1]) as client:
        here = client.session.nodes[0]
    assert here.datacenter is not None
    assert here.rack is not None
    profiles = {
        "rack": ExecutionProfile(balancing=Balancing(datacenter=here.datacenter, rack=here.rack)),
        "elsewhere": ExecutionProfile(balancing=Balancing(datacenter="nowhere")),
        "failing over": ExecutionProfile(
            balancing=Balancing(datacenter="nowhere", datacenter_failover=True)
        ),
        "any": ExecutionProfile(balancing=Balancing(token_aware=False), speculation="off"),
        "first": ExecutionProfile(balancing=Balancing(shuffle_replicas=False), speculation="off"),
        "quick": ExecutionProfile(
            balancing=Balancing(latency_awareness=LatencyAwareness(minimum_measurements=5))
        ),
        "twice": ExecutionProfile(speculation=ConstantSpeculation(delay_s=1e-4)),
        "slow": ExecutionProfile(speculation=PercentileSpeculation(percentile=50)),
        "once": ExecutionProfile(speculation="off"),
    }
    async with api.connect(
        points,
        keyspace=keyspace,
        consistency="ONE",
        speculation=ConstantSpeculation(delay_s=1e-4, max_attempts=2),
        profiles=profiles,
    ) as client:
        session = client.session
        assert eventually(lambda: all(node.connected for node in session.nodes), timeout_s=30)
        await client.execute(INSERT, (1, "a"))
        for name in ("rack", "failing over", "any", "first", "quick", "twice", "slow", "once"):
            answer = await client.execute(SELECT, (1,), profile=name)
            assert answer.rows.coordinator in points
            written = await client.execute(INSERT, (1, "a"), profile=name, idempotent=True)
            assert written.rows.coordinator in points
        with pytest.raises(errors.NoHostAvailable):
            await client.execute(SELECT, (1,), profile="elsewhere")
        # Without token awareness, every node gets requests.
        select = await client.prepare(SELECT)

        async def asked(name: str) -> set[str | None]:
            results = [await client.execute(select, (1,), profile=name) for _ in range(40)]
            return {result.rows.coordinator for result in results}

        assert len(await asked("first")) == 1
        assert await asked("any") == set(points)


async def test_another_node_is_tried_when_one_is_silent(
    api: Api, cassandra_three: Cassandra, everywhere: str
) -> None:
    async with api.connect(
        cassandra_three.contact_points,
        keyspace=everywhere,
        consistency="ONE",
        # By default (avoid_silent=True), the session would notice the paused node and avoid it.
        balancing=Balancing(shuffle_replicas=False, avoid_silent=False),
        speculation=ConstantSpeculation(delay_s=0.05),
        # With this interval, the paused node counts as connected during the whole test.
        keepalive_interval_s=600,
    ) as client:
        session = client.session
        assert eventually(lambda: all(node.connected for node in session.nodes), timeout_s=30)
        await client.execute(INSERT, (1, "a"), consistency="ALL", idempotent=False)
        select = await client.prepare(SELECT)
        # Replicas are not shuffled, so this node always gets the first attempt.
        first = (await client.execute(select, (1,), idempotent=False)).coordinator
        [silent] = [node for node in cassandra_three.nodes if node.contact_point == first]
        with paused(silent):
            before = session.metrics()
            with pytest.raises(errors.RequestTimeout) as alone:
                await client.execute(select, (1,), idempotent=False, timeout_s=1)
            assert (alone.value.attempts, alone.value.coordinator) == (1, first)
            answers = [await client.execute(select, (1,), timeout_s=20) for _ in range(20)]
            after = session.metrics()
        assert {answer.one().v for answer in answers} == {"a"}
        assert first not in {answer.coordinator for answer in answers}
        assert (difference := after - before).requests == 1 + 20
        assert difference.speculative >= 20
        assert difference.timeouts["answer"] == difference.failures == 1
        # An attempt counts as abandoned if it timed out, or if another attempt was answered first.
        assert difference.nodes[silent.contact_point].abandoned == 1 + 20
        assert (difference.retries, difference.nodes[silent.contact_point].failed) == (0, 0)


async def test_a_node_that_was_slow_comes_last(
    api: Api, cassandra_three: Cassandra, everywhere: str
) -> None:
    awareness = LatencyAwareness(
        minimum_measurements=50, update_rate_s=0.01, scale_s=1, retry_period_s=600
    )
    async with api.connect(
        cassandra_three.contact_points,
        keyspace=everywhere,
        consistency="ONE",
        balancing=Balancing(shuffle_replicas=False, latency_awareness=awareness),
        keepalive_interval_s=600,
    ) as client:
        session = client.session
        assert eventually(lambda: all(node.connected for node in session.nodes), timeout_s=30)
        select = await client.prepare(SELECT)

        async def asked(key: int) -> str:
            coordinator = (await client.execute(select, (key,))).coordinator
            assert coordinator is not None
            measured[coordinator] += 1
            return coordinator

        # Finds, for each node, a key whose requests go to this node first.
        measured = dict.fromkeys(cassandra_three.contact_points, 0)
        keys: dict[str, int] = {}
        for key in range(49):
            keys.setdefault(await asked(key), key)
        assert len(keys) == 3
        # More requests are made, until each node has one measurement less than
        # `minimum_measurements`.
        for point, key in keys.items():
            while measured[point] < 49:
                assert await asked(key) == point
        slow, *others = cassandra_three.contact_points
        with paused(cassandra_three.nodes[0]):
            waiting = asyncio.ensure_future(asked(keys[slow]))
            await asyncio.sleep(2)
        assert await waiting == slow
        for point in others:
            assert await asked(keys[point]) == point
        await asyncio.sleep(0.5)
        assert slow not in {await asked(keys[slow]) for _ in range(10)}


async def test_a_lost_node_is_noticed(api: Api, cassandra_three: Cassandra, keyspace: str) -> None:
    points = cassandra_three.contact_points
    lost = cassandra_three.nodes[2]
    async with api.connect(
        points, keyspace=keyspace, consistency="ONE", keepalive_interval_s=1, keepalive_timeout_s=1
    ) as client:
        session = client.session

        def connected(point: str) -> bool:
            at = {f"{node.address}:{node.port}": node.connected for node in session.nodes}
            return at[point]

        assert eventually(lambda: connected(lost.contact_point), timeout_s=30)
        lost.kill()
        try:
            assert eventually(lambda: not connected(lost.contact_point), timeout_s=60)
            await client.execute(INSERT, (5, "a"), idempotent=True)
        finally:
            lost.start()
        assert eventually(lambda: connected(lost.contact_point), timeout_s=90)


async def test_connections_to_nodes(api: Api, cassandra_three: Cassandra, keyspace: str) -> None:
    points = cassandra_three.contact_points
    async with api.connect(
        points,
        keyspace=keyspace,
        connections_per_node=3,
        tcp_keepalive_s=30,
        local_address="127.0.0.1",
        client_timestamps=True,
        application_name="balancing",
        application_version="1.2",
    ) as client:
        session = client.session
        # There are three connections to each of three nodes, and the control connection.
        assert eventually(lambda: session.metrics().connections >= 9, timeout_s=30)
        await client.execute(INSERT, (7, "a"))
        text = "SELECT address, driver_name, driver_version FROM system_views.clients"
        options = "SELECT client_options FROM system_views.clients"
        rows = await (await client.execute(text)).all()
        assert any(row.driver_name == "turbocql" for row in rows)
        told = [row.client_options or {} for row in await (await client.execute(options)).all()]
        assert any(option.get("APPLICATION_VERSION") == "1.2" for option in told)
        written = (await client.execute("SELECT writetime(v) AS at FROM t WHERE k = ?", (7,))).one()
        assert written.at > 1_600_000_000_000_000


async def test_a_target(api: Api, cassandra_three: Cassandra, keyspace: str) -> None:
    points = cassandra_three.contact_points
    async with api.connect(points, keyspace=keyspace) as client:
        session = client.session
        assert eventually(lambda: all(node.connected for node in session.nodes), timeout_s=30)
        insert = await client.prepare(INSERT)
        batch = turbocql.Batch()
        batch.add(insert, (8_000_001, "a"))
        for node in session.nodes:
            for statement, values in [
                (insert, (8_000_000, "a")),
                (insert.bind((8_000_000, "b")), None),
                (batch, None),
                ("SELECT release_version FROM system.local", None),
                (SELECT, (8_000_000,)),
            ]:
                for target in (node, Replica(node, None)):
                    answer = await client.execute(statement, values, target=target)
                    assert answer.rows.coordinator == node.at
            rows = await client.execute("SELECT k FROM t", page_size=1, target=node)
            assert rows.rows.coordinator == node.at
            await rows.all()
            assert rows.rows.coordinator == node.at
        unknown = dataclasses.replace(session.nodes[0], host_id=uuid4())
        for statement in (insert.bind((1, "a")), "SELECT v FROM t", batch):
            with pytest.raises(errors.NoHostAvailable, match="the target is not a node of the clu"):
                await client.execute(statement, target=unknown)
        for wrong in (session.nodes[0].at, session.nodes[0].host_id, 1, [session.nodes[0]]):
            with pytest.raises(TypeError, match="target must be a Node, of"):
                await client.execute(insert, (1, "a"), target=wrong)
        with pytest.raises(TypeError, match="unknown option 'target'"):
            turbocql.Query(SELECT, target=session.nodes[0])  # type: ignore[call-arg]
