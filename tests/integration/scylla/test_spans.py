"""Tests that spans of attempts have the shard that got the request, on a simulated ScyllaDB."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import turbocql
from turbocql import telemetry
from turbocql.testing import Scylla

from .arrivals import arrived, wait_until

KEYS = 40


def test_an_attempt_has_the_shard_that_received_it(
    scylla: Scylla, session: turbocql.Session
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    prepared = session.prepare("SELECT a FROM vnodes.t WHERE id = ?")
    telemetry.instrument(session, tracer_provider=provider)

    def read() -> None:
        for key in range(KEYS):
            session.execute(prepared, (key,))

    requests = arrived(scylla, read)
    wait_until(lambda: len(exporter.get_finished_spans()) == 2 * KEYS)
    spans = [span for span in exporter.get_finished_spans() if span.name == "attempt"]
    shards = [(span.attributes or {}).get("turbocql.attempt.shard") for span in spans]
    # The third node announces no shards.
    assert shards == [None if request.node == 2 else request.shard for request in requests]
    assert len(set(shards)) > 3
