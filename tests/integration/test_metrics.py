"""Tests the metrics of a session, with and without faults."""

from __future__ import annotations

import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.apis import Api
from tests.support.changing_proxy import (
    ERROR,
    EXECUTE,
    Answer,
    ChangingProxy,
    ending_when,
    held_until,
)
from tests.support.nodes import eventually, paused

import turbocql
from turbocql import errors
from turbocql.telemetry import Collector, Metrics, prometheus_text
from turbocql.testing import Cassandra

SELECT = "SELECT release_version FROM system.local WHERE key = ?"
OVERLOADED = struct.pack(">iH", 0x1001, 4) + b"busy"


def counted(metrics: Metrics) -> dict[str, tuple[int, int]]:
    """Maps each kind of request to its number of requests and its number of failures.

    Kinds without a request are left out.
    """
    return {
        name: (kind.requests, kind.failed) for name, kind in metrics.kinds.items() if kind.requests
    }


async def test_requests_are_counted_by_kind(api: Api, points: list[str], keyspace: str) -> None:
    async with api.connect(points, keyspace=keyspace) as client:
        session = client.session
        before = session.metrics()
        insert = await client.prepare("INSERT INTO kv (k, v) VALUES (?, ?)")
        for key in range(20):
            await client.execute(insert, (9_000_000 + key, "a"))
        batch = turbocql.Batch()
        for key in range(3):
            batch.add(insert, (9_000_000 + key, "b"))
        await client.execute(batch)
        await client.execute("INSERT INTO kv (k, v) VALUES (?, 'c') IF NOT EXISTS", (9_100_000,))
        await client.execute("INSERT INTO kv (k, v) VALUES (?, 'c') IF NOT EXISTS", (9_100_001,))
        await client.call("execute_many", insert, [(9_000_000 + key, "d") for key in range(50)])
        read = await client.execute("SELECT v FROM kv WHERE k IN (9000001, 9000002)")
        assert len(await read.all()) == 2
        await client.call("use_keyspace", keyspace)
        with pytest.raises(errors.InvalidQuery):
            await client.execute("SELECT nothing FROM kv")
        change = session.metrics() - before
        assert counted(change) == {
            "read": (2, 1),
            "write": (70, 0),
            "batch": (1, 0),
            "conditional": (2, 0),
            "schema": (1, 0),
        }
        assert change.latency.count == change.requests == 76
        assert change.errors == {"InvalidQuery": 1}
        assert (change.prepared, change.cache_hits) == (2, 1)
        assert change.rows >= 2 + 1
        assert sum(node.attempts for node in change.nodes.values()) == 76
        assert sum(node.failed for node in change.nodes.values()) == 1
        latencies = [node.latencies["write"].count for node in change.nodes.values()]
        assert sum(latencies) == 70
        assert {node.in_flight for node in change.nodes.values()} == {0}
        assert (change.in_flight, change.in_flight_bytes, change.waiting) == (0, 0, 0)
        assert (change.canceled, change.retries, change.speculative) == (0, 0, 0)
        assert sum(change.timeouts.values()) == 0
        sent = sum(node.sent_bytes for node in change.nodes.values())
        received = sum(node.received_bytes for node in change.nodes.values())
        assert 76 * 9 < received < 76 * 2000
        assert 76 * 9 < sent < 76 * 2000


def test_pages_and_canceled_requests(cassandra: Cassandra, keyspace: str) -> None:
    held = threading.Event()

    with (
        ChangingProxy(cassandra.contact_points[0], held_until(held, "hang")) as proxy,
        turbocql.connect(proxy.contact_point, keyspace=keyspace) as session,
    ):
        session.execute_many(
            "INSERT INTO kv (k, v) VALUES (?, ?)", [(9_200_000 + key, "p") for key in range(30)]
        )
        before = session.metrics()
        keys = ", ".join(str(9_200_000 + key) for key in range(30))
        rows = session.execute(f"SELECT k FROM kv WHERE k IN ({keys})", page_size=10)
        assert len(list(rows)) == 30
        change_of_pages = session.metrics() - before
        assert change_of_pages.requests == change_of_pages.pages >= 3
        assert change_of_pages.rows == 30
        # If a call is cancelled, its request counts as canceled, and its attempt as abandoned.
        before = session.metrics()
        select = session.prepare("SELECT v FROM kv WHERE k = 1 AND v = ? ALLOW FILTERING")

        async def cancel() -> None:
            import asyncio

            async with turbocql.aio.connect(proxy.contact_point, keyspace=keyspace) as other:
                prepared = await other.prepare(select.text)
                task = asyncio.ensure_future(other.execute(prepared, ("hang",)))
                while not other.metrics().in_flight:
                    await asyncio.sleep(0.01)
                (node,) = other.metrics().nodes.values()
                assert node.in_flight == 1
                task.cancel()
                await asyncio.wait([task])
                while not other.metrics().canceled:
                    await asyncio.sleep(0.01)
                metrics = other.metrics()
                (node,) = metrics.nodes.values()
                assert (metrics.canceled, metrics.in_flight, node.abandoned) == (1, 0, 1)
                assert node.in_flight == 0
                held.set()

        import asyncio

        asyncio.run(cancel())


def test_metrics_show_a_hung_node_within_a_second(cassandra_three: Cassandra) -> None:
    with turbocql.connect(
        cassandra_three.contact_points, keepalive_interval_s=600, timeout_s=2
    ) as session:
        assert eventually(lambda: all(node.connected for node in session.nodes))
        select = session.prepare("SELECT release_version FROM system.local")
        node = cassandra_three.nodes[1]
        with paused(node), ThreadPoolExecutor(32) as pool:
            calls = [pool.submit(_outcome, session, select) for _ in range(32)]
            hung = node.contact_point

            def only_the_hung_node_is_awaited() -> bool:
                metrics = session.metrics()
                return metrics.in_flight == metrics.nodes[hung].in_flight > 0

            assert eventually(only_the_hung_node_is_awaited, 1.0)
            # If the node answered its first requests slowly, the session takes longer to regard it
            # as silent.
            assert eventually(lambda: session.metrics().nodes[hung].state == "silent", 6.0)
            outcomes = [call.result() for call in calls]
        failed = outcomes.count("RequestTimeout")
        metrics = session.metrics()
        assert failed > 0
        assert metrics.errors == {"RequestTimeout": failed}
        assert metrics.timeouts["answer"] == failed == metrics.nodes[hung].abandoned
        assert metrics.failures == failed
        assert eventually(lambda: session.metrics().nodes[hung].state == "up")
        assert session.metrics().nodes[hung].in_flight == 0


def _outcome(session: turbocql.Session[Any], select: turbocql.Prepared) -> str:
    try:
        session.execute(select, idempotent=False)
    except errors.Error as error:
        return type(error).__name__
    return "answered"


def test_an_overloaded_node(cassandra: Cassandra) -> None:
    def change(answer: Answer) -> bytes:
        if answer.answers(EXECUTE, "local"):
            return answer.with_body(OVERLOADED, opcode=ERROR).frame()
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        for _ in range(3):
            with pytest.raises(errors.Overloaded):
                session.execute(SELECT, ("local",))
        metrics = session.metrics()
        assert metrics.errors == {"Overloaded": 3}
        assert metrics.nodes[proxy.contact_point].failed >= 3
        assert metrics.retries == metrics.nodes[proxy.contact_point].failed


def test_connections_that_are_lost_and_refused(cassandra: Cassandra) -> None:
    down = threading.Event()

    with (
        ChangingProxy(cassandra.contact_points[0], ending_when(down)) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        (at,) = session.metrics().nodes
        assert eventually(lambda: session.metrics().nodes[at].connections == 2)
        down.set()
        with pytest.raises(errors.RequestError):
            session.execute(SELECT, ("local",), timeout_s=1)
        assert eventually(lambda: session.metrics().nodes[at].refused > 0)
        metrics = session.metrics()
        assert metrics.nodes[at].lost >= 1
        assert metrics.nodes[at].state == "down"
        assert set(metrics.errors) <= {"ConnectionLost", "NoHostAvailable"}
        down.clear()
        assert eventually(lambda: session.metrics().nodes[at].connections == 2)
        assert session.metrics().nodes[at].state == "up"
        assert session.metrics().nodes[at].opened >= 3


def test_a_node_that_is_reached_at_another_address(cassandra: Cassandra) -> None:
    """Metrics and states of nodes are found by the address to which the session connects."""
    point = cassandra.contact_points[0]
    with (
        ChangingProxy(point, Answer.frame) as proxy,
        turbocql.connect(
            proxy.contact_point, addresses={point.rpartition(":")[0]: proxy.contact_point}
        ) as session,
    ):
        session.execute(SELECT, ("local",))
        assert [node.at for node in session.nodes] == [proxy.contact_point]
        (node,) = session.metrics().nodes.values()
        assert (node.state, node.attempts, node.connections) == ("up", 1, 2)
        assert node.datacenter == session.nodes[0].datacenter


def test_a_full_session(cassandra: Cassandra) -> None:
    held = threading.Event()

    with (
        ChangingProxy(cassandra.contact_points[0], held_until(held, "local")) as proxy,
        turbocql.connect(proxy.contact_point, max_in_flight=1) as session,
        ThreadPoolExecutor(2) as pool,
    ):
        session.prepare(SELECT)
        first = pool.submit(session.execute, SELECT, ("local",))
        assert eventually(lambda: session.metrics().in_flight == 1)
        second = pool.submit(session.execute, SELECT, ("local",), timeout_s=1.0)
        assert eventually(lambda: session.metrics().waiting == 1)
        with pytest.raises(errors.RequestTimeout):
            second.result()
        metrics = session.metrics()
        assert (metrics.timeouts["queue"], metrics.waiting) == (1, 0)
        assert metrics.errors == {"RequestTimeout": 1}
        held.set()
        first.result()
        assert counted(session.metrics()) == {"read": (1, 0)}


def test_a_statement_that_cannot_be_prepared(points: list[str]) -> None:
    with turbocql.connect(points) as session:
        with pytest.raises(errors.ServerError):
            session.prepare("SELECT nothing FROM nowhere.at_all")
        assert session.metrics().errors == {"InvalidQuery": 1}
    # The figures of a closed session can still be read.
    assert session.metrics().errors == {"InvalidQuery": 1}


def test_prometheus(points: list[str]) -> None:
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest
    from prometheus_client.parser import text_string_to_metric_families

    with turbocql.connect(points) as session, turbocql.connect(points) as other:
        for _ in range(5):
            session.execute(SELECT, ("local",))
        sessions = {"main": session, "other": other}
        registry = CollectorRegistry()
        registry.register(Collector(sessions))
        theirs = list(text_string_to_metric_families(generate_latest(registry).decode()))
        ours = list(text_string_to_metric_families(prometheus_text(sessions)))
        for families in (theirs, ours):
            by_name = {family.name: family for family in families}
            requests = {
                (sample.labels["session"], sample.labels["kind"]): sample.value
                for sample in by_name["turbocql_requests"].samples
            }
            assert requests["main", "read"] == 5
            assert requests["other", "read"] == 0
            durations = by_name["turbocql_request_duration_seconds"]
            assert durations.type == "histogram"
            counts = [
                sample.value
                for sample in durations.samples
                if sample.labels.get("session") == "main"
                and sample.labels["kind"] == "read"
                and sample.name.endswith("_bucket")
            ]
            assert counts == sorted(counts)
            assert counts[-1] == 5
            (up,) = {s.value for s in by_name["turbocql_node_up"].samples}
            assert up == 1
        assert {family.name for family in theirs} == {family.name for family in ours}
        assert "session=" not in prometheus_text(session)
