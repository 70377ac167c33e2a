"""A proxy that forwards CQL frames between clients and a node, and can change the answers."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType

__all__ = [
    "BATCH",
    "ERROR",
    "EVENT",
    "EXECUTE",
    "PREPARE",
    "QUERY",
    "RESULT",
    "SUPPORTED",
    "Answer",
    "ChangingProxy",
    "ending_when",
    "held_until",
]

ERROR, SUPPORTED, RESULT, EVENT = 0x00, 0x06, 0x08, 0x0C
QUERY, PREPARE, EXECUTE, BATCH = 0x07, 0x09, 0x0A, 0x0D
_HEADER = struct.Struct(">BBhBI")


@dataclass(frozen=True)
class Answer:
    """A frame from the node, and the request that it answers."""

    version: int
    flags: int
    stream: int
    opcode: int
    body: bytes
    request_opcode: int | None = None
    """The opcode of the request; `None` if the frame is an event, which answers no request."""
    request_body: bytes = b""

    def frame(self, length: int | None = None) -> bytes:
        """Returns the bytes of the frame. `length` replaces the body's length in the header."""
        announced = len(self.body) if length is None else length
        head = _HEADER.pack(self.version, self.flags, self.stream, self.opcode, announced)
        return head + self.body

    def with_body(self, body: bytes, *, opcode: int | None = None, flags: int = 0) -> Answer:
        """Returns this answer with the given body and flags, and with `opcode` if it is set."""
        kind = self.opcode if opcode is None else opcode
        return replace(self, body=body, opcode=kind, flags=flags)

    def answers(self, opcode: int, containing: str) -> bool:
        """Returns whether the request has this opcode and its body contains the text."""
        return self.request_opcode == opcode and containing.encode() in self.request_body


Change = Callable[[Answer], bytes]
"""A function that returns the bytes that the client receives instead of an answer.
If it raises `EOFError`, the connection ends."""


def ending_when(down: threading.Event) -> Change:
    """Returns a change that forwards answers unchanged until `down` is set.

    While `down` is set, it ends the connection instead.
    """

    def change(answer: Answer) -> bytes:
        if down.is_set():
            raise EOFError
        return answer.frame()

    return change


def held_until(go_on: threading.Event, text: str = "") -> Change:
    """Returns a change that delays the answer to each EXECUTE whose body contains `text`.

    It forwards the answer when `go_on` is set, or after 20 s.
    """

    def change(answer: Answer) -> bytes:
        if answer.answers(EXECUTE, text):
            go_on.wait(20)
        return answer.frame()

    return change


class ChangingProxy:
    """A proxy that listens on its own port during the `with` block.

    The proxy calls `change` with each answer of the node, and sends the returned bytes to the
    client. `bytes_per_s` limits the speed in each direction. The proxy supports version 4 of the
    protocol, without encryption.
    """

    def __init__(
        self, contact_point: str, change: Change, bytes_per_s: float | None = None
    ) -> None:
        host, _, port = contact_point.rpartition(":")
        self._node = host, int(port)
        self.change = change
        self._bytes_per_s = bytes_per_s
        self._listener = socket.create_server((host, 0), backlog=512)
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = {self._listener}
        self._threads: list[threading.Thread] = []
        self.ended = 0
        """The number of client connections that have ended."""

    @property
    def contact_point(self) -> str:
        """The address and port that clients connect to."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    @property
    def connections(self) -> int:
        """The number of open client connections."""
        with self._lock:
            return (len(self._sockets) - 1) // 2

    def __enter__(self) -> ChangingProxy:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)

    def requested(self, opcode: int, body: bytes) -> None:
        """Receives each request before the node does. Subclasses override this method."""

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                node = socket.create_connection(self._node)
            except OSError:
                return
            for one in (client, node):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, node}
            asked: dict[int, tuple[int, bytes]] = {}
            self._start(self._requests, client, node, asked)
            self._start(self._answers, client, node, asked)

    def _requests(
        self, client: socket.socket, node: socket.socket, asked: dict[int, tuple[int, bytes]]
    ) -> None:
        with suppress(OSError, EOFError):
            while True:
                head = _receive(client, _HEADER.size)
                _, _, stream, opcode, length = _HEADER.unpack(head)
                body = _receive(client, length)
                asked[stream] = opcode, body
                self.requested(opcode, body)
                self._send(node, head + body)
        self._end(client, node)

    def _answers(
        self, client: socket.socket, node: socket.socket, asked: dict[int, tuple[int, bytes]]
    ) -> None:
        with suppress(OSError, EOFError):
            while True:
                version, flags, stream, opcode, length = _HEADER.unpack(
                    _receive(node, _HEADER.size)
                )
                body = _receive(node, length)
                request, said = asked.pop(stream, (None, b""))
                answer = Answer(version, flags, stream, opcode, body, request, said)
                self._send(client, self.change(answer))
        self._end(client, node)

    def _send(self, target: socket.socket, data: bytes) -> None:
        if self._bytes_per_s is None:
            target.sendall(data)
            return
        part = 32_768
        for start in range(0, len(data), part):
            target.sendall(data[start : start + part])
            time.sleep(len(data[start : start + part]) / self._bytes_per_s)

    def _end(self, *both: socket.socket) -> None:
        for one in both:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        with self._lock:
            if self._sockets.intersection(both):
                self.ended += 1
            self._sockets -= set(both)


def _receive(source: socket.socket, count: int) -> bytes:
    """Receives exactly `count` bytes.

    Raises: EOFError, at the end of the connection.
    """
    parts = []
    while count:
        part = source.recv(min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
