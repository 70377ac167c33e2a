"""Threads that take the events of a session from the native core."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import traceback
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._core import Events, SessionEvent

__all__ = ["EventThread"]

_FLUSH_S = 1.0
"""When a session is closed, the process forks or the process ends, turbocql waits until events are
handled, but at most this many seconds. The limit is needed because a handler that the program has
set may be slow."""
_LOOK_S = 0.5
"""The longest wait for events between two calls of `look`."""

_POLL_S = 0.05
"""The interval at which the thread polls for events, if gevent or eventlet made it a greenlet."""

_RUNNING: set[EventThread] = set()


class EventThread:
    """A thread that handles events. It ends when the core's queue of events is closed and empty.

    Subclasses override `look`, `handle`, `handled` and `finish`, which do nothing here.
    """

    def __init__(self, events: Events, name: str) -> None:
        self._events = events
        self._process = os.getpid()
        self._handling = threading.RLock()
        """Held while a handler of the program runs. A fork waits until the handler has returned,
        because the child could not release the locks that the handler holds."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        _RUNNING.add(self)
        self._thread.start()

    def look(self) -> None:
        """Called before events are taken, and twice a second while there are none."""

    def handle(self, event: SessionEvent) -> None:
        """Handles an event. An exception of this method is printed, and the thread goes on."""

    def handled(self) -> None:
        """Called after events were handled."""

    def finish(self) -> None:
        """Called when there are no further events."""

    def _run(self) -> None:
        try:
            while True:
                _try(self.look)
                batch = self._take()
                if batch is None:
                    return
                for event in batch:
                    with self._handling:
                        _try(self.handle, event)
                with self._handling:
                    _try(self.handled)
        finally:
            _RUNNING.discard(self)
            self.finish()

    def _take(self) -> list[SessionEvent] | None:
        """Takes all queued events. If there are none, waits for one, at most until `look` is due.

        Returns: `None` if the queue is closed and empty.
        """
        if isinstance(time.sleep, BuiltinFunctionType):
            return self._events.take(_LOOK_S)
        # gevent or eventlet has replaced `sleep`, so this thread is a greenlet. A native wait would
        # stop all other greenlets.
        until = time.monotonic() + _LOOK_S
        while (batch := self._events.take(0.0)) == [] and time.monotonic() < until:
            time.sleep(_POLL_S)
        return batch

    @property
    def is_running(self) -> bool:
        return self._process == os.getpid() and self._thread.is_alive()

    def end(self) -> None:
        """Refuses further events, which ends the thread."""
        self._events.close()

    def wait(self, until: float | None = None) -> None:
        """Waits until the thread has ended, or until `time.monotonic` reaches `until`. Without
        `until`, waits at most a second.
        """
        if self._thread is not threading.current_thread() and self._process == os.getpid():
            limit_s = _FLUSH_S if until is None else until - time.monotonic()
            self._thread.join(max(limit_s, 0.0))

    async def ended(self) -> None:
        """Does what `wait` does, but for an event loop. It polls whether the thread still runs.
        Polling is good enough, because the thread has mostly ended already.
        """
        import asyncio

        until = time.monotonic() + _FLUSH_S
        while self.is_running and time.monotonic() < until:
            await asyncio.sleep(0.001)


def _try(work: Any, *arguments: Any) -> None:
    """Calls a function that may run code of the program, and prints its exception."""
    try:
        work(*arguments)
    except BaseException:
        # No caller gets the exception. Even a SystemExit of a handler must not end this thread.
        if logging.raiseExceptions:
            traceback.print_exc()


@atexit.register
def _flush() -> None:
    """Delivers the queued events before the interpreter ends. Ends the threads, because no thread
    may be in a native wait when the interpreter ends.
    """
    threads, until = list(_RUNNING), time.monotonic() + _FLUSH_S
    for thread in threads:
        thread.end()
    for thread in threads:
        thread.wait(until)


_HELD: list[threading.RLock] = []
"""The locks `_handling` that `_before_fork` has acquired. They are held until the process has
forked."""


def _before_fork() -> None:
    until = time.monotonic() + _FLUSH_S
    for thread in list(_RUNNING):
        if thread._handling.acquire(timeout=max(until - time.monotonic(), 0.0)):
            _HELD.append(thread._handling)


def _after_fork_in_parent() -> None:
    while _HELD:
        _HELD.pop().release()


def _after_fork_in_child() -> None:
    # The threads do not exist in the child.
    _HELD.clear()
    _RUNNING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
