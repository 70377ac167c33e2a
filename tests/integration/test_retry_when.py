"""Tests of `retry_when`. Its argument is a function that decides whether a request is retried."""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
import time
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.apis import Api
from tests.support.changing_proxy import BATCH, ERROR, EXECUTE, QUERY, Answer, ChangingProxy
from tests.support.children import run_python
from tests.support.nodes import eventually

import turbocql
from turbocql import errors, telemetry
from turbocql.testing import Cassandra

INSERT = "INSERT INTO t (k, v) VALUES (?, ?)"
SELECT = "SELECT v FROM t WHERE k = ?"
OVERLOADED = struct.pack(">iH", 0x1001, 4) + b"busy"
WRITE_TIMEOUT = (
    struct.pack(">iH", 0x1100, 4) + b"late" + struct.pack(">HiiH", 1, 0, 1, 6) + b"SIMPLE"
)
INVALID = struct.pack(">iH", 0x2200, 3) + b"odd"


@pytest.fixture(scope="module")
def keyspace(cassandra: Cassandra) -> str:
    """A keyspace with one table."""
    name = f"sent_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {name} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"CREATE TABLE {name}.t (k int PRIMARY KEY, v text)")
        session.execute_many(
            f"INSERT INTO {name}.t (k, v) VALUES (?, '')", [(k,) for k in (-1, -2, -3)]
        )
    return name


class Failing:
    """A function that a `ChangingProxy` calls for each answer. It replaces some by an error.

    If the body of a request contains one of `marks`, its answer is marked. The function replaces
    the first `failures` marked answers.
    """

    def __init__(self, error: bytes, failures: int, *marks: bytes) -> None:
        self.error, self.failures, self.marks = error, failures, marks
        self.requests = 0

    def __call__(self, answer: Answer) -> bytes:
        if answer.request_opcode not in (EXECUTE, QUERY, BATCH):
            return answer.frame()
        if not any(mark in answer.request_body for mark in self.marks):
            return answer.frame()
        self.requests += 1
        if self.requests <= self.failures:
            return answer.with_body(self.error, opcode=ERROR).frame()
        return answer.frame()


class Decision:
    """A function for `retry_when` that asks for another attempt and records its arguments."""

    def __init__(self, delay_s: Any = 0.0, most: int = 10) -> None:
        self.delay_s, self.most = delay_s, most
        self.asked: list[tuple[str, int]] = []
        self.threads: set[str] = set()

    def __call__(self, error: errors.RequestError, count: int) -> Any:
        self.asked.append((type(error).__name__, count))
        self.threads.add(threading.current_thread().name)
        return self.delay_s if count < self.most else None


async def test_a_request_is_sent_again_until_it_succeeds(
    api: Api, cassandra: Cassandra, keyspace: str, number: int
) -> None:
    failing = Failing(INVALID, 3, b"again")
    with ChangingProxy(cassandra.contact_points[0], failing) as proxy:
        async with api.connect(proxy.contact_point, keyspace=keyspace) as client:
            decision = Decision()
            client.session.retry_when(decision)
            await client.execute(INSERT, (number, "again"))
            assert decision.asked == [("InvalidQuery", count) for count in range(3)]
            assert failing.requests == 4
            assert (await client.execute(SELECT, (number,))).scalar() == "again"
            assert len(decision.asked) == 3
            client.session.retry_when(None)
            failing.requests = 0
            with pytest.raises(errors.InvalidQuery):
                await client.execute(INSERT, (number, "again"))
            assert len(decision.asked) == 3


@pytest.mark.parametrize("kind", ["text", "query", "bound", "prepared", "batch", "values"])
async def test_every_kind_of_statement(
    api: Api, cassandra: Cassandra, keyspace: str, number: int, kind: str
) -> None:
    failing = Failing(INVALID, 2, b"kind of ")
    with ChangingProxy(cassandra.contact_points[0], failing) as proxy:
        async with api.connect(proxy.contact_point, keyspace=keyspace) as client:
            prepared = await client.prepare(INSERT)
            batch = turbocql.Batch("unlogged")
            batch.add(prepared, (number, "kind of batch"))
            batch.add(INSERT, (number, "kind of batch"))
            text = f"INSERT INTO t (k, v) VALUES ({number}, 'kind of text')"
            statement, values = {
                "text": (text, None),
                "query": (turbocql.Query(text), None),
                "bound": (prepared.bind((number, "kind of bound")), None),
                "prepared": (prepared, (number, "kind of prepared")),
                "batch": (batch, None),
                "values": (INSERT, (number, "kind of values")),
            }[kind]
            failing.requests = 0
            decision = Decision()
            client.session.retry_when(decision)
            await client.execute(statement, values)
            assert [count for _, count in decision.asked] == [0, 1]
            failing.failures = 0
            expected = "text" if kind == "query" else kind
            assert (await client.execute(SELECT, (number,))).scalar() == f"kind of {expected}"


async def test_a_result_of_several_pages(api: Api, cassandra: Cassandra, keyspace: str) -> None:
    failing = Failing(OVERLOADED, 3, f"FROM {keyspace}".encode(), b"\xff\xff\xff\xfd")
    with ChangingProxy(cassandra.contact_points[0], failing) as proxy:
        async with api.connect(proxy.contact_point, retry="fallthrough") as client:
            client.session.retry_when(Decision())
            for statement, values in [
                (f"SELECT * FROM {keyspace}.t", None),
                (f"SELECT * FROM {keyspace}.t WHERE k > ? ALLOW FILTERING", (-3,)),
            ]:
                await client.prepare(statement)
                failing.requests = 0
                result = await client.execute(statement, values, page_size=1)
                assert len(await result.all()) >= 2
                assert failing.requests > 4


@pytest.mark.parametrize(
    ("options", "asked"), [({}, 0), ({"idempotent": True}, 2), ({"idempotent": False}, 0)]
)
async def test_a_write_that_may_have_applied(
    api: Api,
    cassandra: Cassandra,
    keyspace: str,
    number: int,
    options: dict[str, Any],
    asked: int,
) -> None:
    failing = Failing(WRITE_TIMEOUT, 2, b"late")
    with ChangingProxy(cassandra.contact_points[0], failing) as proxy:
        async with api.connect(
            proxy.contact_point, keyspace=keyspace, retry="fallthrough"
        ) as client:
            decision = Decision()
            client.session.retry_when(decision)
            call = client.execute(INSERT, (number, "late"), **options)
            if asked:
                await call
            else:
                with pytest.raises(errors.WriteTimeout) as caught:
                    await call
                assert caught.value.may_have_applied
                assert failing.requests == 1
            assert len(decision.asked) == asked


async def test_the_time_limit_is_kept(
    api: Api, cassandra: Cassandra, keyspace: str, number: int
) -> None:
    failing = Failing(INVALID, 1_000, b"limit")
    with ChangingProxy(cassandra.contact_points[0], failing) as proxy:
        async with api.connect(proxy.contact_point, keyspace=keyspace) as client:
            await client.prepare(INSERT)
            decision = Decision(0.2, most=1_000)
            client.session.retry_when(decision)
            began = time.monotonic()
            with pytest.raises(errors.InvalidQuery):
                await client.execute(INSERT, (number, "limit"), timeout_s=1.0)
            assert time.monotonic() - began < 5
            assert 2 <= len(decision.asked) <= 5
            decision.delay_s, decision.asked = 60.0, []
            began = time.monotonic()
            with pytest.raises(errors.InvalidQuery):
                await client.execute(INSERT, (number, "limit"), timeout_s=30.0)
            assert time.monotonic() - began < 5
            assert len(decision.asked) == 1


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ("soon", TypeError, "retry_when must return a number of seconds, or None, got str"),
        (True, TypeError, "retry_when must return a number of seconds, or None, got bool"),
        (-1, ValueError, "retry_when must return a number of seconds, or None, got -1.0"),
        (float("nan"), ValueError, "got NaN"),
        (float("inf"), ValueError, "got inf"),
    ],
)
async def test_a_wrong_result_of_the_function_raises(
    api: Api,
    cassandra: Cassandra,
    keyspace: str,
    answer: Any,
    error: type[Exception],
    message: str,
) -> None:
    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        client.session.retry_when(Decision(answer))
        with pytest.raises(error, match=message) as caught:
            await client.execute("SELECT nonsense FROM nowhere")
        assert isinstance(caught.value.__context__, errors.InvalidQuery)
        assert await client.idle()


async def test_an_exception_of_the_function_is_raised(
    api: Api, cassandra: Cassandra, keyspace: str
) -> None:
    class Odd(BaseException):
        pass

    def decide(error: errors.RequestError, count: int) -> float:
        raise Odd("decided nothing")

    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        client.session.retry_when(decide)
        with pytest.raises(Odd, match="decided nothing"):
            await client.execute("SELECT nonsense FROM nowhere")
        assert await client.idle()
        with pytest.raises(TypeError, match="retry_when takes a function of an error and a count"):
            client.session.retry_when(3)  # type: ignore[arg-type]


async def test_errors_before_the_request_do_not_call_the_function(
    api: Api, cassandra: Cassandra, keyspace: str, number: int
) -> None:
    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        decision = Decision()
        client.session.retry_when(decision)
        with pytest.raises(errors.EncodeError):
            await client.execute(INSERT, ("no int", "v"))
        with pytest.raises(TypeError):
            await client.execute(INSERT, (1, "v"), nonsense=1)
        assert decision.asked == []


async def test_a_call_that_waits_can_be_canceled(
    api: Api, cassandra: Cassandra, keyspace: str
) -> None:
    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        decision = Decision(5.0)
        client.session.retry_when(decision)
        if isinstance(client.session, turbocql.Session):
            # A synchronous call cannot be canceled. So the test closes the session instead.
            task = asyncio.ensure_future(client.execute("SELECT nonsense FROM nowhere"))
            while not decision.asked:
                await asyncio.sleep(0.01)
            await client.close(timeout_s=0)
            with pytest.raises(errors.Error):
                await asyncio.wait_for(task, 4)
        else:
            task = asyncio.ensure_future(client.execute("SELECT nonsense FROM nowhere"))
            while not decision.asked:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 4)
            assert await client.idle()
            client.session.retry_when(None)
            await client.execute("SELECT release_version FROM system.local")


async def test_a_session_that_is_closed_or_full_raises_the_last_error(
    api: Api, cassandra: Cassandra, keyspace: str
) -> None:
    odd = "SELECT nonsense FROM nowhere"
    async with api.connect(
        cassandra.contact_points, keyspace=keyspace, max_in_flight=1, when_full="raise"
    ) as client:
        decision = Decision(0.3, most=1)
        client.session.retry_when(decision)
        call = asyncio.ensure_future(client.execute(odd))
        assert await asyncio.to_thread(eventually, lambda: bool(decision.asked))

        # While a call waits to be sent again, it is not in flight. So other calls can fill the
        # session, whose `max_in_flight` is 1.
        others = [asyncio.ensure_future(client.execute("SELECT * FROM t")) for _ in range(200)]
        with pytest.raises(errors.InvalidQuery):
            await asyncio.wait_for(call, 10)
        await asyncio.gather(*others, return_exceptions=True)
        decision.delay_s, decision.asked = 30.0, []
        call = asyncio.ensure_future(client.execute(odd))
        assert await asyncio.to_thread(eventually, lambda: bool(decision.asked))
        await client.close(timeout_s=0)
        with pytest.raises(errors.InvalidQuery):
            await asyncio.wait_for(call, 10)


async def test_a_call_that_waits_for_room_raises_the_last_error(
    api: Api, cassandra: Cassandra, keyspace: str
) -> None:
    held = threading.Event()

    def change(answer: Answer) -> bytes:
        if answer.answers(QUERY, "FROM t WHERE k = -1"):
            held.wait(20)
        return answer.frame()

    with ChangingProxy(cassandra.contact_points[0], change) as proxy:
        async with api.connect(proxy.contact_point, keyspace=keyspace, max_in_flight=1) as client:
            decision = Decision(0.3)
            client.session.retry_when(decision)
            call = asyncio.ensure_future(client.execute("SELECT odd FROM t", timeout_s=2.0))
            assert await asyncio.to_thread(eventually, lambda: bool(decision.asked))
            holding = asyncio.ensure_future(client.execute("SELECT v FROM t WHERE k = -1"))
            try:
                with pytest.raises(errors.InvalidQuery):
                    await asyncio.wait_for(call, 10)
                assert len(decision.asked) == 1
            finally:
                held.set()
            await holding


def test_a_fork_in_the_function(cassandra: Cassandra) -> None:
    program = """
        import os, sys, turbocql, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        session = turbocql.connect(sys.argv[1:])
        child = None
        def decide(error, count):
            global child
            if child is None:
                child = os.fork()
            return 0.1 if count < 3 else None
        session.retry_when(decide)
        try:
            session.execute("SELECT nonsense FROM system.local")
        except turbocql.errors.InvalidQuery:
            print("raised", flush=True)
        if child:
            print(os.waitpid(child, 0)[1])
        else:
            os._exit(0)
    """
    assert run_python(program, *cassandra.contact_points).split() == ["raised", "raised", "0"]


async def test_a_function_that_cancels_its_call(cassandra: Cassandra) -> None:
    async with turbocql.aio.connect(cassandra.contact_points) as session:
        calls: list[asyncio.Task[Any]] = []

        def decide(error: errors.RequestError, count: int) -> float:
            calls[0].cancel()
            return 60.0

        session.retry_when(decide)
        calls.append(asyncio.ensure_future(session.execute("SELECT nonsense FROM nowhere")))
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(calls[0], 10)
        began = time.monotonic()
        await session.close()
        assert time.monotonic() - began < 10


async def test_a_request_that_is_sent_again_counts_each_time(
    api: Api, cassandra: Cassandra, keyspace: str
) -> None:
    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        client.session.retry_when(Decision(0.0, most=2))
        before = client.session.metrics()
        with pytest.raises(errors.InvalidQuery):
            await client.execute("SELECT nonsense FROM nowhere")
        change = client.session.metrics() - before
        assert (change.requests, change.errors) == (3, {"InvalidQuery": 3})


async def test_a_request_that_is_sent_again_has_a_span_of_its_own(
    api: Api, cassandra: Cassandra, keyspace: str, caplog: pytest.LogCaptureFixture
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        telemetry.instrument(client.session, tracer_provider=provider)
        client.session.retry_when(Decision(0.05, most=2))
        with caplog.at_level(logging.DEBUG, "turbocql.request"):
            with pytest.raises(errors.InvalidQuery):
                await client.execute("SELECT nonsense FROM nowhere", timeout_s=20)
            assert eventually(lambda: len(exporter.get_finished_spans()) == 6)
    spans = [span for span in exporter.get_finished_spans() if span.name == "SELECT"]
    counts = [(span.attributes or {}).get("turbocql.resend_count") for span in spans]
    assert counts == [None, 1, 2]
    assert [span.parent for span in spans] == [None] * 3
    ends = [span.end_time or 0 for span in spans]
    assert all((span.start_time or 0) >= end for span, end in zip(spans[1:], ends, strict=False))
    records = [record for record in caplog.records if getattr(record, "event", "") == "request"]
    assert [getattr(record, "resend_count", None) for record in records] == [None, 1, 2]


async def test_may_have_applied_stays_true_after_a_later_certain_failure(
    api: Api, cassandra: Cassandra, keyspace: str, number: int
) -> None:
    failing = Failing(WRITE_TIMEOUT, 2, b"doubt")

    def change(answer: Answer) -> bytes:
        if failing.requests == 1:
            failing.error = INVALID
        return failing(answer)

    with ChangingProxy(cassandra.contact_points[0], change) as proxy:
        async with api.connect(
            proxy.contact_point, keyspace=keyspace, retry="fallthrough"
        ) as client:
            client.session.retry_when(Decision(most=1))
            with pytest.raises(errors.InvalidQuery) as caught:
                await client.execute(INSERT, (number, "doubt"), idempotent=True)
            assert failing.requests == 2
            assert caught.value.may_have_applied
            assert (await client.execute(SELECT, (number,))).scalar() == "doubt"


async def test_the_function_may_raise_the_error_itself(
    api: Api, cassandra: Cassandra, keyspace: str
) -> None:
    def decide(error: errors.RequestError, count: int) -> float:
        raise error

    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        client.session.retry_when(decide)
        with pytest.raises(errors.InvalidQuery) as caught:
            await client.execute("SELECT nonsense FROM nowhere")
        assert caught.value.__context__ is not caught.value


async def test_the_schema_is_read_without_the_function(
    api: Api, cassandra: Cassandra, keyspace: str
) -> None:
    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        decision = Decision()
        client.session.retry_when(decision)
        # Some queries that read the schema fail, because Cassandra does not have their tables. The
        # session must not call the function for these errors.
        assert keyspace in (await client.schema(refresh=True)).keyspaces
        assert decision.asked == []
