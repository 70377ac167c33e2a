"""Tests the OpenTelemetry spans of requests, with the in-memory exporter of OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.apis import Api
from tests.support.changing_proxy import BATCH, ERROR, EXECUTE, Answer, ChangingProxy
from tests.support.children import run_python
from tests.support.nodes import eventually, paused

import turbocql
from turbocql import errors, telemetry
from turbocql._engines.traces import current_trace
from turbocql.testing import Cassandra

SELECT = "SELECT release_version FROM system.local WHERE key = ?"


class Exported:
    """Collects the spans of sessions."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("program")

    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def roots(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]

    def wait(self, holds: Callable[[], Any]) -> None:
        assert eventually(lambda: bool(holds())), [span.name for span in self.spans()]

    def children(self, parent: ReadableSpan) -> list[ReadableSpan]:
        of = parent.get_span_context()
        children = [s for s in self.spans() if s.parent and of and s.parent.span_id == of.span_id]
        return sorted(children, key=lambda span: span.start_time or 0)


@pytest.fixture
def exported() -> Exported:
    return Exported()


async def test_a_span_per_call(
    api: Api, cassandra: Cassandra, keyspace: str, exported: Exported
) -> None:
    async with api.connect(cassandra.contact_points, keyspace=keyspace) as client:
        session = client.session
        telemetry.instrument(session, tracer_provider=exported.provider)
        insert = await client.prepare("INSERT INTO kv (k, v) VALUES (?, ?)")
        with exported.tracer.start_as_current_span("parent") as parent:
            await client.execute(insert, (7_000_001, "secret"), consistency="ONE")
        name = f"INSERT {keyspace}.kv"
        exported.wait(lambda: exported.roots(name))
        (span,) = exported.roots(name)
        # The synchronous `Api` makes calls on another thread. This thread has another context, so
        # the span of the call has no parent.
        expected = parent.get_span_context() if api.name != "sync" else None
        assert span.parent == expected
        assert span.kind == trace.SpanKind.CLIENT
        (node,) = session.nodes
        attributes = dict(span.attributes or {})
        assert attributes == {
            "db.system.name": "cassandra",
            "db.operation.name": "INSERT",
            "db.namespace": keyspace,
            "db.collection.name": "kv",
            "db.query.summary": name,
            "db.query.text": insert.text,
            "cassandra.consistency.level": "one",
            "cassandra.query.idempotent": False,
            "cassandra.speculative_execution.count": 0,
            "cassandra.coordinator.dc": node.datacenter,
            "server.address": str(node.address),
            "server.port": node.port,
            "network.peer.address": str(node.address),
            "network.peer.port": node.port,
        }
        (attempt,) = exported.children(span)
        assert (attempt.name, (attempt.attributes or {})["turbocql.attempt"]) == ("attempt", 1)
        assert span.start_time <= attempt.start_time <= attempt.end_time <= span.end_time  # type: ignore[operator]
        # The span of a failed call has the statement's text without its literals.
        with pytest.raises(errors.InvalidQuery):
            await client.execute("SELECT nothing FROM kv WHERE v = 'secret'")
        exported.wait(lambda: exported.roots("SELECT"))
        (failed,) = exported.roots("SELECT")
        attributes = dict(failed.attributes or {})
        assert attributes["error.type"] == "InvalidQuery"
        assert attributes["db.response.status_code"] == "0x2200"
        assert failed.status.status_code == trace.StatusCode.ERROR
        assert failed.parent is None
        # The span of a batch has the number of its statements.
        batch = turbocql.Batch()
        for key in range(3):
            batch.add(insert, (7_000_001 + key, "secret"))
        await client.execute(batch)
        exported.wait(lambda: exported.roots("BATCH"))
        assert (exported.roots("BATCH")[0].attributes or {})["db.operation.batch.size"] == 3
        assert all("secret" not in span.to_json() for span in exported.spans())
        # Without instrumentation, calls make no spans.
        telemetry.uninstrument(session)
        before = len(exported.spans())
        await client.execute(insert, (7_000_001, "a"))
    assert len(exported.spans()) == before


def test_pages_are_children(cassandra: Cassandra, keyspace: str, exported: Exported) -> None:
    with turbocql.connect(cassandra.contact_points, keyspace=keyspace) as session:
        rows = [(7_100_000 + key, "p") for key in range(30)]
        session.execute_many("INSERT INTO kv (k, v) VALUES (?, ?)", rows)
        telemetry.instrument(session, tracer_provider=exported.provider)
        select = session.prepare(f"SELECT k FROM kv WHERE k IN ({str([k for k, _ in rows])[1:-1]})")
        assert len(list(session.execute(select, page_size=10))) == 30
        name = f"SELECT {keyspace}.kv"
        exported.wait(lambda: len(exported.roots(f"{name} page")) >= 2)
        (first,) = exported.roots(name)
        pages = [span for span in exported.children(first) if span.name == f"{name} page"]
        assert pages == exported.roots(f"{name} page")
        attributes: Any = [span.attributes for span in (first, *pages)]
        assert sum(each["db.response.returned_rows"] for each in attributes) == 30


def test_a_bulk_is_one_span(cassandra: Cassandra, keyspace: str, exported: Exported) -> None:
    def change(answer: Answer) -> bytes:
        if answer.answers(EXECUTE, "fails"):
            return answer.with_body(struct.pack(">iH", 0x2200, 3) + b"bad", opcode=ERROR).frame()
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point, keyspace=keyspace) as session,
    ):
        telemetry.instrument(session, tracer_provider=exported.provider)
        rows = [(7_200_000 + key, "fails" if key % 100 == 0 else "a") for key in range(5000)]
        with exported.tracer.start_as_current_span("parent") as parent:
            session.execute_many("INSERT INTO kv (k, v) VALUES (?, ?)", rows, raise_failures=False)
        name = f"INSERT {keyspace}.kv"
        exported.wait(lambda: exported.roots(name))
        (span,) = exported.roots(name)
        assert span.parent == parent.get_span_context()
        attributes = span.attributes or {}
        assert attributes["db.operation.batch.size"] == 5000
        assert attributes["turbocql.failed_rows"] == 50
        assert len(span.events) == 20
        assert {(event.attributes or {})["error.type"] for event in span.events} == {"InvalidQuery"}
        assert exported.children(span) == []


def test_attempts_are_siblings(cassandra_three: Cassandra, exported: Exported) -> None:
    speculation = turbocql.ConstantSpeculation(delay_s=0.05, max_attempts=2)
    with turbocql.connect(
        cassandra_three.contact_points,
        keepalive_interval_s=600,
        speculation=speculation,
        balancing=turbocql.Balancing(avoid_silent=False),
    ) as session:
        assert eventually(lambda: all(node.connected for node in session.nodes))
        telemetry.instrument(session, tracer_provider=exported.provider)
        select = session.prepare("SELECT release_version FROM system.local")
        with paused(cassandra_three.nodes[0]):
            for _ in range(12):
                session.execute(select, timeout_s=10)
        name = "SELECT system.local"
        exported.wait(lambda: len(exported.roots(name)) == 12)
        several = [span for span in exported.roots(name) if len(exported.children(span)) > 1]
        assert several
        attempts = exported.children(several[0])
        first, second = attempts[0], attempts[1]
        assert (first.attributes or {})["server.address"] == str(cassandra_three.nodes[0].address)
        assert (first.attributes or {})["turbocql.attempt.abandoned"]
        assert "turbocql.attempt.abandoned" not in (second.attributes or {})
        assert 0.04e9 < second.start_time - first.start_time < 2e9  # type: ignore[operator]
        assert (several[0].attributes or {})["cassandra.speculative_execution.count"] >= 1  # type: ignore[operator]


def test_a_request_that_is_canceled(cassandra: Cassandra, exported: Exported) -> None:
    async def cancel(point: str) -> None:
        async with turbocql.aio.connect(point) as session:
            telemetry.instrument(session, tracer_provider=exported.provider)
            prepared = await session.prepare(SELECT)
            batch = turbocql.Batch("unlogged")
            batch.add("INSERT INTO nowhere.t (k) VALUES (1)")
            with exported.tracer.start_as_current_span("program"):
                for call in [session.execute(prepared, ("local",)), session.execute(batch)]:
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(call, 0.2)

    def change(answer: Answer) -> bytes:
        if answer.answers(EXECUTE, "local") or answer.request_opcode == BATCH:
            time.sleep(0.5)
        return answer.frame()

    with ChangingProxy(cassandra.contact_points[0], change) as proxy:
        asyncio.run(cancel(proxy.contact_point))
        names = ["SELECT system.local", "BATCH"]
        exported.wait(lambda: all(exported.roots(name) for name in names))
    (program,) = exported.roots("program")
    assert [span.name for span in exported.children(program)] == names
    for span in exported.children(program):
        assert (span.attributes or {})["error.type"] == "canceled"
        assert span.status.status_code == trace.StatusCode.ERROR
        (attempt,) = exported.children(span)
        assert (attempt.attributes or {})["turbocql.attempt.abandoned"] is True
        assert 0.1e9 < (span.end_time or 0) - (span.start_time or 0) < 0.5e9


def test_a_bulk_that_is_canceled(cassandra: Cassandra, keyspace: str, exported: Exported) -> None:
    async def cancel() -> None:
        async with turbocql.aio.connect(cassandra.contact_points, keyspace=keyspace) as session:
            telemetry.instrument(session, tracer_provider=exported.provider)
            rows = ((7_000_000 + number, "v") for number in range(10_000_000))
            call = session.execute_many("INSERT INTO kv (k, v) VALUES (?, ?)", rows)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(call, 0.5)
            name = f"INSERT {keyspace}.kv"
            exported.wait(lambda: exported.roots(name))

    asyncio.run(cancel())
    (span,) = exported.spans()
    assert (span.attributes or {})["error.type"] == "canceled"
    assert span.status.status_code == trace.StatusCode.ERROR


def test_calls_that_end_before_their_request_is_sent(
    cassandra: Cassandra, exported: Exported
) -> None:
    answers = threading.Event()

    def change(answer: Answer) -> bytes:
        if answer.answers(EXECUTE, "local"):
            answers.wait(20)
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point, max_in_flight=1) as session,
        ThreadPoolExecutor(1) as pool,
    ):
        prepared = session.prepare(SELECT)
        telemetry.instrument(session, tracer_provider=exported.provider)
        holding = pool.submit(session.execute, prepared, ("local",), timeout_s=30)
        assert eventually(lambda: session.in_flight > 0)
        try:
            with pytest.raises(errors.RequestTimeout, match="the session is full"):
                session.execute(prepared, ("local",), timeout_s=0.3)
            with pytest.raises(errors.RequestTimeout, match="the session is full"):
                session.execute(turbocql.Batch(), timeout_s=0.1)
        finally:
            answers.set()
        holding.result()
        with pytest.raises(errors.InvalidQuery):
            session.execute("SELECT nonsense FROM system.local WHERE key = ?", ("local",))
        exported.wait(lambda: exported.roots("SELECT") and exported.roots("BATCH"))
    # Two spans have this name. The call that was never sent ended first, so its span comes first.
    full, _ = exported.roots("SELECT system.local")
    (unprepared,) = exported.roots("SELECT")
    assert (full.attributes or {})["error.type"] == "RequestTimeout"
    assert (full.end_time or 0) - (full.start_time or 0) > 0.2e9
    assert (unprepared.attributes or {})["error.type"] == "InvalidQuery"
    for span in [full, unprepared, *exported.roots("BATCH")]:
        assert exported.children(span) == []
        assert "server.address" not in (span.attributes or {})


def test_a_call_that_a_full_session_refuses(cassandra: Cassandra, exported: Exported) -> None:
    async def refuse() -> None:
        async with turbocql.aio.connect(
            cassandra.contact_points, max_in_flight=1, when_full="raise"
        ) as session:
            telemetry.instrument(session, tracer_provider=exported.provider)
            text = "SELECT rack FROM system.local"
            results = await asyncio.gather(
                *(session.execute(text) for _ in range(2)), return_exceptions=True
            )
            assert [type(result) is errors.SessionFull for result in results] == [False, True]

    asyncio.run(refuse())
    exported.wait(lambda: len(exported.roots("SELECT")) == 2)
    types = {(span.attributes or {}).get("error.type") for span in exported.roots("SELECT")}
    assert types == {None, "SessionFull"}


def test_durations_and_threads(cassandra: Cassandra, exported: Exported) -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader])
    with turbocql.connect(cassandra.contact_points) as session:
        telemetry.instrument(
            session, tracer_provider=exported.provider, meter_provider=meters, texts=False
        )

        def work(number: int) -> None:
            with exported.tracer.start_as_current_span(f"thread {number}"):
                for _ in range(10):
                    session.execute(SELECT, ("local",))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(exported.roots("SELECT system.local")) == 40
    for number in range(4):
        (parent,) = exported.roots(f"thread {number}")
        assert len(exported.children(parent)) == 10
    assert "db.query.text" not in (exported.roots("SELECT system.local")[0].attributes or {})
    data: Any = reader.get_metrics_data()
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit) == ("db.client.operation.duration", "s")
    (point,) = metric.data.data_points
    assert point.count == 40
    assert point.explicit_bounds == (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
    assert point.attributes["db.collection.name"] == "local"


def test_current_trace_returns_the_headers_for_workers(exported: Exported) -> None:
    assert current_trace() == {}
    with exported.tracer.start_as_current_span("job") as job:
        context = job.get_span_context()
        carried = current_trace()
    assert list(carried) == ["traceparent"]
    ids = f"00-{context.trace_id:032x}-{context.span_id:016x}-"
    assert carried["traceparent"].startswith(ids)


def test_calls_within_a_trace_of_another_process(cassandra: Cassandra) -> None:
    program = """
        import sys
        import turbocql
        from turbocql._engines.traces import within_trace
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        carried = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}
        with turbocql.connect(sys.argv[1:]) as session:
            for _ in range(2):
                with within_trace(session, carried):
                    session.execute("SELECT key FROM system.local")
            session.execute("SELECT host_id FROM system.local")
        for span in exporter.get_finished_spans():
            if span.name != "attempt":
                print(span.parent and (hex(span.parent.trace_id), hex(span.parent.span_id)))
    """
    parent = ("0x" + "a" * 32, "0x" + "b" * 16)
    printed = run_python(program, *cassandra.contact_points)
    assert printed.splitlines() == [str(parent), str(parent), "None"]


def test_a_worker_without_opentelemetry_makes_no_spans(cassandra: Cassandra) -> None:
    program = """
        import sys
        import turbocql
        from turbocql._engines.traces import within_trace

        sys.modules["opentelemetry"] = None
        with turbocql.connect(sys.argv[1:]) as session:
            with within_trace(session, {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}):
                print(session.execute("SELECT key FROM system.local").scalar())
    """
    assert run_python(program, *cassandra.contact_points) == "local\n"


def test_reading_the_current_trace_imports_no_opentelemetry() -> None:
    program = """
        import sys
        from turbocql._engines.traces import current_trace
        print(current_trace(), [name for name in sys.modules if "opentelemetry" in name])
    """
    assert run_python(program) == "{} []\n"


def test_importing_turbocql_imports_no_opentelemetry() -> None:
    program = """
        import sys, turbocql, turbocql.telemetry, turbocql.aio
        print([name for name in sys.modules if "opentelemetry" in name or "prometheus" in name])
    """
    assert run_python(program) == "[]\n"
    assert "opentelemetry" in sys.modules
