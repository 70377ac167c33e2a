"""Tests of `rank_nodes` on three nodes. Its argument is a function that ranks the nodes."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.apis import Api, Client
from tests.support.nodes import eventually

import turbocql
from turbocql import Balancing, ExecutionProfile, errors
from turbocql.cluster import Node
from turbocql.testing import Cassandra

SELECT = "SELECT release_version FROM system.local WHERE key = ?"
TEXT = "SELECT release_version FROM system.local"


async def coordinators(client: Client, statement: Any = SELECT, **options: Any) -> Counter[str]:
    """Returns how many of 20 requests each node has answered."""
    values = ("local",) if "?" in str(statement) else None
    results = [await client.execute(statement, values, **options) for _ in range(20)]
    return Counter(result.coordinator or "" for result in results)


def first(at: str) -> Any:
    """Returns a function that ranks the node `at` before all others."""
    return lambda node: 0 if node.at == at else 1


async def test_the_lowest_rank_is_tried_first(api: Api, cassandra_three: Cassandra) -> None:
    async with api.connect(cassandra_three.contact_points) as client:
        ats = [node.at for node in client.session.nodes]
        for at in ats:
            client.session.rank_nodes(first(at))
            assert await coordinators(client) == {at: 20}
            assert await coordinators(client, TEXT) == {at: 20}
        client.session.rank_nodes(lambda node: 7)
        assert await coordinators(client, TEXT) == dict.fromkeys(ats, pytest.approx(7, abs=7))
        client.session.rank_nodes(first(ats[0]))
        client.session.rank_nodes(None)
        assert len(await coordinators(client, TEXT)) == 3


async def test_ranks_apply_to_all_profiles(api: Api, cassandra_three: Cassandra) -> None:
    plain = ExecutionProfile(balancing=Balancing(token_aware=False, avoid_silent=False))
    async with api.connect(cassandra_three.contact_points, profiles={"plain": plain}) as client:
        at = client.session.nodes[1].at
        client.session.rank_nodes(first(at))
        assert await coordinators(client, profile="plain") == {at: 20}
        conditional = "SELECT release_version FROM system.local WHERE key = 'local'"
        result = await client.execute(conditional, consistency="SERIAL")
        assert result.coordinator == at


async def test_a_node_without_a_rank_gets_no_requests(api: Api, cassandra_three: Cassandra) -> None:
    async with api.connect(cassandra_three.contact_points) as client:
        excluded, *others = client.session.nodes
        client.session.rank_nodes(lambda node: None if node.at == excluded.at else 0)
        counts = await coordinators(client, TEXT)
        assert counts.keys() <= {node.at for node in others}
        # A request may still name the node as its target.
        result = await client.execute(TEXT, target=excluded)
        assert result.coordinator == excluded.at
        client.session.rank_nodes(lambda node: None)
        with pytest.raises(errors.NoHostAvailable, match="rank_nodes excludes every node"):
            await client.execute(TEXT)
        client.session.rank_nodes(None)
        await client.execute(TEXT)


async def test_the_next_rank_is_tried_when_a_node_dies(
    api: Api, cassandra_three: Cassandra
) -> None:
    async with api.connect(cassandra_three.contact_points) as client:
        calls: list[tuple[str, str]] = []
        nodes = client.session.nodes
        order = {node.at: rank for rank, node in enumerate(nodes)}

        def rank(node: Node) -> int:
            calls.append((node.at, threading.current_thread().name))
            return order[node.at]

        client.session.rank_nodes(rank)
        assert [at for at, _ in calls] == [node.at for node in nodes]
        assert "turbocql-events" not in {name for _, name in calls}
        calls.clear()
        victim = next(n for n in cassandra_three.nodes if n.contact_point == nodes[0].at)
        victim.kill()
        try:
            # When the session notices the dead node, it calls the function for all nodes again. It
            # does so even if no request is made.
            assert eventually(lambda: len(calls) >= 3)
            assert {name for _, name in calls} == {"turbocql-events"}
            assert await coordinators(client, idempotent=True) == {nodes[1].at: 20}
        finally:
            victim.start()
            cassandra_three.wait_until_settled()
        with_all = eventually(
            lambda: all(node.connected for node in client.session.nodes), timeout_s=60
        )
        assert with_all
        assert await coordinators(client) == {nodes[0].at: 20}


async def test_a_function_that_raises_later_keeps_the_ranks(
    api: Api, cassandra_three: Cassandra, caplog: pytest.LogCaptureFixture
) -> None:
    async with api.connect(cassandra_three.contact_points) as client:
        at, fails = client.session.nodes[2].at, threading.Event()

        def rank(node: Node) -> int:
            if fails.is_set():
                raise RuntimeError("no ranks today")
            return 0 if node.at == at else 1

        client.session.rank_nodes(rank)
        fails.set()
        with caplog.at_level(logging.ERROR, "turbocql.cluster"):
            streams = client.session._streams
            assert streams is not None
            event: Any = SimpleNamespace(name="node up", time_s=0.0, node=at, fields={})
            streams.handle(event)
            streams.handled()
            (record,) = [r for r in caplog.records if getattr(r, "event", "") == "ranking failed"]
        assert "no ranks today" in str(record.exc_text or record.exc_info)
        assert await coordinators(client) == {at: 20}


async def test_a_late_result_of_a_replaced_function_is_dropped(
    api: Api, cassandra_three: Cassandra
) -> None:
    async with api.connect(cassandra_three.contact_points) as client:
        session, called, go_on = client.session, threading.Event(), threading.Event()
        caller = threading.current_thread()

        def rank(node: Node) -> int | None:
            if threading.current_thread() is caller:
                return 0
            called.set()
            go_on.wait(20)
            return None

        session.rank_nodes(rank)
        ranking = session._ranking
        assert ranking is not None
        late = threading.Thread(target=ranking.apply_again, args=(session,))
        late.start()
        assert called.wait(20)
        at = session.nodes[1].at
        session.rank_nodes(first(at))
        go_on.set()
        late.join(20)
        assert await coordinators(client) == {at: 20}


@pytest.mark.parametrize(
    ("rank", "error", "message"),
    [
        (lambda node: "a", TypeError, "a rank must be an int or None, got str for 127"),
        (lambda node: True, TypeError, "a rank must be an int or None, got bool"),
        (lambda node: 1.0, TypeError, "a rank must be an int or None, got float"),
        (lambda node: -1, ValueError, "a rank must be from 0 to 2147483647, got -1"),
        (lambda node: 2**31, ValueError, "a rank must be from 0 to 2147483647, got 2147483648"),
        (lambda node: 1 // 0, ZeroDivisionError, "by zero"),
        (3, TypeError, "rank_nodes takes a function of a Node, or None, got 3"),
    ],
)
async def test_a_wrong_result_is_refused_at_once(
    api: Api, cassandra_three: Cassandra, rank: Any, error: type[Exception], message: str
) -> None:
    async with api.connect(cassandra_three.contact_points) as client:
        at = client.session.nodes[0].at
        client.session.rank_nodes(first(at))
        with pytest.raises(error, match=message):
            client.session.rank_nodes(rank)
        assert await coordinators(client) == {at: 20}


async def test_a_closed_session_ranks_nothing(api: Api, cassandra: Cassandra) -> None:
    async with api.connect(cassandra.contact_points) as client:
        pass
    with pytest.raises(errors.ClosedError):
        client.session.rank_nodes(lambda node: 0)
    with pytest.raises(errors.ClosedError):
        client.session.retry_when(lambda error, count: None)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("hook", ["rank_nodes", "retry_when"])
def test_a_function_that_refers_to_its_session_does_not_keep_it(
    cassandra: Cassandra, hook: str
) -> None:
    class Holder:
        session: Any = None

    def abandoned() -> weakref.ref[Any]:
        session, holder = turbocql.connect(cassandra.contact_points), Holder()
        holder.session = session
        getattr(session, hook)(lambda *_: 1 if holder.session else None)
        return weakref.ref(session)

    session = abandoned()
    # While the thread `turbocql-events` ranks the nodes, it refers to the session. So the session
    # may exist a little longer.
    assert eventually(lambda: gc.collect() >= 0 and session() is None)
