"""A wire tap: passes CQL frames on to a node and counts what clients send."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

__all__ = ["Tap"]

_HEADER = 9
_OPCODES = {
    0x01: "STARTUP",
    0x05: "OPTIONS",
    0x07: "QUERY",
    0x09: "PREPARE",
    0x0A: "EXECUTE",
    0x0B: "REGISTER",
    0x0D: "BATCH",
    0x0F: "AUTH_RESPONSE",
}


class Tap:
    """Listens on a port of its own while the `with` block runs.

    The address is the node's, which is what the node tells drivers to use. Reads version 4 of the
    protocol without encryption; bodies may be compressed.
    """

    def __init__(self, contact_point: str) -> None:
        host, _, port = contact_point.rpartition(":")
        self._node = host, int(port)
        self._listener = socket.create_server((host, 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._bodies: list[bytes] = []
        self._open = threading.Event()
        self._open.set()

    @property
    def contact_point(self) -> str:
        """Where clients connect to."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def count(self, kind: str, containing: str = "") -> int:
        """Requests of a kind so far, such as `PREPARE`, whose body contains a text."""
        return sum(containing.encode() in body for body in self.bodies(kind))

    def bodies(self, kind: str) -> list[bytes]:
        """The bodies of the requests of a kind so far."""
        start = kind.encode() + b"\0"
        with self._lock:
            return [body[len(start) :] for body in self._bodies if body.startswith(start)]

    def hold(self) -> None:
        """Keeps further requests back until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Lets requests through again."""
        self._open.set()

    def __enter__(self) -> Tap:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            self._shut(one)
        for thread in self._threads:
            thread.join()
        for one in sockets:
            one.close()

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        with self._lock:
            self._threads.append(thread)
        thread.start()

    @staticmethod
    def _shut(one: socket.socket) -> None:
        with suppress(OSError):  # its other end was faster
            one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            node = socket.create_connection(self._node)
            with self._lock:
                self._sockets += [client, node]
            self._start(self._requests, client, node)
            self._start(self._answers, node, client)

    def _requests(self, client: socket.socket, node: socket.socket) -> None:
        pending = b""
        while data := self._receive(client):
            pending += data
            while len(pending) >= _HEADER:
                end = _HEADER + int.from_bytes(pending[5:_HEADER], "big")
                if len(pending) < end:
                    break
                kind = _OPCODES.get(pending[4], hex(pending[4]))
                with self._lock:
                    self._bodies.append(kind.encode() + b"\0" + pending[_HEADER:end])
                pending = pending[end:]
            self._open.wait()
            if not self._send(node, data):
                break
        self._shut(node)

    def _answers(self, node: socket.socket, client: socket.socket) -> None:
        while (data := self._receive(node)) and self._send(client, data):
            pass
        self._shut(client)

    @staticmethod
    def _receive(one: socket.socket) -> bytes:
        try:
            return one.recv(1 << 16)
        except OSError:
            return b""

    @staticmethod
    def _send(one: socket.socket, data: bytes) -> bool:
        try:
            one.sendall(data)
        except OSError:
            return False
        return True
