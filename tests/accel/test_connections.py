"""Tests the layer below requests: valid and wrong segments, and timers."""

from __future__ import annotations

import gc
import io
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import segment
from cassandra.connection import Timer, TimerManager
from cassandra.segment import SegmentCodec
from tests.accel.answers import answer
from tests.accel.segments import MAX_PAYLOAD, compress, decompress, described, received, sent

from turbocql import accel


def same(call: Callable[[], Any]) -> None:
    """Asserts that a call has the same result without and with the accelerator."""
    plain = call()
    with accel.accelerated():
        assert call() == plain


def natively(name: str) -> int:
    return next(seam.native for seam in accel.status().seams if seam.name.endswith(name))


class Loud(SegmentCodec):  # type: ignore[misc]
    """A codec class of a program. It overrides methods that the driver calls."""

    def compress(self, data: bytes) -> bytes:
        return b"short"

    def encode_header(self, buffer: Any, *given: Any) -> None:
        buffer.write(b"HEADER")


def test_a_programs_codec_class_wins() -> None:
    same(lambda: sent(Loud(compress, decompress), b"some bytes"))
    same(lambda: received(Loud(), sent(SegmentCodec(), b"abc")[1][6:]))


METHODS: dict[str, Callable[..., Any]] = {
    "compress": lambda data: b"short",
    "decompress": lambda data, length: b"other",
    "encode_header": lambda buffer, *given: buffer.write(b"HEADER"),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_a_codec_instance_wins(name: str) -> None:
    data = sent(SegmentCodec(compress, decompress), b"some bytes" * 9)[1][6:]
    codec = SegmentCodec(compress, decompress)
    setattr(codec, name, METHODS[name])
    same(partial(sent, codec, b"some bytes" * 9))
    same(partial(received, codec, data))


def test_a_method_replaced_afterwards_wins() -> None:
    original = vars(SegmentCodec)["encode"]
    try:
        with accel.accelerated():
            before = natively("encode")
            SegmentCodec.encode = lambda self, buffer, message: buffer.write(b"mine")
            assert sent(SegmentCodec(), b"abc")[1] == b"beforemine"
            assert natively("encode") == before
        assert sent(SegmentCodec(), b"abc")[1] == b"beforemine"
    finally:
        SegmentCodec.encode = original


HELPERS: dict[str, Callable[..., Any]] = {
    "compute_crc32": lambda data, value: 5,
    "compute_crc24": lambda data, length: 5,
    "write_uint_le": lambda f, i, size=4: f.write(b"?" * size),
}


@pytest.mark.parametrize("name", HELPERS)
def test_a_helper_replaced_before_wins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, name, HELPERS[name])
    plain = sent(SegmentCodec(), b"abc")
    with accel.accelerated():
        assert sent(SegmentCodec(), b"abc") == plain
        assert name in str(accel.status())


def test_a_method_replaced_before_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentCodec, "compress", lambda self, data: b"short")
    plain = sent(SegmentCodec(compress, decompress), b"some bytes")
    with accel.accelerated():
        assert sent(SegmentCodec(compress, decompress), b"some bytes") == plain
        unpatched = {seam.name: seam.why for seam in accel.status().seams if not seam.patched}
        why = "it has been replaced: cassandra.segment.SegmentCodec.compress"
        assert unpatched["segment.SegmentCodec.encode"] == why


def fail(data: bytes) -> bytes:
    """A compressor that raises."""
    raise ValueError(len(data))


COMPRESSORS: dict[str, Callable[[bytes], Any]] = {
    "raises": fail,
    "None": lambda data: None,
    "text": lambda data: "text",
    "bytearray": lambda data: bytearray(b"abcdef"),
}


@pytest.mark.parametrize("length", [10, 2 * MAX_PAYLOAD + 1])
@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compressors_may_fail(kind: str, length: int) -> None:
    same(partial(sent, SegmentCodec(COMPRESSORS[kind], decompress), bytes(length)))


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_decompressors_may_fail(kind: str) -> None:
    data = sent(SegmentCodec(compress, decompress), bytes(1000))[1][6:]
    same(partial(received, SegmentCodec(compress, COMPRESSORS[kind]), data))


@pytest.mark.parametrize("length", [10, 3 * MAX_PAYLOAD])
def test_a_compressor_may_fail_later(length: int) -> None:
    calls: list[int] = []

    def second(data: bytes) -> Any:
        calls.append(len(data))
        return None if len(calls) == 2 else bytearray(compress(data))

    plain = sent(SegmentCodec(second, decompress), bytes(length))
    calls.clear()
    with accel.accelerated():
        assert sent(SegmentCodec(second, decompress), bytes(length)) == plain


class Header:
    """A program's own class of headers."""

    payload_length: Any = 10
    uncompressed_payload_length: Any = -1
    is_self_contained: Any = "odd"


ODD_CODECS = {"plain": SegmentCodec(), "compressed": SegmentCodec(compress, decompress)}


@pytest.mark.parametrize("length", [10, 9, 11, 0, -1, 1 << 70, 10.0, True, None, "10"], ids=repr)
@pytest.mark.parametrize("kind", ODD_CODECS)
def test_odd_headers(kind: str, length: Any) -> None:
    def everything() -> list[Any]:
        headers = []
        for uncompressed in (-1, 0, 1, 1 << 40, 2.5, None):
            header = Header()
            header.payload_length, header.uncompressed_payload_length = length, uncompressed
            headers.append(read(ODD_CODECS[kind], header))
        return headers

    same(everything)


@pytest.mark.parametrize("kind", ODD_CODECS)
def test_headers_of_other_classes(kind: str) -> None:
    same(partial(read, ODD_CODECS[kind], None))
    header = SimpleNamespace(payload_length=10, is_self_contained=True)
    same(partial(read, ODD_CODECS[kind], header))


def read(codec: SegmentCodec, header: Any) -> Any:
    """Decodes a segment with this header. Returns the result and the position of the buffer."""
    buffer = io.BytesIO(sent(SegmentCodec(), b"some bytes")[1][6:])
    buffer.seek(6)
    return described(answer(codec.decode, buffer, header)), buffer.tell()


def test_buffers_of_other_classes_fall_back_to_the_driver() -> None:
    class Slow(io.BytesIO):
        def read(self, size: Any = -1) -> bytes:
            return super().read(size)

    data = sent(SegmentCodec(), b"some bytes")[1][6:]
    with accel.accelerated():
        before = natively("decode_header")
        assert SegmentCodec().decode_header(Slow(data)).payload_length == 10
        assert natively("decode_header") == before


def test_a_cancelled_timer_releases_its_request() -> None:
    class Request:
        def timed_out(self) -> None:
            raise AssertionError

    manager = TimerManager()

    def live_requests(count: int) -> int:
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

    # The plain driver keeps a cancelled timer until all active timers with an earlier end have
    # ended. So this timer keeps the cancelled timers alive.
    manager.add_timer(Timer(500, print))
    assert live_requests(10) == 10
    with accel.accelerated():
        assert live_requests(10) == 0
        assert natively("cancel") == 10
    assert live_requests(10) == 10


class Kept(Timer):  # type: ignore[misc]
    """A program's own class of timers."""


class Read(Timer):  # type: ignore[misc]
    """A timer whose `callback` is a property. Assignments to the property have no effect."""

    callback = property(lambda self: print, lambda self, value: None)


@pytest.mark.parametrize("cls", [Kept, Read])
def test_timers_of_a_programs_class_keep_their_callback(cls: type[Any]) -> None:
    with accel.accelerated():
        timer = cls(1000, print)
        timer.cancel()
        assert timer.canceled
        assert timer.callback is print
        assert natively("cancel") == 0


def test_a_replaced_cancel_of_timers_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    with accel.accelerated():
        cancelled: list[Any] = []
        monkeypatch.setattr(Timer, "cancel", lambda self: cancelled.append(self))
        timer = Timer(1000, print)
        timer.cancel()
        assert cancelled == [timer]
        assert timer.callback is print
        monkeypatch.undo()


def test_timers_are_cancelled_while_they_end() -> None:
    """One thread finishes timers while another thread cancels them. No call raises an error."""

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
