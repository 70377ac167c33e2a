"""Native methods of connections with libev write the same bytes in the same order as the driver's
methods.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cassandra.io import libevreactor
from tests.accel.answers import answer
from tests.accel.statements import seams

from turbocql import accel

PUSH, HANDLE_WRITE = (
    f"io.libevreactor.LibevConnection.{name}" for name in ("push", "handle_write")
)
WRITE = libevreactor.libev.EV_WRITE


class Notifier:
    """Stands in for the notifier of the event loop. Counts how often it must wake the loop."""

    def __init__(self) -> None:
        self.calls = 0

    def send(self) -> None:
        self.calls += 1


class Connection(libevreactor.LibevConnection):  # type: ignore[misc]
    """A connection over a socket of the test. It sends with the driver's methods."""

    def __init__(self, own: socket.socket) -> None:
        self.deque: deque[bytes] = deque()
        self._deque_lock = threading.Lock()
        self.lock = threading.RLock()
        self._socket = own
        self._socket_writable = True
        self.in_flight = 1
        self.errors: list[Any] = []
        own.setblocking(False)

    def defunct(self, error: Any) -> None:
        self.errors.append((type(error), error.args))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def notifier(monkeypatch: pytest.MonkeyPatch) -> Notifier:
    """Replaces the driver's event loop by a loop that does not run."""
    loop = libevreactor.LibevLoop()
    loop._notifier = counting = Notifier()
    monkeypatch.setattr(libevreactor, "_global_loop", loop)
    return counting


@pytest.fixture
def sockets() -> Iterator[Callable[..., tuple[Connection, socket.socket]]]:
    """Yields a function that returns a connection and its peer's socket."""
    opened: list[socket.socket] = []

    def pair(kind: int = socket.SOCK_SEQPACKET) -> tuple[Connection, socket.socket]:
        own, peer = socket.socketpair(socket.AF_UNIX, kind)
        opened.extend((own, peer))
        return Connection(own), peer

    yield pair
    for end in opened:
        end.close()


def received(peer: socket.socket) -> list[bytes]:
    """Returns the bytes that have arrived, as one item for each `recv`."""
    peer.setblocking(False)
    items: list[bytes] = []
    while True:
        try:
            item = peer.recv(1_000_000)
        except BlockingIOError:
            return items
        if not item:
            return items
        items.append(item)


def test_a_request_alone_is_written_at_once(notifier: Notifier, sockets: Any) -> None:
    connection, peer = sockets()
    with accel.accelerated():
        connection.push(b"alone")
        assert received(peer) == [b"alone"]
        assert not connection.deque
        assert notifier.calls == 0
        assert not connection._deque_lock.locked()
        assert seams()[PUSH].native == 1


def test_requests_at_the_same_time_go_out_together(notifier: Notifier, sockets: Any) -> None:
    messages = [b"%d" % number for number in range(100)]

    def outcome() -> Any:
        connection, peer = sockets()
        notifier.calls = 0
        for message in messages:
            connection.in_flight += 1
            connection.push(message)
        queued = list(connection.deque)
        assert received(peer) == []
        connection.handle_write(None, WRITE)
        return queued, connection.deque, notifier.calls, b"".join(writes := received(peer)), writes

    *plain, plain_writes = outcome()
    with accel.accelerated():
        *native, native_writes = outcome()
        assert native == plain
        assert (len(plain_writes), len(native_writes)) == (100, 1)
        assert seams()[HANDLE_WRITE].native == 1


@pytest.mark.parametrize("reason", ["others in flight", "queue", "watcher", "handshake", "lock"])
def test_other_requests_wait_for_the_event_loop(
    reason: str, notifier: Notifier, sockets: Any
) -> None:
    def outcome() -> Any:
        connection, peer = sockets()
        notifier.calls = 0
        match reason:
            case "others in flight":
                connection.in_flight = 2
            case "handshake":
                connection.in_flight = 0
            case "queue":
                connection.deque.append(b"earlier")
            case "watcher":
                connection._write_watcher_is_active = True
            case _:
                connection._deque_lock.acquire()
                threading.Timer(0.05, connection._deque_lock.release).start()
        connection.push(b"later")
        return received(peer), list(connection.deque), notifier.calls

    plain = outcome()
    with accel.accelerated():
        assert outcome() == plain
        assert plain[0] == []


@pytest.mark.parametrize("size", [4096, 4097, 20_000])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_large_messages_are_cut_by_the_driver(
    size: int, kind: Any, notifier: Notifier, sockets: Any
) -> None:
    def outcome() -> Any:
        connection, _ = sockets()
        connection.in_flight = 2
        connection.push(kind(bytes(size)))
        return [(type(item), len(item)) for item in connection.deque]

    plain = outcome()
    with accel.accelerated():
        assert outcome() == plain


def test_a_full_socket_gets_the_rest_later(notifier: Notifier, sockets: Any) -> None:
    messages = [bytes([number]) * (1 + 97 * number % 4000) for number in range(256)] * 8

    def outcome(*, direct: bool) -> Any:
        connection, peer = sockets(socket.SOCK_STREAM)
        connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        writable, parts = [], []
        for message in messages:
            connection.in_flight = 1 if direct else 2
            connection.push(message)
        while True:
            connection.handle_write(None, WRITE)
            writable.append(connection._socket_writable)
            parts += received(peer)
            if not connection.deque:
                return b"".join(parts), writable[0], writable[-1], connection.errors

    plain = outcome(direct=False)
    assert plain == (b"".join(messages), False, True, [])
    with accel.accelerated():
        assert outcome(direct=False) == plain
        assert outcome(direct=True) == plain
        assert not seams()[HANDLE_WRITE].fallback


def test_a_broken_socket_makes_the_connection_defunct(notifier: Notifier, sockets: Any) -> None:
    def outcome() -> Any:
        connection, peer = sockets(socket.SOCK_STREAM)
        peer.close()
        connection.push(b"lost")
        connection.handle_write(None, WRITE)
        return connection.errors, list(connection.deque)

    plain = outcome()
    with accel.accelerated():
        assert outcome() == plain
        assert plain[0][0][0] is BrokenPipeError


EVENTS: dict[str, tuple[Any, ...]] = {
    "error": (WRITE | libevreactor.libev.EV_ERROR,),
    "error with a number": (WRITE | libevreactor.libev.EV_ERROR, 5),
    "write": (WRITE,),
    "number": (WRITE, None),
    "other class": ("x",),
    "none": (),
}


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("closed", [False, True])
def test_events_are_handled_as_by_the_driver(
    name: str, closed: bool, notifier: Notifier, sockets: Any
) -> None:
    def outcome() -> Any:
        connection, peer = sockets()
        connection.is_closed = closed
        connection._socket_writable = False
        connection.deque.extend((b"one", b"two"))
        ended = answer(connection.handle_write, None, *EVENTS[name])
        writes = b"".join(received(peer))
        return ended, connection.errors, list(connection.deque), writes, connection._socket_writable

    plain = outcome()
    with accel.accelerated():
        assert outcome() == plain


def test_another_socket_is_the_drivers(notifier: Notifier, sockets: Any) -> None:
    class Own(socket.socket):
        def send(self, data: Any, *flags: int) -> int:
            writes.append(bytes(data))
            return len(data)

    writes: list[bytes] = []
    connection, _ = sockets()
    with accel.accelerated(), Own() as own:
        connection._socket = own
        connection.push(b"one")
        connection.push(b"two")
        assert list(connection.deque) == [b"one", b"two"]
        connection.handle_write(None, WRITE)
        assert writes == [b"one", b"two"]
        assert seams()[HANDLE_WRITE].fallback == 1


def test_overrides_are_called(
    notifier: Notifier, sockets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, peer = sockets()
    with accel.accelerated():
        calls: list[str] = []
        monkeypatch.setattr(libevreactor.LibevLoop, "notify", lambda self: calls.append("notify"))
        connection.push(b"one")
        assert calls == ["notify"]
        assert received(peer) == []
        assert "notify has been replaced" in seams()[PUSH].why
        monkeypatch.undo()
        connection.deque.clear()


def test_an_interrupt_leaves_no_lock(notifier: Notifier, sockets: Any) -> None:
    class Interrupted(Notifier):
        def send(self) -> None:
            raise KeyboardInterrupt

    connection, _ = sockets()
    libevreactor._global_loop._notifier = Interrupted()
    connection.in_flight = 2
    with accel.accelerated():
        with pytest.raises(KeyboardInterrupt):
            connection.push(b"one")
        assert not connection._deque_lock.locked()


def test_threads_and_the_event_loop_keep_the_order(notifier: Notifier, sockets: Any) -> None:
    connection, peer = sockets(socket.SOCK_STREAM)
    connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000)
    threads, per_thread = 4, 300
    pushed = threading.Semaphore(0)
    done = threading.Event()

    def send(number: int) -> None:
        for count in range(per_thread):
            # With one request in flight, this thread writes the bytes. With two requests, the event
            # loop writes them.
            connection.in_flight = 1 + (count + number) % 2
            connection.push(b"<%d %d>" % (number, count) + b"." * (count % 50 * 20) + b"\n")
            pushed.release()
            if count % 10 == 0:
                time.sleep(0.001)

    def loop() -> None:
        # A stand-in for the driver's event loop. It watches the queue, and writes the bytes in it.
        while not done.is_set() or connection.deque:
            connection._write_watcher_is_active = bool(connection.deque)
            if connection._write_watcher_is_active:
                connection.handle_write(None, WRITE)
            else:
                time.sleep(0.0005)

    parts: list[bytes] = []
    with accel.accelerated():
        senders = [threading.Thread(target=send, args=(number,)) for number in range(threads)]
        looping = threading.Thread(target=loop)
        for thread in (*senders, looping):
            thread.start()
        while any(thread.is_alive() for thread in senders) or looping.is_alive():
            parts += received(peer)
            if not any(thread.is_alive() for thread in senders):
                done.set()
    parts += received(peer)
    lines = b"".join(parts).split(b"\n")[:-1]
    expected = {
        number: [
            b"<%d %d>" % (number, count) + b"." * (count % 50 * 20) for count in range(per_thread)
        ]
        for number in range(threads)
    }
    by_thread = {
        number: [line for line in lines if line.startswith(b"<%d " % number)]
        for number in range(threads)
    }
    assert by_thread == expected
    assert len(lines) == threads * per_thread
