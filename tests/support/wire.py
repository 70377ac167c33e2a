"""A small client of the native protocol, versions 3 to 5, that sends request bodies unchanged.

It shares no code with turbocql, handles one request at a time, and parses only the parts of answers
that tests need. A malformed answer, such as a wrong checksum or an extra byte, raises
`AssertionError`.
"""

from __future__ import annotations

import socket
import struct
import zlib
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

__all__ = ["BATCH", "EXECUTE", "QUERY", "Prepared", "Refused", "Result", "Wire"]

QUERY, PREPARE, EXECUTE, BATCH = 0x07, 0x09, 0x0A, 0x0D
_ERROR, _STARTUP, _READY, _OPTIONS, _SUPPORTED, _RESULT = 0x00, 0x01, 0x02, 0x05, 0x06, 0x08
_OPCODES = {"QueryMessage": QUERY, "ExecuteMessage": EXECUTE, "BatchMessage": BATCH}

_KINDS = {1: "void", 2: "rows", 3: "set_keyspace", 4: "prepared", 5: "schema_change"}
_GLOBAL_TABLE, _MORE_PAGES, _NO_METADATA, _METADATA_CHANGED = 1, 2, 4, 8
_TRACED, _PAYLOAD, _WARNED = 2, 4, 8

_LONGEST_PAYLOAD = 2**17 - 1
_SELF_CONTAINED = 1 << 17


class Message(Protocol):
    """An object that encodes the body of a request."""

    def encode(self, protocol_version: int, /) -> bytes:
        """Returns the body for a version of the protocol."""


class Refused(Exception):
    """The server's ERROR: its code, its message, and the rest of the body."""

    def __init__(self, code: int, message: str, rest: bytes) -> None:
        super().__init__(f"0x{code:04x}: {message}")
        self.code = code
        self.message = message
        self.rest = rest


@dataclass(frozen=True)
class Result:
    """A RESULT. `columns` has the names of the columns, or is None if there is no metadata."""

    kind: str
    columns: list[str] | None = None
    rows: list[tuple[bytes | None, ...]] | None = None
    paging_state: bytes | None = None
    new_metadata_id: bytes | None = None
    keyspace: str | None = None


@dataclass(frozen=True)
class Prepared:
    """The answer to PREPARE. `result_metadata_id` exists only in version 5."""

    id: bytes
    result_metadata_id: bytes | None


class _Reader:
    """Reads a body from its beginning."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, count: int) -> bytes:
        taken = self._body[self._at : self._at + count]
        assert len(taken) == count, "the body is too short"
        self._at += count
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def end(self) -> None:
        assert not self.rest(), "the body is too long"

    def short(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def integer(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def string(self) -> str:
        return self.take(self.short()).decode()

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self.short())]

    def short_bytes(self) -> bytes:
        return self.take(self.short())

    def value(self) -> bytes | None:
        length = self.integer()
        return None if length < 0 else self.take(length)

    def skip_type(self) -> None:
        code = self.short()
        if code == 0x00:
            self.string()
        elif code in (0x20, 0x22):
            self.skip_type()
        elif code == 0x21:
            self.skip_type()
            self.skip_type()
        elif code == 0x30:
            self.string()
            self.string()
            for _ in range(self.short()):
                self.string()
                self.skip_type()
        elif code == 0x31:
            for _ in range(self.short()):
                self.skip_type()


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _long_string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded


def _crc24(data: bytes) -> bytes:
    crc = 0x875060
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1974F0B
    return crc.to_bytes(3, "little")


def _crc32(data: bytes) -> bytes:
    return zlib.crc32(data, zlib.crc32(b"\xfa\x2d\x55\xca")).to_bytes(4, "little")


def _frames(envelope: bytes) -> bytes:
    """Splits an envelope into the frames of version 5."""
    out = bytearray()
    whole = _SELF_CONTAINED if len(envelope) <= _LONGEST_PAYLOAD else 0
    for start in range(0, len(envelope), _LONGEST_PAYLOAD):
        payload = envelope[start : start + _LONGEST_PAYLOAD]
        header = (len(payload) | whole).to_bytes(3, "little")
        out += header + _crc24(header) + payload + _crc32(payload)
    return bytes(out)


class Wire:
    """A connection. The constructor opens it and sends OPTIONS and STARTUP."""

    def __init__(self, contact_point: str, version: int) -> None:
        host, _, port = contact_point.rpartition(":")
        self.version = version
        self._framed = False
        self._received = bytearray()
        self._stream = 0
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        try:
            reader = _Reader(self.request(_OPTIONS, b"", _SUPPORTED))
            self.supported = {reader.string(): reader.strings() for _ in range(reader.short())}
            reader.end()
            options = b"\0\x01" + _string("CQL_VERSION") + _string("3.0.0")
            assert self.request(_STARTUP, options, _READY) == b""
        except BaseException:
            self.close()
            raise
        self._framed = version >= 5

    def send(self, message: Message) -> Result:
        """Sends a message of `turbocql.protocol`, encoded for this connection's version."""
        return self.send_body(_OPCODES[type(message).__name__], message.encode(self.version))

    def send_body(self, opcode: int, body: bytes) -> Result:
        """Sends a request and returns its RESULT. Raises `Refused` for an ERROR."""
        reader = _Reader(self.request(opcode, body, _RESULT))
        kind = _KINDS[reader.integer()]
        if kind == "rows":
            return self._rows(reader)
        if kind == "set_keyspace":
            result = Result(kind, keyspace=reader.string())
        else:
            result = Result(kind)
            if kind == "schema_change":
                reader.rest()
        reader.end()
        return result

    def ask(self, text: str) -> list[tuple[bytes | None, ...]]:
        """Executes a statement with a QUERY that this module encodes, and returns its rows."""
        consistency_and_flags = b"\0\x01" + bytes(4 if self.version >= 5 else 1)
        return self.send_body(QUERY, _long_string(text) + consistency_and_flags).rows or []

    def prepare(self, text: str, keyspace: str | None = None) -> Prepared:
        """Prepares a statement. `keyspace`, its default keyspace, is accepted only in version 5."""
        body = _long_string(text)
        if self.version >= 5:
            body += struct.pack(">i", keyspace is not None)
            body += b"" if keyspace is None else _string(keyspace)
        else:
            assert keyspace is None, "version 5 has it"
        reader = _Reader(self.request(PREPARE, body, _RESULT))
        assert _KINDS[reader.integer()] == "prepared"
        return Prepared(reader.short_bytes(), reader.short_bytes() if self.version >= 5 else None)

    def request(self, opcode: int, body: bytes, expected: int) -> bytes:
        """Sends a request and returns the answer's body. Raises `Refused` for an ERROR."""
        self._stream = (self._stream + 1) % 2**15
        header = struct.pack(">BBHBi", self.version, 0, self._stream, opcode, len(body))
        envelope = header + body
        self._socket.sendall(_frames(envelope) if self._framed else envelope)
        version, flags, stream, answer, length = struct.unpack(">BBHBi", self._take(9))
        reader = _Reader(self._take(length))
        if flags & _TRACED:
            reader.take(16)
        if flags & _WARNED:
            reader.strings()
        if flags & _PAYLOAD:
            for _ in range(reader.short()):
                reader.string()
                reader.value()
        if answer == _ERROR:
            raise Refused(reader.integer(), reader.string(), reader.rest())
        assert (version, stream) == (0x80 | self.version, self._stream)
        assert answer == expected
        return reader.rest()

    def _rows(self, reader: _Reader) -> Result:
        flags, count = reader.integer(), reader.integer()
        paging_state = reader.value() if flags & _MORE_PAGES else None
        new_id = reader.short_bytes() if flags & _METADATA_CHANGED else None
        columns = None
        if not flags & _NO_METADATA:
            columns = []
            if flags & _GLOBAL_TABLE:
                reader.string()
                reader.string()
            for _ in range(count):
                if not flags & _GLOBAL_TABLE:
                    reader.string()
                    reader.string()
                columns.append(reader.string())
                reader.skip_type()
        rows = [tuple(reader.value() for _ in range(count)) for _ in range(reader.integer())]
        reader.end()
        return Result("rows", columns, rows, paging_state, new_id)

    def _take(self, count: int) -> bytes:
        """Returns the next `count` bytes of envelopes, without the framing of version 5."""
        while len(self._received) < count:
            missing = count - len(self._received)
            self._received += self._payload() if self._framed else self._read(missing)
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _payload(self) -> bytes:
        header = self._read(6)
        assert header[3:] == _crc24(header[:3])
        payload = self._read(int.from_bytes(header[:3], "little") & _LONGEST_PAYLOAD)
        assert self._read(4) == _crc32(payload)
        return payload

    def _read(self, count: int) -> bytes:
        out = bytearray()
        while len(out) < count:
            received = self._socket.recv(count - len(out))
            if not received:
                raise ConnectionResetError("the server hung up")
            out += received
        return bytes(out)

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
