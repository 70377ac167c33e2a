"""The cluster as the driver sees it: nodes, replicas, traces of requests, counts."""

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
    """Where it is connected to."""
    port: int
    datacenter: str | None
    rack: str | None
    connected: bool
    """Whether a connection to it is open: the driver's notion of being up."""
    enabled: bool
    """Whether connections to it are wanted; not for nodes outside of an allow-list."""
    shards: int | None
    """ScyllaDB's shards; `None` for a node that has none, or that was not connected to yet."""
    tokens: tuple[int, ...]
    """The tokens that it owns, in rising order."""


@dataclass(frozen=True)
class Replica:
    """Where a row is."""

    node: Node
    shard: int | None
    """On ScyllaDB, the shard."""


@dataclass(frozen=True)
class TraceEvent:
    """A step of a traced request."""

    id: UUID
    """A time-based UUID: when it happened."""
    activity: str | None
    source: IPv4Address | IPv6Address | None
    """The node where it happened."""
    source_elapsed_us: int | None
    """Microseconds since that node began to work on the request."""
    thread: str | None


@dataclass(frozen=True)
class Trace:
    """What a request was made of, as the server recorded it."""

    request: str | None
    command: str | None
    client: IPv4Address | IPv6Address | None
    coordinator: IPv4Address | IPv6Address | None
    started_at: datetime | None
    """Aware, in UTC."""
    duration_us: int | None
    """Microseconds."""
    parameters: Mapping[str, str]
    events: tuple[TraceEvent, ...]


@dataclass(frozen=True)
class Latencies:
    """How long attempts took that succeeded, from sending one to its answer, over the whole time of
    the session. Those that failed or were given up are not in it, nor those over 65,535 ms.

    Units: whole milliseconds, rounded down.
    """

    mean_ms: int
    p50_ms: int
    p99_ms: int


@dataclass(frozen=True)
class Metrics:
    """What the engine has counted since the session was opened."""

    requests: int
    """What was sent to a node to be executed: each attempt, each page, each row of an
    `execute_many`, and what speculation, `schema`, `use_keyspace` and `trace` send. Not preparing,
    connecting, and following the cluster."""
    failures: int
    """Attempts that a node answered with an error, or whose connection was lost; some are followed
    by a retry that succeeds. Not those that were given up, by `timeout_s` or because speculation
    had another answer first."""
    retries: int
    """Decisions to send again after a failure, also when no node was left to send to. Not decisions
    against it, and not speculation."""
    timeouts: int
    """Requests that were given up after `timeout_s`, each one whatever its attempts. Not
    preparing."""
    connections: int
    """Open at the moment, without the one that listens to the cluster."""
    connection_timeouts: int
    """Connections that could not be opened in time."""
    latency: Latencies | None
    """`None` before the first answer."""


def _node(entry: tuple[Any, ...]) -> Node:
    host_id, *rest = entry
    return Node(UUID(bytes=host_id), *rest)


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
    """Called by the native core."""
    started = None if started_at_ms is None else _EPOCH + timedelta(milliseconds=started_at_ms)
    made = tuple(TraceEvent(UUID(bytes=event[0]), *event[1:]) for event in events)
    return Trace(request, command, client, coordinator, started, duration_us, parameters, made)
