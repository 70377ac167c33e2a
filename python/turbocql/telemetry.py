"""A session's metrics, as plain data and for Prometheus, and its spans for OpenTelemetry.

The counters are always on. Events of connections and nodes, and slow requests, are reported to
`logging`, by the loggers `turbocql.connection`, `turbocql.cluster` and `turbocql.request`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from . import _core
from ._telemetry.errors import class_name
from ._telemetry.streams import AsyncEventStream, EventStream

if TYPE_CHECKING:
    from typing import TypeAlias

    from .aio import AsyncSession
    from .cluster import Node
    from .session import Session

    OneSession: TypeAlias = Session[Any] | AsyncSession[Any]
    Sessions: TypeAlias = OneSession | Mapping[str, OneSession]

__all__ = [
    "AsyncEventStream",
    "Collector",
    "EventStream",
    "Histogram",
    "KindMetrics",
    "Metrics",
    "NodeMetrics",
    "instrument",
    "prometheus_text",
    "uninstrument",
]


@dataclass(frozen=True, repr=False)
class Histogram:
    """Durations, counted in buckets.

    Each interval between two powers of two is divided into four buckets, so a quantile is too high
    by at most a quarter.
    """

    BOUNDS_US = tuple(_core.latency_bounds_us())
    """The upper bounds of the buckets, in microseconds. The last bucket has no upper bound: it
    counts the durations of 134 s and longer."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_US) + 1)
    """The number of durations in each bucket."""
    sum_us: int = 0
    """The sum of the durations, in microseconds."""

    def __repr__(self) -> str:
        return (
            f"<Histogram of {self.count} durations, p50 {self.quantile_us(0.5)} us,"
            f" p99 {self.quantile_us(0.99)} us>"
        )

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts)

    @property
    def mean_us(self) -> float | None:
        """The mean in microseconds; `None` if there are no durations."""
        return self.sum_us / self.count if self.count else None

    def quantile_us(self, quantile: float) -> int | None:
        """Returns the upper bound, in microseconds, of the bucket in which a quantile is. At least
        the share `quantile` of the durations, such as 0.99, is not longer than this bound. If the
        quantile is in the last bucket, returns 134 s. Without any durations, returns `None`.
        """
        if not 0 <= quantile <= 1:
            raise ValueError(f"a quantile must be between 0 and 1, got {quantile!r}")
        rank = quantile * self.count
        for bound, count in zip(self.BOUNDS_US, accumulate(self.counts), strict=False):
            if count >= rank and count:
                return bound
        return self.BOUNDS_US[-1] if self.count else None

    def __add__(self, other: Histogram) -> Histogram:
        if not isinstance(other, Histogram):
            return NotImplemented
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Histogram(counts, self.sum_us + other.sum_us)

    def __radd__(self, other: object) -> Histogram:
        # `sum` begins with 0.
        return self if other == 0 else NotImplemented

    def __sub__(self, earlier: Histogram) -> Histogram:
        if not isinstance(earlier, Histogram):
            return NotImplemented
        counts = tuple(a - b for a, b in zip(self.counts, earlier.counts, strict=True))
        return Histogram(counts, self.sum_us - earlier.sum_us)


@dataclass(frozen=True)
class KindMetrics:
    """The requests of one kind."""

    requests: int = 0
    """Requests that have ended. Each page of a result is a request of its own, and so is each row
    of values of an `execute_many`, or each batch of such rows."""
    failed: int = 0
    """Requests that have ended with an error, after all their attempts."""
    latency: Histogram = Histogram()
    """The times from sending a request to its answer or error, over all attempts. They do not
    include the time before the request was sent. In that time, the call prepared its statement, or
    waited because the session was full (as many requests or bytes were in flight as its settings
    allow)."""

    def __sub__(self, earlier: KindMetrics) -> KindMetrics:
        difference: KindMetrics = _difference(self, earlier)
        return difference


@dataclass(frozen=True)
class NodeMetrics:
    """What the session has counted for one node."""

    datacenter: str | None = None
    state: str = field(default="unknown", metadata={"now": True})
    """`up`, `down`, `silent`, `not used` (outside an allow-list), or `unknown` for an address that
    belongs to no node of the cluster."""
    attempts: int = 0
    """Attempts sent. A request that is retried or speculated has several."""
    failed: int = 0
    """Attempts that ended with an error, even if a retry succeeded."""
    abandoned: int = 0
    """Attempts whose answer nobody waits for any more: the deadline passed, the call was canceled,
    or another attempt was answered first."""
    in_flight: int = field(default=0, metadata={"now": True})
    """Attempts that wait for an answer now. Abandoned attempts are not counted here."""
    connections: int = field(default=0, metadata={"now": True})
    """Connections open now, including the one that receives the cluster's events."""
    opened: int = 0
    """Connections opened."""
    refused: int = 0
    """Connections that could not be opened."""
    lost: int = 0
    """Connections that an error has ended."""
    sent_bytes: int = 0
    """Bytes of frames sent, before TLS."""
    received_bytes: int = 0
    """Bytes of frames received."""
    latencies: Mapping[str, Histogram] = field(default_factory=dict)
    """The latencies of successful attempts, by the kind of request."""

    def __sub__(self, earlier: NodeMetrics) -> NodeMetrics:
        difference: NodeMetrics = _difference(self, earlier)
        return difference


@dataclass(frozen=True)
class Metrics:
    """What a session has counted since it was opened.

    If `earlier` and `later` are two `Metrics` of a session, `later - earlier` has the counts of the
    time between the two. Some figures are not counts, and the difference has their values of
    `later`: `in_flight`, `in_flight_bytes`, `waiting`, and a node's `state`, `in_flight` and
    `connections`.

    The network engine is the ScyllaDB driver for Rust, with turbocql's edits. In builds without
    these edits, the figures of connections, bytes, and statements prepared again are 0.
    """

    uptime_s: float = 0.0
    """Seconds since the session was opened."""
    kinds: Mapping[str, KindMetrics] = field(default_factory=dict)
    """The requests by kind: `read`, `write`, `conditional`, `batch` and `schema` (`CREATE`,
    `ALTER`, `DROP` and `USE`). The text of the statement determines its kind."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """The errors of requests, by the name of their class in [`turbocql.errors`][turbocql.errors].
    Errors before a request is sent, such as `EncodeError` for a value, do not count."""
    timeouts: Mapping[str, int] = field(default_factory=dict)
    """The number of deadlines that passed at each step at which a call can wait: `queue` (the
    session is full), `prepare`, `answer` and, after the answer, `agreement` (until all nodes have
    the changed schema)."""
    canceled: int = 0
    """Requests that the program gave up."""
    retries: int = 0
    """Decisions to send a request again after a failed attempt."""
    speculative: int = 0
    """Attempts begun because an earlier attempt of the request was slow."""
    rows: int = 0
    """Rows received."""
    pages: int = 0
    """Pages of rows received, first pages included."""
    prepared: int = 0
    """Statements that the session prepared."""
    prepared_again: int = 0
    """Statements prepared again at a node that had forgotten them."""
    cache_hits: int = 0
    """Statements that needed no preparing, because they were in the session's cache."""
    connection_timeouts: int = 0
    """Connections that could not be opened in time."""
    dropped_events: int = 0
    """Events that were not logged, because the handlers of `logging` were too slow."""
    in_flight: int = field(default=0, metadata={"now": True})
    """Requests in flight now, including those for the rows of an `execute_many`."""
    in_flight_bytes: int = field(default=0, metadata={"now": True})
    """Bytes of the values of the requests in flight now."""
    waiting: int = field(default=0, metadata={"now": True})
    """Calls that wait now, because the session is full."""
    nodes: Mapping[str, NodeMetrics] = field(default_factory=dict)
    """The figures of each node, by `address:port`. A node that leaves the cluster is forgotten."""

    @property
    def requests(self) -> int:
        """The requests of all kinds that have ended."""
        return sum(kind.requests for kind in self.kinds.values())

    @property
    def failures(self) -> int:
        """The requests of all kinds that have ended with an error."""
        return sum(kind.failed for kind in self.kinds.values())

    @property
    def connections(self) -> int:
        """The connections to all nodes that are open now."""
        return sum(node.connections for node in self.nodes.values())

    @property
    def latency(self) -> Histogram:
        """The latencies of the requests of all kinds."""
        return sum((kind.latency for kind in self.kinds.values()), Histogram())

    def __sub__(self, earlier: Metrics) -> Metrics:
        difference: Metrics = _difference(self, earlier)
        return difference


def _difference(later: Any, earlier: Any) -> Any:
    """Returns the figures of `later` minus those of `earlier`. Figures that are not counts, such as
    `in_flight`, are taken from `later`.
    """
    if type(later) is not type(earlier):
        return NotImplemented
    changes: dict[str, Any] = {}
    for each in fields(later):
        now, before = getattr(later, each.name), getattr(earlier, each.name)
        if isinstance(now, str) or now is None or each.metadata.get("now"):
            changes[each.name] = now
        elif isinstance(now, Mapping):
            changes[each.name] = {
                name: _change(figure, before[name]) if name in before else figure
                for name, figure in now.items()
            }
        else:
            changes[each.name] = _change(now, before)
    return type(later)(**changes)


def _change(now: Any, before: Any) -> Any:
    """Returns `now` minus `before`, or `now` if it is less than `before`. A figure decreases only
    if its node was forgotten and has come back: the figure is then counted from 0 again.
    """
    if isinstance(now, Histogram):
        return now - before if now.count >= before.count else now
    return now - before if not isinstance(now, (int, float)) or now >= before else now


def _metrics(figures: dict[str, Any], nodes: Iterable[Node]) -> Metrics:
    """Makes `Metrics` from the native core's figures."""
    errors: dict[str, int] = {}
    for kind, code, count in figures.pop("errors"):
        name = class_name(kind, code)
        errors[name] = errors.get(name, 0) + count
    counted, by_address = figures.pop("nodes"), {node.at: node for node in nodes}
    return Metrics(
        kinds={
            name: KindMetrics(requests, failed, _histogram(latency))
            for name, (requests, failed, latency) in figures.pop("kinds").items()
        },
        errors=dict(errors),
        timeouts=dict(dict(figures.pop("timeouts"))),
        nodes={
            at: _node_metrics(counted.get(at, {}), by_address.get(at))
            for at in sorted({*counted, *by_address})
        },
        **figures,
    )


def _node_metrics(figures: dict[str, Any], node: Node | None) -> NodeMetrics:
    latencies = {name: _histogram(each) for name, each in figures.pop("latencies", {}).items()}
    return NodeMetrics(
        datacenter=None if node is None else node.datacenter,
        state="unknown" if node is None else node.state,
        latencies=dict(latencies),
        **figures,
    )


def _histogram(figures: tuple[list[int], int]) -> Histogram:
    counts, sum_us = figures
    return Histogram(tuple(counts), sum_us)


def prometheus_text(sessions: Sessions) -> str:
    """Returns the metrics of a session in Prometheus's text format, for `GET /metrics`.

    With a mapping of names to sessions, each sample has the label `session`.

    Content type: `text/plain; version=0.0.4`.
    """
    from ._telemetry.prometheus import text

    return "\n".join([*text(_families(sessions)), ""])


class Collector:
    """A collector for `prometheus_client`: `REGISTRY.register(Collector(session))`.

    With a mapping of names to sessions, each sample has the label `session`. Each call of `collect`
    reads the metrics anew.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def describe(self) -> list[Any]:
        """Returns no families, so that registering reads no metrics."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yields the metrics as families of `prometheus_client`."""
        from prometheus_client.core import Metric  # type: ignore[import-not-found, unused-ignore]

        for family in _families(self._sessions):
            metric = Metric(family.name, family.help, family.type)
            for suffix, labels, value in family.samples:
                metric.add_sample(family.name + suffix, labels, value)
            yield metric


def instrument(
    session: OneSession,
    *,
    tracer_provider: Any = None,
    meter_provider: Any = None,
    texts: bool = True,
    traceparent: bool = False,
) -> None:
    """Makes OpenTelemetry's spans for a session's requests, and records the metric
    `db.client.operation.duration`.

    Each call has a span, whose parent is the span that is current where the call is made. The span
    of a call has a child for each attempt, and one for each later page of the result. An
    `execute_many` is one span. Names and attributes follow the semantic conventions for database
    clients and for Cassandra. The spans are made when a request has ended, on the thread
    `turbocql-log`, with the times of the request.

    The providers are OpenTelemetry's global ones unless they are passed. `texts` says whether
    spans have `db.query.text`, which is the statement without its literals. With `traceparent`, the
    custom payload of a request has the entries `traceparent` and `tracestate`. They describe the
    span that is current where the call is made. A query handler of the server can read them.

    Raises: `ImportError` when the package `opentelemetry-api` is not installed.
    """
    from ._telemetry.spans import Spans, trace_context

    spans = Spans(_core.VERSION, tracer_provider, meter_provider, texts)
    session._core.trace_context(trace_context if traceparent else None)
    session._logs.make_spans(spans)


def uninstrument(session: OneSession) -> None:
    """Stops what `instrument` has started: no further spans of a session's requests are made."""
    session._core.trace_context(None)
    session._logs.make_spans(None)


def _families(sessions: Sessions) -> list[Any]:
    from ._telemetry.prometheus import families

    named = sessions.items() if isinstance(sessions, Mapping) else [("", sessions)]
    return families(
        ({"session": str(name)} if name != "" else {}, session.metrics()) for name, session in named
    )
