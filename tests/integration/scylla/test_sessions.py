"""Tests of sessions with simulated ScyllaDB protocol extensions: shards, extensions, results."""

from __future__ import annotations

from functools import partial

import pytest
from tests.support.apis import Api

import turbocql
from turbocql.testing import Cassandra, Scylla, Shards

from .arrivals import (
    ROWS,
    SHARDS,
    arrived,
    at_wrong_shards,
    executes,
    pools_are_full,
    wait_until,
)

EXTENSIONS = (
    "SCYLLA_LWT_ADD_METADATA_MARK",
    "SCYLLA_RATE_LIMIT_ERROR",
    "SCYLLA_USE_METADATA_ID",
    "TABLETS_ROUTING_V1",
)


def test_shards_have_connections_through_their_own_port(
    scylla: Scylla, session: turbocql.Session
) -> None:
    connections = [c for c in scylla.connections() if c.node in SHARDS]
    plain = [c for c in connections if not c.shard_aware_port]
    for node, shards in SHARDS.items():
        through_port = [c for c in connections if c.node == node and c.shard_aware_port]
        assert len(through_port) >= shards - 1
        # Two kinds of connections do not use the shard-aware port: the first connection of each
        # pool, and the control connection.
        assert len([c for c in plain if c.node == node]) <= 2
    assert [node.shards for node in session.nodes].count(None) == 1
    assert sorted(node.shards for node in session.nodes if node.shards) == [2, 4]


def test_nodes_and_the_diagnosis_have_shards_and_extensions(session: turbocql.Session) -> None:
    assert [node.shards for node in session.nodes] == [4, 2, None]
    assert [node.extensions for node in session.nodes] == [EXTENSIONS, EXTENSIONS, ()]
    told = turbocql.diagnosis(session)
    assert told.session is not None
    assert [node.shards for node in told.session.nodes] == [4, 2, None]
    assert [node.extensions for node in told.session.nodes] == [EXTENSIONS, EXTENSIONS, ()]
    page = " ".join(str(told).split())
    assert f"4 shards, extensions {' '.join(EXTENSIONS)}" in page
    session.close()
    closed = turbocql.diagnosis(session)
    assert closed.session is not None
    assert closed.session.nodes == ()


def test_the_simulation_received_the_negotiated_extensions(
    scylla: Scylla, session: turbocql.Session
) -> None:
    for connection in scylla.connections():
        expected = EXTENSIONS if connection.node in SHARDS else ()
        assert connection.extensions == frozenset(expected)


def test_tokens_of_requests_equal_those_of_the_database(
    scylla: Scylla, session: turbocql.Session
) -> None:
    select = session.prepare("SELECT id, token(id) FROM vnodes.t WHERE id = ?")
    rows: dict[int, int] = {}

    def read() -> None:
        for number in range(20):
            row = session.execute(select, (number,)).one()
            assert row is not None
            rows[row[0]] = row[1]

    requests = arrived(scylla, read)
    # A node that has not prepared the statement yet gets the EXECUTE twice. So the test compares
    # sets of tokens, in which a repeated token does not matter.
    assert {request.token for request in requests} == set(rows.values())
    assert len(rows) == 20


async def test_requests_arrive_at_the_shard_of_their_token(
    cluster: Cassandra, scylla: Scylla, api: Api
) -> None:
    others = scylla.connections()
    async with api.connect(cluster.contact_points) as client:
        wait_until(lambda: pools_are_full(scylla, others=others))
        insert = await client.prepare("INSERT INTO vnodes.t (id, a) VALUES (?, ?)")
        select = await client.prepare("SELECT * FROM vnodes.t WHERE id = ?")
        scylla.reset()
        await client.execute_many(insert, [(number, str(number)) for number in range(ROWS)])
        for number in range(ROWS):
            assert (await client.execute(select, (number,))).one() == (number, str(number))
    requests = executes(scylla)
    assert len(requests) >= 2 * ROWS
    assert {request.node for request in requests} == {0, 1, 2}
    assert at_wrong_shards(requests) == []


def has_shards(session: turbocql.Session, count: int | None) -> bool:
    return session.nodes[0].shards == count


def test_a_restart_with_other_shards_is_noticed(scylla: Scylla, session: turbocql.Session) -> None:
    select = session.prepare("SELECT * FROM vnodes.t WHERE id = ?")

    def read() -> None:
        for number in range(ROWS):
            assert session.execute(select, (number,)).one() == (number, str(number))

    try:
        for count in (7, 1):
            scylla.set_shards(0, Shards(count))
            read()
            shards = {**SHARDS, 0: count}
            wait_until(partial(pools_are_full, scylla, shards))
            wait_until(partial(has_shards, session, count))
            assert at_wrong_shards(arrived(scylla, read), shards) == []
        # The node now announces no shards, like a Cassandra, or a proxy that hides the extensions.
        scylla.set_shards(0, None)
        read()
        wait_until(partial(has_shards, session, None))
        assert len(arrived(scylla, read)) >= ROWS
        assert session.nodes[0].extensions == ()
    finally:
        scylla.set_shards(0, Shards(SHARDS[0]))


def test_a_rate_limit_is_an_error_with_its_fields(
    scylla: Scylla, session: turbocql.Session
) -> None:
    select = session.prepare("SELECT a FROM vnodes.t WHERE id = ?")
    numbers = {}
    for number in range(50):
        *_, request = arrived(scylla, partial(session.execute, select, (number,)))
        numbers[request.node] = number
    scylla.limit(marked="SELECT a FROM")
    try:

        def limited() -> None:
            with pytest.raises(turbocql.errors.RateLimited, match="op_type READ") as caught:
                session.execute(select, (numbers[0],))
            assert "rejected_by_coordinator true" in str(caught.value)

        # The request is not retried.
        assert len(arrived(scylla, limited)) == 1
    finally:
        scylla.limit()


def test_pages_without_rows_before_the_first_row(scylla: Scylla, session: turbocql.Session) -> None:
    scylla.empty_pages(3)
    try:
        assert session.execute("SELECT * FROM vnodes.t").one() is not None
        assert len(session.execute("SELECT * FROM vnodes.t", page_size=50).all()) == ROWS
        assert session.scan("vnodes.t").one() is not None
    finally:
        scylla.empty_pages(0)


def test_changed_columns_are_noticed_through_metadata_ids(
    scylla: Scylla, session: turbocql.Session
) -> None:
    session.execute("CREATE TABLE IF NOT EXISTS vnodes.changed (id int PRIMARY KEY, a text)")
    session.execute("INSERT INTO vnodes.changed (id, a) VALUES (1, 'a')")
    select = session.prepare("SELECT * FROM vnodes.changed WHERE id = ?")
    for _ in range(10):
        assert session.execute(select, (1,)).one() == (1, "a")
    scylla.renew_metadata_ids()
    for _ in range(10):
        assert session.execute(select, (1,)).one() == (1, "a")
    session.execute("ALTER TABLE vnodes.changed ADD b int")
    for _ in range(10):
        assert session.execute(select, (1,)).one() == (1, "a", None)


@pytest.mark.parametrize("fault", ["closed", "translated"])
def test_without_the_shard_aware_port_everything_works(
    cluster: Cassandra, scylla: Scylla, fault: str
) -> None:
    if fault == "closed":
        scylla.close_shard_aware_port(0)
    else:
        scylla.translate_ports()
    try:
        with turbocql.connect(cluster.contact_points) as session:
            select = session.prepare("SELECT * FROM vnodes.t WHERE id = ?")
            for number in range(ROWS):
                assert session.execute(select, (number,)).one() == (number, str(number))
    finally:
        scylla.translate_ports(False)
        scylla.open_shard_aware_port(0)
