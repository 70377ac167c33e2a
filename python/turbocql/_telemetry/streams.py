"""Streams of a session's events, for threads and for event loops."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID
from weakref import ReferenceType, WeakSet, ref

from ..cluster import _CLUSTER_EVENTS, ClusterEvent
from .logs import Datacenters
from .threads import EventThread

if TYPE_CHECKING:
    from .._core import Events, SessionEvent

__all__ = ["AsyncEventStream", "EventStream", "Stream", "Streams"]

T = TypeVar("T")

_NODE_EVENTS = frozenset({"node added", "node removed", "node moved", "node up", "node down"})
"""The events after which the function that the program passed to `rank_nodes` runs again."""


class Stream(Generic[T]):
    """Holds events until the program reads them, at most `capacity` events."""

    def __init__(self, capacity: int) -> None:
        self._waiting: deque[T] = deque()
        self._capacity = capacity
        self._dropped = 0
        self._closed = False
        self._changed = threading.Condition()
        self._since_s = time.time()
        _STREAMS.add(self)

    @property
    def dropped(self) -> int:
        """The number of events that were dropped. A full stream drops its oldest event."""
        return self._dropped

    @property
    def closed(self) -> bool:
        """Whether no further events will come."""
        return self._closed

    def close(self) -> None:
        """Makes the stream take no further events. The stream ends when the program has read the
        events that the stream still holds. Closing twice is harmless.
        """
        with self._changed:
            self._closed = True
            self._notify()

    def _end_in_child(self) -> None:
        """Ends the stream in the child process of a fork: the session belongs to the parent."""
        self._changed = threading.Condition()
        self._closed = True
        self._waiting.clear()

    def put(self, event: T, time_s: float) -> None:
        """Adds an event, unless the stream is closed, or was opened after the event happened. The
        thread `turbocql-events` calls this method.
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

    It ends when the session is closed, or when `close` is called. As a context manager, it closes
    itself at the end of the block. Several threads may iterate over one stream: each event goes to
    one of them.
    """

    def __iter__(self) -> EventStream[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    raise StopIteration
                # On some platforms, Ctrl-C does not end a wait without a time limit. So each wait
                # is limited to one second.
                self._changed.wait(1.0)
            return self._waiting.popleft()

    def __enter__(self) -> EventStream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEventStream(Stream[T]):
    """An asynchronous iterator over events.

    It ends when the session is closed, or when `close` is called. As an asynchronous context
    manager, it closes itself at the end of the block. One task at a time may wait for an event.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def _notify(self) -> None:
        loop, waiter = self._loop, self._waiter
        if loop is not None and waiter is not None:
            with suppress(RuntimeError):  # The loop is closed, and nobody waits.
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


_STREAMS: WeakSet[Stream[Any]] = WeakSet()


def _after_fork_in_child() -> None:
    for stream in tuple(_STREAMS):
        stream._end_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class Streams(EventThread):
    """Delivers events to the streams of a session. Its reference to the session is weak."""

    def __init__(self, events: Events, session: Any) -> None:
        self._datacenters = Datacenters(ref(session))
        self._opening = threading.Lock()
        self._has_ended = False
        self._streams: tuple[ReferenceType[Stream[ClusterEvent]], ...] = ()
        self._session = ref(session)
        self._nodes_changed = False
        super().__init__(events, "turbocql-events")

    def open(self, stream: Stream[ClusterEvent]) -> None:
        """Begins to deliver events to `stream`, for as long as the program refers to the stream."""
        with self._opening:
            if not self._has_ended:
                self._streams = (*map(ref, self._open_streams()), ref(stream))
                return
        stream.close()

    def handle(self, event: SessionEvent) -> None:
        """Puts an event into the streams."""
        self._nodes_changed |= event.name in _NODE_EVENTS
        if event.name in _CLUSTER_EVENTS:
            cluster_event = _cluster_event(event, self._datacenters)
            for stream in self._open_streams():
                stream.put(cluster_event, event.time_s)

    def handled(self) -> None:
        """Ranks the nodes again if they have changed."""
        if self._nodes_changed:
            self._nodes_changed = False
            session = self._session()
            ranking = None if session is None else session._ranking
            if ranking is not None:
                ranking.apply_again(session)

    def finish(self) -> None:
        """Closes the streams."""
        with self._opening:
            self._has_ended = True
        for stream in self._open_streams():
            stream.close()

    def _open_streams(self) -> list[Stream[ClusterEvent]]:
        streams = [stream() for stream in self._streams]
        return [stream for stream in streams if stream is not None and not stream.closed]


def _cluster_event(event: SessionEvent, datacenters: Datacenters) -> ClusterEvent:
    node, fields = event.node, event.fields
    return ClusterEvent(
        event.name,  # type: ignore[arg-type]
        datetime.fromtimestamp(event.time_s, timezone.utc),
        node,
        None if node is None else datacenters.of(node),
        UUID(fields["host_id"]) if "host_id" in fields else None,
        *(fields.get(name) for name in ("change", "target", "keyspace", "object")),
    )
