"""Tests of loads, scans and `execute_many` on a simulated ScyllaDB: shards and rate limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.support.apis import Api

import turbocql
from turbocql.errors import BulkError, ConfigError, RateLimited
from turbocql.testing import Cassandra, Scylla

from .arrivals import (
    ROWS,
    SHARDS,
    arrived,
    at_wrong_shards,
    executes,
    owner,
    pools_are_full,
    shard_of,
    wait_until,
)

COLUMNS = {
    "id": np.arange(ROWS, dtype=np.int32),
    "a": [str(number) for number in range(ROWS)],
}


@pytest.fixture
def limited(scylla: Scylla) -> Iterator[Scylla]:
    """The simulation, with a limit of 40 requests per second on each node that has rate limits."""
    scylla.limit(per_second=40)
    yield scylla
    scylla.limit()


def refuse_at_first(limited: Scylla, marked: str) -> None:
    """Makes the nodes that have rate limits refuse statements that contain `marked`.

    For half a second, they refuse all these statements. After that, they accept 40 requests per
    second and refuse all others. A slow machine may send fewer than 40 requests per second. Without
    the first half second, no request would then be refused.
    """
    limited.reset()
    limited.limit(marked=marked)
    threading.Timer(0.5, partial(limited.limit, per_second=40)).start()


async def test_loads_and_scans_arrive_at_the_shard(
    cluster: Cassandra, scylla: Scylla, api: Api
) -> None:
    others = scylla.connections()
    async with api.connect(cluster.contact_points) as client:
        wait_until(lambda: pools_are_full(scylla, others=others))
        scylla.reset()
        report = await client.call("load", "vnodes.t", COLUMNS, batches=False)
        assert report.succeeded == ROWS
        inserts = executes(scylla)
        assert len(inserts) >= ROWS
        assert at_wrong_shards(inserts) == []
        scylla.reset()
        rows = await client.scan("vnodes.t")
        assert len(await rows.all()) == ROWS
        nodes = client.session.nodes
    scans = executes(scylla)
    assert {request.node for request in scans} == {0, 1, 2}
    for request in scans:
        # A token range is read from the shard of its last token.
        assert request.values is not None
        last = request.values[-1]
        assert last is not None
        token = int.from_bytes(last, "big", signed=True)
        assert request.node == owner(nodes, token)
        assert request.shard == shard_of(token, SHARDS.get(request.node, 1))


def test_a_batch_of_a_load_arrives_at_a_shard_of_its_partition(
    scylla: Scylla, session: turbocql.Session
) -> None:
    session.execute("CREATE TABLE vnodes.wide (p int, c int, a text, PRIMARY KEY (p, c))")
    columns = {
        "p": np.repeat(np.arange(20, dtype=np.int32), 50),
        "c": np.tile(np.arange(50, dtype=np.int32), 20),
        "a": ["some text"] * 1000,
    }
    scylla.reset()
    assert session.load("vnodes.wide", columns, batches=True).succeeded == 1000
    batches = [request for request in scylla.requests() if request.opcode == "BATCH"]
    assert batches
    # The simulation does not know the token of a BATCH. So the test compares the node and shard of
    # the BATCH with the nodes and shards that reads of the same partitions reach.
    select = session.prepare("SELECT * FROM vnodes.wide WHERE p = ?")
    places = set()
    for number in range(20):
        requests = arrived(scylla, partial(session.execute, select, (number,)))
        places |= {(request.node, request.shard) for request in requests}
    assert {(request.node, request.shard) for request in batches} <= places


@pytest.mark.parametrize("with_batches", [False, True])
async def test_loads_slow_down_at_a_rate_limit(
    cluster: Cassandra, limited: Scylla, api: Api, with_batches: bool
) -> None:
    async with api.connect(cluster.contact_points) as client:
        refuse_at_first(limited, "vnodes.t")
        report = await client.call("load", "vnodes.t", COLUMNS, batches=with_batches)
        assert (report.succeeded, report.failures) == (ROWS, [])
    assert any(request.error == 0xF000 for request in limited.requests())


async def test_execute_many_waits_at_a_rate_limit_if_retry_for_s_is_set(
    cluster: Cassandra, limited: Scylla, api: Api
) -> None:
    rows = [(number, str(number)) for number in range(ROWS)]
    async with api.connect(cluster.contact_points) as client:
        insert = await client.prepare("INSERT INTO vnodes.t (id, a) VALUES (?, ?)")
        # Here the nodes that have rate limits refuse all rows. With a limit per second, they might
        # refuse no row, because a slow machine may send fewer requests per second than the limit.
        limited.limit(marked="INSERT INTO")
        with pytest.raises(BulkError) as caught:
            await client.execute_many(insert, rows, idempotent=True)
        failures = caught.value.failed
        assert failures
        assert all(isinstance(failure.error, RateLimited) for failure in failures)
        # Without retry_for_s, `execute_many` retries no row, so each refused row arrived once.
        limited.reset()
        report = await client.execute_many(insert, rows, raise_failures=False)
        requests = [request for request in executes(limited) if request.error]
        assert len(requests) == len(report.failures) > 0
        # The coordinator refuses a row before it writes the row. So even statements that are not
        # idempotent can be retried.
        for idempotent in (True, None):
            refuse_at_first(limited, "INSERT INTO")
            report = await client.execute_many(insert, rows, idempotent=idempotent, retry_for_s=60)
            assert (report.succeeded, report.failures) == (ROWS, [])


def test_increments_that_a_limit_refused_are_applied_once(
    limited: Scylla, session: turbocql.Session
) -> None:
    session.execute("CREATE TABLE vnodes.counted (id int PRIMARY KEY, c counter)")
    update = session.prepare("UPDATE vnodes.counted SET c = c + 1 WHERE id = ?")
    refuse_at_first(limited, "vnodes.counted")
    rows = [(number % 100,) for number in range(200)]
    assert session.execute_many(update, rows, retry_for_s=60).succeeded == 200
    assert any(request.error for request in executes(limited))
    limited.limit()
    counts = session.execute("SELECT c FROM vnodes.counted").all()
    assert [count for (count,) in counts] == [2] * 100


@pytest.mark.parametrize("others_succeed", [False, True])
def test_a_limit_that_does_not_end_fails_the_rows(
    scylla: Scylla, session: turbocql.Session, others_succeed: bool
) -> None:
    insert = session.prepare("INSERT INTO vnodes.t (id, a) VALUES (?, ?)")
    every = [(number, str(number)) for number in range(ROWS)]
    # The third node has no rate limits, so its rows are not refused.
    refused = [row for row in every if session.replicas(insert.bind(row))[0].shard is not None]
    rows = every if others_succeed else refused
    columns = dict(zip(("id", "a"), map(list, zip(*rows, strict=True)), strict=True))
    scylla.limit(marked="INSERT INTO")
    try:
        # If no refused row has succeeded for one second, all refused rows fail together. If each
        # row waited for its own second instead, this test would take very long.
        with pytest.raises(BulkError) as caught:
            session.load("vnodes.t", columns, retry_for_s=1)
        with pytest.raises(BulkError) as many:
            session.execute_many(insert, rows, retry_for_s=1)
    finally:
        scylla.limit()
    for failed in (caught.value.failed, many.value.failed):
        assert len(failed) == len(refused)
        assert all(isinstance(failure.error, RateLimited) for failure in failed)


@pytest.mark.parametrize("odd", [-1, float("nan"), 10**400, "5", True, None, [1]])
def test_retry_for_s_must_be_a_number_of_seconds(session: turbocql.Session, odd: object) -> None:
    options: dict[str, Any] = {"retry_for_s": odd}
    with pytest.raises(ConfigError, match="retry_for_s"):
        session.execute_many("SELECT * FROM vnodes.t", [()], **options)
    with pytest.raises(ConfigError, match="retry_for_s"):
        session.load("vnodes.t", {"id": [1], "a": ["x"]}, **options)
    with pytest.raises(ConfigError, match="retry_for_s"):
        session.scan("vnodes.t", **options)


@pytest.mark.parametrize("kind", ["load", "execute_many"])
def test_closing_a_session_reports_rows_that_wait_to_retry(
    cluster: Cassandra, scylla: Scylla, kind: str
) -> None:
    session = turbocql.connect(cluster.contact_points)
    insert = "INSERT INTO vnodes.t (id, a) VALUES (?, ?)"
    # The third node has no rate limits, so the rows that it owns are written.
    rows = ((number % ROWS, str(number % ROWS)) for number in range(10**6))
    write = (
        partial(session.load, "vnodes.t", COLUMNS, retry_for_s=600)
        if kind == "load"
        else partial(session.execute_many, insert, rows, retry_for_s=600)
    )
    scylla.limit(marked="INSERT INTO")
    closing = threading.Timer(1.0, session.close, kwargs={"timeout_s": 60})
    try:
        closing.start()
        with pytest.raises(BulkError) as caught:
            write()
    finally:
        closing.join()
        scylla.limit()
    assert any(isinstance(failure.error, RateLimited) for failure in caught.value.failed)
