"""What a session reports about the cluster: its nodes, replicas, events and request traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Literal, get_args
from uuid import UUID

__all__ = ["ClusterEvent", "ClusterEventName", "Node", "Replica", "Trace", "TraceEvent"]

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
    """Whether requests go to other nodes because this node has stopped answering."""
    enabled: bool
    """Whether the driver connects to the node. It is false for a node that is left out by
    `allowed`, a field of the session's setting `balancing`."""
    shards: int | None
    """The number of shards on ScyllaDB; `None` without shards, or before the first connection."""
    extensions: tuple[str, ...]
    """The names of ScyllaDB's protocol extensions that an open connection to the node has
    negotiated, such as `TABLETS_ROUTING_V1`. It is empty for Cassandra. It is also empty in builds
    that have the ScyllaDB Rust driver without turbocql's edits."""
    tokens: tuple[int, ...]
    """The tokens that the node owns, in ascending order."""

    @property
    def at(self) -> str:
        """The address and the port, as `10.0.0.1:9042` or `[::1]:9042`."""
        host = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        return f"{host}:{self.port}"

    @property
    def state(self) -> Literal["up", "down", "silent", "not used"]:
        """The state of the node, as the fields `enabled`, `silent` and `connected` determine it."""
        if not self.enabled:
            return "not used"
        if self.silent:
            return "silent"
        return "up" if self.connected else "down"


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


ClusterEventName = Literal[
    "node added",
    "node removed",
    "node moved",
    "node up",
    "node down",
    "node silent",
    "node answers again",
    "schema changed",
]
"""The names of events."""

_CLUSTER_EVENTS = frozenset(get_args(ClusterEventName))


@dataclass(frozen=True)
class ClusterEvent:
    """Something that has happened to a node or to the schema."""

    name: ClusterEventName
    at: datetime
    """When the session learned of the event, as an aware `datetime` in UTC."""
    node: str | None
    """The node, as `address:port`. For a change of the schema, the node that reported the change.
    """
    datacenter: str | None
    host_id: UUID | None
    """The node's id; `None` if the event does not have it."""
    change: str | None = None
    """How the schema has changed: `created`, `updated` or `dropped`; `None` for other events."""
    target: str | None = None
    """What kind of object has changed: `keyspace`, `table`, `type`, `function` or `aggregate`."""
    keyspace: str | None = None
    object: str | None = None
    """The name of the table, type, function or aggregate; `None` for a keyspace."""


def _node(entry: tuple[Any, ...], addresses: Mapping[str, tuple[str, int | None]]) -> Node:
    """Makes a `Node` from the native core's `entry`.

    The keys of `addresses` are addresses that nodes announce. The value of a key is the address and
    port at which the node is reached. A port that is `None` stands for the announced port.
    """
    host_id, announced, announced_port, *node_fields = entry
    host, port = addresses.get(str(announced), (announced, None))
    return Node(UUID(bytes=host_id), ip_address(host), port or announced_port, *node_fields)


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
