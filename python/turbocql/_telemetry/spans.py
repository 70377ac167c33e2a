"""Makes OpenTelemetry's spans for a session's ended requests, and records their durations."""

from __future__ import annotations

import re
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["Spans", "trace_context"]

_NAME = "turbocql"
_BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
"""The bounds of the buckets that OpenTelemetry's semantic conventions name for the histogram
`db.client.operation.duration`."""
_MOST_PAGES = 100
"""The maximum number of child spans for the pages and ranges of one call."""
_MOST_FAILURES = 20
"""The maximum number of events for failed requests in the span of a bulk call."""


def trace_context() -> dict[str, bytes] | None:
    """Returns the context of the current span as fields of W3C's Trace Context; `None` without a
    span.
    """
    fields: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(fields)
    return {name: value.encode() for name, value in fields.items()} or None


class _Call:
    """The state that the requests of one call share."""

    __slots__ = ("failures", "pages", "span_context")

    def __init__(self) -> None:
        self.span_context: SpanContext | None = None
        """The context of the first request's span, which is the parent of the spans of later pages.
        """
        self.pages = 0
        self.failures: list[tuple[int, str]] = []
        """The first failures of a bulk call's requests: pairs of a time and an error's class."""


class Spans:
    """Makes spans from events, on the thread that delivers the events. The tracer provider decides
    which spans are sampled.
    """

    def __init__(
        self, release: str, tracer_provider: Any, meter_provider: Any, texts: bool
    ) -> None:
        self._tracer: Tracer = trace.get_tracer(_NAME, release, tracer_provider)
        meter = metrics.get_meter(_NAME, release, meter_provider)
        self._durations = meter.create_histogram(
            "db.client.operation.duration",
            unit="s",
            description="Duration of database client operations.",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._texts = texts

    def record(
        self,
        time_s: float,
        node: str | None,
        datacenter: str | None,
        fields: dict[str, Any],
        origin: Any,
    ) -> None:
        """Makes the spans of a request that has ended at `time_s`."""
        attributes, summary = _attributes(node, datacenter, fields, self._texts)
        ended_ns = int(time_s * 1e9)
        sent_ns = ended_ns - int(fields["duration_s"] * 1e9)
        began_ns = sent_ns - int(fields.get("waited_s", 0.0) * 1e9)
        if origin is not None and origin.resend_count:
            # `waited_s` includes the time of the call's earlier requests. These requests have spans
            # of their own, so this span begins when this request was sent.
            began_ns = sent_ns
            attributes["turbocql.resend_count"] = origin.resend_count
        measured: dict[str, Any] = {
            name: attributes[name]
            for name in (
                "db.system.name",
                "db.namespace",
                "db.collection.name",
                "db.operation.name",
                "error.type",
                "server.address",
                "server.port",
            )
            if name in attributes
        }
        if fields["attempts"]:
            self._durations.record(fields["duration_s"], measured)
        parent = contexts.Context() if origin is None else origin.context.run(contexts.get_current)
        call = _Call() if origin is None else origin.call or _Call()
        if origin is not None:
            origin.call = call
        if call.span_context is not None:
            call.pages += 1
            if call.pages > _MOST_PAGES:
                return
            parent = trace.set_span_in_context(NonRecordingSpan(call.span_context), parent)
            summary = f"{summary} page"
        span = self._tracer.start_span(
            summary, parent, SpanKind.CLIENT, attributes, start_time=began_ns
        )
        call.span_context = call.span_context or span.get_span_context()
        if span.is_recording():
            self._attempts(span, parent, fields, sent_ns, ended_ns)
        if "error" in fields:
            span.set_status(Status(StatusCode.ERROR, fields["error"]))
        span.end(ended_ns)

    def record_failed_row(self, time_s: float, fields: dict[str, Any], origin: Any) -> None:
        """Stores the failure of a request of a bulk call, for the span of the call."""
        if origin is None or "error" not in fields:
            return
        origin.call = origin.call or _Call()
        if len(origin.call.failures) < _MOST_FAILURES:
            origin.call.failures.append((int(time_s * 1e9), fields["error"]))

    def record_bulk(self, time_s: float, fields: dict[str, Any], origin: Any) -> None:
        """Makes the span of a bulk call that has ended at `time_s`."""
        attributes, summary = _attributes(None, None, fields, self._texts)
        attributes["db.operation.batch.size"] = fields["statements"]
        attributes["turbocql.failed_rows"] = fields["failed"]
        ended_ns = int(time_s * 1e9)
        span = self._tracer.start_span(
            summary,
            contexts.Context() if origin is None else origin.context.run(contexts.get_current),
            SpanKind.CLIENT,
            attributes,
            start_time=ended_ns - int(fields["duration_s"] * 1e9),
        )
        if origin is not None and origin.call is not None:
            for failed_ns, error in origin.call.failures:
                span.add_event("request failed", {"error.type": error}, failed_ns)
        if fields["canceled"]:
            span.set_attribute("error.type", "canceled")
            span.set_status(Status(StatusCode.ERROR, "canceled"))
        elif fields["failed"] or fields["stopped"]:
            span.set_status(Status(StatusCode.ERROR, f"{fields['failed']} rows failed"))
        span.end(ended_ns)

    def _attempts(
        self,
        span: Span,
        parent: contexts.Context,
        fields: dict[str, Any],
        sent_ns: int,
        ended_ns: int,
    ) -> None:
        """Makes a child span for each attempt, so retries and speculative attempts are siblings."""
        inside = trace.set_span_in_context(span, parent)
        attempts = fields["attempts"]
        shards = fields.get("shards", [None] * len(attempts))
        for number, ((node, began, ended, error), shard) in enumerate(
            zip(attempts, shards, strict=True), 1
        ):
            attributes = {**_peer(node), "turbocql.attempt": number}
            if shard is not None:
                attributes["turbocql.attempt.shard"] = shard
            if ended is None:
                attributes["turbocql.attempt.abandoned"] = True
            child = self._tracer.start_span(
                "attempt",
                inside,
                SpanKind.CLIENT,
                attributes,
                start_time=sent_ns + int(began * 1e9),
            )
            if error is not None:
                child.set_status(Status(StatusCode.ERROR, error))
            child.end(ended_ns if ended is None else sent_ns + int(ended * 1e9))


def _peer(node: str) -> dict[str, Any]:
    host, _, port = node.rpartition(":")
    host = host.strip("[]")
    return {
        "server.address": host,
        "server.port": int(port),
        "network.peer.address": host,
        "network.peer.port": int(port),
    }


def _attributes(
    node: str | None, datacenter: str | None, fields: dict[str, Any], texts: bool
) -> tuple[dict[str, Any], str]:
    """Returns the attributes of a request's span, and the span's name. Both follow OpenTelemetry's
    semantic conventions.
    """
    statement = fields.get("statement", "")
    is_batch = fields["kind"] == "batch" and not fields.get("bulk")
    word = re.match(r"\s*(\w+)", statement)
    operation = "BATCH" if is_batch else word[1].upper() if word else fields["kind"].upper()
    attributes: dict[str, Any] = {"db.system.name": "cassandra", "db.operation.name": operation}
    table = ".".join(fields[name] for name in ("keyspace", "table") if name in fields)
    summary = f"{operation} {table}" if table else operation
    attributes["db.query.summary"] = summary
    if texts and statement:
        attributes["db.query.text"] = statement
    for name, attribute in (
        ("keyspace", "db.namespace"),
        ("table", "db.collection.name"),
        ("rows", "db.response.returned_rows"),
        ("idempotent", "cassandra.query.idempotent"),
        ("speculative", "cassandra.speculative_execution.count"),
        ("error", "error.type"),
    ):
        if name in fields:
            attributes[attribute] = fields[name]
    if is_batch and fields.get("statements", 0) > 1:
        attributes["db.operation.batch.size"] = fields["statements"]
    if "consistency" in fields:
        attributes["cassandra.consistency.level"] = fields["consistency"].lower()
    if "error_code" in fields:
        attributes["db.response.status_code"] = f"0x{fields['error_code']:04X}"
    if datacenter is not None:
        attributes["cassandra.coordinator.dc"] = datacenter
    if node is not None:
        attributes |= _peer(node)
    return attributes, summary
