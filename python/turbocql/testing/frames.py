"""Reads and writes frames of the native protocol, versions 3 and 4, and the fields of their bodies.

Words in brackets, such as [string map], are the protocol's names for the formats of fields.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .errors import CassandraError

__all__ = [
    "HEADER",
    "MAX_BODY_BYTES",
    "OPCODES",
    "Frame",
    "FrameError",
    "FrameReader",
    "Reader",
    "error_body",
    "int32",
    "long_string",
    "short_bytes",
    "split_response",
    "string",
    "string_map",
    "string_multimap",
    "value_bytes",
    "with_event_address",
    "with_payload",
]

HEADER = struct.Struct(">BBHBI")
"""The fields are version, flags, stream, opcode, and the length of the body. The number of the
stream is read as unsigned."""
MAX_BODY_BYTES = 256 << 20
"""The length of the longest body that is accepted. It is Cassandra's default limit."""

ERROR, STARTUP, READY, OPTIONS, SUPPORTED = 0x00, 0x01, 0x02, 0x05, 0x06
QUERY, RESULT, PREPARE, EXECUTE, EVENT, BATCH = 0x07, 0x08, 0x09, 0x0A, 0x0C, 0x0D
OPCODES = {
    ERROR: "ERROR",
    STARTUP: "STARTUP",
    READY: "READY",
    0x03: "AUTHENTICATE",
    OPTIONS: "OPTIONS",
    SUPPORTED: "SUPPORTED",
    QUERY: "QUERY",
    RESULT: "RESULT",
    PREPARE: "PREPARE",
    EXECUTE: "EXECUTE",
    0x0B: "REGISTER",
    EVENT: "EVENT",
    BATCH: "BATCH",
    0x0E: "AUTH_CHALLENGE",
    0x0F: "AUTH_RESPONSE",
    0x10: "AUTH_SUCCESS",
}
COMPRESSED, TRACED, PAYLOAD, WARNED = 0x01, 0x02, 0x04, 0x08
"""Flags of a frame's header."""
_INT, _SHORT = struct.Struct(">i"), struct.Struct(">H")


class FrameError(CassandraError):
    """A frame that cannot be read. The message says what is wrong."""


class Frame(NamedTuple):
    """One message: the fields of its header, and its body."""

    version: int
    flags: int
    stream: int
    opcode: int
    body: bytes

    def encoded(self) -> bytes:
        """The bytes of the frame."""
        head = HEADER.pack(self.version, self.flags, self.stream, self.opcode, len(self.body))
        return head + self.body


class FrameReader:
    """Cuts a stream of bytes into frames.

    `check` is called with the version byte of each frame, and may raise an error. It is called
    before the rest of the header is read, because the header of an unknown version has an unknown
    size.
    """

    def __init__(self, check: Callable[[int], None] | None = None) -> None:
        self._check = check
        self._incomplete = bytearray()
        self._needed_bytes = 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that are complete with `data`.

        Raises: `FrameError` for a body longer than `MAX_BODY_BYTES`; any error of `check`.
        """
        if self._incomplete:
            self._incomplete += data
            if len(self._incomplete) < self._needed_bytes:
                return
            data = bytes(self._incomplete)
            self._incomplete.clear()
        at, end = 0, len(data)
        while at < end:
            if self._check is not None:
                self._check(data[at])
            if end - at < HEADER.size:
                self._needed_bytes = HEADER.size
                break
            version, flags, stream, opcode, length = HEADER.unpack_from(data, at)
            if length > MAX_BODY_BYTES:
                raise FrameError(f"a body of {length} bytes is longer than {MAX_BODY_BYTES} bytes")
            stop = at + HEADER.size + length
            if stop > end:
                self._needed_bytes = stop - at
                break
            yield Frame(version, flags, stream, opcode, data[at + HEADER.size : stop])
            at = stop
        if at < end:
            self._incomplete += data[at:]


class Reader:
    """Reads the fields of a body, one after another. `at` is the offset of the next byte.

    Raises: `FrameError` where the body ends too early.
    """

    __slots__ = ("at", "body")

    def __init__(self, body: bytes, at: int = 0) -> None:
        self.body = body
        self.at = at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        start = self.at
        stop = start + size
        if size < 0 or stop > len(self.body):
            raise FrameError(f"a body of {len(self.body)} bytes ends too early")
        self.at = stop
        return self.body[start:stop]

    def remaining(self) -> bytes:
        """All remaining bytes."""
        return self.take(len(self.body) - self.at)

    def byte(self) -> int:
        """Reads a [byte]."""
        return self.take(1)[0]

    def short(self) -> int:
        """Reads a [short]."""
        at = self.at
        try:
            (number,) = _SHORT.unpack_from(self.body, at)
        except struct.error:
            raise FrameError(f"a body of {len(self.body)} bytes ends too early") from None
        self.at = at + 2
        return int(number)

    def int32(self) -> int:
        """Reads an [int]."""
        at = self.at
        try:
            (number,) = _INT.unpack_from(self.body, at)
        except struct.error:
            raise FrameError(f"a body of {len(self.body)} bytes ends too early") from None
        self.at = at + 4
        return int(number)

    def string(self) -> str:
        """Reads a [string]."""
        return self.take(self.short()).decode("utf-8", "replace")

    def long_string(self) -> str:
        """Reads a [long string]."""
        return self.take(self.int32()).decode("utf-8", "replace")

    def short_bytes(self) -> bytes:
        """Reads [short bytes]."""
        return self.take(self.short())

    def value(self) -> bytes | None:
        """Reads [bytes] or a [value]. Null and unset are both `None`."""
        size = self.int32()
        return None if size < 0 else self.take(size)

    def string_map(self) -> dict[str, str]:
        """Reads a [string map]."""
        return {self.string(): self.string() for _ in range(self.short())}

    def string_multimap(self) -> dict[str, list[str]]:
        """Reads a [string multimap]."""
        return {
            self.string(): [self.string() for _ in range(self.short())] for _ in range(self.short())
        }

    def skip_type(self) -> None:
        """Skips an [option] that describes a type."""
        kind = self.short()
        if kind == 0x00:  # custom: the name of a Java class
            self.short_bytes()
        elif kind in (0x20, 0x22):  # list, set
            self.skip_type()
        elif kind == 0x21:  # map
            self.skip_type()
            self.skip_type()
        elif kind == 0x30:  # UDT: keyspace, name, fields
            self.short_bytes()
            self.short_bytes()
            for _ in range(self.short()):
                self.short_bytes()
                self.skip_type()
        elif kind == 0x31:  # tuple
            for _ in range(self.short()):
                self.skip_type()


def int32(number: int) -> bytes:
    """Encodes an [int]."""
    return _INT.pack(number)


def string(text: str) -> bytes:
    """Encodes a [string]."""
    return short_bytes(text.encode())


def short_bytes(data: bytes) -> bytes:
    """Encodes [short bytes]."""
    return _SHORT.pack(len(data)) + data


def long_string(text: str) -> bytes:
    """Encodes a [long string]."""
    data = text.encode()
    return _INT.pack(len(data)) + data


def value_bytes(data: bytes | None) -> bytes:
    """Encodes [bytes], with a length of -1 for null."""
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


def string_map(options: Mapping[str, str]) -> bytes:
    """Encodes a [string map]."""
    pairs = [string(key) + string(text) for key, text in options.items()]
    return _SHORT.pack(len(pairs)) + b"".join(pairs)


def string_multimap(options: Mapping[str, Sequence[str]]) -> bytes:
    """Encodes a [string multimap]."""
    parts = [_SHORT.pack(len(options))]
    for key, texts in options.items():
        parts += [string(key), _SHORT.pack(len(texts)), *map(string, texts)]
    return b"".join(parts)


def error_body(code: int, message: str, details: bytes = b"") -> bytes:
    """The body of an ERROR. `details` are the fields that the code requires after the message."""
    return _INT.pack(code) + string(message) + details


def split_response(flags: int, body: bytes) -> tuple[bytes, bytes]:
    """A response's prefix (tracing id, warnings, custom payload) and the message after it."""
    if not flags & (TRACED | WARNED | PAYLOAD):
        return b"", body
    reader = Reader(body)
    if flags & TRACED:
        reader.take(16)
    if flags & WARNED:
        for _ in range(reader.short()):
            reader.short_bytes()
    if flags & PAYLOAD:
        for _ in range(reader.short()):
            reader.short_bytes()
            reader.value()
    return body[: reader.at], body[reader.at :]


def with_payload(flags: int, body: bytes, key: str, data: bytes) -> tuple[int, bytes]:
    """The flags and the body of a response with one more entry in its custom payload."""
    entry = string(key) + value_bytes(data)
    if not flags & PAYLOAD:
        prefix, message = split_response(flags, body)
        return flags | PAYLOAD, prefix + _SHORT.pack(1) + entry + message
    at = len(split_response(flags & ~PAYLOAD, body)[0])
    (count,) = _SHORT.unpack_from(body, at)
    return flags, body[:at] + _SHORT.pack(count + 1) + entry + body[at + 2 :]


def with_event_address(body: bytes, addresses: Mapping[bytes, bytes]) -> bytes:
    """The body of an EVENT, with its address replaced if `addresses` has a replacement for it."""
    reader = Reader(body)
    if reader.string() not in ("STATUS_CHANGE", "TOPOLOGY_CHANGE"):
        return body
    reader.string()  # UP, DOWN, NEW_NODE, ...
    start = reader.at + 1
    client_address = addresses.get(reader.take(reader.byte()))
    return body if client_address is None else body[:start] + client_address + body[reader.at :]


def packed_address(address: str) -> bytes:
    """An IPv4 address as the bytes of an inet."""
    return socket.inet_aton(address)
