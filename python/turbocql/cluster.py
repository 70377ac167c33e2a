"""The cluster as the driver sees it: nodes, replicas, request traces and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

__all__ = ["Latencies", "Metrics", "Node", "Replica", "Trace", "TraceEvent"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Node:
    """A node of the cluster."""

    host_id: UUID
    address: IPv4Address | IPv6Address
    """The address that the driver connects to."""
    port: int
    datacenter: str | None
    rack: str | None
    connected: bool
    """Whether a connection to the node is open. The driver considers such a node to be up."""
    silent: bool
    """Whether requests go to other nodes because this one has stopped answering."""
    enabled: bool
    """Whether the driver connects to the node; `False` for nodes outside an allow-list."""
    shards: int | None
    """The number of shards on ScyllaDB; `None` without shards, or before the first connection."""
    extensions: tuple[str, ...]
    """The names of ScyllaDB's protocol extensions that an open connection to the node has
    negotiated, such as `TABLETS_ROUTING_V1`. It is empty for Cassandra, and for builds without the
    edits of the engine."""
    tokens: tuple[int, ...]
    """The tokens that the node owns, in ascending order."""


@dataclass(frozen=True)
class Replica:
    """A replica of a row: a node and, on ScyllaDB, a shard."""

    node: Node
    shard: int | None
    """The shard on ScyllaDB; otherwise `None`."""


@dataclass(frozen=True)
class TraceEvent:
    """A step of a traced request."""

    id: UUID
    """A time-based UUID, which contains the time of the event."""
    activity: str | None
    source: IPv4Address | IPv6Address | None
    """The node where the event happened."""
    source_elapsed_us: int | None
    """Microseconds since the node `source` began to work on the request."""
    thread: str | None


@dataclass(frozen=True)
class Trace:
    """The trace of a request: its steps, as the server recorded them."""

    request: str | None
    command: str | None
    client: IPv4Address | IPv6Address | None
    coordinator: IPv4Address | IPv6Address | None
    started_at: datetime | None
    """The time when the request started, as an aware `datetime` in UTC."""
    duration_us: int | None
    """The duration of the request in microseconds."""
    parameters: Mapping[str, str]
    events: tuple[TraceEvent, ...]


@dataclass(frozen=True)
class Latencies:
    """Latencies of the successful attempts since the session was opened.

    The latency of an attempt is the time from sending it to receiving its answer. Attempts that
    failed, were abandoned or took more than 65,535 ms are not included.

    Units: whole milliseconds, rounded down.
    """

    mean_ms: int
    p50_ms: int
    p99_ms: int


@dataclass(frozen=True)
class Metrics:
    """The engine's counts since the session was opened."""

    requests: int
    """Requests sent to a node for execution. Each attempt, each page and each row of an
    `execute_many` counts, and so do requests by speculation, `schema`, `use_keyspace` and `trace`.
    Requests to prepare, to connect and to follow the cluster do not count."""
    failures: int
    """Attempts that a node answered with an error, or whose connection was lost, even if a retry
    succeeded. Attempts abandoned after `timeout_s`, or because a speculative request was answered
    first, do not count."""
    retries: int
    """Decisions to retry after a failure, even if no node was left to send to. Decisions against a
    retry and speculative requests do not count."""
    timeouts: int
    """Requests abandoned after `timeout_s`. A request counts once, whatever the number of its
    attempts. Requests to prepare do not count."""
    connections: int
    """Connections open now, without the one that receives the cluster's events."""
    connection_timeouts: int
    """Connections that could not be opened in time."""
    latency: Latencies | None
    """The latencies of successful attempts; `None` before the first such attempt."""


def _node(entry: tuple[Any, ...]) -> Node:
    host_id, *node_fields = entry
    return Node(UUID(bytes=host_id), *node_fields)


def _metrics(entry: tuple[Any, ...]) -> Metrics:
    requests, failures, retries, timeouts, connections, connection_timeouts, latency = entry
    return Metrics(
        requests,
        failures,
        retries,
        timeouts,
        connections,
        connection_timeouts,
        None if latency is None else Latencies(*latency),
    )


def _trace(
    request: str | None,
    command: str | None,
    client: Any,
    coordinator: Any,
    started_at_ms: int | None,
    duration_us: int | None,
    parameters: dict[str, str],
    events: list[tuple[Any, ...]],
) -> Trace:
    """Makes a `Trace`. The native core calls this function."""
    started = None if started_at_ms is None else _EPOCH + timedelta(milliseconds=started_at_ms)
    trace_events = tuple(TraceEvent(UUID(bytes=event[0]), *event[1:]) for event in events)
    return Trace(
        request, command, client, coordinator, started, duration_us, parameters, trace_events
    )
