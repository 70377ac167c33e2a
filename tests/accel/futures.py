"""Makes futures of the driver without a server. The futures use connections that send no
messages.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from typing import Any, ClassVar

from cassandra import ConsistencyLevel
from cassandra.cluster import ResponseFuture
from cassandra.connection import Timer
from cassandra.policies import FallthroughRetryPolicy
from cassandra.pool import HostConnection
from cassandra.protocol import QueryMessage, ResultMessage
from cassandra.query import SimpleStatement, tuple_factory

IS_SCYLLA = hasattr(ResponseFuture, "_TABLET_ROUTING_CTYPE")
VOID, ROWS, SET_KEYSPACE = 1, 2, 3


class Connection:
    """A stand-in for a connection. It records messages instead of sending them."""

    is_defunct = is_closed = is_control_connection = signaled_error = False
    orphaned_threshold_reached = False
    in_flight, max_request_id, keyspace = 5, 100, None
    last_error: Any = None
    timers: ClassVar[list[Timer]] = []

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.sent: list[Any] = []
        self.request_ids = deque(range(20))
        self.orphaned_request_ids: set[int] = set()

    def get_request_id(self) -> int:
        return self.request_ids.popleft()

    def send_msg(self, message: Any, request_id: int, cb: Any, **options: Any) -> int:
        self.sent.append((message, request_id, sorted(options)))
        return 77

    def close(self) -> None:
        self.is_closed = True

    @classmethod
    def create_timer(cls, timeout: float, callback: Any) -> Timer:
        timer = Timer(timeout, callback)
        cls.timers.append(timer)
        return timer


class Cluster:
    """A stand-in for a cluster."""

    connection_class = Connection
    _default_load_balancing_policy: Any

    def __init__(self, hosts: list[Any]) -> None:
        self._default_load_balancing_policy = self
        self._hosts = hosts

    def make_query_plan(self, working_keyspace: Any = None, query: Any = None) -> Any:
        return list(self._hosts)


class Session:
    """A stand-in for a session."""

    row_factory = staticmethod(tuple_factory)
    keyspace = "shop"

    def __init__(self) -> None:
        self.cluster = Cluster(["host 1", "host 2"])
        self._pools: dict[Any, Any] = {}


def a_pool() -> Any:
    """Returns a pool that has no connections."""
    pool = HostConnection.__new__(HostConnection)
    pool._stream_available_condition = threading.Condition(threading.Lock())
    pool._trash = set()
    pool._lock = threading.Lock()
    pool.is_shutdown = False
    pool.host = "host 1"
    return pool


def future(cls: Any = ResponseFuture, **options: Any) -> Any:
    """Returns a future of a SELECT."""
    message = QueryMessage("SELECT", ConsistencyLevel.ONE)
    options = {"retry_policy": FallthroughRetryPolicy(), "timeout": 10.0, **options}
    timeout = options.pop("timeout")
    session = options.pop("session", None) or Session()
    return cls(session, message, SimpleStatement("SELECT"), timeout, **options)


def response(kind: Any = ROWS, **attributes: Any) -> Any:
    """Returns a response of the server."""
    message = ResultMessage(kind)
    message.trace_id = message.custom_payload = message.warnings = None
    if kind == ROWS:
        message.column_names, message.column_types = ["a"], [int]
        message.parsed_rows, message.paging_state = [(1,), (2,)], b"state"
    for name, value in attributes.items():
        setattr(message, name, value)
    return message


def described(value: Any) -> Any:
    """Converts a future, or the value of one of its attributes, to values that can be compared."""
    if isinstance(value, ResponseFuture):
        return {name: described(item) for name, item in vars(value).items() if name != "session"}
    if isinstance(value, threading.Event):
        condition = vars(value)["_cond"]
        return "event", value.is_set(), list(vars(value)), list(vars(condition))
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    if isinstance(value, dict):
        return {described(key): described(item) for key, item in value.items()}
    if isinstance(value, Exception):
        return type(value), repr(value.args)
    if isinstance(value, (str, int, bytes, bool, type(None), uuid.UUID)):
        return value
    return type(value).__name__
