"""Tests on three nodes: routing, and requests while a node hangs or is killed and started again."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.loops import LOOPS
from tests.support.nodes import eventually, paused

import turbocql
from turbocql import Session, errors
from turbocql.testing import Cassandra, Node

INSERT = "INSERT INTO t (k, v) VALUES (?, ?)"
SELECT = "SELECT v FROM t WHERE k = ?"


@pytest.fixture(scope="module")
def keyspace(cassandra_three: Cassandra) -> str:
    """A keyspace on all three nodes, with its tables."""
    name = f"cluster_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra_three.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {name} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        session.execute(f"CREATE TABLE {name}.t (k int PRIMARY KEY, v text)")
        session.execute(
            f"CREATE TABLE {name}.points (k int PRIMARY KEY, label text, place vector<float, 2>)"
        )
        session.execute(f"CREATE INDEX ON {name}.points (place) USING 'sai'")
    cassandra_three.wait_until_settled()
    return name


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_connecting_past_a_node_that_hangs(cassandra_three: Cassandra, encrypted: bool) -> None:
    """One node accepts connections and sends nothing. The session connects to the others."""
    nodes, points = cassandra_three.nodes, cassandra_three.contact_points
    if encrypted:
        cassandra_tls = Cassandra(nodes=2, tls=True, heap_mb=512)
    with ExitStack() as stack:
        options: dict[str, Any] = {}
        if encrypted:
            cluster = stack.enter_context(cassandra_tls)
            nodes, points = cluster.nodes, cluster.contact_points
            options["tls"] = turbocql.Tls(ca=cluster.ca_certificate)
        stack.enter_context(paused(nodes[-1]))
        with turbocql.connect(points[0], connect_timeout_s=20, **options) as session:
            select = "SELECT key FROM system.local"
            assert session.execute(select, timeout_s=10, idempotent=True).one() == ("local",)
            # The session has learned of the hung node from another node. So it lists the hung node,
            # but as not connected.
            state = {f"{node.address}:{node.port}": node.connected for node in session.nodes}
            assert state[points[0]]
            assert not state[points[-1]]
    if not encrypted:
        with turbocql.connect(points) as session:
            assert eventually(lambda: all(node.connected for node in session.nodes), 60)


@contextmanager
def killed(node: Node) -> Iterator[None]:
    """Kills the node, and starts it again after the block."""
    node.kill()
    try:
        yield
    finally:
        node.start()


class Traffic:
    """Threads that write and read all the time, and record successes and failures."""

    def __init__(self, session: Session) -> None:
        self.done = 0
        self.failures: list[BaseException] = []
        self._session = session
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(4)]

    def _run(self, number: int) -> None:
        key = number
        # The pause leaves CPU time to the nodes.
        while not self._ended.wait(0.02):
            try:
                value = f"{key} by {number}"
                self._session.execute(INSERT, (key, value), idempotent=True)
                assert self._session.execute(SELECT, (key,)).page()[0].v == value
                self.done += 1
            except BaseException as error:
                self.failures.append(error)
            key += 4

    def go_on(self, requests: int = 300) -> None:
        """Waits until `requests` more pairs of a write and a read have succeeded."""
        target = self.done + requests
        assert eventually(lambda: self.done >= target, timeout_s=60), self.failures[-1:]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def coordinators(session: Session, requests: int = 60) -> set[str | None]:
    """Returns the coordinators of some requests with different keys."""
    return {session.execute(SELECT, (key,)).coordinator for key in range(requests)}


def test_requests_go_to_every_node(cassandra_three: Cassandra, keyspace: str) -> None:
    points = cassandra_three.contact_points
    with turbocql.connect(points[:1], keyspace=keyspace, consistency="ONE") as session:
        assert coordinators(session) == set(points)


def test_requests_go_to_the_replica(cassandra_three: Cassandra, keyspace: str) -> None:
    """With one replica per key, all requests for a key have one coordinator: the replica."""
    points = cassandra_three.contact_points
    alone = f"{keyspace}_alone"
    keys: dict[str, list[tuple[object, ...]]] = {
        "a int": [(number,) for number in range(30)],
        "a text, b uuid": [(f"text {n}", UUID(int=n)) for n in range(30)],
        "a frozen<list<text>>": [([f"text {number}"],) for number in range(30)],
    }
    with turbocql.connect(points[:1], consistency="ONE") as session:
        session.execute(
            f"CREATE KEYSPACE {alone} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        for number, (columns, values) in enumerate(keys.items()):
            names = [column.split()[0] for column in columns.split(", ")]
            table = f"{alone}.t{number}"
            session.execute(f"CREATE TABLE {table} ({columns}, PRIMARY KEY (({', '.join(names)})))")
            insert = session.prepare(
                f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            )
            where = " AND ".join(f"{name} = ?" for name in names)
            select = session.prepare(f"SELECT * FROM {table} WHERE {where}")
            owners = set()
            for value in values:
                who = {session.execute(insert, value).coordinator for _ in range(3)}
                who |= {session.execute(select, value).coordinator for _ in range(3)}
                assert len(who) == 1, (columns, value)
                owners |= who
            assert owners == set(points)


async def ask_asynchronously(points: list[str], keyspace: str) -> set[str]:
    """Returns the values that 100 concurrent requests of a new session read."""
    async with turbocql.aio.connect(points, keyspace=keyspace, consistency="QUORUM") as session:
        found = await asyncio.gather(*(session.execute(SELECT, (-1,)) for _ in range(100)))
        return {rows.page()[0].v for rows in found}


def test_a_node_is_lost_and_comes_back(cassandra_three: Cassandra, keyspace: str) -> None:
    """The test kills the node that is the first contact point, and starts it again."""
    points = cassandra_three.contact_points
    lost = cassandra_three.nodes[0]
    with (
        turbocql.connect(points, keyspace=keyspace, consistency="QUORUM") as session,
        Traffic(session) as traffic,
    ):
        traffic.go_on()
        assert traffic.failures == []
        with killed(lost):
            traffic.go_on()
            # The requests in flight to the lost node are idempotent, so the session has sent them
            # again.
            assert traffic.failures == []
            assert lost.contact_point not in coordinators(session)
            # At first, the other nodes do not know that the killed node is down. They wait for its
            # answer, so a timeout is also possible.
            with pytest.raises((errors.Unavailable, errors.WriteTimeout, errors.RequestTimeout)):
                session.execute(INSERT, (-1, "a"), consistency="ALL", timeout_s=1)
            assert session.execute(INSERT, (-1, "a"), consistency="TWO").one() is None
            done = session.execute_many(INSERT, ((k, "many") for k in range(10_000, 12_000)))
            assert done.succeeded == 2_000
            # The first contact point of a new session is down.
            with turbocql.connect(points, keyspace=keyspace, consistency="QUORUM") as other:
                assert other.execute(SELECT, (-1,)).page()[0].v == "a"
            assert LOOPS[0].run(ask_asynchronously(points, keyspace)) == {"a"}
            with pytest.raises(errors.ConnectError, match=points[0]):
                turbocql.connect(points[:1])
        traffic.go_on()
        assert eventually(lambda: lost.contact_point in coordinators(session), timeout_s=60)
        assert traffic.failures == []
    with turbocql.connect(points, keyspace=keyspace) as session:
        assert session.execute(SELECT, (-1,), consistency="ALL").page()[0].v == "a"


def test_queries_for_the_nearest_vectors(cassandra_three: Cassandra, keyspace: str) -> None:
    points = cassandra_three.contact_points
    # ANN queries work only at consistency ONE. So the rows are written at ALL, and each replica has
    # all rows.
    with turbocql.connect(points, keyspace=keyspace, consistency="ALL") as session:
        session.execute_many(
            "INSERT INTO points (k, label, place) VALUES (?, ?, ?)",
            ((k, f"at {k}", [float(k), 1.0]) for k in range(100)),
        )
        nearest = session.prepare(
            "SELECT k, label, similarity_cosine(place, ?) AS likeness "
            "FROM points ORDER BY place ANN OF ? LIMIT 3"
        )
        for place in ([0.0, 1.0], (0.0, 2.0)):
            rows = session.execute(nearest, (place, place), consistency="ONE").all()
            assert [row.k for row in rows] == [0, 1, 2]
            assert rows[0].likeness == pytest.approx(1.0)
            assert rows[0].label == "at 0"
        with pytest.raises(errors.EncodeError, match="expected 2 elements"):
            session.execute(nearest, ([0.0], [0.0]))


def test_prepare_while_a_node_hangs(cassandra_three: Cassandra) -> None:
    """`prepare` returns after one node has answered. A node that hung prepares the text later."""
    nodes, points = cassandra_three.nodes, cassandra_three.contact_points
    with turbocql.connect(points) as session:
        slowest = 0.0
        with paused(nodes[1]):
            for number in range(40):
                began = time.monotonic()
                session.prepare(f"SELECT release_version AS v{number} FROM system.local")
                slowest = max(slowest, time.monotonic() - began)
            began = time.monotonic()
            with pytest.raises(turbocql.errors.InvalidQuery):
                session.prepare("SELECT nothing FROM system.local")
            refused = time.monotonic() - began
        assert slowest < 1
        assert refused < 5
        for number in range(40):
            text = f"SELECT release_version AS v{number} FROM system.local"
            for _ in range(4):
                assert session.execute(session.prepare(text)).one()
