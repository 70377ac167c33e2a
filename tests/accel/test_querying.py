"""The native `ResponseFuture._query` sends requests as the driver's method does."""

from __future__ import annotations

import io
import logging
import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import ConsistencyLevel, cluster
from cassandra import connection as connections
from cassandra.cluster import ResponseFuture
from cassandra.connection import ConnectionBusy
from cassandra.metadata import Murmur3Token
from cassandra.pool import HostConnection
from cassandra.protocol import ProtocolHandler, QueryMessage
from cassandra.query import SimpleStatement
from tests.accel.answers import answer
from tests.accel.environments import LEFT, installed_driver
from tests.accel.futures import IS_SCYLLA, Session, described, future
from tests.accel.pools import (
    Connection,
    RecordingConnection,
    SendingConnection,
    a_pool,
    all_connections,
)
from tests.accel.replacements import expect_same
from tests.accel.statements import seams

from turbocql import accel

BORROW = "pool.HostConnection.borrow_connection"
QUERY = "cluster.ResponseFuture._query"
# turbocql knows the source code of the futures of some releases only.
pytestmark = pytest.mark.needs(QUERY not in LEFT[installed_driver()], "a known release")
HOST = "host 1"


def a_future(
    pool: Any = None, cls: Any = ResponseFuture, handler: Any = ProtocolHandler, **options: Any
) -> Any:
    """Returns a future whose session has one pool."""
    session = Session()
    session._pools = {HOST: a_pool(SendingConnection) if pool is None else pool}
    target = {"routing_token": Murmur3Token(5)} if IS_SCYLLA else {}
    made = future(cls, session=session, **target, **options)
    made.query = SimpleStatement("SELECT", routing_key=b"key", keyspace="shop")
    made.message = QueryMessage("SELECT", ConsistencyLevel.ONE)
    made.message.tracing = False
    made._protocol_handler = handler
    return made


def seen(waiting: Any, pool: Any) -> Any:
    """Returns everything that can be seen of a future and of the connections of its pool."""
    states = []
    for each in [connection for connection in all_connections(pool) if connection is not None]:
        requests = {}
        for stream, (callback, decoder, metadata) in each._requests.items():
            bound = callback.func if isinstance(callback, partial) else callback
            arguments = callback.args if isinstance(callback, partial) else ()
            requests[stream] = (
                type(callback).__name__,
                getattr(bound, "__name__", None),
                getattr(bound, "__self__", None) is waiting,
                [
                    argument if isinstance(argument, str) else type(argument)
                    for argument in arguments
                ],
                getattr(decoder, "__name__", decoder),
                metadata,
            )
        states.append((each.in_flight, requests, each.pushed, each.lock._is_owned()))
    attributes = {
        name: (type(value), getattr(value, "name", None))
        if isinstance(value, Connection)
        else described(value)
        for name, value in vars(waiting).items()
        if name != "session"
    }
    return attributes, list(vars(waiting)), states


def same(call: Callable[[], Any], *, native: bool | None = None) -> Any:
    """Asserts that a call returns the same with and without the accelerator."""
    random.seed(5)
    plain = call()
    with accel.accelerated():
        random.seed(5)
        assert call() == plain
        if native is not None:
            assert bool(seams()[QUERY].native) == native
    return plain


def test_requests_are_sent() -> None:
    def outcome() -> Any:
        waiting = a_future()
        pool = waiting.session._pools[HOST]
        streams = [waiting._query(HOST) for _ in range(3)]
        return streams, seen(waiting, pool)

    streams, *_ = same(outcome, native=True)
    assert streams == [10, 11, 12]
    with accel.accelerated():
        outcome()
        # The pool is called natively, too.
        assert (seams()[BORROW].native, seams()[BORROW].fallback) == (3, 0)


def test_send_request_uses_it() -> None:
    def outcome() -> Any:
        waiting = a_future()
        pool = waiting.session._pools[HOST]
        return waiting.send_request(), seen(waiting, pool)

    assert same(outcome, native=True)[0] is True


def test_a_response_ends_the_request() -> None:
    def outcome() -> Any:
        waiting = a_future()
        pool = waiting.session._pools[HOST]
        waiting._query(HOST)
        (sent,) = [each for each in all_connections(pool) if each._requests]
        callback, decoder, _ = sent._requests[10]
        from tests.accel.futures import response

        callback(response())
        return decoder.__name__, waiting.result()._current_rows, seen(waiting, pool)

    same(outcome)


def no_pool(waiting: Any) -> None:
    waiting.session._pools = {}


def odd_pools(waiting: Any) -> None:
    class Pools(dict):  # type: ignore[type-arg]
        def get(self, key: Any, default: Any = None) -> Any:
            return None

    waiting.session._pools = Pools(waiting.session._pools)


def pool_shut_down(waiting: Any) -> None:
    waiting.session._pools[HOST].is_shutdown = True


def each_connection(name: str, value: Any) -> Callable[[Any], None]:
    def change(waiting: Any) -> None:
        for each in all_connections(waiting.session._pools[HOST]):
            setattr(each, name, value)

    return change


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise error

    return fail


def own_borrow(result: Any) -> Callable[[Any], None]:
    def change(waiting: Any) -> None:
        pool = waiting.session._pools[HOST]

        def borrow(*arguments: Any, **named: Any) -> Any:
            waiting.borrowed = [len(arguments), sorted(named), named["timeout"]]
            if isinstance(result, BaseException):
                raise result
            return result(pool) if callable(result) else result

        pool.borrow_connection = borrow

    return change


class Broken:
    """A protocol handler whose encoder fails."""

    def __init__(self, error: BaseException) -> None:
        self.encode_message = raising(error)
        self.decode_message = ProtocolHandler.decode_message


def handler(error: BaseException) -> Callable[[Any], None]:
    return lambda waiting: setattr(waiting, "_protocol_handler", Broken(error))


def encoder_of_bytearrays(waiting: Any) -> None:
    def encode(*arguments: Any, **named: Any) -> Any:
        waiting.encoded = len(arguments), sorted(named)
        return bytearray(b"message")

    waiting._protocol_handler = SimpleNamespace(encode_message=encode, decode_message="decoder")


def no_handler(waiting: Any) -> None:
    del waiting._protocol_handler


def checksums(waiting: Any) -> None:
    class Codec:
        def encode(self, buffer: Any, message: bytes) -> None:
            buffer.write(b"[" + message + b"]")

    each_connection("_segment_codec", Codec())(waiting)
    each_connection("_is_checksumming_enabled", True)(waiting)


def metrics(waiting: Any) -> None:
    waiting.counted = []
    waiting._metrics = SimpleNamespace(on_connection_error=lambda: waiting.counted.append(1))
    handler(ValueError("broken"))(waiting)


def earlier_id(waiting: Any) -> None:
    waiting._req_id = 3
    handler(KeyError(1))(waiting)


def attempted_hosts(waiting: Any) -> None:
    waiting.attempted_hosts = SimpleNamespace(append=raising(KeyError("hosts")))


def deques(waiting: Any) -> None:
    from collections import deque

    waiting.attempted_hosts = deque()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda waiting: None,
    "no pool": no_pool,
    "odd pools": odd_pools,
    "pool is shut down": pool_shut_down,
    "false pool": lambda waiting: waiting.session._pools.update({HOST: 0}),
    "defunct": each_connection("is_defunct", True),
    "closed": each_connection("is_closed", True),
    "not writable": each_connection("_socket_writable", False),
    "own send_msg": each_connection("send_msg", lambda *arguments, **named: sorted(named)),
    "push fails": each_connection("push", raising(OSError("push"))),
    "push is busy": each_connection("push", raising(ConnectionBusy("push"))),
    "compressor": each_connection("compressor", lambda data: b"compressed"),
    "checksums": checksums,
    "borrows": own_borrow(lambda pool: (all_connections(pool)[0], 5)),
    "borrows a list": own_borrow(lambda pool: [all_connections(pool)[0], 5]),
    "borrows no id": own_borrow(lambda pool: (all_connections(pool)[0], None)),
    "borrows one": own_borrow((1,)),
    "borrows none": own_borrow(()),
    "borrows three": own_borrow((1, 2, 3)),
    "borrows a number": own_borrow(5),
    "no connections": own_borrow(cluster.NoConnectionsAvailable("none")),
    "busy": own_borrow(ConnectionBusy("busy")),
    "fails": own_borrow(ValueError("no")),
    "encoder fails": handler(ValueError("broken")),
    "encoder is busy": handler(ConnectionBusy("busy")),
    "encoder makes another class": encoder_of_bytearrays,
    "no handler": no_handler,
    "metrics": metrics,
    "hosts": attempted_hosts,
    "hosts in a deque": deques,
    "own set_result": lambda waiting: setattr(waiting, "_set_result", print),
    "no query": lambda waiting: setattr(waiting, "query", None),
    "earlier id": earlier_id,
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("cls", [SendingConnection, RecordingConnection])
@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING])
def test_rare_ways(name: str, cls: Any, level: int, caplog: pytest.LogCaptureFixture) -> None:
    def outcome() -> Any:
        caplog.clear()
        waiting = a_future(a_pool(cls))
        pool = waiting.session._pools[HOST]
        CHANGES[name](waiting)
        results = [answer(waiting._query, HOST) for _ in range(2)]
        records = [
            (
                record.getMessage(),
                record.name,
                record.levelname,
                record.exc_info and record.exc_info[0],
            )
            for record in caplog.records
        ]
        return results, seen(waiting, pool), records

    with caplog.at_level(level, "cassandra"):
        same(outcome)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_pass(error: type[BaseException]) -> None:
    def outcome() -> Any:
        waiting = a_future()
        pool = waiting.session._pools[HOST]
        handler(error("stop"))(waiting)
        try:
            waiting._query(HOST)
        except error as raised:
            return raised.args, seen(waiting, pool)
        raise AssertionError

    same(outcome)


def test_arguments() -> None:
    def outcome() -> Any:
        waiting = a_future()
        pool = waiting.session._pools[HOST]
        other = QueryMessage("other", ConsistencyLevel.ONE)
        results = [
            answer(lambda: waiting._query(HOST, message=other)),
            answer(lambda: waiting._query(HOST, other, print)),
            answer(lambda: waiting._query(HOST, cb=print)),
            answer(lambda: waiting._query(host=HOST)),
            answer(lambda: waiting._query()),
            answer(lambda: waiting._query(HOST, 1, 2, 3)),
            answer(lambda: waiting._query("unknown")),
            answer(lambda: waiting._query([])),
        ]
        return results, seen(waiting, pool)

    same(outcome)


class Loud(ResponseFuture):  # type: ignore[misc]
    """A program's own class of futures."""

    def _query(self, host: Any, message: Any = None, cb: Any = None) -> Any:
        return 1000 + super()._query(host, message, cb)


def test_a_programs_futures_win() -> None:
    def outcome() -> Any:
        waiting = a_future(cls=Loud)
        pool = waiting.session._pools[HOST]
        return waiting._query(HOST), seen(waiting, pool)

    assert same(outcome)[0] == 1010


REPLACEMENTS: dict[str, tuple[Any, str, Any]] = {
    "borrow_connection": (
        HostConnection,
        "borrow_connection",
        lambda self, timeout, **named: (all_connections(self)[0], 500),
    ),
    "partial": (cluster, "partial", lambda *arguments: ("partial", len(arguments))),
    "io": (connections, "io", SimpleNamespace(BytesIO=lambda: io.BytesIO(b"......"))),
    "property": (ResponseFuture, "attempted_hosts", property(lambda self: [], lambda *_: None)),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_replaced_functions_win(name: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> Any:
        waiting = a_future()
        pool = waiting.session._pools[HOST]
        checksums(waiting)
        stream = waiting._query(HOST)
        requests = [
            {stream: request[0][:2] if isinstance(request[0], tuple) else type(request[0])}
            for each in all_connections(pool)
            for stream, request in each._requests.items()
        ]
        pushed = [each.pushed for each in all_connections(pool)]
        return stream, waiting.attempted_hosts, requests, pushed

    expect_same(outcome, REPLACEMENTS[name], when, monkeypatch)
