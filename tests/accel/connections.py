"""What happens beneath requests: segments, right and wrong ones, and timers.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.connections

Run in the environment of either driver. Prints the names of what passed; the first that fails is
an AssertionError.
"""

from __future__ import annotations

import gc
import io
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from cassandra import cluster, connection, segment
from cassandra.connection import Timer, TimerManager
from cassandra.segment import Segment, SegmentCodec, SegmentHeader
from tests.accel.answers import answer, run

from turbocql import accel

assert cluster, "it imports all that the accelerator waits for"
MOST = Segment.MAX_PAYLOAD_LENGTH


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
if connection.segment_codec_lz4 is not None:
    CODECS["lz4"] = lambda: connection.segment_codec_lz4


def sent(codec: SegmentCodec, message: Any) -> Any:
    """What comes of writing it: what was said, and the bytes."""
    out = io.BytesIO(b"before")
    out.seek(0, 2)
    return answer(codec.encode, out, message), out.getvalue()


def received(codec: SegmentCodec, data: bytes) -> list[Any]:
    """What is read of bytes, until something is raised, and where the buffer stands."""
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
    """Messages of all lengths, and what is read of whole, cut and damaged segments."""
    rng = Random(21)
    for name, make in CODECS.items():
        for i in range(count):
            length = rng.choice((0, 1, 3, 100, 5000, MOST - 1, MOST, MOST + 1, 3 * MOST + 7))
            if length > 5000 and i >= 20:
                length = rng.randrange(5000)
            message = rng.randbytes(length) if rng.random() < 0.5 else bytes(length)
            yield f"segment, {name}, of {length} bytes", partial(sent, make(), message)
            out = io.BytesIO()
            # By the driver: tasks are made before it is accelerated.
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
    """Timers cancelled before and after their time."""
    for cancelled in (False, True):
        for late in (-5, 5):

            def task(cancelled: bool = cancelled, late: int = late) -> Any:
                called: list[int] = []
                timer = Timer(1000, lambda: called.append(1))
                said = timer.cancel() if cancelled else None
                done = [timer.finish(timer.end + late) for _ in range(2)]
                return said, done, timer.canceled, called

            yield f"timer, cancelled {cancelled}, {late} s late", task


def same(call: Callable[[], Any]) -> None:
    """Plain, and accelerated."""
    plain = call()
    with accel.accelerated():
        assert call() == plain


def natively(name: str) -> int:
    return next(seam.native for seam in accel.status().seams if seam.name.endswith(name))


def codecs_of_ones_own_win() -> None:
    class Loud(SegmentCodec):  # type: ignore[misc]
        def compress(self, data: bytes) -> bytes:
            return b"short"

        def encode_header(self, buffer: Any, *given: Any) -> None:
            buffer.write(b"HEADER")

    same(lambda: sent(Loud(compress, decompress), b"some bytes"))
    same(lambda: received(Loud(), sent(SegmentCodec(), b"abc")[1][6:]))
    data = sent(SegmentCodec(compress, decompress), b"some bytes" * 9)[1][6:]
    for name, value in (
        ("compress", lambda data: b"short"),
        ("decompress", lambda data, length: b"other"),
        ("encode_header", lambda buffer, *given: buffer.write(b"HEADER")),
    ):
        codec = SegmentCodec(compress, decompress)
        setattr(codec, name, value)
        same(partial(sent, codec, b"some bytes" * 9))
        same(partial(received, codec, data))
    original = vars(SegmentCodec)["encode"]
    with accel.accelerated():
        before = natively("encode")
        SegmentCodec.encode = lambda self, buffer, msg: buffer.write(b"mine")
        assert sent(SegmentCodec(), b"abc")[1] == b"beforemine"
        assert natively("encode") == before
    assert sent(SegmentCodec(), b"abc")[1] == b"beforemine"
    SegmentCodec.encode = original


def helpers_replaced_before_win() -> None:
    for name, value in (
        ("compute_crc32", lambda data, value: 5),
        ("compute_crc24", lambda data, length: 5),
        ("write_uint_le", lambda f, i, size=4: f.write(b"?" * size)),
    ):
        own = vars(segment)[name]
        setattr(segment, name, value)
        try:
            plain = sent(SegmentCodec(), b"abc")
            with accel.accelerated():
                assert sent(SegmentCodec(), b"abc") == plain
                assert name in str(accel.status())
        finally:
            setattr(segment, name, own)


def methods_replaced_before_are_named() -> None:
    own = vars(SegmentCodec)["compress"]
    SegmentCodec.compress = lambda self, data: b"short"
    try:
        plain = sent(SegmentCodec(compress, decompress), b"some bytes")
        with accel.accelerated():
            assert sent(SegmentCodec(compress, decompress), b"some bytes") == plain
            left = {seam.name: seam.why for seam in accel.status().seams if not seam.patched}
            why = "it has been replaced: cassandra.segment.SegmentCodec.compress"
            assert left["segment.SegmentCodec.encode"] == why
    finally:
        SegmentCodec.compress = own


def compressors_may_fail() -> None:
    def fail(data: bytes) -> bytes:
        raise ValueError(len(data))

    odd: list[Callable[[bytes], Any]] = [
        fail,
        lambda data: None,
        lambda data: "text",
        lambda data: bytearray(b"abcdef"),
    ]

    def second(data: bytes) -> Any:
        calls.append(len(data))
        return None if len(calls) == 2 else bytearray(compress(data))

    calls: list[int] = []
    odd.append(second)
    for length in (10, 3 * MOST):
        calls.clear()
        plain = sent(SegmentCodec(second, decompress), bytes(length))
        calls.clear()
        with accel.accelerated():
            assert sent(SegmentCodec(second, decompress), bytes(length)) == plain
    odd.remove(second)
    data = sent(SegmentCodec(compress, decompress), bytes(1000))[1][6:]
    for one in odd:
        for length in (10, 2 * MOST + 1):
            same(partial(sent, SegmentCodec(one, decompress), bytes(length)))
        same(partial(received, SegmentCodec(compress, one), data))


def odd_headers() -> None:
    data = sent(SegmentCodec(), b"some bytes")[1][6:]

    class Header:
        payload_length: Any = 10
        uncompressed_payload_length: Any = -1
        is_self_contained: Any = "odd"

    def read(codec: SegmentCodec, given: Any) -> Any:
        buffer = io.BytesIO(data)
        buffer.seek(6)
        return described(answer(codec.decode, buffer, given)), buffer.tell()

    for codec in (SegmentCodec(), SegmentCodec(compress, decompress)):
        for length in (10, 9, 11, 0, -1, 1 << 70, 10.0, True, None, "10"):
            for before in (-1, 0, 1, 1 << 40, 2.5, None):
                header = Header()
                header.payload_length, header.uncompressed_payload_length = length, before
                same(partial(read, codec, header))
        same(partial(read, codec, None))
        same(partial(read, codec, SimpleNamespace(payload_length=10, is_self_contained=True)))


def buffers_of_ones_own_are_the_drivers() -> None:
    class Slow(io.BytesIO):
        def read(self, size: Any = -1) -> bytes:
            return super().read(size)

    data = sent(SegmentCodec(), b"some bytes")[1][6:]
    with accel.accelerated():
        before = natively("decode_header")
        assert SegmentCodec().decode_header(Slow(data)).payload_length == 10
        assert natively("decode_header") == before


def a_cancelled_timer_lets_go() -> None:
    class Request:
        def timed_out(self) -> None:
            raise AssertionError

    manager = TimerManager()

    def left(count: int) -> int:
        requests = []
        for _ in range(count):
            request = Request()
            timer = Timer(1000, request.timed_out)
            manager.add_timer(timer)
            timer.cancel()
            requests.append(weakref.ref(request))
        del request, timer
        manager.service_timeouts()
        gc.collect()
        return sum(request() is not None for request in requests)

    # Behind one that is not cancelled, the driver keeps them all.
    manager.add_timer(Timer(500, print))
    assert left(10) == 10
    with accel.accelerated():
        assert left(10) == 0
        assert natively("cancel") == 10
    assert left(10) == 10


def timers_of_ones_own_keep_theirs() -> None:
    class Kept(Timer):  # type: ignore[misc]
        pass

    class Read(Timer):  # type: ignore[misc]
        callback = property(lambda self: print, lambda self, value: None)

    with accel.accelerated():
        for cls in (Kept, Read):
            timer = cls(1000, print)
            timer.cancel()
            assert timer.canceled
            assert timer.callback is print
        assert natively("cancel") == 0
        original = vars(Timer)["cancel"]
        said: list[Any] = []
        Timer.cancel = lambda self: said.append(self)
        timer = Timer(1000, print)
        timer.cancel()
        assert said == [timer]
        assert timer.callback is print
        Timer.cancel = original


def timers_are_cancelled_while_they_end() -> None:
    """One thread lets timers end, another cancels them: nothing is raised."""

    def finish(timers: list[Timer], done: list[Any]) -> None:
        now = time.time() + 1
        done.extend(answer(timer.finish, now) for timer in timers)

    with accel.accelerated():
        for _ in range(200):
            timers = [Timer(0, lambda: None) for _ in range(50)]
            done: list[Any] = []
            thread = threading.Thread(target=finish, args=(timers, done))
            thread.start()
            for timer in reversed(timers):
                timer.cancel()
            thread.join()
            assert done == [True] * 50
            assert all(timer.canceled for timer in timers)


def main() -> None:
    checks: list[Callable[[], None]] = [
        codecs_of_ones_own_win,
        helpers_replaced_before_win,
        methods_replaced_before_are_named,
        compressors_may_fail,
        odd_headers,
        buffers_of_ones_own_are_the_drivers,
        a_cancelled_timer_lets_go,
        timers_of_ones_own_keep_theirs,
        timers_are_cancelled_while_they_end,
    ]
    run(checks)


if __name__ == "__main__":
    main()
