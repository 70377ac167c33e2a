"""A server that behaves like a starting database, and later passes connections to a real node."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Literal

__all__ = ["Phase", "StartingServer", "pump"]

Phase = Literal["refused", "closed", "reset", "silent", "http"] | tuple[int, str]
"""What happens to a connection. A pair is the code and message of the ERROR that answers STARTUP.
If the code is 0x0100, AUTHENTICATE answers STARTUP, and the ERROR answers AUTH_RESPONSE."""

_SUPPORTED, _ERROR, _AUTHENTICATE = 0x06, 0x00, 0x03
_OPTIONS, _STARTUP, _AUTH_RESPONSE = 0x05, 0x01, 0x0F
_REFUSED_USER = 0x0100
_HEADER = struct.Struct(">BBhBI")


class StartingServer:
    """A server that listens during the `with` block. Each of its phases lasts `phase_s` seconds.

    After the last phase, the server forwards connections to the contact point `node`. If there is
    no `node`, the last phase continues.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        node: str | None = None,
        *,
        phase_s: float = 0.5,
        host: str | None = None,
    ) -> None:
        self._phases, self._node, self._phase_s = list(phases), node, phase_s
        # A session connects to all nodes at the port of its contact point. This server listens on
        # the node's host at that port, so the session's connections to the node arrive here too.
        self._host = host or ("127.0.0.1" if node is None else node.rpartition(":")[0])
        with socket.create_server((self._host, 0)) as free:
            self._port = free.getsockname()[1]
        self._listener: socket.socket | None = None
        self._phase: Phase | Literal["open"] = self._phases[0]
        self._sockets: list[socket.socket] = []
        self._end = threading.Event()
        self._director = threading.Thread(target=self._direct, daemon=True)
        self.connections = 0
        """The number of connections that clients have opened."""

    @property
    def contact_point(self) -> str:
        """The address and port that clients connect to."""
        return f"{self._host}:{self._port}"

    def __enter__(self) -> StartingServer:
        self._enter_phase(self._phases[0])
        self._director.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._director.join()
        for opened in [*self._sockets, self._listener]:
            if opened is not None:
                with suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)
                opened.close()

    def _direct(self) -> None:
        for phase in self._phases[1:]:
            if self._end.wait(self._phase_s):
                return
            self._enter_phase(phase)
        if self._node is not None and not self._end.wait(self._phase_s):
            self._enter_phase("open")

    def _enter_phase(self, phase: Phase | Literal["open"]) -> None:
        self._phase = phase
        if phase != "refused" and self._listener is None:
            self._listener = socket.create_server((self._host, self._port), backlog=64)
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(client)
            threading.Thread(target=self._serve, args=(client, self._phase), daemon=True).start()

    def _serve(self, client: socket.socket, phase: Phase | Literal["open"]) -> None:
        with suppress(OSError):
            if isinstance(phase, tuple):
                self._answer(client, *phase)
            elif phase == "open":
                self._forward(client)
            elif phase == "http":
                client.recv(100)
                client.sendall(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
                client.close()
            elif phase != "silent":
                if phase == "reset":
                    linger = struct.pack("ii", 1, 0)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                client.close()

    def _answer(self, client: socket.socket, code: int, message: str) -> None:
        text = message.encode()
        error = struct.pack(">iH", code, len(text)) + text
        authenticator = b"org.apache.cassandra.auth.PasswordAuthenticator"
        while head := client.recv(_HEADER.size, socket.MSG_WAITALL):
            _, _, stream, opcode, length = _HEADER.unpack(head)
            if length:
                client.recv(length, socket.MSG_WAITALL)
            answer, body = _ERROR, error
            if opcode == _OPTIONS:
                answer, body = _SUPPORTED, b"\0\0"
            elif opcode == _STARTUP and code == _REFUSED_USER:
                answer, body = (
                    _AUTHENTICATE,
                    struct.pack(">H", len(authenticator)) + authenticator,
                )
            client.sendall(_HEADER.pack(0x84, 0, stream, answer, len(body)) + body)

    def _forward(self, client: socket.socket) -> None:
        assert self._node is not None
        host, _, port = self._node.rpartition(":")
        node = socket.create_connection((host, int(port)))
        self._sockets.append(node)
        threading.Thread(target=pump, args=(node, client), daemon=True).start()
        pump(client, node)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Copies data from `source` to `target` until `source` ends, then shuts both sockets down."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
