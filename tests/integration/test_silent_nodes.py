"""Tests that a session avoids nodes that do not answer, and uses them again when they answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from tests.support.changing_proxy import EXECUTE, Answer, ChangingProxy
from tests.support.nodes import eventually, paused

import turbocql
from turbocql import errors
from turbocql.policies import Balancing, ExecutionProfile
from turbocql.testing import Cassandra

KEYSPACE = "silent_nodes"
SLOW_S = 5.0


@pytest.fixture(scope="module")
def keyspace(cassandra_three: Cassandra) -> str:
    with turbocql.connect(cassandra_three.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication ="
            " {'class': 'NetworkTopologyStrategy', 'replication_factor': 3}"
        )
        session.execute(f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.t (k int PRIMARY KEY, v text)")
        session.await_schema_agreement()
    return KEYSPACE


class Load:
    """Writes at a steady rate in threads while the `with` block runs."""

    def __init__(self, session: turbocql.Session, rate: int = 40) -> None:
        self.session = session
        self.insert = session.prepare(f"INSERT INTO {KEYSPACE}.t (k, v) VALUES (?, 'a')")
        self.rate = rate
        self.calls: list[tuple[float, float, str | None, errors.Error | None]] = []
        """For each call: when it began, its duration in seconds, its coordinator and its error."""
        self._ends = threading.Event()

    def _call(self, key: int) -> None:
        began, node, failed = time.monotonic(), None, None
        try:
            node = self.session.execute(self.insert, (key,)).coordinator
        except errors.Error as error:
            failed = error
        self.calls.append((began, time.monotonic() - began, node, failed))

    def _run(self) -> None:
        with ThreadPoolExecutor(256) as pool:
            for key in range(100_000):
                if self._ends.wait(1 / self.rate):
                    return
                pool.submit(self._call, key)

    def __enter__(self) -> Load:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def nodes_since(self, since: float) -> set[str | None]:
        """Returns the nodes that answered the calls that began after `since`.

        If one of these calls failed, the set also has None.
        """
        return {node for began, _, node, _ in self.calls.copy() if began > since}


def test_a_silent_node_is_left_out_and_comes_back(
    cassandra_three: Cassandra, keyspace: str
) -> None:
    hung = cassandra_three.nodes[2]
    with turbocql.connect(
        cassandra_three.contact_points, consistency="QUORUM", timeout_s=20
    ) as session:
        with Load(session) as load:
            began = time.monotonic()
            assert eventually(lambda: len(load.nodes_since(began)) == 3, 30)
            with paused(hung):
                # On a quiet machine, the session notices the silence within a second.
                time.sleep(4)
                silent = [str(node.address) for node in session.nodes if node.silent]
                assert silent == [hung.address]
                left_out = time.monotonic()
                time.sleep(4)
                end = time.monotonic()
            resumed = time.monotonic()
            assert eventually(lambda: len(load.nodes_since(resumed)) == 3, 30)
            assert not any(node.silent for node in session.nodes)
        beside = [call for call in load.calls if left_out < call[0] < end]
        assert len(beside) > 50
        assert not [call for call in beside if call[3] is not None]
        # At most two writes went to the hung node. They waited until it resumed.
        slow = [call for call in beside if call[2] is not None and call[2].startswith(hung.address)]
        assert len(slow) <= 2
        # No write failed, because the hung node answered when it resumed.
        assert not [call for call in load.calls if call[3] is not None]


def test_a_node_that_falls_silent_while_the_session_is_idle(
    cassandra_three: Cassandra, keyspace: str
) -> None:
    hung = cassandra_three.nodes[1]
    with turbocql.connect(cassandra_three.contact_points, consistency="QUORUM") as session:
        insert = session.prepare(f"INSERT INTO {keyspace}.t (k, v) VALUES (?, 'a')")
        for key in range(30):
            session.execute(insert, (key,))
        before = session.metrics().requests
        with paused(hung):
            time.sleep(13)
            # The session probes nodes with its own requests, which the metrics do not count.
            assert session.metrics().requests == before
            began = time.monotonic()
            for key in range(60):
                answer = session.execute(insert, (key,), timeout_s=10)
                assert not (answer.coordinator or "").startswith(f"{hung.address}:")
            assert time.monotonic() - began < 8


class Slow(ChangingProxy):
    """Sends responses to slow statements 5 s late, and all other responses at once."""

    def __init__(self, contact_point: str) -> None:
        super().__init__(contact_point, self._change)
        self._late: set[bytes] = set()

    def _change(self, answer: Answer) -> bytes:
        frame = answer.frame()
        if answer.request_opcode == EXECUTE and b"a slow statement" in answer.request_body:
            self._late.add(frame)
        return frame

    def _send(self, target: socket.socket, data: bytes) -> None:
        if data in self._late:
            self._late.discard(data)
            threading.Timer(SLOW_S, self._send_late, (target, data)).start()
            return
        super()._send(target, data)

    def _send_late(self, target: socket.socket, data: bytes) -> None:
        with suppress(OSError):
            super()._send(target, data)


@pytest.fixture
def behind_slow(cassandra_three: Cassandra) -> Iterator[dict[str, str]]:
    """Starts a proxy for each node and yields the proxies' addresses by node address."""
    proxies = [Slow(point) for point in cassandra_three.contact_points]
    for proxy in proxies:
        proxy.__enter__()
    yield {
        node.address: proxy.contact_point
        for node, proxy in zip(cassandra_three.nodes, proxies, strict=True)
    }
    for proxy in proxies:
        proxy.__exit__(None, None, None)


def test_a_slow_statement_leaves_out_nobody(
    cassandra_three: Cassandra, keyspace: str, behind_slow: dict[str, str]
) -> None:
    """The session does not avoid a node only because one of its statements is slow.

    The node may run only the slow statement, or fast statements at the same time.
    """
    with turbocql.connect(
        list(behind_slow.values()), addresses=behind_slow, consistency="ONE"
    ) as session:
        insert = session.prepare(f"INSERT INTO {keyspace}.t (k, v) VALUES (?, ?)")
        slow = (1, "a slow statement")
        began = time.monotonic()
        session.execute(insert, slow)
        assert time.monotonic() - began >= SLOW_S
        with Load(session) as load, ThreadPoolExecutor(8) as pool:
            late = [pool.submit(session.execute, insert, slow) for _ in range(8)]
            time.sleep(SLOW_S / 2)
            middle = time.monotonic()
            assert eventually(lambda: len(load.nodes_since(middle)) == 3, 10)
            for one in late:
                one.result(30)
        assert not [call for call in load.calls if call[3] is not None]


def test_avoid_silent_can_be_turned_off(cassandra_three: Cassandra, keyspace: str) -> None:
    with turbocql.connect(
        cassandra_three.contact_points, balancing=Balancing(avoid_silent=False), timeout_s=0.7
    ) as session:
        insert = session.prepare(f"INSERT INTO {keyspace}.t (k, v) VALUES (?, 'a')")
        for key in range(30):
            session.execute(insert, (key,))
        with paused(cassandra_three.nodes[2]):
            failed = 0
            # One third of the requests goes to the paused node first, so some requests time out.
            for key in range(42):
                with suppress(errors.RequestTimeout):
                    session.execute(insert, (key,))
                    continue
                failed += 1
        assert failed >= 4


def test_a_timeout_names_the_nodes_that_do_not_answer(cassandra_three: Cassandra) -> None:
    hung = cassandra_three.nodes[2]
    with (
        turbocql.connect(
            cassandra_three.contact_points,
            profiles={"hung": ExecutionProfile(balancing=Balancing(allowed=[hung.address]))},
        ) as session,
        paused(hung),
    ):
        assert eventually(lambda: any(node.silent for node in session.nodes), 30)
        for values in (None, ("local",)):
            text = "SELECT key FROM system.local" + (" WHERE key = ?" if values else "")
            with pytest.raises(errors.RequestTimeout) as raised:
                session.execute(text, values, profile="hung", timeout_s=1)
            silent = f"not answering: 1 of 3 nodes: {hung.contact_point} (silent)"
            assert silent in str(raised.value)


@pytest.mark.parametrize("count", [1, 3])
def test_a_session_is_opened_beside_a_silent_node(
    cassandra_three: Cassandra, keyspace: str, count: int
) -> None:
    """The session waits for the silent node for one second, and connects to it later."""
    hung = cassandra_three.nodes[2]
    with ExitStack() as held:
        with paused(hung):
            began = time.monotonic()
            session = held.enter_context(turbocql.connect(cassandra_three.contact_points[:count]))
            took = time.monotonic() - began
            session.execute(f"INSERT INTO {keyspace}.t (k, v) VALUES (1, 'a')")
        # The session would wait for 5 s if it waited until the attempt to connect has failed.
        assert took < 4
        assert eventually(lambda: all(node.connected for node in session.nodes), 30)


def test_what_needs_no_particular_node_goes_around_a_silent_one(
    cassandra_three: Cassandra, keyspace: str
) -> None:
    """While a node is silent, `USE`, schema changes, schema agreement and `refresh_nodes` work.

    They work even if the session has read the state of the cluster from the silent node so far.
    """
    for hung in cassandra_three.nodes:
        with turbocql.connect(cassandra_three.contact_points, timeout_s=5) as session:
            session.use_keyspace("system")
            with paused(hung):
                assert eventually(lambda: any(node.silent for node in session.nodes), 30)
                session.refresh_nodes()
                session.use_keyspace(keyspace)
                session.execute("INSERT INTO t (k, v) VALUES (1, 'a')", consistency="QUORUM")
                session.await_schema_agreement(timeout_s=5)
                table = f"t{hung.address.replace('.', '_')}"
                session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY)", timeout_s=5)
                names = session.schema(refresh=True, timeout_s=5).keyspaces[keyspace].tables
                assert table in names
            # When the node answers again, the connections to it must use the new keyspace, too.
            assert eventually(lambda: not any(node.silent for node in session.nodes), 30)
            for _ in range(30):
                session.execute("SELECT v FROM t WHERE k = 1")
