"""A minimal CQL client: native protocol v4, one request at a time, no decoding of values.

It checks whether a node answers. It also captures the server's bytes for `tests/golden`, whose
tests compare turbocql's encoding with these bytes. It uses no code of turbocql's driver, so its
results are an independent reference. It is not a driver; for programs use `turbocql.connect`.
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from .errors import CassandraError
from .frames import Reader

if TYPE_CHECKING:
    from typing_extensions import Self  # for the type checker only: typing has it from 3.11

__all__ = ["Connection", "ProbeError", "Result"]

_ERROR, _STARTUP, _READY, _AUTHENTICATE, _OPTIONS, _SUPPORTED = 0x00, 0x01, 0x02, 0x03, 0x05, 0x06
_QUERY, _RESULT, _AUTH_RESPONSE, _AUTH_SUCCESS = 0x07, 0x08, 0x0F, 0x10
_CONSISTENCY = {"ONE": 1, "QUORUM": 4, "ALL": 5, "LOCAL_ONE": 10}


class ProbeError(CassandraError):
    """The node answered a request with an error. `code` is the error code of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} (code 0x{self.code:04x})"


@dataclass(frozen=True)
class Result:
    """The rows of a result. A cell is the server's own bytes, or `None` for null."""

    columns: list[str] = field(default_factory=list)
    rows: list[list[bytes | None]] = field(default_factory=list)


class Connection:
    """One connection to one node, ready for `query` when the constructor returns.

    Blocks: the constructor and `query` wait for the node, at most `timeout_s` seconds per read.
    Raises: `OSError` if the node cannot be reached; `ProbeError` if it answers with an error.
    """

    def __init__(
        self,
        address: str,
        port: int = 9042,
        *,
        context: ssl.SSLContext | None = None,
        user: str | None = None,
        password: str | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._socket = socket.create_connection((address, port), timeout=timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=address)
            self._handshake(user, password)
        except BaseException:
            self.close()
            raise

    def query(self, cql: str, consistency: str = "ONE") -> Result:
        """Runs one statement without values. It sets no page size, so all rows come at once."""
        text = cql.encode()
        body = struct.pack(">i", len(text)) + text
        answer = self._ask(_QUERY, body + struct.pack(">HB", _CONSISTENCY[consistency], 0))
        reader = Reader(answer)
        return _rows(reader) if reader.int32() == 2 else Result()

    def close(self) -> None:
        """Closes the socket. A second call does nothing."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _handshake(self, user: str | None, password: str | None) -> None:
        self._ask(_OPTIONS, b"", expected=(_SUPPORTED,))
        version = b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0"
        self._send(_STARTUP, version)
        opcode, _ = self._receive()
        if opcode == _AUTHENTICATE:
            if user is None or password is None:
                raise CassandraError("the node asks for a user and a password")
            token = b"\0" + user.encode() + b"\0" + password.encode()
            answer = struct.pack(">i", len(token)) + token
            self._ask(_AUTH_RESPONSE, answer, expected=(_AUTH_SUCCESS,))
        elif opcode != _READY:
            raise CassandraError(f"the node answered STARTUP with opcode 0x{opcode:02x}")

    def _ask(self, opcode: int, body: bytes, expected: tuple[int, ...] = (_RESULT,)) -> bytes:
        self._send(opcode, body)
        answered, answer = self._receive()
        if answered not in expected:
            raise CassandraError(f"the node answered opcode 0x{opcode:02x} with 0x{answered:02x}")
        return answer

    def _send(self, opcode: int, body: bytes) -> None:
        self._socket.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)

    def _receive(self) -> tuple[int, bytes]:
        version, flags, _, opcode, length = struct.unpack(">BBhBi", self._read(9))
        if version & 0x7F > 5 or not version & 0x80:
            raise CassandraError(f"not a CQL server: its answer starts with byte 0x{version:02x}")
        reader = Reader(self._read(length))
        if flags & 0x08:  # warnings come before the message
            for _ in range(reader.short()):
                reader.string()
        if opcode == _ERROR:
            raise ProbeError(reader.int32(), reader.string())
        return opcode, reader.remaining()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionError("the node closed the connection")
            parts += part
        return bytes(parts)


def _rows(reader: Reader) -> Result:
    flags, count = reader.int32(), reader.int32()
    if flags & 0x02:
        reader.value()  # the paging state
    if flags & 0x01:
        reader.string()
        reader.string()
    columns = []
    for _ in range(count):
        if not flags & 0x01:
            reader.string()
            reader.string()
        columns.append(reader.string())
        reader.skip_type()
    return Result(columns, [[reader.value() for _ in columns] for _ in range(reader.int32())])
