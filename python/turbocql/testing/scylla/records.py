"""The records of requests, connections and tablets that tests get from the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from .murmur3 import token_of
from .tablets import Replica, Tablet

__all__ = ["ClientConnection", "Replica", "Request", "Tablet"]


@dataclass(frozen=True)
class Request:
    """One request of a client, as it arrived at the simulator.

    `number` counts the requests of the cluster from 0. `node` is an index in `Cassandra.nodes`.
    `opcode` is a name of the protocol, such as `EXECUTE`. `text` is the statement's CQL. For an
    EXECUTE, it is the CQL of the prepared statement; the statements of a BATCH are joined by `; `.
    `routing_key` is the partition key of an EXECUTE as the bytes that are hashed. It is `None` for
    other requests, and if the bound values do not contain the whole key. `values` are the bound
    values of an EXECUTE; null and unset ones are `None`. `values` is `None` for other requests, and
    if the values have more than 256 bytes together.
    `is_misrouted` is whether the routing key's tablet has no replica at this node and shard; it is
    `None` if there is no such tablet. `skips_metadata` is whether the client asked for a result
    without metadata. `metadata_id` is the metadata id in an EXECUTE, `None` if the client has not
    enabled such ids. `error` is the code of the error with which the simulator, not Cassandra,
    answered the request.
    """

    number: int
    node: int
    shard: int
    shard_aware_port: bool
    opcode: str
    text: str | None
    routing_key: bytes | None
    values: tuple[bytes | None, ...] | None
    is_misrouted: bool | None
    extensions: frozenset[str]
    skips_metadata: bool
    metadata_id: bytes | None
    error: int | None
    client_address: str
    client_port: int

    @property
    def token(self) -> int | None:
        """The token of the routing key."""
        return None if self.routing_key is None else token_of(self.routing_key)


@dataclass(frozen=True)
class ClientConnection:
    """One open connection of a client.

    `driver` is the DRIVER_NAME of STARTUP. Before STARTUP, it is `None` and `extensions` is empty.
    """

    node: int
    shard: int
    shard_aware_port: bool
    extensions: frozenset[str]
    driver: str | None
    client_address: str
    client_port: int
