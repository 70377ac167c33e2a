"""A server of the CQL protocol that runs in threads of the test, and connections of the driver to
it.

The server notes the text of each query, and answers the query with this text. It can stop reading,
or reset the connection.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.connection import DefaultEndPoint
from cassandra.io import libevreactor
from cassandra.protocol import QueryMessage

HEADER = struct.Struct(">BBhBi")
OPTIONS, STARTUP, QUERY = 0x05, 0x01, 0x07
SUPPORTED, READY, RESULT = 0x06, 0x02, 0x08
SMALL_BUFFER = 4096
LAST_READ = "the last that is read"
"""The text of a query. Once a `Peer` has read it, the peer reads no more until `reads` is set."""


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def answer_to(opcode: int, body: bytes) -> tuple[int, bytes]:
    """Returns the opcode and body of an answer.

    The answer to a query is a SET_KEYSPACE. The keyspace in it is the text of the query.
    """
    if opcode == OPTIONS:
        versions = string("CQL_VERSION") + struct.pack(">H", 1) + string("3.4.7")
        compressions = string("COMPRESSION") + struct.pack(">H", 0)
        return SUPPORTED, struct.pack(">H", 2) + versions + compressions
    if opcode == QUERY:
        size = int.from_bytes(body[:4], "big")
        return RESULT, struct.pack(">i", 3) + string(body[4 : 4 + size].decode())
    return READY, b""


class Peer:
    """Serves the connections of one driver, with one thread per connection."""

    def __init__(self, context: ssl.SSLContext | None = None, *, buffer: int | None = None) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        if buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.port: int = self._listener.getsockname()[1]
        self.queries: list[str] = []
        self.errors: list[str] = []
        self.reads = threading.Event()
        self.reads.set()
        self.sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        if self._context is not None:
            accepted = self._context.wrap_socket(accepted, server_side=True)
        self.sockets.append(accepted)
        unread = b""
        with contextlib.suppress(OSError):
            while data := self._received(accepted):
                unread += data
                answers = []
                while (frame := self._frame(unread)) is not None:
                    opcode, stream, body = frame
                    unread = unread[HEADER.size + len(body) :]
                    answered, answer = answer_to(opcode, body)
                    if opcode == QUERY:
                        self.queries.append(body[4 : 4 + int.from_bytes(body[:4], "big")].decode())
                        if self.queries[-1] == LAST_READ:
                            self.reads.clear()
                    answers.append(HEADER.pack(0x84, 0, stream, answered, len(answer)) + answer)
                accepted.sendall(b"".join(answers))

    def _received(self, accepted: socket.socket) -> bytes:
        self.reads.wait()
        return accepted.recv(65_536)

    def _frame(self, unread: bytes) -> tuple[int, int, bytes] | None:
        if len(unread) < HEADER.size:
            return None
        version, _, stream, opcode, length = HEADER.unpack_from(unread)
        if version != 4 or opcode > 0x0F or not 0 <= length < 1_000_000:
            self.errors.append(repr(unread[:100]))
            raise OSError("these bytes are no frame")
        body = unread[HEADER.size : HEADER.size + length]
        return (opcode, stream, body) if len(body) == length else None

    def reset(self) -> None:
        """Ends all connections without reading what has arrived."""
        for accepted in self.sockets:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.shutdown(socket.SHUT_RD)
            accepted.close()

    def close(self) -> None:
        self.reads.set()
        self._listener.close()
        for accepted in self.sockets:
            accepted.close()


class Requests:
    """Sends queries on a connection, as a pool of the driver does."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.answers: dict[str, Any] = {}
        self.ended = threading.Semaphore(0)

    def send(self, text: str) -> None:
        with self.connection.lock:
            self.connection.in_flight += 1
            number = self.connection.get_request_id()

        def receive(response: Any) -> None:
            with self.connection.lock:
                self.connection.in_flight -= 1
            is_error = isinstance(response, Exception)
            self.answers[text] = type(response) if is_error else response.new_keyspace
            self.ended.release()

        message = QueryMessage(text, ConsistencyLevel.ONE)
        self.connection.send_msg(message, number, receive)

    def wait(self, count: int, timeout_s: float = 30.0) -> None:
        for _ in range(count):
            assert self.ended.acquire(timeout=timeout_s), "a request got no answer"


@contextlib.contextmanager
def connected(peer: Peer, *, buffer: int | None = None, **options: Any) -> Iterator[Any]:
    """Yields a connection of the driver to a peer, once the handshake has ended."""
    cls = libevreactor.LibevConnection
    cls.initialize_reactor()
    sockopts = [] if buffer is None else [(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)]
    connection = cls.factory(
        DefaultEndPoint("127.0.0.1", peer.port),
        10,
        protocol_version=4,
        compression=False,
        sockopts=sockopts,
        **options,
    )
    try:
        yield connection
    finally:
        connection.close()
