"""Tests what a session logs: which events, with which levels, fields, threads and contexts."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.support.changing_proxy import ERROR, EXECUTE, QUERY, Answer, ChangingProxy, ending_when
from tests.support.children import run_python
from tests.support.logs import Records, recorded
from tests.support.nodes import eventually, paused

import turbocql
from turbocql import errors
from turbocql.testing import Cassandra

SELECT = "SELECT release_version FROM system.local WHERE key = ?"
FROM_ANY_NODE = "SELECT release_version FROM system.local"
STARTUP = 0x01


@pytest.fixture
def records() -> Iterator[Records]:
    with recorded() as records:
        yield records


def refused(answer: Answer, code: int, reason: str, rest: bytes = b"") -> bytes:
    text = reason.encode()
    body = struct.pack(">iH", code, len(text)) + text + rest
    return answer.with_body(body, opcode=ERROR).frame()


def delayed(answer: Answer, seconds: float) -> bytes:
    if answer.request_opcode == EXECUTE:
        time.sleep(seconds)
    return answer.frame()


def test_a_node_that_hangs_and_returns(cassandra_three: Cassandra, records: Records) -> None:
    points = cassandra_three.contact_points
    with turbocql.connect(points, keepalive_interval_s=600) as session:
        assert eventually(lambda: all(node.connected for node in session.nodes))
        select = session.prepare(FROM_ANY_NODE)
        node = cassandra_three.nodes[0]
        with paused(node):
            until = time.monotonic() + 20
            while not records.of("node silent") and time.monotonic() < until:
                with suppress(errors.RequestTimeout):
                    session.execute(select, timeout_s=0.5)
            silent = records.first("node silent")
        assert (silent.levelname, silent.name) == ("WARNING", "turbocql.cluster")
        assert silent.node == node.contact_point
        assert silent.datacenter == session.nodes[0].datacenter is not None
        assert node.contact_point in silent.getMessage()
        # Requests that waited for the hung node failed, and are logged with their errors.
        for each in records.of("request"):
            assert (each.error, each.attempts[0][0]) == ("RequestTimeout", node.contact_point)
        assert records.first("node answers again").levelname == "INFO"


def test_a_connection_that_is_lost_and_opened_again(cassandra: Cassandra, records: Records) -> None:
    down = threading.Event()

    with (
        ChangingProxy(cassandra.contact_points[0], ending_when(down)) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        opened = records.first("connection opened")
        assert (opened.levelname, opened.node) == ("DEBUG", proxy.contact_point)
        session.execute(SELECT, ("local",))
        down.set()
        with pytest.raises(errors.RequestError):
            session.execute(SELECT, ("local",), timeout_s=2)
        lost = records.first("connection lost")
        assert (lost.levelname, lost.name) == ("WARNING", "turbocql.connection")
        assert lost.reason in lost.getMessage()
        assert records.first("node down").levelname == "WARNING"
        assert eventually(lambda: len(records.of("connection failed")) > 2)
        # If several failures follow each other, only the first is logged as a warning. Here the
        # first was "connection lost".
        assert {record.levelname for record in records.of("connection failed")} == {"DEBUG"}
        down.clear()
        assert eventually(lambda: any(each.again for each in records.of("connection opened")))
        (again,) = [each for each in records.of("connection opened") if each.again]
        assert again.levelname == "INFO"
        assert "again" in again.getMessage()
        assert eventually(lambda: len(records.of("node up")) == 2)


def test_refused_credentials(cassandra: Cassandra, records: Records) -> None:
    is_refusing = threading.Event()

    def change(answer: Answer) -> bytes:
        if not is_refusing.is_set():
            return answer.frame()
        if answer.request_opcode == STARTUP:
            return refused(answer, 0x0100, "Provided username secret-user is incorrect")
        if answer.request_opcode in (EXECUTE, QUERY):
            raise EOFError
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        session.execute(SELECT, ("local",))
        # A connection is lost first, and then the node refuses the credentials. The refusal is
        # logged as an error, although it is not the first failure.
        is_refusing.set()
        with pytest.raises(errors.RequestError):
            session.execute(SELECT, ("local",), timeout_s=2)
        failed = records.first("connection failed")
        assert eventually(
            lambda: any(each.authentication for each in records.of("connection failed"))
        )
        assert "ERROR" in {each.levelname for each in records.of("connection failed")}
        assert failed.node == proxy.contact_point
        # The server's message contains the user's name, so turbocql must not log the message.
        for record in records.all:
            assert "secret-user" not in repr(record.__dict__) + record.getMessage()


def test_a_slow_request(cassandra: Cassandra, records: Records) -> None:
    request_id = contextvars.ContextVar("request_id", default="none")
    seen: list[tuple[str, str]] = []

    def note(record: logging.LogRecord) -> bool:
        seen.append((record.getMessage(), request_id.get()))
        return True

    records.addFilter(note)
    with (
        ChangingProxy(cassandra.contact_points[0], lambda answer: delayed(answer, 0.15)) as proxy,
        turbocql.connect(proxy.contact_point, slow_request_s=0.1) as session,
    ):
        request_id.set("r-17")
        began = time.time()
        session.execute(SELECT, ("local",), consistency="ONE")
        slow = records.first("slow request")
        assert (slow.levelname, slow.name) == ("WARNING", "turbocql.request")
        assert slow.threadName == threading.current_thread().name
        assert slow.thread == threading.get_ident()
        assert began < slow.created < time.time()
        assert slow.duration_s >= 0.14
        assert (slow.kind, slow.node, slow.statement) == ("read", proxy.contact_point, SELECT)
        assert (slow.keyspace, slow.table, slow.rows) == ("system", "local", 1)
        assert (slow.consistency, slow.sent_bytes, slow.waited_s > 0) == ("ONE", 9, True)
        assert [attempt[0] for attempt in slow.attempts] == [proxy.contact_point]
        assert [told for message, told in seen if "slow" in message] == ["r-17"]
        # The slow requests of an `execute_many` are logged in the context in which `execute_many`
        # was called.
        session.execute_many(SELECT, [("local",)])
        assert eventually(lambda: len(records.of("slow request")) == 2)
        assert [told for message, told in seen if "slow" in message] == ["r-17", "r-17"]
        assert records.of("slow request")[1].bulk


async def test_the_context_of_a_task(cassandra: Cassandra) -> None:
    request_id = contextvars.ContextVar("request_id", default="none")
    seen: list[str] = []
    with (
        recorded() as records,
        ChangingProxy(cassandra.contact_points[0], lambda answer: delayed(answer, 0.1)) as proxy,
    ):

        def note(record: logging.LogRecord) -> bool:
            seen.append(request_id.get())
            return True

        records.addFilter(note)
        points = proxy.contact_point
        async with turbocql.aio.connect(points, slow_request_s=0.05) as session:
            await session.prepare(SELECT)
            seen.clear()

            async def work(name: str) -> None:
                request_id.set(name)
                await session.execute(SELECT, ("local",))

            await asyncio.gather(work("a"), work("b"))
        assert sorted(seen[:2]) == ["a", "b"]


def test_slow_requests_are_sampled(cassandra: Cassandra, records: Records) -> None:
    with turbocql.connect(cassandra.contact_points, slow_request_s=0.000_001) as session:
        session.execute_many(SELECT, [("local",)] * 500)
        time.sleep(1.1)
        session.execute(SELECT, ("local",))
    slow = records.of("slow request")
    assert len(slow) < 200
    assert sum(1 + each.left_out for each in slow) >= 501


def test_a_change_of_the_schema(cassandra: Cassandra, records: Records, number: int) -> None:
    keyspace = f"logs_{number}"
    with (
        turbocql.connect(cassandra.contact_points),
        turbocql.connect(cassandra.contact_points) as other,
    ):
        other.execute(
            f"CREATE KEYSPACE {keyspace} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        other.execute(f"CREATE TABLE {keyspace}.t (k int PRIMARY KEY)")
        other.execute(f"DROP KEYSPACE {keyspace}")
        # Both sessions log the changes.
        assert eventually(lambda: len(records.of("schema changed")) >= 6)
    changes = {
        (each.change, each.target, each.keyspace, getattr(each, "object", None))
        for each in records.of("schema changed")
    }
    assert {
        ("created", "keyspace", keyspace, None),
        ("created", "table", keyspace, "t"),
        ("dropped", "keyspace", keyspace, None),
    } <= changes


def test_a_statement_that_a_node_has_forgotten(cassandra: Cassandra, records: Records) -> None:
    has_forgotten = threading.Event()

    def change(answer: Answer) -> bytes:
        if answer.request_opcode == EXECUTE and has_forgotten.is_set():
            has_forgotten.clear()
            (size,) = struct.unpack_from(">H", answer.request_body)
            statement_id = answer.request_body[: 2 + size]
            return refused(answer, 0x2500, "forgotten", statement_id)
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        session.execute(SELECT, ("local",))
        has_forgotten.set()
        assert session.execute(SELECT, ("local",)).one() is not None
        again = records.first("prepared again")
        assert (again.levelname, again.statement) == ("INFO", SELECT)
        assert session.metrics().prepared_again == 1


def test_values_are_in_no_record(cassandra: Cassandra, records: Records) -> None:
    points = cassandra.contact_points
    with turbocql.connect(points, slow_request_s=0.000_001) as session:
        for statement, values in [
            ("SELECT 'swordfish' FROM system.local WHERE nothing = 'swordfish'", None),
            ("SELECT * FROM system.local WHERE key = ?", ("swordfish",)),
            ("CREATE ROLE r WITH PASSWORD = 'swordfish' AND LOGIN = true", None),
            ("SELECT key FROM system.local WHERE key = 'swordfish'", None),
        ]:
            with suppress(errors.RequestError):
                session.execute(statement, values)
    assert len(records.of("slow request")) >= 4
    for record in records.all:
        assert "swordfish" not in repr(record.__dict__) + record.getMessage()


def test_levels_can_change_while_the_session_is_open(cassandra: Cassandra) -> None:
    bad = "SELECT nothing FROM system.local"

    def fails(session: Any) -> None:
        with pytest.raises(errors.InvalidQuery):
            session.execute(bad)

    with (
        turbocql.connect(cassandra.contact_points) as session,
        recorded(logging.INFO) as records,
    ):
        time.sleep(0.6)
        fails(session)
        time.sleep(0.1)
        assert records.of("request") == []
        logging.getLogger("turbocql").setLevel(logging.DEBUG)
        time.sleep(0.6)
        fails(session)
        failed = records.first("request")
        assert (failed.error, failed.error_code) == ("InvalidQuery", 0x2200)


def test_without_a_handler_nothing_is_printed(cassandra: Cassandra) -> None:
    program = """
        import sys, turbocql
        session = turbocql.connect(sys.argv[1:], slow_request_s=0.000001)
        session.execute("SELECT key FROM system.local")
        print("done")
    """
    # The program fails if anything is written to stderr.
    assert run_python(program, *cassandra.contact_points) == "done\n"


def test_events_at_the_end_of_the_process_and_after_a_fork(cassandra: Cassandra) -> None:
    """Queued events are logged before the process ends. A forked child logs its own events."""
    program = """
        import logging, os, sys, time, warnings
        import turbocql
        from turbocql import telemetry

        class Slow(logging.Handler):
            def emit(self, record):
                time.sleep(0.01)
                # A print may be under way in this thread when the process forks.
                os.write(1, f"{os.getpid() == parent} {record.event}\\n".encode())

        parent = os.getpid()
        logging.getLogger("turbocql.request").addHandler(Slow())
        warnings.simplefilter("ignore", DeprecationWarning)

        def work():
            session = turbocql.connect(sys.argv[1:], slow_request_s=0.000001)
            for _ in range(10):
                session.execute("SELECT key FROM system.local")
            return session

        session = work()
        child = os.fork()
        if child == 0:
            work()
            sys.exit()
        os.waitpid(child, 0)
    """
    lines = run_python(program, *cassandra.contact_points).splitlines()
    assert sorted(lines) == ["False slow request"] * 10 + ["True slow request"] * 10


def test_a_handler_that_fails_or_closes_the_session(cassandra: Cassandra) -> None:
    session = turbocql.connect(cassandra.contact_points, slow_request_s=0.000_001)
    called: list[str] = []

    def fail(record: logging.LogRecord) -> bool:
        called.append(record.name)
        if len(called) == 2:
            session.close()
        raise RuntimeError("a filter that fails")

    logger = logging.getLogger("turbocql.request")
    logger.addFilter(fail)
    raises, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        session.execute("SELECT key FROM system.local")
        assert eventually(lambda: len(called) == 1)
        session.execute("SELECT key FROM system.local")
        assert eventually(lambda: session.closed)
    finally:
        logger.removeFilter(fail)
        logging.raiseExceptions = raises


def test_a_handler_that_exits(cassandra: Cassandra, records: Records) -> None:
    """No exception of a handler, not even `SystemExit`, ends the logging."""
    raised = [SystemExit, KeyboardInterrupt, asyncio.CancelledError]

    def fail(record: logging.LogRecord) -> bool:
        if raised:
            raise raised.pop()
        return True

    records.addFilter(fail)
    raises, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        with turbocql.connect(cassandra.contact_points, slow_request_s=0.000_001) as session:
            for _ in range(5):
                session.execute(SELECT, ("local",))
            assert eventually(lambda: len(records.of("slow request")) >= 2)
    finally:
        logging.raiseExceptions = raises


def test_too_many_events_are_counted(cassandra: Cassandra, records: Records) -> None:
    held = threading.Event()

    def hold(record: logging.LogRecord) -> bool:
        return held.wait(20)

    def change(answer: Answer) -> bytes:
        if answer.answers(EXECUTE, "local"):
            return refused(answer, 0x2200, "no")
        return answer.frame()

    records.addFilter(hold)
    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        report = session.execute_many(
            SELECT, [("local",)] * 10_000, raise_failures=False, max_failures=10_000
        )
        assert len(report.failures) == 10_000
        assert session.metrics().dropped_events > 0
        records.removeFilter(hold)
        held.set()
        assert records.first("events dropped").dropped > 0


def test_a_slow_request_that_is_canceled(cassandra: Cassandra, records: Records) -> None:
    async def cancel(point: str) -> None:
        async with turbocql.aio.connect(point, slow_request_s=0.1) as session:
            prepared = await session.prepare(SELECT)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.execute(prepared, ("local",)), 0.3)

    def change(answer: Answer) -> bytes:
        if answer.answers(EXECUTE, "local"):
            time.sleep(0.6)
        return answer.frame()

    with ChangingProxy(cassandra.contact_points[0], change) as proxy:
        asyncio.run(cancel(proxy.contact_point))
        slow = records.first("slow request")
        assert (slow.error, slow.attempts[0][0]) == ("canceled", proxy.contact_point)
        assert 0.2 < slow.duration_s < 0.6


def test_an_inherited_session(cassandra: Cassandra) -> None:
    program = """
        import os, sys, turbocql, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        session = turbocql.connect(sys.argv[1:])
        events = session.events()
        child = os.fork()
        if child == 0:
            assert list(events) == []
            try:
                session.events()
            except turbocql.errors.ClosedError as error:
                assert "forked" in str(error)
                session.close()
                os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), events.closed)
        session.close()
        print(list(events))
    """
    assert run_python(program, *cassandra.contact_points) == "7 False\n[]\n"


def test_a_blocked_handler_does_not_block_streams_of_events(
    cassandra: Cassandra, number: int
) -> None:
    held = threading.Event()
    with recorded() as records:
        records.addFilter(lambda record: held.wait(20))
        session = turbocql.connect(cassandra.contact_points)
        events = session.events()
        session.execute(
            f"CREATE KEYSPACE blocked_{number} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        assert next(events).keyspace == f"blocked_{number}"
        began = time.monotonic()
        session.close()
        assert time.monotonic() - began < 5
        assert list(events) == []
        held.set()
