"""Tasks that write and read segments and cancel timers.

A task is a description and a function. The function is called without and with the accelerator,
and the results are compared.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from cassandra.connection import Timer
from cassandra.segment import Segment, SegmentCodec, SegmentHeader
from tests.accel.answers import answer

MAX_PAYLOAD = Segment.MAX_PAYLOAD_LENGTH


def compress(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + zlib.compress(data)


def decompress(data: bytes) -> bytes:
    length, plain = int.from_bytes(data[:4], "big"), zlib.decompress(data[4:])
    assert len(plain) == length
    return plain


CODECS: dict[str, Callable[[], SegmentCodec]] = {
    "plain": SegmentCodec,
    "compressed": lambda: SegmentCodec(compress, decompress),
    "compressor alone": lambda: SegmentCodec(compress),
}


def sent(codec: SegmentCodec, message: Any) -> Any:
    """Encodes a message into a buffer. Returns the result and the bytes of the buffer."""
    out = io.BytesIO(b"before")
    out.seek(0, 2)
    return answer(codec.encode, out, message), out.getvalue()


def received(codec: SegmentCodec, data: bytes) -> list[Any]:
    """Decodes segments up to the first error. Returns each result and the position of the buffer
    after it.
    """
    buffer = io.BytesIO(data)
    told: list[Any] = []
    while buffer.tell() < len(data) and len(told) < 20:
        header = answer(codec.decode_header, buffer)
        told += [described(header), buffer.tell()]
        if not isinstance(header, SegmentHeader):
            break
        read = answer(codec.decode, buffer, header)
        told += [described(read), buffer.tell()]
        if not isinstance(read, Segment):
            break
    return told


def described(made: Any) -> Any:
    if isinstance(made, SegmentHeader | Segment):
        return type(made).__name__, vars(made)
    return repr(made)


def segment_tasks(count: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields tasks that write messages of many lengths, or read whole, damaged or cut segments."""
    rng = Random(21)
    long = (MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 3 * MAX_PAYLOAD + 7)
    lengths = (0, 1, 3, 100, 5000, *long)
    for name, make in CODECS.items():
        for i in range(count):
            length = rng.choice(lengths)
            if length > 5000 and i >= 20:
                length = rng.randrange(5000)
            message = rng.randbytes(length) if rng.random() < 0.5 else bytes(length)
            yield f"segment, {name}, of {length} bytes", partial(sent, make(), message)
            out = io.BytesIO()
            # The accelerator is not on yet, so the plain driver encodes the message.
            make().encode(out, message)
            data = bytearray(out.getvalue())
            yield f"read, {name}, {length} bytes", partial(received, make(), bytes(data))
            data[rng.randrange(min(len(data), 12))] ^= 1 << rng.randrange(8)
            yield f"read damaged, {name}: {data[:12].hex()}", partial(received, make(), bytes(data))
            cut = bytes(data[: rng.randrange(min(len(data), 20))])
            yield f"read cut, {name}: {cut.hex()}", partial(received, make(), cut)
        for odd in (None, "text", bytearray(b"abc"), memoryview(b"abc"), 5):
            yield f"segment, {name}, of {odd!r}", partial(sent, make(), odd)


def timer_tasks() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields tasks that finish a timer before or after its timeout. Some of the timers are
    cancelled.
    """
    for cancelled in (False, True):
        for late in (-5, 5):

            def task(cancelled: bool = cancelled, late: int = late) -> Any:
                called: list[int] = []
                timer = Timer(1000, lambda: called.append(1))
                said = timer.cancel() if cancelled else None
                done = [timer.finish(timer.end + late) for _ in range(2)]
                return said, done, timer.canceled, called

            yield f"timer, cancelled {cancelled}, {late} s late", task
