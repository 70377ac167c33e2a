"""Tests the time limits of calls, the limit of requests in flight, and the texts of errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Literal

import pytest
from tests.support.changing_proxy import (
    BATCH,
    ERROR,
    EXECUTE,
    PREPARE,
    QUERY,
    Answer,
    ChangingProxy,
    held_until,
)
from tests.support.nodes import eventually, paused

import turbocql
from turbocql import Batch, errors
from turbocql.policies import Balancing, ExecutionProfile
from turbocql.testing import Cassandra

KEYSPACE = "deadlines"
SLACK_S = 2.0
"""How many seconds above its limit a call may take. A call that ignores its limit takes 10 s."""


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


def took(call: Callable[[], object]) -> tuple[float, errors.Error | None]:
    """Returns the seconds that a call took, and its error or None."""
    began = time.monotonic()
    try:
        call()
    except errors.Error as error:
        return time.monotonic() - began, error
    return time.monotonic() - began, None


def test_a_call_keeps_its_time_limit_beside_a_hung_node(
    cassandra_three: Cassandra, keyspace: str
) -> None:
    """Calls that wait for all nodes end within their time limit, although one node hangs.

    For example, a schema change waits until all nodes agree on the schema, and `USE` waits for all
    connections.
    """
    calls: dict[str, Callable[[turbocql.Session], object]] = {
        "create": lambda s: s.execute(
            f"CREATE TABLE {keyspace}.u (k int PRIMARY KEY)", timeout_s=3
        ),
        "alter": lambda s: s.execute(f"ALTER TABLE {keyspace}.t ADD w int", timeout_s=3),
        "use": lambda s: s.execute(f"USE {keyspace}", timeout_s=3),
        "prepared": lambda s: s.execute(f"DROP TABLE IF EXISTS {keyspace}.u", (), timeout_s=3),
        "schema": lambda s: s.schema(refresh=True, timeout_s=3),
        "agreement": lambda s: s.await_schema_agreement(timeout_s=3),
    }
    with turbocql.connect(cassandra_three.contact_points) as session:
        with paused(cassandra_three.nodes[2]):
            for name, call in calls.items():
                seconds, error = took(lambda call=call: call(session))  # type: ignore[misc]
                assert seconds < 3 + SLACK_S, (name, seconds)
                assert error is None or isinstance(error, errors.RequestError), (name, error)
                if isinstance(error, errors.RequestTimeout) and name in {"create", "alter"}:
                    assert error.may_have_applied
        session.await_schema_agreement()
        session.execute(f"DROP TABLE IF EXISTS {keyspace}.u")


def test_the_first_use_of_a_text_has_one_time_limit(cassandra: Cassandra) -> None:
    """The preparation and the execution of a new text share one time limit of 1 s.

    Here the preparation takes 0.7 s, and the answer to the execution never comes.
    """
    lies = threading.Event()

    def change(answer: Answer) -> bytes:
        if lies.is_set() and answer.request_opcode == PREPARE:
            time.sleep(0.7)
        if lies.is_set() and answer.request_opcode == EXECUTE:
            return b""
        return answer.frame()

    text = "SELECT schema_version FROM system.local WHERE key = ?"
    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        lies.set()
        # If a new time limit of 1 s began after the preparation, the call would take 1.7 s.
        seconds, error = took(lambda: session.execute(text, ("local",), timeout_s=1))
        assert seconds < 1.5, seconds
        assert isinstance(error, errors.RequestTimeout)
        assert "within 1s" in str(error)
        assert text in str(error)


def test_a_prepare_that_times_out_names_the_nodes(cassandra: Cassandra) -> None:
    lies = threading.Event()

    def change(answer: Answer) -> bytes:
        silent = lies.is_set() and answer.request_opcode == PREPARE
        return b"" if silent else answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point, timeout_s=0.5) as session,
    ):
        lies.set()
        with pytest.raises(errors.RequestTimeout) as raised:
            session.prepare("SELECT key FROM system.local WHERE key = 'a'")
        assert f"; asked {proxy.contact_point}" in str(raised.value)
        assert "statement: SELECT key FROM system.local WHERE key = …" in str(raised.value)


def test_reading_the_schema_ends_although_pages_do_not(cassandra: Cassandra) -> None:
    """The server always announces one more page."""
    number = 0

    def change(answer: Answer) -> bytes:
        nonlocal number
        if not answer.answers(QUERY, "system_schema.columns"):
            return answer.frame()
        number += 1
        body = answer.body
        flags = int.from_bytes(body[4:8], "big") | 2
        state = number.to_bytes(8, "big")
        return answer.with_body(
            body[:4] + flags.to_bytes(4, "big") + body[8:12] + b"\0\0\0\x08" + state + body[12:]
        ).frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        seconds, error = took(lambda: session.schema(timeout_s=2))
        assert isinstance(error, errors.RequestError)
        assert seconds < 2 + SLACK_S


def test_the_error_that_says_most_is_raised(cassandra_three: Cassandra, keyspace: str) -> None:
    """Two of three nodes are down, and the third node answers with `Unavailable`.

    The call raises this `Unavailable` with its details, although retries get other errors.
    """
    nodes = cassandra_three.nodes
    with turbocql.connect(cassandra_three.contact_points, consistency="QUORUM") as session:
        insert = session.prepare(f"INSERT INTO {keyspace}.t (k, v) VALUES (?, ?)")
        with ExitStack() as down:
            for node in nodes[1:]:
                node.kill()
                down.callback(node.start)

            def unavailable() -> bool:
                seconds, error = took(lambda: session.execute(insert, (1, "a"), timeout_s=5))
                assert isinstance(error, errors.RequestError), error
                assert seconds < 5 + SLACK_S
                return isinstance(error, errors.Unavailable)

            assert eventually(unavailable, 150)
            # From now on, every request raises Unavailable, even if a retry gets another error.
            seen: list[errors.RequestError] = []
            for key in range(100):
                with pytest.raises(errors.RequestError) as raised:
                    session.execute(insert, (key, "a"), timeout_s=5)
                seen.append(raised.value)
            assert {type(error) for error in seen} == {errors.Unavailable}
            error = seen[-1]
            assert (error.details["required"], error.details["alive"]) == (2, 1)
            assert not error.may_have_applied
            assert error.history
            assert error.history[0].node == error.coordinator
            assert "not enough replicas alive" in (error.history[0].answer or "")
            assert error.history[0].ended_s is not None
            assert "statement: INSERT INTO" in str(error)
        assert eventually(lambda: took(lambda: session.execute(insert, (1, "a")))[1] is None, 60)


def test_all_nodes_down_names_each_with_its_reason(cassandra: Cassandra) -> None:
    with ChangingProxy(cassandra.contact_points[0], Answer.frame) as proxy:
        session = turbocql.connect(proxy.contact_point, timeout_s=3)
        point = proxy.contact_point
    with session:

        def named() -> bool:
            error = took(lambda: session.execute("SELECT key FROM system.local"))[1]
            return isinstance(error, errors.NoHostAvailable) and f"{point}: " in str(error)

        assert eventually(named, 20)


def test_a_datacenter_that_does_not_exist_is_named(cassandra: Cassandra) -> None:
    elsewhere = ExecutionProfile(balancing=Balancing(datacenter="elsewhere"))
    with turbocql.connect(cassandra.contact_points, profiles={"elsewhere": elsewhere}) as session:
        with pytest.raises(errors.NoHostAvailable) as raised:
            session.execute("SELECT key FROM system.local", profile="elsewhere")
        known = {node.datacenter for node in session.nodes}
    assert 'datacenter is "elsewhere"' in str(raised.value)
    assert all(str(datacenter) in str(raised.value) for datacenter in known)


def test_a_refused_batch_says_what_is_known(cassandra: Cassandra) -> None:
    """The server answers each batch with `Unavailable`. The test checks `may_have_applied`."""
    unavailable = b"\0\0\x10\0" + b"\0\x02no" + b"\0\x04" + b"\0\0\0\x02" + b"\0\0\0\x01"

    def change(answer: Answer) -> bytes:
        if answer.request_opcode == BATCH:
            return answer.with_body(unavailable, opcode=ERROR).frame()
        return answer.frame()

    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS refused WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(
            "CREATE TABLE IF NOT EXISTS refused.t (k int, c int, v int, PRIMARY KEY (k, c))"
        )
    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point, keyspace="refused") as session,
    ):
        insert = session.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
        condition = session.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?) IF NOT EXISTS")

        def applied(kind: Literal["logged", "unlogged"], *entries: Any) -> bool:
            batch = Batch(kind)
            for entry in entries:
                batch.add(*entry)
            with pytest.raises(errors.Unavailable) as raised:
                session.execute(batch)
            return raised.value.may_have_applied

        first, same, other = (insert, (1, 1, 1)), (insert, (1, 2, 1)), (insert, (2, 1, 1))
        assert not applied("unlogged", first, same)
        assert not applied("unlogged", first)
        assert applied("unlogged", first, other)
        assert applied("unlogged", ("DELETE FROM t WHERE k IN (1, 2)",))
        assert not applied("logged", first, other)
        assert applied("logged", (condition, (1, 1, 1)))


def test_passwords_are_not_in_errors(cassandra: Cassandra) -> None:
    with turbocql.connect(cassandra.contact_points) as session:
        with pytest.raises(errors.CqlSyntaxError) as raised:
            session.execute("CREATE ROLE r WITH PASSWORD = 'hunter2' AND AND")
        assert "hunter2" not in str(raised.value)
        assert str(raised.value).endswith("statement: CREATE ROLE r WITH PASSWORD")
        with pytest.raises(errors.CqlSyntaxError) as raised:
            session.execute("SELECT key FROM system.local WHERE key 'hunter2'")
        assert "'hunter2'" in str(raised.value)
    with turbocql.connect(cassandra.contact_points, values_in_errors=False) as session:
        with pytest.raises(errors.CqlSyntaxError) as raised:
            session.execute("SELECT key FROM system.local WHERE key 'hunter2'")
        assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER ROLE r WITH PASSWORD 'correct-horse'",
        "CREATE ROLE r WITH PASSWORD 'correct-horse' AND LOGIN = true",
        'CREATE ROLE r WITH PASSWORD = "correct-horse"',
        "CREATE ROLE r WITH PASSWORD correct-horse",
    ],
)
def test_a_part_of_a_password_is_not_in_errors(cassandra: Cassandra, text: str) -> None:
    """The server's message quotes only the beginning of the statement and of the password in it."""
    batch = Batch("unlogged")
    batch.add("INSERT INTO system.local (key) VALUES ('a')")
    batch.add(text)
    with turbocql.connect(cassandra.contact_points) as session:
        for call in (
            lambda: session.execute(text),
            lambda: session.prepare(text),
            lambda: session.execute(batch),
        ):
            with pytest.raises(errors.RequestError) as raised:
                call()
            said = f"{raised.value!r} {raised.value.history}"
            assert "correct" not in said
            assert "horse" not in said


def test_further_calls_wait_in_their_order(cassandra: Cassandra) -> None:
    """Calls above `max_in_flight` wait in order, and their time limit includes the wait."""
    hold = threading.Event()
    hold.set()
    queue: list[int] = []

    with (
        ChangingProxy(cassandra.contact_points[0], held_until(hold)) as proxy,
        turbocql.connect(proxy.contact_point, max_in_flight=2) as session,
        ThreadPoolExecutor(8) as pool,
    ):
        select = session.prepare("SELECT key FROM system.local WHERE key = ?")
        session.execute(select, ("local",))
        hold.clear()

        def read(number: int) -> None:
            session.execute(select, ("local",), timeout_s=20)
            queue.append(number)

        busy = []
        for number in range(6):
            busy.append(pool.submit(read, number))
            assert eventually(lambda number=number: session.in_flight == number + 1)  # type: ignore[misc]
        seconds, error = took(lambda: session.execute(select, ("local",), timeout_s=0.3))
        assert isinstance(error, errors.RequestTimeout)
        assert seconds < 0.3 + SLACK_S
        assert not error.may_have_applied
        assert "2 requests of at most 2 (max_in_flight) are in flight" in str(error)
        assert "; statement: SELECT key FROM system.local" in str(error)
        hold.set()
        for one in busy:
            one.result(20)
        assert sorted(queue) == list(range(6))
        assert queue[-1] in (4, 5)
        assert session.execute(select, ("local",)).one() == ("local",)


@pytest.mark.parametrize("many", [False, True])
def test_a_call_that_has_waited_has_the_rest_of_its_limit(cassandra: Cassandra, many: bool) -> None:
    """The time limit of a call includes the time before the call is sent.

    Here a call with a limit of 4 s waits for 3.5 s before it is sent, and gets no response.
    """
    hold, silent = threading.Event(), threading.Event()
    hold.set()

    def change(answer: Answer) -> bytes:
        if answer.request_opcode in (QUERY, EXECUTE) and silent.is_set():
            return b""
        if answer.request_opcode == EXECUTE:
            hold.wait(20)
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point, max_in_flight=1) as session,
        ThreadPoolExecutor(2) as pool,
    ):
        select = session.prepare("SELECT key FROM system.local WHERE key = ?")
        session.execute(select, ("local",))
        hold.clear()
        busy = pool.submit(session.execute, select, ("local",))
        assert eventually(lambda: session.in_flight == 1)

        def call() -> object:
            if many:
                return session.execute_many(select, [("local",)], timeout_s=4)
            return session.execute("SELECT key FROM system.local", timeout_s=4)

        waiting = pool.submit(took, call)
        assert eventually(lambda: session.in_flight == 2)
        time.sleep(3.5)
        silent.set()
        hold.set()
        busy.result(20)
        seconds, error = waiting.result(20)
        assert 3.5 < seconds < 4 + SLACK_S
        assert error is not None
        assert "no response within 4s" in str(error)


def test_rows_that_wait_are_not_all_encoded(cassandra: Cassandra) -> None:
    """`execute_many` does not encode all rows in advance.

    The test writes 60 rows of 2 MB, and only two of them may be in flight at the same time.
    """
    hold, large, rows = threading.Event(), 2_000_000, 60
    hold.set()
    begun = 0

    def change(answer: Answer) -> bytes:
        if answer.request_opcode == EXECUTE:
            hold.wait(60)
        return answer.frame()

    def values() -> Iterator[tuple[int, bytes]]:
        nonlocal begun
        for key in range(rows):
            begun += 1
            yield key, b"x" * large

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point, max_in_flight_bytes=2 * large) as session,
        ThreadPoolExecutor(1) as pool,
    ):
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS large WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE IF NOT EXISTS large.t (k int PRIMARY KEY, v blob)")
        insert = session.prepare("INSERT INTO large.t (k, v) VALUES (?, ?)")
        session.execute(insert, (0, b"x" * large))
        hold.clear()
        many = pool.submit(session.execute_many, insert, values(), concurrency=100, timeout_s=60)
        assert eventually(lambda: begun > 2)
        time.sleep(2)
        # At most 4 MB are in flight, 32 MiB of encoded rows wait, and a few more rows are being
        # encoded.
        assert begun * large < 64_000_000
        hold.set()
        assert many.result(60).succeeded == rows
        assert begun == rows


def test_a_full_session_may_raise(cassandra: Cassandra) -> None:
    hold = threading.Event()
    hold.set()

    def change(answer: Answer) -> bytes:
        if answer.request_opcode == EXECUTE:
            hold.wait(20)
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point, max_in_flight_bytes=10, when_full="raise") as session,
        ThreadPoolExecutor(1) as pool,
    ):
        select = session.prepare("SELECT key FROM system.local WHERE key = ?")
        session.execute(select, ("local",))
        hold.clear()
        busy = pool.submit(session.execute, select, ("a key of many bytes",))
        assert eventually(lambda: session.in_flight == 1)
        with pytest.raises(errors.SessionFull) as raised:
            session.execute(select, ("local",))
        assert not raised.value.may_have_applied
        assert "; statement: SELECT key FROM system.local" in str(raised.value)
        # With when_full="raise", the rows of an `execute_many` still wait and raise no error.
        many = pool.submit(session.execute_many, select, [("local",)] * 5)
        hold.set()
        busy.result(20)
        assert many.result(20).succeeded == 5
        assert session.execute(select, ("local",)).one() == ("local",)


def test_values_are_not_in_errors_if_not_wanted(cassandra: Cassandra) -> None:
    text = "SELECT * FROM system.size_estimates WHERE keyspace_name = ? AND table_name = ?"
    with turbocql.connect(cassandra.contact_points, values_in_errors=False) as session:
        estimates = session.prepare(text)
        for failing in (
            lambda: session.execute(text, ("a", 7_777)),
            lambda: session.execute(estimates, ("a", 7_777)),
            lambda: estimates.bind(("a", 7_777)),
            lambda: session.execute_many(estimates, [("a", 7_777)]),
        ):
            with pytest.raises(errors.Error) as raised:
                failing()
            error = raised.value.__cause__ if isinstance(raised.value, errors.BulkError) else None
            error = error or raised.value
            assert isinstance(error, errors.EncodeError)
            assert 'column "table_name": expected a value of text' in str(error)
            assert "7777" not in str(raised.value)
    with (
        turbocql.connect(cassandra.contact_points) as session,
        pytest.raises(errors.EncodeError, match="7777"),
    ):
        session.execute(text, ("a", 7_777))


def test_messages_of_the_server_have_no_values_if_not_wanted(cassandra: Cassandra) -> None:
    with turbocql.connect(cassandra.contact_points, values_in_errors=False) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS unsaid WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE IF NOT EXISTS unsaid.t (k int PRIMARY KEY, v text)")
        calls: list[tuple[str, Any]] = [
            ("INSERT INTO unsaid.t JSON ?", ('{"k": "geheim"}',)),
            ("INSERT INTO unsaid.t JSON ?", ('{"geheim',)),
            ('INSERT INTO unsaid.t JSON \'{"k": "geheim"}\'', None),
            ("INSERT INTO unsaid.t (k, v) VALUES (fromJson(?), 'a')", ('"geheim"',)),
            ("INSERT INTO unsaid.t (k, v) VALUES (4711geheim, 'a')", None),
            ("INSERT INTO unsaid.t (k, v) VALUES ('it''s geheim', 'a')", None),
            ("INSERT INTO unsaid.t (k, v) VALUES (1 'very geheim')", None),
            ("INSERT INTO unsaid.t (k, v) VALUES (?, ?)", "geheim"),
        ]
        for text, values in calls:
            with pytest.raises(errors.Error) as raised:
                session.execute(text, values)
            history = getattr(raised.value, "history", ())
            assert "geheim" not in f"{raised.value!r} {history}", text
        # The message has no values, but it may contain names from the statement.
        with pytest.raises(errors.InvalidQuery, match="nosuch"):
            session.execute("SELECT nosuch FROM unsaid.t")
    with pytest.raises(errors.ConfigError) as wrong:
        Batch([("INSERT", (1, "geheim"))])  # type: ignore[arg-type]
    assert "geheim" not in str(wrong.value)


@pytest.mark.parametrize("when_full", ["wait", "raise"])
def test_the_schema_is_read_with_one_request_in_flight(
    cassandra: Cassandra, when_full: Literal["wait", "raise"]
) -> None:
    with turbocql.connect(
        cassandra.contact_points, max_in_flight=1, when_full=when_full
    ) as session:
        assert "system" in session.schema(timeout_s=60).keyspaces
        assert session.execute("SELECT key FROM system.local").one() == ("local",)


def test_a_use_that_times_out_says_that_it_is_done(
    cassandra_three: Cassandra, keyspace: str
) -> None:
    """One node hangs, so `USE` times out. The error says "done", and the session uses the keyspace.

    With `avoid_silent=False`, the session may send the `USE` to the node that hangs. In this case,
    the error does not say "done", and the test tries again with a new session.
    """
    for _ in range(20):
        with (
            turbocql.connect(
                cassandra_three.contact_points, balancing=Balancing(avoid_silent=False)
            ) as session,
            paused(cassandra_three.nodes[2]),
        ):
            with pytest.raises(errors.RequestTimeout) as raised:
                session.execute(f"USE {keyspace}", timeout_s=2)
            if "done, but not all nodes" not in str(raised.value):
                assert session.keyspace is None
                continue
            assert raised.value.may_have_applied
            assert session.keyspace == keyspace
            return
    pytest.fail("each USE went to the node that does not answer")


def test_an_agreement_that_times_out_names_the_silent_node(cassandra_three: Cassandra) -> None:
    """Two nodes hang. The error says "silent", because the session has noticed at least one."""
    with (
        turbocql.connect(cassandra_three.contact_points) as session,
        paused(cassandra_three.nodes[1]),
        paused(cassandra_three.nodes[2]),
    ):
        assert eventually(lambda: any(node.silent for node in session.nodes), 30)
        with pytest.raises(errors.RequestTimeout, match=r"not answering: 1 of 3 nodes: .*silent"):
            session.await_schema_agreement(timeout_s=1)


def test_a_call_that_fails_before_it_is_sent_is_not_in_flight(cassandra: Cassandra) -> None:
    """A call that fails before it is sent is not in flight, even if its exception still exists."""
    text = "SELECT * FROM system.size_estimates WHERE keyspace_name = ? AND table_name = ?"
    kept: list[errors.Error] = []
    with turbocql.connect(cassandra.contact_points, max_in_flight=1, timeout_s=3) as session:
        for _ in range(3):
            session._core.forget_prepared()
            with pytest.raises(errors.EncodeError) as raised:
                session.execute(text, ("a", 7))
            kept.append(raised.value)
        assert session.execute(text, ("a", "b")).all() == []
    assert len(kept) == 3


def test_a_short_connect_timeout_leaves_the_watch_alive(
    cassandra_three: Cassandra, keyspace: str
) -> None:
    """With a short connect timeout, the session still notices a hung node and avoids it.

    The session sends probes to find hung nodes. A probe waits for one third of the connect timeout,
    which is 0.4 s here, but for at least 0.5 s.
    """
    with turbocql.connect(
        cassandra_three.contact_points, connect_timeout_s=1.2, consistency="QUORUM"
    ) as session:
        insert = session.prepare(f"INSERT INTO {keyspace}.t (k, v) VALUES (?, 'a')")
        for key in range(30):
            session.execute(insert, (key,))
        with paused(cassandra_three.nodes[2]):
            time.sleep(9)
            began = time.monotonic()
            for key in range(30):
                session.execute(insert, (key,))
            assert time.monotonic() - began < 8
