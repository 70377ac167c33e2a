"""Makes failures that occur in production and compares their messages with docs/failures.md."""

from __future__ import annotations

import pickle
import re
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from traceback import format_exception_only
from typing import Any

import pytest
from tests.support.changing_proxy import BATCH, ERROR, EXECUTE, QUERY, Answer, ChangingProxy
from tests.support.children import run_python
from tests.support.nodes import eventually, paused
from tests.support.tables import KEYSPACE

import turbocql
from turbocql import Balancing, Batch, Tls, errors
from turbocql.testing import Cassandra

PAGE = Path(__file__).resolve().parents[2] / "docs" / "failures.md"
INSERT = "INSERT INTO shop.orders (id, customer) VALUES (?, ?)"
SELECT = "SELECT customer FROM shop.orders WHERE id = ?"


@dataclass(frozen=True)
class Failure:
    """A failure, and the heading in docs/failures.md above its message."""

    heading: str
    make: Callable[[Cassandra], object]
    """Raises the error."""
    secure: bool
    """Whether the cluster requires TLS and a password."""


FAILURES: list[Failure] = []
Make = Callable[[Cassandra], object]


def failure(heading: str, *, secure: bool = False) -> Callable[[Make], Make]:
    """Registers a function that makes a failure. The functions follow the order of the page."""

    def declare(make: Make) -> Make:
        FAILURES.append(Failure(heading, make, secure))
        return make

    return declare


def entries() -> dict[str, list[str]]:
    """Returns the blocks of messages in docs/failures.md, by heading."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for section in sections:
        heading, _, text = section.partition("\n")
        found[heading] = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return {heading: blocks for heading, blocks in found.items() if blocks}


def normalised(message: str) -> str:
    """Returns a message in one line, with placeholders for nodes, durations and ids.

    The names of silent nodes are removed, because timing decides whether a session notices the
    silence. test_silent_nodes.py tests these names.
    """
    nodes: dict[str, str] = {}

    def node(match: re.Match[str]) -> str:
        return nodes.setdefault(match[0], f"node {len(nodes) + 1}")

    line = re.sub(r"\b\d+(?:\.\d+){3}:\d+\b", node, " ".join(message.split()))
    line = re.sub(r"; not answering: [^;]*", "", line)
    line = re.sub(r"\b\d+(?:\.\d+)?(?:ns|µs|ms|s)\b", "a duration", line)
    return re.sub(r"\b[0-9a-f]{32}\b", "an id", line)


# The failures


@failure("A contact point refuses connections")
def nothing_listens(cluster: Cassandra) -> None:
    turbocql.connect(f"{cluster.nodes[0].address}:9043")


class Page(BaseHTTPRequestHandler):
    """Handles HTTP requests. It waits for the end of a line, so it never answers CQL frames."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@failure("Another server listens on the port")
def http_server(cluster: Cassandra) -> None:
    address = cluster.nodes[0].address
    with HTTPServer((address, 0), Page) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, 0.05)
        try:
            turbocql.connect(f"{address}:{server.server_port}", connect_timeout_s=3)
        finally:
            server.shutdown()


@failure("TLS fails", secure=True)
def client_without_tls(cluster: Cassandra) -> None:
    turbocql.connect(cluster.contact_points, user=cluster.user, password=cluster.password)


@failure("TLS fails")
def server_without_tls(cluster: Cassandra) -> None:
    turbocql.connect(cluster.contact_points, tls=True)


@failure("TLS fails", secure=True)
def unknown_authority(cluster: Cassandra) -> None:
    user, password = cluster.user, cluster.password
    turbocql.connect(cluster.contact_points, tls=True, user=user, password=password)


@failure("The password is wrong", secure=True)
def wrong_password(cluster: Cassandra) -> None:
    tls = Tls(ca=cluster.ca_certificate)
    turbocql.connect(cluster.contact_points, tls=tls, user="app", password="wrong")


@failure("The keyspace does not exist")
def no_such_keyspace(cluster: Cassandra) -> None:
    turbocql.connect(cluster.contact_points, keyspace="shpo")


@failure("The settings exclude every node")
def wrong_datacenter(cluster: Cassandra) -> None:
    balancing = Balancing(datacenter="eu-west")
    with turbocql.connect(cluster.contact_points, balancing=balancing) as session:
        session.execute(SELECT, (1,))


@failure("The settings exclude every node")
def allowed_elsewhere(cluster: Cassandra) -> None:
    balancing = Balancing(allowed=["10.9.0.1"])
    with turbocql.connect(cluster.contact_points, balancing=balancing) as session:
        session.execute("SELECT customer FROM shop.orders WHERE id = 4711")


@failure("A node does not answer in time")
def node_hangs(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        insert = session.prepare(INSERT)
        with paused(cluster.nodes[0]):
            session.execute(insert, (1, "Ada"), timeout_s=0.5)


@failure("A node does not answer in time")
def schema_change_is_done(cluster: Cassandra) -> None:
    """The node answers the schema change, but does not answer any later request."""
    silent = threading.Event()

    def change(answer: Answer) -> bytes:
        if answer.answers(QUERY, "gift_cards"):
            silent.set()
        elif silent.is_set():
            return b""
        return answer.frame()

    with (
        ChangingProxy(cluster.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        session.execute("CREATE TABLE shop.gift_cards (id int PRIMARY KEY)", timeout_s=1)


def lied_to(
    cluster: Cassandra, change: Callable[[Answer], bytes], text: str, *values: object
) -> None:
    """Executes a statement and changes the server's response to it."""
    lies = threading.Event()

    def answer(answer: Answer) -> bytes:
        lie = lies.is_set() and answer.request_opcode == EXECUTE
        return change(answer) if lie else answer.frame()

    with (
        ChangingProxy(cluster.contact_points[0], answer) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        prepared = session.prepare(text)
        lies.set()
        session.execute(prepared, values)


def refusal(code: int, message: str, rest: bytes = b"") -> Callable[[Answer], bytes]:
    """Returns a function that replaces a response by a server error."""
    body = struct.pack(">iH", code, len(message)) + message.encode() + rest
    return lambda answer: answer.with_body(body, opcode=ERROR).frame()


@failure("The connection is lost during a write")
def connection_lost(cluster: Cassandra) -> None:
    def end(_: Answer) -> bytes:
        raise EOFError

    lied_to(cluster, end, INSERT, 1, "Ada")


@failure("All nodes are down")
def all_nodes_down(cluster: Cassandra) -> None:
    with ChangingProxy(cluster.contact_points[0], Answer.frame) as proxy:
        session = turbocql.connect(proxy.contact_point)
        node = proxy.contact_point
    with session:

        def is_named() -> bool:
            with pytest.raises(errors.RequestError) as caught:
                session.execute("SELECT key FROM system.local")
            return f"{node}: Connection refused" in str(caught.value)

        assert eventually(is_named, 20)
        session.execute("SELECT customer FROM shop.orders WHERE id = 4711")


@failure("Too few replicas answer")
def unavailable(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute(INSERT, (1, "Ada"), consistency="TWO")


LOCAL_QUORUM, ONE_OF_TWO = b"\0\x06", struct.pack(">ii", 1, 2)
TIMED_OUT = "Operation timed out - received only 1 responses."


@failure("Too few replicas answer")
def write_timeout(cluster: Cassandra) -> None:
    rest = LOCAL_QUORUM + ONE_OF_TWO + b"\0\x06SIMPLE"
    lied_to(cluster, refusal(0x1100, TIMED_OUT, rest), INSERT, 1, "Ada")


@failure("Too few replicas answer")
def read_timeout(cluster: Cassandra) -> None:
    rest = LOCAL_QUORUM + ONE_OF_TWO + b"\0"
    lied_to(cluster, refusal(0x1200, TIMED_OUT, rest), SELECT, 1)


@failure("The server is overloaded")
def overloaded(cluster: Cassandra) -> None:
    message = (
        "Request breached global limit of 1000 requests/second. Server is currently in an"
        " overloaded state and cannot accept more requests."
    )
    lied_to(cluster, refusal(0x1001, message), INSERT, 1, "Ada")


@failure("A batch is too large")
def large_batch(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        batch = Batch("unlogged")
        for number in range(80):
            batch.add(INSERT, (number, "x" * 1000))
        session.execute(batch)


@failure("A page of a result is too long")
def long_frame(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute(INSERT, (2, "x" * 200_000))
    with turbocql.connect(cluster.contact_points, max_frame_bytes=100_000) as session:
        session.execute(SELECT, (2,))


@failure("The server forgets a prepared statement")
def never_prepared(cluster: Cassandra) -> None:
    ids: list[bytes] = []

    def forget(answer: Answer) -> bytes:
        if answer.request_opcode != BATCH:
            return answer.frame()
        # Unlike a real server, this one refuses the statement's text too, which has no id.
        ids.append(answer.request_body[4:22])
        known = ids[0]
        message = (
            f"Prepared query with ID {known[2:].hex()} not found (either the query was not prepared"
            " on this host (maybe the host has been restarted?) or you have prepared too many"
            " queries and it has been evicted from the internal cache)"
        )
        return refusal(0x2500, message, known)(answer)

    batch = Batch()
    batch.add(INSERT, (1, "Ada"))
    with (
        ChangingProxy(cluster.contact_points[0], forget) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        session.execute(batch)


BASKETS = "shop.baskets (id int PRIMARY KEY, customer text)"


@failure("What a statement names was dropped")
def dropped_column(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute(f"CREATE TABLE IF NOT EXISTS {BASKETS}")
        select = session.prepare("SELECT customer FROM shop.baskets WHERE id = ?")
        session.execute("ALTER TABLE shop.baskets DROP customer")
        session.execute(select, (1,))


@failure("What a statement names was dropped")
def dropped_table(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute(f"CREATE TABLE IF NOT EXISTS {BASKETS}")
        select = session.prepare("SELECT id FROM shop.baskets WHERE id = ?")
        session.execute("DROP TABLE shop.baskets")
        session.execute(select, (1,))


@failure("What a statement names was dropped")
def other_types(cluster: Cassandra) -> None:
    """Another session drops the table and creates it again with other types."""
    baskets = "shop.baskets (id int PRIMARY KEY, customer"
    with (
        turbocql.connect(cluster.contact_points) as admin,
        turbocql.connect(cluster.contact_points) as session,
    ):
        admin.execute("DROP TABLE IF EXISTS shop.baskets")
        admin.execute(f"CREATE TABLE {baskets} int)")
        insert = session.prepare("INSERT INTO shop.baskets (id, customer) VALUES (?, ?)")
        admin.execute("DROP TABLE shop.baskets")
        admin.execute(f"CREATE TABLE {baskets} text)")
        session.execute(insert, (1, 7))


@failure("What a statement names was dropped")
def dropped_keyspace(cluster: Cassandra) -> None:
    """The session loses its connections. New connections cannot use its dropped keyspace."""
    down = threading.Event()

    def change(answer: Answer) -> bytes:
        if down.is_set():
            raise EOFError
        return answer.frame()

    with turbocql.connect(cluster.contact_points) as admin:
        admin.execute(KEYSPACE.format("old_shop"))
        with (
            ChangingProxy(cluster.contact_points[0], change) as proxy,
            turbocql.connect(proxy.contact_point, keyspace="old_shop") as session,
        ):
            admin.execute("DROP KEYSPACE old_shop")
            down.set()
            with pytest.raises(errors.RequestError):
                session.execute(SELECT.replace("?", "4711"))
            down.clear()

            def is_refused() -> bool:
                with pytest.raises(errors.RequestError) as caught:
                    session.execute(SELECT.replace("?", "4711"))
                return "old_shop" in str(caught.value)

            assert eventually(is_refused, 20)
            session.execute(SELECT.replace("?", "4711"))


@failure("A value does not fit its column")
def wrong_value(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute("INSERT INTO shop.orders (id, items) VALUES (?, ?)", (1, ["tea", 7]))


@failure("A value does not fit its column")
def large_value(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute(INSERT, (3_000_000_000, "Ada"))


@failure("A row can never be written")
def null_in_a_list(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.load("shop.orders", {"id": [1], "items": [["tea", None]]})


@failure("A row can never be written")
def null_in_a_statement(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute("INSERT INTO shop.orders (id, items) VALUES (?, ?)", (1, ["tea", None]))


@failure("A row can never be written")
def vector_of_zeros(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute("CREATE TABLE shop.pages (id int PRIMARY KEY, emb vector<float, 3>)")
        session.execute("CREATE CUSTOM INDEX ON shop.pages (emb) USING 'StorageAttachedIndex'")
        session.load("shop.pages", {"id": [1], "emb": [[0.0, 0.0, 0.0]]})


@failure("The statement is not CQL")
def wrong_syntax(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute("SELECT customer FORM shop.orders WHERE id = 4711")


@failure("The statement is not CQL")
def foreign_markers(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        session.execute("SELECT customer FROM shop.orders WHERE id = %s", (4711,))


@failure("The user lacks a permission", secure=True)
def unauthorized(cluster: Cassandra) -> None:
    tls = Tls(ca=cluster.ca_certificate)
    with turbocql.connect(
        cluster.contact_points, tls=tls, user="reporting", password="hunter2"
    ) as session:
        session.execute(INSERT, (1, "Ada"))


class Slow(ChangingProxy):
    """Delays the responses to writes that contain "Ada"."""

    def __init__(self, contact_point: str) -> None:
        super().__init__(contact_point, self.hold)
        self.writes = 0
        self.go_on = threading.Event()

    def requested(self, opcode: int, body: bytes) -> None:
        self.writes += b"Ada" in body

    def hold(self, answer: Answer) -> bytes:
        if b"Ada" in answer.request_body:
            self.go_on.wait(20)
        return answer.frame()


@failure("The session is full")
def full(cluster: Cassandra) -> None:
    slow = Slow(cluster.contact_points[0])
    with (
        slow,
        turbocql.connect(slow.contact_point, max_in_flight=2, when_full="raise") as session,
        ThreadPoolExecutor(2) as pool,
    ):
        insert = session.prepare(INSERT)
        for number in range(2):
            pool.submit(session.execute, insert, (number, "Ada"))
        try:
            assert eventually(lambda: slow.writes == 2)
            session.execute(insert, (3, "Ada"))
        finally:
            slow.go_on.set()


@failure("The session is full")
def waited(cluster: Cassandra) -> None:
    slow = Slow(cluster.contact_points[0])
    with (
        slow,
        turbocql.connect(slow.contact_point, max_in_flight=2) as session,
        ThreadPoolExecutor(2) as pool,
    ):
        insert = session.prepare(INSERT)
        for number in range(2):
            pool.submit(session.execute, insert, (number, "Ada"))
        try:
            assert eventually(lambda: slow.writes == 2)
            session.execute(insert, (3, "Ada"), timeout_s=0.5)
        finally:
            slow.go_on.set()


@failure("The session is closed or was forked")
def closed(cluster: Cassandra) -> None:
    with turbocql.connect(cluster.contact_points) as session:
        insert = session.prepare(INSERT)
    session.execute(insert, (1, "Ada"))


@failure("The session is closed or was forked")
def forked(cluster: Cassandra) -> None:
    program = """
        import os, pickle, sys, warnings
        import turbocql

        warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
        with turbocql.connect(sys.argv[1]) as session:
            child = os.fork()
            if child == 0:
                try:
                    session.execute("SELECT key FROM system.local")
                except turbocql.Error as error:
                    print(pickle.dumps(error).hex(), flush=True)
                os._exit(0)
            os.waitpid(child, 0)
        """
    raise pickle.loads(bytes.fromhex(run_python(program, cluster.contact_points[0])))


# The tests


def make_shop(session: turbocql.Session) -> None:
    session.execute(KEYSPACE.format("shop"))
    session.execute(
        "CREATE TABLE shop.orders (id int PRIMARY KEY, customer text, items list<text>)"
    )


@pytest.fixture(scope="module")
def shop(cassandra: Cassandra) -> Iterator[Cassandra]:
    """Creates the keyspace and table of these tests on a node without passwords."""
    with turbocql.connect(cassandra.contact_points) as session:
        make_shop(session)
        yield cassandra
        session.execute("DROP KEYSPACE shop")


@pytest.fixture(scope="module")
def secure_shop(cassandra_secure: Cassandra) -> Iterator[Cassandra]:
    """Creates the same keyspace and table on a node with TLS and passwords.

    The user `reporting` may only read.
    """
    cluster = cassandra_secure
    tls = Tls(ca=cluster.ca_certificate)
    with turbocql.connect(
        cluster.contact_points, tls=tls, user=cluster.user, password=cluster.password
    ) as session:
        make_shop(session)
        session.execute("CREATE ROLE reporting WITH LOGIN = true AND PASSWORD = 'hunter2'")
        session.execute("GRANT SELECT ON KEYSPACE shop TO reporting")
        yield cluster
        session.execute("DROP ROLE reporting")
        session.execute("DROP KEYSPACE shop")


def cases(*, secure: bool) -> pytest.MarkDecorator:
    chosen = [case for case in FAILURES if case.secure == secure]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.make.__name__)


def check(case: Failure, cluster: Cassandra) -> None:
    """Makes a failure, prints its message and compares it with the page."""
    with pytest.raises(errors.Error) as caught:
        case.make(cluster)
    printed = "".join(format_exception_only(type(caught.value), caught.value)).strip()
    print(printed)
    of_heading = [other for other in FAILURES if other.heading == case.heading]
    shown = entries()[case.heading][of_heading.index(case)]
    assert normalised(printed) == normalised(shown)


@cases(secure=False)
def test_failure(case: Failure, shop: Cassandra) -> None:
    check(case, shop)


@cases(secure=True)
def test_failure_where_users_are_known(case: Failure, secure_shop: Cassandra) -> None:
    check(case, secure_shop)


def test_the_page_shows_these_failures() -> None:
    headings = [heading for heading, blocks in entries().items() for _ in blocks]
    assert headings == [case.heading for case in FAILURES]
