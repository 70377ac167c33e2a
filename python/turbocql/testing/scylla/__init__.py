"""Simulates ScyllaDB's additions to the protocol, in front of the nodes of a real Cassandra."""

from __future__ import annotations

from .handle import Scylla
from .records import ClientConnection, Replica, Request, Tablet
from .settings import Shards

__all__ = ["ClientConnection", "Replica", "Request", "Scylla", "Shards", "Tablet"]
