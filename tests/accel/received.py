"""Makes connections of the driver without sockets, and the bytes that a server would send on
them.
"""

from __future__ import annotations

import io
import logging
import re
import struct
import zlib
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from cassandra.connection import Connection, DefaultEndPoint
from cassandra.protocol import ProtocolHandler
from cassandra.segment import SegmentCodec
from tests.accel.features import TAKES_FEATURES, feature_class

RESULT, ERROR, EVENT, READY = 0x08, 0x00, 0x0C, 0x02
VOID = struct.pack(">i", 1)


class Unconnected(Connection):  # type: ignore[misc]
    """A connection without a socket."""

    def __init__(self, version: int, codec: Any = None) -> None:
        super().__init__(DefaultEndPoint("127.0.0.1"), protocol_version=version)
        self.seen: list[Any] = []
        if TAKES_FEATURES:
            self.features = feature_class()()
        if codec is not None:
            self._segment_codec = codec
            self._is_checksumming_enabled = True
            self._io_buffer.set_checksumming_buffer()

    def close(self) -> None:
        self.is_closed = True

    def defunct(self, error: Any) -> None:
        self.seen.append(("defunct", shown(error)))
        super().defunct(error)

    def push(self, data: bytes) -> None:
        self.seen.append(("push", data))

    def handle_pushed(self, response: Any) -> None:
        self.seen.append(("event", shown(response)))

    def ask(self, stream: int, decoder: Any = ProtocolHandler.decode_message, **more: Any) -> None:
        """Adds a request whose callback records the response."""
        callback = more.get(
            "callback", lambda response: self.seen.append((stream, shown(response)))
        )
        self._requests[stream] = (callback, decoder, [])

    def receive(self, chunk: bytes) -> None:
        """Passes bytes to the connection as an event loop does when bytes arrive."""
        self._iobuf.write(chunk)
        self.process_io_buffer()

    def state(self) -> Any:
        """Returns the state of the connection, as far as programs can see it."""
        frame, buffers = self._current_frame, self._io_buffer
        return (
            self.seen,
            list(self.request_ids)[-20:],
            sorted(self._requests),
            sorted(self.orphaned_request_ids),
            (self.in_flight, self.is_defunct, self.is_closed, self.msg_received),
            self.is_unsupported_proto_version,
            frame and str(frame),
            (buffers.io_buffer.getvalue(), buffers.io_buffer.tell(), buffers.has_consumed_segment),
            (buffers.cql_frame_buffer.getvalue(), buffers.cql_frame_buffer.tell()),
        )


def shown(response: Any) -> Any:
    """Returns a response or error in a form that can be compared."""
    if isinstance(response, Exception) or not hasattr(response, "__dict__"):
        return type(response).__name__, str(response)
    return type(response).__name__, {name: repr(value) for name, value in vars(response).items()}


def frame(
    version: int, stream: int, body: bytes = VOID, *, opcode: int = RESULT, flags: int = 0
) -> bytes:
    """Returns a frame."""
    return struct.pack(">BBhBi", 0x80 | version, flags, stream, opcode, len(body)) + body


def string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def error_body(code: int, text: str) -> bytes:
    """Returns the body of an ERROR."""
    return struct.pack(">i", code) + string(text)


def rows_body(count: int, width: int = 10) -> bytes:
    """Returns the body of a page with one column of text."""
    metadata = struct.pack(">iii", 2, 1, 1) + string("ks") + string("t") + string("c")
    metadata += struct.pack(">H", 0x0D)
    cell = struct.pack(">i", width) + b"x" * width
    return metadata + struct.pack(">i", count) + cell * count


def compress(data: bytes) -> bytes:
    """Compresses data with zlib, and puts the data's length first, as the drivers do for LZ4."""
    return struct.pack(">i", len(data)) + zlib.compress(data)


def decompress(data: bytes) -> bytes:
    return zlib.decompress(data[4:])


CODECS: dict[str, Callable[[], Any]] = {
    "plain": SegmentCodec,
    "compressed": lambda: SegmentCodec(compress, decompress),
}


def segments(codec: Any, *messages: bytes) -> bytes:
    """Returns the messages as segments. Each segment belongs to only one message."""
    out = io.BytesIO()
    for message in messages:
        codec.encode(out, message)
    return out.getvalue()


def chunks(data: bytes, seed: int) -> Iterable[bytes]:
    """Yields data in chunks of random lengths. With seed 0, there is one chunk."""
    if not seed:
        yield data
        return
    random, at = Random(seed), 0
    while at < len(data):
        length = random.choice([1, 3, 8, 9, 10, 50, 4096, 70_000])
        yield data[at : at + length]
        at += length


def cut_segments(data: bytes, codec: Any, seed: int) -> Iterable[bytes]:
    """Yields data in chunks whose ends are within or between segments. With seed 0, yields one
    chunk.

    Two kinds of chunks are avoided. If a chunk ends within the header of a segment, the drivers
    lose its bytes. If a chunk ends one or two bytes before the end of a segment, and the connection
    uses compression, the drivers can fail.
    """
    random, start, last = Random(seed), 0, 0
    header = codec.header_length_with_crc
    while seed and start < len(data):
        length = int.from_bytes(data[start : start + 3], "little") & 0x1FFFF
        end = start + header + length + 4
        for cut in (random.randrange(start + header, end - 2), random.choice([start, end])):
            if cut < last:
                continue
            yield data[last:cut]
            last = cut
        start = end
    yield data[last:]


class Log(logging.Handler):
    """Keeps the messages of the driver's log."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info and record.exc_info[0]
        text = re.sub(r"\(\d+\)", "", record.getMessage())
        self.messages.append((record.levelname, text, error))
