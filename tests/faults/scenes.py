"""Makes faults on three nodes while a session is observed.

A scene is a function that makes faults. For each fault it yields the name of a row of
docs/reliability.md, and the observation.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.faults.child import Child
from tests.faults.observed import Observation, Observer
from tests.faults.ring import Ring
from tests.faults.run import CLUSTER
from tests.support.changing_proxy import ERROR, EXECUTE, Answer, ChangingProxy
from tests.support.nodes import paused

import turbocql
from turbocql import Balancing, ConstantSpeculation, errors
from turbocql.testing import Cassandra

__all__ = ["CONFIG", "SCENES", "Place", "Scene"]

CONFIG = {**CLUSTER, "write_request_timeout": "1s"}

_VERSION = "SELECT release_version FROM system.local"
"""A read that any node answers alone."""
_READ = "SELECT ms FROM seen.naps WHERE k = ?"
_WRITE = "INSERT INTO seen.naps (k, ms) VALUES (?, ?)"
_SLOW = "SELECT seen.wait(ms) FROM seen.naps WHERE k = 1"
_SLOW_MS = 300
_SCHEMA = (
    "CREATE KEYSPACE seen WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    "CREATE TABLE seen.naps (k int PRIMARY KEY, ms int)",
    "CREATE FUNCTION seen.wait(ms int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS"
    " 'long end = java.time.Instant.now().toEpochMilli() + ms;"
    " while (java.time.Instant.now().toEpochMilli() < end); return ms;'",
)
_OVERLOADED = struct.pack(">iH", 0x1001, 4) + b"busy"

Scene = Callable[["Place"], Iterator[tuple[str, Observation]]]


class Place:
    """Three nodes, and a node that requires credentials. Proxies can run in front of the nodes."""

    def __init__(self, cluster: Cassandra, secure: Cassandra, folder: Path) -> None:
        self.cluster = cluster
        self.secure = secure
        self._folder = folder
        with turbocql.connect(cluster.contact_points, timeout_s=30) as session:
            for statement in _SCHEMA:
                session.execute(statement)
            session.execute(_WRITE, (1, _SLOW_MS), consistency="ALL")

    @contextmanager
    def proxies(self, cluster: Cassandra) -> Iterator[tuple[Child, list[str]]]:
        """Runs a proxy in front of each node of a cluster, and yields the proxies' addresses."""
        points = cluster.contact_points
        with Child("tests.faults.proxy", self._folder, "1", *points) as child:
            ports = child.ask("ports")["ports"]
            hosts = [node.address for node in cluster.nodes]
            yield child, [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]

    def observer(self, **settings: Any) -> Observer:
        """Returns an observer of a session with the three nodes."""
        # The session gets its events from the first node, which must work. So a scene in which one
        # node fails uses the second or the third node.
        return Observer(self.cluster.contact_points[:1], **settings)

    @contextmanager
    def observer_behind_proxies(self, **settings: Any) -> Iterator[tuple[Observer, Child, str]]:
        """Yields an observer, the proxies of its session, and the address of the last proxy."""
        with self.proxies(self.cluster) as (child, points):
            hosts = (node.address for node in self.cluster.nodes)
            addresses = dict(zip(hosts, points, strict=True))
            with self.observer(addresses=addresses, **settings) as observer:
                yield observer, child, points[2]


def hangs(place: Place) -> Iterator[tuple[str, Observation]]:
    node = place.cluster.nodes[1]
    at = node.contact_point
    with place.observer(slow_request_s=0.5) as observer:
        session = observer.session
        observer.calls(4, lambda: session.execute(_VERSION, timeout_s=0.3))
        observer.calls(4, lambda: session.execute(_VERSION, timeout_s=0.8))
        time.sleep(0.3)
        with observer.observing(at) as hung:
            node.pause()
            observer.wait_for(hung, "node silent")
            observer.wait_for(hung, "slow request")
            time.sleep(0.3)
        # The session probes the silent node with a new connection. This connection may open only
        # now, and then it changes the metric `opened`.
        with observer.observing(at, "opened") as returned:
            node.resume()
            observer.wait_for(returned, "node answers again")
    yield "a node hangs", hung
    yield "it answers again", returned


def all_hang(place: Place) -> Iterator[tuple[str, Observation]]:
    nodes = place.cluster.nodes
    with place.observer(slow_request_s=0.5) as observer:
        session = observer.session
        observer.calls(4, lambda: session.execute(_VERSION, timeout_s=0.3))
        observer.calls(4, lambda: session.execute(_VERSION, timeout_s=0.8))
        time.sleep(0.3)
        with observer.observing() as hung:
            for node in nodes:
                node.pause()
            observer.wait_for(hung, "node silent")
            observer.wait_for(hung, "slow request")
            time.sleep(0.3)
        with observer.observing(None, "opened") as returned:
            for node in nodes:
                node.resume()
            observer.wait_for(returned, "node answers again")
    yield "all nodes hang", hung
    yield "they answer again", returned


def dies(place: Place) -> Iterator[tuple[str, Observation]]:
    node = place.cluster.nodes[2]
    at = node.contact_point
    with place.observer() as observer:
        session = observer.session
        write = session.prepare(_WRITE)
        observer.calls(4, lambda: session.execute(_VERSION))
        observer.calls(4, lambda: session.execute(write, (7, 1)))
        time.sleep(0.3)
        with paused(node):
            # Reads and writes are in flight at the node when it dies.
            observer.wait(lambda: observer.figures(at).in_flight >= 6)
            with observer.observing(at) as killed:
                node.kill()
                observer.wait(lambda: observer.figures(at).state == "down")
                observer.wait(lambda: observer.figures(at).refused)
        with (
            observer.observing(None, "refused") as too_few,
            pytest.raises(errors.WriteTimeout),
        ):
            session.execute(write, (8, 1), consistency="ALL")
        prepared = session.prepare(_READ)
        with observer.observing(at, "refused") as returned:
            node.launch()
            node.wait_until_answering()
            returned.since = time.time()
            observer.wait_for(returned, "node up")
            while not session.metrics().prepared_again:
                session.execute(prepared, (1,))
    place.cluster.wait_until_settled()
    yield "a node dies", killed
    yield "too few replicas answer a write", too_few
    yield "a dead node is back", returned


def resets(place: Place) -> Iterator[tuple[str, Observation]]:
    with place.observer_behind_proxies() as (observer, proxies, at):
        session = observer.session
        write = session.prepare(_WRITE)
        observer.calls(4, lambda: session.execute(_VERSION))
        observer.calls(4, lambda: session.execute(write, (7, 1)))
        proxies.ask("fault", node=2, kind="delay", seconds=0.5)
        observer.wait(lambda: observer.figures(at).in_flight >= 6)
        # The metrics count a connection that cannot be opened at the address that the node
        # announces, and not at the proxy's address `at`. So all nodes are observed.
        with observer.observing() as reset:
            proxies.ask("fault", node=2, kind="reset")
            observer.wait(lambda: observer.figures(at).state == "down")
            observer.wait_for(reset, "connection failed")
        with observer.observing(at, "refused") as opened:
            proxies.ask("fault", node=2, kind="pass")
            observer.wait_for(opened, "node up")
    yield "connections are reset amid requests", reset
    yield "connections can be opened again", opened


def overload(place: Place) -> Iterator[tuple[str, Observation]]:
    """Runs a proxy that answers EXECUTEs with the error OVERLOADED, in place of the node.

    The error does not come from the node itself, because Cassandra 5.0.5 sends OVERLOADED with a
    wrong stream id, and this ends the connection.
    """
    node = place.cluster.nodes[2]
    is_overloaded = threading.Event()

    def change(answer: Answer) -> bytes:
        if is_overloaded.is_set() and answer.request_opcode == EXECUTE:
            return answer.with_body(_OVERLOADED, opcode=ERROR).frame()
        return answer.frame()

    with (
        ChangingProxy(node.contact_point, change) as proxy,
        place.observer(addresses={node.address: proxy.contact_point}) as observer,
    ):
        session = observer.session
        read, write = session.prepare(_VERSION), session.prepare(_WRITE)
        observer.calls(2, lambda: session.execute(read))
        observer.calls(2, lambda: session.execute(write, (7, 1)))
        with observer.observing(proxy.contact_point) as overloaded:
            is_overloaded.set()
            observer.wait(lambda: session.metrics().retries)
            observer.wait(lambda: session.metrics().errors.get("Overloaded"))
    yield "a node is overloaded", overloaded


def full(place: Place) -> Iterator[tuple[str, Observation]]:
    with place.observer(max_in_flight=1) as observer, ThreadPoolExecutor(1) as pool:
        session = observer.session
        session.prepare(_VERSION)
        with observer.observing() as waiting:
            held = pool.submit(session.execute, _SLOW)
            observer.wait(lambda: session.in_flight)
            with pytest.raises(errors.RequestTimeout):
                session.execute(_VERSION, timeout_s=0.1)
            held.result()
    with (
        place.observer(max_in_flight=1, when_full="raise") as observer,
        ThreadPoolExecutor(1) as pool,
    ):
        session = observer.session
        session.prepare(_VERSION)
        with observer.observing() as raising:
            held = pool.submit(session.execute, _SLOW)
            observer.wait(lambda: session.in_flight)
            with pytest.raises(errors.SessionFull):
                session.execute(_VERSION)
            held.result()
    yield "the session is full", waiting
    yield 'it is full, with `when_full="raise"`', raising


def refused_credentials(place: Place) -> Iterator[tuple[str, Observation]]:
    secure = place.secure
    settings: dict[str, Any] = {"tls": turbocql.Tls(ca=secure.ca_certificate), "timeout_s": 20}
    login: dict[str, Any] = {"user": secure.user, "password": secure.password}
    with (
        turbocql.connect(secure.contact_points, **settings, **login) as admin,
        place.proxies(secure) as (proxies, (at,)),
    ):
        admin.execute("CREATE ROLE seen WITH PASSWORD = 'early' AND LOGIN = true")
        try:
            settings |= {"user": "seen", "password": "early"}
            with Observer([at], **settings) as observer:
                admin.execute("ALTER ROLE seen WITH PASSWORD = 'late'")
                # The node caches credentials for 2 s.
                time.sleep(2.5)
                with observer.observing(None, "lost") as refused:
                    proxies.ask("fault", node=0, kind="reset")
                    proxies.ask("fault", node=0, kind="pass")
                    observer.wait(
                        lambda: any(
                            e.authentication for e in observer.records.of("connection failed")
                        )
                    )
        finally:
            admin.execute("DROP ROLE seen")
    yield "the server refuses the credentials", refused


def slow_statement(place: Place) -> Iterator[tuple[str, Observation]]:
    with place.observer(slow_request_s=0.2) as observer, observer.observing() as slow:
        observer.session.execute(_SLOW)
    (record,) = (each for each in slow.records if each.event == "slow request")
    assert record.duration_s >= _SLOW_MS / 1000
    (span,) = (each for each in slow.spans if each.name != "attempt")
    assert (span.end_time or 0) - (span.start_time or 0) >= _SLOW_MS * 1e6
    latency = (slow.samples[-1][1] - slow.before).latency
    assert (latency.quantile_us(1.0) or 0) >= _SLOW_MS * 1000
    yield "a statement is slow", slow


def speculation(place: Place) -> Iterator[tuple[str, Observation]]:
    policy = ConstantSpeculation(delay_s=0.05)
    balancing = Balancing(avoid_silent=False)
    with place.observer_behind_proxies(speculation=policy, balancing=balancing) as (
        observer,
        proxies,
        at,
    ):
        observer.calls(4, lambda: observer.session.execute(_VERSION))
        with observer.observing(at) as slow:
            proxies.ask("fault", node=2, kind="delay", seconds=1.0)
            time.sleep(0.5)
    yield "a node is slow, with `speculation`", slow


def schema(place: Place) -> Iterator[tuple[str, Observation]]:
    with (
        place.observer() as observer,
        turbocql.connect(place.cluster.contact_points, timeout_s=30) as other,
    ):
        session = observer.session
        prepared = session.prepare(_READ)
        for _ in range(9):
            session.execute(prepared, (1,))
        with observer.observing() as changed:
            other.execute("ALTER TABLE seen.naps ADD more int")
            changed.since = time.time()
            observer.wait_for(changed, "schema changed")
        with observer.observing() as forgotten:
            for _ in range(9):
                session.execute(prepared, (1,))
        with suppress(errors.Error):
            other.execute("ALTER TABLE seen.naps DROP more")
    yield "another client changes the schema", changed
    yield "a node has forgotten a statement", forgotten


def ring_changes(place: Place) -> Iterator[tuple[str, Observation]]:
    ring = Ring(place.cluster)
    first = ring.node.contact_point
    with place.observer() as observer:
        observer.calls(4, lambda: observer.session.execute(_VERSION))
        ring.node.kill()
        observer.wait(lambda: observer.figures(first).state == "down")
        with observer.observing(ring.moved_contact_point, "refused") as moved:
            ring.move()
            moved.since = time.time()
            observer.wait_for(moved, "node up")
            # The event `node up` of a new node comes a moment before the session is connected to
            # the node.
            observer.wait(lambda: observer.figures(ring.moved_contact_point).state == "up")
        place.cluster.wait_until_settled()
        with observer.observing(None, "lost", "refused") as removed:
            ring.decommission()
            removed.since = time.time()
            observer.wait_for(removed, "node removed")
            assert ring.moved_contact_point not in observer.session.metrics().nodes
        with observer.observing(ring.added_contact_point, "lost", "refused") as added:
            ring.add()
            added.since = time.time()
            observer.wait_for(added, "node up")
            observer.wait(lambda: observer.figures(ring.added_contact_point).state == "up")
    place.cluster.wait_until_settled()
    yield "a node has another address", moved
    yield "a node leaves the cluster", removed
    yield "a node is added", added


SCENES: dict[Scene, tuple[str, ...]] = {
    hangs: ("a node hangs", "it answers again"),
    all_hang: ("all nodes hang", "they answer again"),
    dies: ("a node dies", "too few replicas answer a write", "a dead node is back"),
    resets: ("connections are reset amid requests", "connections can be opened again"),
    overload: ("a node is overloaded",),
    full: ("the session is full", 'it is full, with `when_full="raise"`'),
    refused_credentials: ("the server refuses the credentials",),
    slow_statement: ("a statement is slow",),
    speculation: ("a node is slow, with `speculation`",),
    schema: ("another client changes the schema", "a node has forgotten a statement"),
    # This must be the last scene, because it replaces a node of the cluster by a new node.
    ring_changes: (
        "a node has another address",
        "a node leaves the cluster",
        "a node is added",
    ),
}
"""Maps each scene to the rows of docs/reliability.md that it observes."""
