"""Sessions and accelerated drivers on what ScyllaDB adds to the protocol, simulated."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import turbocql
from turbocql.testing import Cassandra, Shards
from turbocql.testing.scylla import Request

ROOT = Path(__file__).resolve().parents[2]
SHARDS = {0: 4, 1: 2}
"""The shards of the nodes. The third is an old node, which announces nothing."""
REPLICATION = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
ROWS = 200


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cassandra]:
    """Three nodes with different shards, and tables with and without tablets."""
    settings = [Shards(SHARDS[0]), Shards(SHARDS[1]), None]
    with Cassandra(nodes=3, scylla=settings) as nodes:
        with turbocql.connect(nodes.contact_points) as session:
            session.execute(f"CREATE KEYSPACE vnodes WITH replication = {REPLICATION}")
            session.execute(
                f"CREATE KEYSPACE tablets WITH replication = {REPLICATION}"
                " AND tablets = {'enabled': true, 'initial': 8}"
            )
            for keyspace in ("vnodes", "tablets"):
                session.execute(f"CREATE TABLE {keyspace}.t (id int PRIMARY KEY, a text)")
                session.execute_many(
                    f"INSERT INTO {keyspace}.t (id, a) VALUES (?, ?)",
                    [(number, str(number)) for number in range(ROWS)],
                )
        yield nodes
        assert nodes.scylla is not None
        assert nodes.scylla.failures() == []


@pytest.fixture
def session(cluster: Cassandra) -> Iterator[turbocql.Session]:
    """A session whose pools are full."""
    with turbocql.connect(cluster.contact_points) as opened:
        wait_until(lambda: pools_are_full(cluster))
        yield opened


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for something that other threads do."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it has not come true within 30 s"
        time.sleep(0.05)


def pools_are_full(cluster: Cassandra) -> bool:
    """Whether each node has a connection to each of its shards."""
    assert cluster.scylla is not None
    connections = cluster.scylla.connections()
    return all(
        {connection.shard for connection in connections if connection.node == node}
        == set(range(SHARDS.get(node, 1)))
        for node in range(3)
    )


def arrived(cluster: Cassandra, work: Callable[[], object]) -> list[Request]:
    """The EXECUTEs on the tests' tables that arrive while something runs."""
    assert cluster.scylla is not None
    cluster.scylla.reset()
    work()
    return [
        request
        for request in cluster.scylla.requests()
        # A session reads the schema whenever an event tells it to.
        if request.opcode == "EXECUTE" and request.text and " system" not in request.text
    ]


def right_shard(request: Request) -> int:
    """ScyllaDB's formula for tables without tablets."""
    assert request.token is not None
    shifted = ((request.token + 2**63) << 12) % 2**64
    return shifted * SHARDS.get(request.node, 1) >> 64


def test_shards_have_connections_through_their_own_port(
    cluster: Cassandra, session: turbocql.Session
) -> None:
    assert cluster.scylla is not None
    connections = [c for c in cluster.scylla.connections() if c.node in SHARDS]
    plain = [c for c in connections if not c.shard_aware_port]
    for node, shards in SHARDS.items():
        through_port = [c for c in connections if c.node == node and c.shard_aware_port]
        assert len(through_port) >= shards - 1
        # The first of each pool, and the control connection.
        assert len([c for c in plain if c.node == node]) <= 2
    assert [node.shards for node in session.nodes].count(None) == 1
    assert sorted(node.shards for node in session.nodes if node.shards) == [2, 4]


def test_tokens_are_the_databases(cluster: Cassandra, session: turbocql.Session) -> None:
    select = session.prepare("SELECT id, token(id) FROM vnodes.t WHERE id = ?")
    rows: dict[int, int] = {}

    def read() -> None:
        for number in range(20):
            row = session.execute(select, (number,)).one()
            assert row is not None
            rows[row[0]] = row[1]

    requests = arrived(cluster, read)
    # A node that has not prepared the statement gets it twice.
    assert {request.token for request in requests} == set(rows.values())
    assert len(rows) == 20


def test_requests_arrive_at_the_shard_of_their_token(
    cluster: Cassandra, session: turbocql.Session
) -> None:
    insert = session.prepare("INSERT INTO vnodes.t (id, a) VALUES (?, ?)")
    select = session.prepare("SELECT * FROM vnodes.t WHERE id = ?")

    def both() -> None:
        session.execute_many(insert, [(number, str(number)) for number in range(ROWS)])
        for number in range(ROWS):
            assert session.execute(select, (number,)).one() == (number, str(number))

    requests = arrived(cluster, both)
    assert len(requests) >= 2 * ROWS
    assert {request.node for request in requests} == {0, 1, 2}
    wrong = [request for request in requests if request.shard != right_shard(request)]
    assert wrong == []


def test_tablets_are_followed(cluster: Cassandra, session: turbocql.Session) -> None:
    assert cluster.scylla is not None
    select = session.prepare("SELECT * FROM tablets.t WHERE id = ?")

    def read() -> None:
        for number in range(ROWS):
            assert session.execute(select, (number,)).one() == (number, str(number))

    def misrouted() -> int:
        # The old node serves what arrives there, and says nothing of tablets.
        requests = arrived(cluster, read)
        assert len(requests) >= ROWS
        return sum(request.is_misrouted is True for request in requests)

    wait_until(lambda: misrouted() == 0)
    fake = cluster.scylla
    for change in (fake.move, fake.split, fake.move, fake.merge):
        change("tablets", "t")
        wait_until(lambda: misrouted() == 0)


def test_a_rate_limit_is_an_error_with_its_fields(
    cluster: Cassandra, session: turbocql.Session
) -> None:
    assert cluster.scylla is not None
    select = session.prepare("SELECT a FROM vnodes.t WHERE id = ?")
    numbers = {}
    for number in range(50):
        *_, request = arrived(cluster, partial(session.execute, select, (number,)))
        numbers[request.node] = number
    cluster.scylla.limit(marked="SELECT a FROM")
    try:

        def limited() -> None:
            with pytest.raises(turbocql.errors.RateLimited, match="op_type READ") as caught:
                session.execute(select, (numbers[0],))
            assert "rejected_by_coordinator true" in str(caught.value)

        # It is not tried again.
        assert len(arrived(cluster, limited)) == 1
    finally:
        cluster.scylla.limit()


def test_pages_without_rows_come_first(cluster: Cassandra, session: turbocql.Session) -> None:
    assert cluster.scylla is not None
    cluster.scylla.empty_pages(3)
    try:
        assert session.execute("SELECT * FROM vnodes.t").one() is not None
        assert len(session.execute("SELECT * FROM vnodes.t", page_size=50).all()) == ROWS
        assert session.scan("vnodes.t").one() is not None
    finally:
        cluster.scylla.empty_pages(0)


def test_changed_columns_are_seen_by_metadata_ids(
    cluster: Cassandra, session: turbocql.Session
) -> None:
    assert cluster.scylla is not None
    session.execute("CREATE TABLE IF NOT EXISTS vnodes.changed (id int PRIMARY KEY, a text)")
    session.execute("INSERT INTO vnodes.changed (id, a) VALUES (1, 'a')")
    select = session.prepare("SELECT * FROM vnodes.changed WHERE id = ?")
    for _ in range(10):
        assert session.execute(select, (1,)).one() == (1, "a")
    cluster.scylla.renew_metadata_ids()
    for _ in range(10):
        assert session.execute(select, (1,)).one() == (1, "a")
    session.execute("ALTER TABLE vnodes.changed ADD b int")
    for _ in range(10):
        assert session.execute(select, (1,)).one() == (1, "a", None)


@pytest.mark.parametrize("fault", ["closed", "translated"])
def test_without_the_shard_aware_port_everything_works(cluster: Cassandra, fault: str) -> None:
    assert cluster.scylla is not None
    if fault == "closed":
        cluster.scylla.close_shard_aware_port(0)
    else:
        cluster.scylla.translate_ports()
    try:
        with turbocql.connect(cluster.contact_points) as session:
            select = session.prepare("SELECT * FROM vnodes.t WHERE id = ?")
            for number in range(ROWS):
                assert session.execute(select, (number,)).one() == (number, str(number))
    finally:
        cluster.scylla.translate_ports(False)
        cluster.scylla.open_shard_aware_port(0)


DRIVER = """
import json, sys
import turbocql
from turbocql import accel
if sys.argv[2] == "accelerated":
    accel.accelerate()
from cassandra.cluster import Cluster
from cassandra.query import BatchStatement
cluster = Cluster([sys.argv[1]])
session = cluster.connect()
rows = []
for keyspace in ("vnodes", "tablets"):
    insert = session.prepare(f"INSERT INTO {keyspace}.t (id, a) VALUES (?, ?)")
    select = session.prepare(f"SELECT * FROM {keyspace}.t WHERE id = ?")
    update = session.prepare(f"UPDATE {keyspace}.t SET a = ? WHERE id = ? IF a = ?")
    for number in range(60):
        session.execute(insert, (number, str(number)))
    batch = BatchStatement()
    for number in range(10):
        batch.add(insert, (number, str(number)))
    session.execute(batch)
    session.execute(update, ("0", 0, "0"))
    rows += [tuple(session.execute(select, (number,)).one()) for number in range(60)]
    rows.append(len(list(session.execute(f"SELECT * FROM {keyspace}.t"))))
seams = {
    seam.name: [seam.native, seam.fallback, seam.learned, list(seam.reasons)]
    for seam in accel.status().seams
    if seam.part in ("bodies", "bind", "rows") and not seam.is_idle and seam.patched
}
print(json.dumps([rows, seams]))
cluster.shutdown()
"""


@pytest.mark.parametrize("driver", ["scylla-driver", "scylla-driver-previous", "cassandra-driver"])
def test_accelerated_drivers_stay_native(cluster: Cassandra, driver: str) -> None:
    def run(mode: str) -> tuple[list[object], dict[str, list[int]]]:
        done = subprocess.run(
            [
                str(ROOT / f".venv-{driver}" / "bin" / "python"),
                *("-W", "ignore", "-c", DRIVER),
                *(cluster.nodes[0].address, mode),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        rows, seams = json.loads(done.stdout)
        return rows, seams

    assert cluster.scylla is not None
    plain, nothing = run("plain")
    assert nothing == {}
    cluster.scylla.reset()
    accelerated, seams = run("accelerated")
    assert accelerated == plain
    requests = cluster.scylla.requests()
    for name, count in (("Execute", 242), ("Batch", 2), ("Query", 2)):
        native, fallback, _, reasons = seams[f"protocol.{name}Message.send_body"]
        assert native >= count
        assert fallback == 0, reasons
    assert seams["query.BoundStatement.bind"][:2] == [262, 0]
    # A statement's first result without metadata is the driver's.
    reader = [count for name, count in seams.items() if "recv_results_rows" in name]
    assert sum(count[1] for count in reader) <= 4
    assert sum(count[0] for count in reader) >= 100
    if driver == "scylla-driver":
        executes = [request for request in requests if request.opcode == "EXECUTE"]
        known = {request.node for request in executes if request.metadata_id is not None}
        assert known == {0, 1}
        assert any(request.skips_metadata for request in executes)
