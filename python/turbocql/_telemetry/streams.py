"""Streams of a session's events, for threads and for event loops."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import Generic, TypeVar

__all__ = ["AsyncEventStream", "EventStream", "Stream"]

T = TypeVar("T")


class Stream(Generic[T]):
    """Events that wait to be taken, up to a number of them."""

    def __init__(self, capacity: int) -> None:
        self._waiting: deque[T] = deque()
        self._capacity = capacity
        self._dropped = 0
        self._closed = False
        self._changed = threading.Condition()
        self._since_s = time.time()

    @property
    def dropped(self) -> int:
        """Events that were dropped, because too many waited: always the oldest."""
        return self._dropped

    @property
    def closed(self) -> bool:
        """Whether no further events will come."""
        return self._closed

    def close(self) -> None:
        """Ends the stream, after the events that wait. Closing twice is harmless."""
        with self._changed:
            self._closed = True
            self._notify()

    def put(self, event: T, time_s: float) -> None:
        """Adds an event of this time, if that is after the stream was opened. The thread
        `turbocql-log` calls this.
        """
        with self._changed:
            if self._closed or time_s < self._since_s:
                return
            if len(self._waiting) >= self._capacity:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(event)
            self._notify()

    def _notify(self) -> None:
        self._changed.notify_all()


class EventStream(Stream[T]):
    """An iterator over events, which blocks until there is one.

    It ends when the session is closed, and with `close`. As a context manager, it closes itself at
    the end of the block. Several threads may iterate over one stream: each event goes to one of
    them.
    """

    def __iter__(self) -> EventStream[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    raise StopIteration
                # With a limit, because a wait without one does not end at Ctrl-C on every platform.
                self._changed.wait(1.0)
            return self._waiting.popleft()

    def __enter__(self) -> EventStream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEventStream(Stream[T]):
    """An asynchronous iterator over events.

    It ends when the session is closed, and with `close`. As an asynchronous context manager, it
    closes itself at the end of the block. One task at a time may wait for an event.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def _notify(self) -> None:
        loop, waiter = self._loop, self._waiter
        if loop is not None and waiter is not None and not loop.is_closed():
            loop.call_soon_threadsafe(_wake, waiter)

    def __aiter__(self) -> AsyncEventStream[T]:
        return self

    async def __anext__(self) -> T:
        while True:
            with self._changed:
                if self._waiting:
                    return self._waiting.popleft()
                if self._closed:
                    raise StopAsyncIteration
                if self._waiter is not None:
                    raise RuntimeError("another task waits for an event of this stream")
                self._loop = asyncio.get_running_loop()
                self._waiter = waiter = self._loop.create_future()
            try:
                await waiter
            finally:
                with self._changed:
                    self._waiter = None

    async def __aenter__(self) -> AsyncEventStream[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
