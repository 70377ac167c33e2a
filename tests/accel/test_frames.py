"""Native code reads and dispatches frames as the drivers do. The frames arrive in chunks of any
size.
"""

from __future__ import annotations

import gc
import logging
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import pytest
from cassandra import connection, protocol
from cassandra.connection import Connection
from cassandra.protocol import ProtocolHandler
from cassandra.segment import SegmentCodec
from tests.accel.answers import answer
from tests.accel.features import TAKES_FEATURES, feature_class
from tests.accel.received import (
    CODECS,
    ERROR,
    EVENT,
    READY,
    VOID,
    Log,
    Unconnected,
    chunks,
    cut_segments,
    error_body,
    frame,
    rows_body,
    segments,
    shown,
    string,
)
from tests.accel.statements import seams

from turbocql import accel

READ = "connection.Connection.process_io_buffer"
DISPATCH = "connection.Connection.process_msg"


@contextmanager
def logged() -> Iterator[list[Any]]:
    """Yields the list of messages that the driver logs within the `with` block."""
    log = Log()
    logger = logging.getLogger("cassandra.connection")
    logger.addHandler(log)
    try:
        yield log.messages
    finally:
        logger.removeHandler(log)


def same(call: Callable[[], Any]) -> Any:
    """Asserts that a call has the same result and log without and with the accelerator."""

    def with_log() -> Any:
        with logged() as messages:
            return call(), list(messages)

    plain = with_log()
    with accel.accelerated():
        assert with_log() == plain
    return plain


def messages(version: int) -> list[bytes]:
    """Returns frames of all kinds. Each frame has another stream id."""
    event = string("STATUS_CHANGE") + string("UP") + b"\4\x7f\0\0\1" + struct.pack(">i", 9042)
    warned = struct.pack(">H", 1) + string("careful") + VOID
    payload = struct.pack(">H", 1) + string("key") + struct.pack(">i", 2) + b"ab" + VOID
    return [
        frame(version, 0),
        frame(version, 1, rows_body(3)),
        frame(version, -1, event, opcode=EVENT),
        frame(version, 2, error_body(0x2200, "invalid"), opcode=ERROR),
        frame(version, 3, error_body(0x1001, "overloaded"), opcode=ERROR),
        frame(version, 4, warned, flags=8),
        frame(version, 5, payload, flags=4),
        frame(version, 6, bytes(range(16)) + VOID, flags=2),
        frame(version, 7, b"", opcode=READY),
        frame(version, 8, rows_body(20_000)),
        frame(version, 9, struct.pack(">i", 3) + string("ks")),
        frame(version, 10, VOID + b"more"),
        frame(version, 11, flags=0x10),
        frame(version, 400),
        frame(version, 12),
    ]


def received(data: Iterable[bytes], version: int, codec: Any = None) -> list[Any]:
    """Passes chunks of a server's bytes to a connection. Returns the state of the connection after
    each chunk.
    """
    unconnected = Unconnected(version, codec)
    for stream in range(13):
        unconnected.ask(stream)
    unconnected.orphaned_request_ids.add(6)
    unconnected.in_flight = 13
    states = []
    for chunk in data:
        error = answer(unconnected.receive, chunk)
        states.append((error, repr(unconnected.state())))
    return states


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_frames_without_segments(version: int, seed: int) -> None:
    same(lambda: received(chunks(b"".join(messages(version)), seed), version))


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_frames_in_segments(kind: str, together: bool, seed: int) -> None:
    codec = CODECS[kind]()
    sent = messages(5)
    # The largest frame, of 280,000 bytes, needs several segments.
    data = segments(codec, *([b"".join(sent)] if together else sent))
    plain = same(lambda: received(cut_segments(data, codec, seed), 5, codec))[0]
    # With chunks of any length, the plain driver may fail. So only the accelerated driver reads
    # them.
    with accel.accelerated():
        assert received(chunks(data, seed), 5, codec)[-1] == plain[-1]


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("at", [0, 2, 5, 8, 12, -1, -30])
def test_corrupt_segments(kind: str, at: int) -> None:
    codec = CODECS[kind]()
    data = bytearray(segments(codec, frame(5, 0) + frame(5, 1), frame(5, 2), frame(5, 3)))
    data[at] ^= 0x55
    same(lambda: received([bytes(data)], 5, codec))


def test_a_decompressor_may_fail() -> None:
    def fail(data: bytes) -> bytes:
        raise ValueError("not compressed")

    data = segments(CODECS["compressed"](), frame(5, 0, rows_body(100)), frame(5, 1))
    same(lambda: received([data], 5, SegmentCodec(lambda data: data, fail)))


HEADERS = {
    "version 2": frame(2, 0),
    "version 9": frame(9, 0),
    "request": b"\4" + frame(4, 0)[1:],
    "negative length": frame(4, 0)[:5] + struct.pack(">i", -5),
    "empty body": frame(4, 0, b""),
    "unknown opcode": frame(4, 0, opcode=0x55),
    "unknown kind": frame(4, 0, struct.pack(">i", 77)),
    "unknown flags": frame(4, 0, flags=0xE0),
    "compressed": frame(4, 0, flags=1),
    "negative stream": frame(4, -7),
    "protocol error": frame(4, 0, error_body(0x0A, "wrong"), opcode=ERROR),
    "unsupported": frame(4, 0, error_body(0x0A, "unsupported protocol version"), opcode=ERROR),
    "too short": frame(4, 0, rows_body(5)[:-3]),
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("before", [b"", frame(4, 1)])
def test_odd_frames(name: str, before: bytes) -> None:
    data = before + HEADERS[name] + frame(4, 2)
    same(lambda: received([data], 4))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("who", ["callback", "decoder"])
def test_callbacks_and_decoders_may_raise(error: type[BaseException], who: str) -> None:
    def fail(*arguments: Any) -> Any:
        raise error("stop")

    def outcome() -> Any:
        unconnected = Unconnected(4)
        unconnected.ask(0, **{who: fail})
        unconnected.ask(1)
        states: list[Any] = []
        for data in (frame(4, 0) + frame(4, 1), frame(4, 1)):
            try:
                unconnected.receive(data)
            except BaseException as raised:
                states.append(type(raised))
            unconnected._current_frame = None
            states.append(repr(unconnected.state()))
        return states

    same(outcome)


def test_requests_without_a_callback() -> None:
    def outcome() -> Any:
        unconnected = Unconnected(4)
        unconnected.ask(0, callback=None)
        unconnected.receive(frame(4, 0))
        return repr(unconnected.state())

    same(outcome)


def test_sessions_of_continuous_paging() -> None:
    class Paging:
        decoder = staticmethod(ProtocolHandler.decode_message)
        released = False

        def __init__(self, seen: list[Any]) -> None:
            self.seen = seen

        def on_message(self, response: Any) -> None:
            self.seen.append(("page", shown(response)))

    def outcome() -> Any:
        unconnected = Unconnected(4)

        def begin(response: Any) -> None:
            unconnected._continuous_paging_sessions[0] = Paging(unconnected.seen)

        unconnected.ask(0, callback=begin)
        unconnected.ask(1)
        states: list[Any] = []
        for stream in (0, 0, 1, 0):
            unconnected.receive(frame(4, stream))
            states.append(repr(unconnected.state()))
        unconnected._continuous_paging_sessions[0].released = True
        unconnected.receive(frame(4, 0))
        return [*states, repr(unconnected.state()), list(unconnected._continuous_paging_sessions)]

    same(outcome)


def test_a_late_response_frees_its_stream() -> None:
    def outcome() -> Any:
        released: list[int] = []
        unconnected = Unconnected(4)
        unconnected._on_orphaned_stream_released = lambda: released.append(1)
        unconnected.ask(0)
        unconnected.orphaned_request_ids.add(0)
        unconnected.in_flight = 1
        unconnected.receive(frame(4, 0))
        return repr(unconnected.state()), released

    assert same(outcome)[0][1] == [1]


def test_frames_are_native() -> None:
    with accel.accelerated():
        unconnected = Unconnected(4)
        for stream in range(50):
            unconnected.ask(stream, decoder=ProtocolHandler.decode_message)
        unconnected.receive(b"".join(frame(4, stream) for stream in range(50)))
        counts = seams()
        assert counts[READ].native == 1
        assert counts[DISPATCH].native == 50
        assert counts["protocol._ProtocolHandler.decode_message"].native == 50
        assert len(unconnected.seen) == 50


def test_messages_may_be_passed_directly() -> None:
    def outcome() -> Any:
        unconnected = Unconnected(4)
        for stream in range(4):
            unconnected.ask(stream)
        headers = [(4, 0, 0, 8), (4, 0, 1, 99), (4, 0, -1, 8), (4, 300, 2, 8), ("4", 0, 3, 8)]
        for version, flags, stream, opcode in headers:
            header = connection._Frame(version, flags, stream, opcode, 9, 13)
            unconnected.process_msg(header, VOID)
        answers = [answer(unconnected.process_msg, None, VOID), answer(unconnected.process_msg)]
        return answers, repr(unconnected.state())

    same(outcome)


class Watching(Unconnected):
    """A program's own class of connections."""

    def process_msg(self, header: Any, body: bytes) -> None:
        self.seen.append(("message", header.stream, body))
        super().process_msg(header, body)


class Splitting(Unconnected):
    """A class that overrides how headers are read."""

    def _read_frame_header(self) -> Any:
        self.seen.append("header")
        return super()._read_frame_header()


@pytest.mark.parametrize("cls", [Watching, Splitting])
def test_a_programs_connection_classes_win(cls: type[Any]) -> None:
    def outcome() -> Any:
        unconnected = cls(4)
        unconnected.ask(0)
        unconnected.ask(1)
        unconnected.receive(frame(4, 0) + frame(4, 1))
        return repr(unconnected.state())

    same(outcome)


def test_methods_of_a_connection_win() -> None:
    def outcome() -> Any:
        unconnected = Unconnected(4)
        unconnected.process_msg = lambda header, body: unconnected.seen.append(body)
        unconnected.receive(frame(4, 0) + frame(4, 1))
        return repr(unconnected.state())

    same(outcome)


class Own(protocol.ResultMessage):  # type: ignore[misc]
    """A program's own class of results."""

    def __init__(self, kind: int) -> None:
        super().__init__(kind)
        self.own = True


class Handler(ProtocolHandler):  # type: ignore[misc]
    """A handler with a program's own class of results."""

    message_types_by_opcode: ClassVar = {**ProtocolHandler.message_types_by_opcode, 8: Own}


def test_a_programs_protocol_handlers_win() -> None:
    def outcome() -> Any:
        unconnected = Unconnected(4)
        unconnected.ask(0, decoder=Handler.decode_message)
        unconnected.receive(frame(4, 0))
        return repr(unconnected.state())

    assert "own" in same(outcome)[0]


REPLACEMENTS: dict[str, tuple[Any, Any]] = {
    "process_msg": (Connection, lambda self, header, body: self.seen.append(body)),
    "_read_frame_header": (Connection, lambda self: 0),
    "log": (connection, logging.getLogger("elsewhere")),
    "recv": (protocol.ResultMessage, lambda self, *rest: setattr(self, "own", 1)),
    "decode_message": (
        protocol._ProtocolHandler,
        classmethod(lambda cls, *arguments: arguments[-3]),
    ),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_replaced_functions_win(name: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, value = REPLACEMENTS[name]

    def outcome() -> Any:
        unconnected = Unconnected(4)
        unconnected.ask(0, decoder=ProtocolHandler.decode_message)
        unconnected.receive(frame(4, 0))
        return repr(unconnected.state())

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, value)
        plain = outcome()
    if when == "before":
        monkeypatch.setattr(owner, name, value)
    with accel.accelerated():
        if when == "after":
            monkeypatch.setattr(owner, name, value)
        assert outcome() == plain
        monkeypatch.undo()


def test_streams_are_freed_while_others_are_taken() -> None:
    """One thread receives the answers to requests while another thread sends requests."""
    with accel.accelerated():
        unconnected = Unconnected(4)
        answered = threading.Semaphore(0)
        free = threading.Semaphore(100)

        def send() -> None:
            for _ in range(5000):
                free.acquire()
                with unconnected.lock:
                    unconnected.in_flight += 1
                    stream = unconnected.get_request_id()
                unconnected.ask(stream, callback=lambda response: None)
                sent.append(stream)
                answered.release()

        sent: list[int] = []
        thread = threading.Thread(target=send)
        thread.start()
        for number in range(5000):
            answered.acquire()
            unconnected.receive(frame(4, sent[number]))
            with unconnected.lock:
                unconnected.in_flight -= 1
            free.release()
        thread.join()
        assert unconnected.in_flight == 0
        assert not unconnected._requests


def test_large_frames_are_not_copied_again_and_again() -> None:
    gc.collect()
    with accel.accelerated():
        unconnected = Unconnected(4)
        unconnected.ask(0)
        data = frame(4, 0, rows_body(1, 8_000_000))
        for chunk in (data[at : at + 4096] for at in range(0, len(data), 4096)):
            unconnected.receive(chunk)
        assert unconnected.seen[0][0] == 0


class Body:
    """A message of a program's own."""

    opcode: Any = 0x0A
    custom_payload: Any = None
    tracing: Any = False

    def __init__(self, body: bytes = b"body", **attributes: Any) -> None:
        self.body = body
        vars(self).update(attributes)

    def send_body(self, buffer: Any, *rest: Any) -> None:
        buffer.write(self.body)


class Failing(Body):
    def send_body(self, buffer: Any, *rest: Any) -> None:
        raise LookupError("no body")


class Seeking(Body):
    def send_body(self, buffer: Any, *rest: Any) -> None:
        buffer.write(self.body)
        buffer.seek(11)


class Starting(Body):
    def send_body(self, buffer: Any, *rest: Any) -> None:
        buffer.seek(0)


class Marked(ProtocolHandler):  # type: ignore[misc]
    """A handler that overrides how headers are written."""

    @staticmethod
    def _write_header(buffer: Any, *rest: Any) -> None:
        buffer.write(b"HEADER")


BODIES: dict[str, Callable[[], Any]] = {
    "usual": Body,
    "empty": lambda: Body(b""),
    "payload": lambda: Body(custom_payload={"a": b"b"}),
    "tracing": lambda: Body(tracing=True),
    "opcode": lambda: Body(opcode=300),
    "opcode of another class": lambda: Body(opcode="x"),
    "failing": Failing,
    "seeking": Seeking,
    "starting": Starting,
    "query": lambda: protocol.QueryMessage("SELECT", 1),
    "options": lambda: protocol.OptionsMessage(),
    "register": lambda: protocol.RegisterMessage(["STATUS_CHANGE"]),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("handler", [ProtocolHandler, Marked, protocol._ProtocolHandler])
def test_frames_of_requests(name: str, handler: Any) -> None:
    features = {"protocol_features": feature_class()()} if TAKES_FEATURES else {}

    def outcome() -> list[Any]:
        frames: list[Any] = []
        for version in (3, 4, 5, 6, "4"):
            for stream in (0, 7, -1, 32_767, 32_768, "7"):
                for compressor in (None, lambda data: b"<" + data + b">"):
                    for beta in (False, True):
                        options = {
                            "compressor": compressor,
                            "allow_beta_protocol_version": beta,
                            **features,
                        }
                        encode = partial(handler.encode_message, BODIES[name](), stream, version)
                        frames.append(answer(partial(encode, **options)))
                        frames.append(answer(encode, compressor, beta, *features.values()))
        encode = partial(handler.encode_message, BODIES[name]())
        frames += [answer(encode), answer(encode, 1, 4), answer(partial(encode, 1, 4, colour=1))]
        return frames

    same(outcome)


def test_frames_of_requests_are_native() -> None:
    features = (feature_class()(),) if TAKES_FEATURES else ()
    with accel.accelerated():
        message = protocol.QueryMessage("SELECT", 1)
        for version in (3, 4, 5):
            ProtocolHandler.encode_message(message, 1, version, None, False, *features)
        assert seams()["protocol._ProtocolHandler.encode_message"].native == 3
