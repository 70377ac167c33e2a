"""Sends requests over real sockets: to peers that stop reading or reset the connection, and from
threads that share a connection.

The driver's own event loop runs. Each test runs with and without the accelerator.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from cassandra.connection import ConnectionBusy, ConnectionShutdown
from cassandra.io import libevreactor
from tests.accel.peer import LAST_READ, SMALL_BUFFER, Peer, Requests, connected
from tests.accel.statements import seams

from turbocql import accel
from turbocql.testing.tls import make_certificates

PUSH, HANDLE_WRITE = (
    f"io.libevreactor.LibevConnection.{name}" for name in ("push", "handle_write")
)


@pytest.fixture(params=["plain", "accelerated"])
def is_native(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Runs each test twice, with the accelerator on and off. Yields whether it is on."""
    with accel.accelerated() if request.param == "accelerated" else contextlib.nullcontext():
        yield request.param == "accelerated"


@pytest.fixture
def peers() -> Iterator[Callable[..., Peer]]:
    """Yields a function that starts a server."""
    started: list[Peer] = []

    def start(*arguments: Any, **options: Any) -> Peer:
        started.append(Peer(*arguments, **options))
        return started[-1]

    yield start
    for peer in started:
        peer.close()


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)
    return holds()


def test_requests_come_back_to_their_callers(is_native: bool, peers: Any) -> None:
    """Sends requests one at a time, and then several at a time."""
    peer = peers()
    with connected(peer) as connection:
        requests = Requests(connection)
        for number in range(50):
            requests.send(f"alone {number}")
            requests.wait(1)
        for number in range(200):
            requests.send(f"together {number}")
        requests.wait(200)
    assert requests.answers == {text: text for text in peer.queries}
    assert peer.queries == [f"alone {n}" for n in range(50)] + [f"together {n}" for n in range(200)]
    if is_native:
        assert (seams()[PUSH].native, seams()[PUSH].fallback) == (252, 0)


def test_ten_threads_share_a_connection(is_native: bool, peers: Any) -> None:
    threads, per_thread, window = 10, 1000, 7
    peer = peers()

    def work(connection: Any, number: int) -> None:
        requests = Requests(connection)
        for count in range(per_thread):
            requests.send(f"{number} {count} " + "x" * (97 * count % 3000))
            if count % window == 0 or count == per_thread - 1:
                requests.wait(min(window, count % window or window) if count else 1)
        assert requests.answers == {text: text for text in requests.answers}
        complete.append(len(requests.answers))

    complete: list[int] = []
    with connected(peer) as connection:
        workers = [
            threading.Thread(target=work, args=(connection, number)) for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
    assert complete == [per_thread] * threads
    assert not peer.errors
    for number in range(threads):
        sent = [text for text in peer.queries if text.startswith(f"{number} ")]
        assert [int(text.split()[1]) for text in sent] == list(range(per_thread))


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_peer_that_stops_reading(is_native: bool, is_alone: bool, peers: Any) -> None:
    """If the peer stops reading, `send` does not block. When the socket is full, the driver refuses
    further requests.

    If a message fills the socket exactly, no call of `send` tells the driver that the socket is
    full. In this case, the plain driver does not refuse requests either, and they stay in the
    queue.
    """
    peer = peers(buffer=SMALL_BUFFER)
    with connected(peer, buffer=SMALL_BUFFER) as connection:
        requests = Requests(connection)
        requests.send(LAST_READ)
        requests.wait(1)
        sent: list[str] = []
        slowest = 0.0
        while True:
            text = f"{len(sent)} " + "y" * (1 + 89 * len(sent) % 3900)
            if is_alone:
                # So the driver takes the next request for the only request in flight.
                connection.in_flight = 0
            began = time.monotonic()
            try:
                requests.send(text)
            except ConnectionBusy:
                break
            slowest = max(slowest, time.monotonic() - began)
            sent.append(text)
            if len(connection.deque) > 1000:
                break
            assert len(sent) < 10_000, "the socket is never full"
            time.sleep(0.001)
        assert slowest < 1
        connection.in_flight = len(sent)
        assert len(connection.deque) > 0
        peer.reads.set()
        requests.wait(len(sent))
        assert eventually(lambda: bool(connection._socket_writable))
        # No request is in flight now. The refused request still has its stream id, so the count is
        # corrected.
        connection.in_flight = 0
        requests.send("after")
        requests.wait(1)
    assert not peer.errors
    assert peer.queries == [LAST_READ, *sent, "after"]
    assert requests.answers == {text: text for text in peer.queries}


def test_a_peer_that_resets(is_native: bool, peers: Any) -> None:
    """Each request ends with an answer or an error, and the connection is closed."""
    for round_number in range(10):
        peer = peers()
        with connected(peer) as connection:
            requests, sent = Requests(connection), 0
            resets = threading.Timer(0.002 * round_number, peer.reset)
            resets.start()
            with contextlib.suppress(ConnectionShutdown):
                while sent < 20_000:
                    requests.send(f"{sent}")
                    sent += 1
                    if sent % 3 == 0:
                        requests.ended.acquire(timeout=10)
            resets.join()
            assert sent < 20_000
            assert eventually(lambda: bool(connection.is_closed))
            # The last request was refused, so `sent` does not count it.
            assert eventually(lambda: len(requests.answers) >= sent)  # noqa: B023
        errors = {answer for answer in requests.answers.values() if isinstance(answer, type)}
        assert all(issubclass(error, (OSError, ConnectionShutdown)) for error in errors), errors
        assert not peer.errors


def test_a_connection_that_closes_with_a_queue(is_native: bool, peers: Any) -> None:
    peer = peers(buffer=SMALL_BUFFER)
    with connected(peer, buffer=SMALL_BUFFER) as connection:
        requests, sent = Requests(connection), 0
        requests.send(LAST_READ)
        requests.wait(1)
        requests.answers.clear()
        with contextlib.suppress(ConnectionBusy):
            while sent < 10_000:
                requests.send(f"{sent} " + "z" * 3000)
                sent += 1
                time.sleep(0.001)
        assert connection.deque
        connection.close()
        requests.wait(sent)
        assert set(requests.answers.values()) == {ConnectionShutdown}
        with pytest.raises(ConnectionShutdown):
            requests.send("late")
        # `push` adds bytes to the queue even if the connection is closed, but nothing writes them.
        connection.in_flight = 1
        connection.deque.clear()
        connection.push(b"never sent")
        assert list(connection.deque) == [b"never sent"]
    peer.reads.set()
    assert eventually(lambda: not any(libevreactor._global_loop._closed_conns))
    assert not any("late" in query for query in peer.queries)
    assert not peer.errors


def test_a_child_does_not_write_on_its_parents_connection(is_native: bool, peers: Any) -> None:
    """A forked child has a copy of the queue, but no event loop. It must not write to the parent's
    socket.
    """
    peer = peers()
    with connected(peer) as connection:
        requests = Requests(connection)
        requests.send("of the parent")
        requests.wait(1)
        child = os.fork()
        if child == 0:
            # These bytes are no frame. So if the child wrote them, the server would report an
            # error.
            status = 1
            try:
                connection.in_flight = 1
                connection.push(b"of the child")
                status = 0 if list(connection.deque) == [b"of the child"] else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        requests.send("of the parent again")
        requests.wait(1)
    assert peer.queries == ["of the parent", "of the parent again"]
    assert not peer.errors


def test_interrupts_leave_whole_frames(is_native: bool, peers: Any) -> None:
    """The handler of a signal raises an exception in the thread that sends. This can happen at any
    instruction.
    """

    class Interrupted(BaseException):
        pass

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    peer = peers()
    before = signal.signal(signal.SIGALRM, interrupt)
    rounds = 0
    try:
        while rounds < 40:
            rounds += 1
            with connected(peer) as connection:
                count = 0
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + rounds * 0.0003)
                    while True:
                        # Because of an interrupt, an answer may be lost. So the test does not wait
                        # for answers.
                        connection.in_flight = 1 if count % 2 else 2
                        connection.push(query_frame(f"{rounds} {count}"))
                        count += 1
                except Interrupted:
                    assert not connection._deque_lock.locked()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                connection.in_flight = 2
                connection.push(query_frame(f"{rounds} last"))
                last = f"{rounds} last"
                assert eventually(lambda: last in peer.queries)  # noqa: B023
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not peer.errors
    for number in range(1, rounds + 1):
        counts = [text.split()[1] for text in peer.queries if text.startswith(f"{number} ")]
        assert counts.pop() == "last"
        assert [int(count) for count in counts] == list(range(len(counts)))


def query_frame(text: str) -> bytes:
    body = len(text).to_bytes(4, "big") + text.encode() + b"\0\1\0"
    return bytes((4, 0, 0, 1, 7)) + len(body).to_bytes(4, "big") + body


def test_encrypted_connections_are_written_by_the_event_loop(
    is_native: bool, peers: Any, tmp_path: Path
) -> None:
    import ssl

    certificates = make_certificates(tmp_path / "tls", ["127.0.0.1"], client_required=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_pem)
    peer = peers(context)
    client = certificates.client_context()
    client.check_hostname = False
    with connected(peer, ssl_context=client) as connection:
        requests = Requests(connection)
        for number in range(20):
            requests.send(f"alone {number}")
            requests.wait(1)
        for number in range(100):
            requests.send(f"together {number} " + "x" * 500)
        requests.wait(100)
    assert requests.answers == {text: text for text in peer.queries}
    assert len(peer.queries) == 120
    if is_native:
        assert seams()[HANDLE_WRITE].native == 0
        assert seams()[HANDLE_WRITE].fallback > 0


def test_requests_while_the_event_loop_is_busy_are_written_together(
    is_native: bool, peers: Any
) -> None:
    count = 100
    loop_is_busy, may_go_on = threading.Event(), threading.Event()

    def occupy() -> None:
        loop_is_busy.set()
        may_go_on.wait(20)

    with connected(peers()) as connection:
        requests = Requests(connection)
        requests.send("before")
        requests.wait(1)
        connection.create_timer(0, occupy)
        assert loop_is_busy.wait(20)
        handled = seams()[HANDLE_WRITE].native if is_native else 0
        for number in range(count):
            requests.send(f"{number}")
        queued = len(connection.deque)
        may_go_on.set()
        requests.wait(count)
        # Native methods write the first request at once, because no other request is in flight
        # then. So this request is not in the queue.
        assert queued == (count - 1 if is_native else count)
        if is_native:
            assert seams()[HANDLE_WRITE].native - handled == 1
