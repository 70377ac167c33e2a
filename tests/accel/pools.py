"""Makes the driver's connection pools without a server."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

from cassandra import connection as connections
from cassandra.metadata import Metadata
from cassandra.pool import Host, HostConnection
from tests.accel.futures import IS_SCYLLA

SHARDS = 4


class Connection:
    """Imitates a connection. It has the driver's own `get_request_id`."""

    is_closed = is_defunct = orphaned_threshold_reached = False
    in_flight = highest_request_id = 0
    get_request_id = connections.Connection.get_request_id
    endpoint, last_error = "endpoint", None
    protocol_version, allow_beta_protocol_version, compressor = 4, False, None
    features: Any = "features"
    _socket_writable, _is_checksumming_enabled = True, False

    def __init__(self, name: Any) -> None:
        self.name = name
        self.lock = threading.RLock()
        self.in_flight = 3
        self.max_request_id = 100
        self.request_ids = deque(range(10, 30))
        self.highest_request_id = 29
        self._requests: dict[int, Any] = {}
        self.pushed: list[Any] = []

    def push(self, message: Any) -> None:
        self.pushed.append(message)


class SendingConnection(Connection):
    """Imitates a connection that has the driver's own `send_msg`."""

    send_msg = connections.Connection.send_msg


class RecordingConnection(Connection):
    """Imitates a connection with a `send_msg` of its own."""

    def send_msg(self, message: Any, request_id: int, **options: Any) -> int:
        self.pushed.append((type(message), request_id, sorted(options)))
        self._requests[request_id] = (options["cb"], options["decoder"], options["result_metadata"])
        return 77


class Cluster:
    """Imitates a cluster."""

    def __init__(self) -> None:
        self.shard_aware_options = SimpleNamespace(disable=False)
        self.metadata = Metadata()


class Session:
    """Imitates a session. It records what is submitted to its executor."""

    def __init__(self) -> None:
        self.submitted: list[Any] = []
        self.cluster = Cluster()

    def submit(self, function: Any, *arguments: Any) -> None:
        self.submitted.append((function.__name__, len(arguments)))


def a_pool(cls: type[Connection] = Connection) -> Any:
    """Returns a pool with one connection for each shard; in cassandra-driver, with one."""
    made: Any = HostConnection.__new__(HostConnection)
    made.host = Host.__new__(Host)
    made.host.endpoint = "endpoint"
    made._session = Session()
    made._lock = threading.Lock()
    made._stream_available_condition = threading.Condition(threading.Lock())
    made._is_replacing = False
    made._keyspace = "shop"
    made._trash = set()
    if IS_SCYLLA:
        from cassandra.shard_info import _ShardingInfo

        made._connecting = set()
        made._connections = {shard: cls(shard) for shard in range(SHARDS)}
        made.host.host_id = "host 1"
        made.host.sharding_info = _ShardingInfo(0, SHARDS, "", "", 12, "", "")
    else:
        made._connection = cls(0)
    return made


def all_connections(pool: Any) -> list[Any]:
    return list(pool._connections.values()) if IS_SCYLLA else [pool._connection]
