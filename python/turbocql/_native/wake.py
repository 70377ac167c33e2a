"""Wakes tasks and event loops.

For asyncio's own loop there is a quick path: callbacks are appended to the loop's ready queue. A
loop that cannot watch a file descriptor is woken by a thread.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable
from typing import Any

from .. import _core

C_TASK: Any = asyncio.Task
"""The class of the tasks that asyncio's own loop makes."""


class Ready:
    """A callback in the loop's ready queue, used like an `asyncio.Handle`.

    The native core creates it and sets its slots by name.
    """

    __slots__ = ("_callback", "_function")
    _callback: Any
    _function: Callable[[], Any]
    _cancelled = False
    _source_traceback = None

    def _run(self) -> None:
        """Calls the function. As in `asyncio.Handle`, its errors do not end the loop."""
        try:
            self._function()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            asyncio.get_running_loop().call_exception_handler(
                {
                    "message": f"Exception in callback {self._callback!r}",
                    "exception": error,
                    "handle": self,
                }
            )


class _NoLoop:
    """Serves as the event loop of `DONE`, a completed future, which needs no real event loop."""

    def get_debug(self) -> bool:
        """Returns `False`. `asyncio.Future` calls this method."""
        return False


DONE: Any = asyncio.Future(loop=_NoLoop())  # type: ignore[arg-type]
"""The completed future that is passed to the wakeup callbacks of tasks. Its result is `None`."""
DONE.set_result(None)


def wake_tasks(burst: list[Any]) -> None:
    """Wakes tasks whose operations have completed, from the end of the list.

    `burst` has a pair for each task: its wakeup callback, and the context to call it in. The native
    core queues calls of this function and of `wake_remaining` in the event loop.
    """
    pop_wakeup = burst.pop
    while burst:
        wakeup, context = pop_wakeup()
        context.run(wakeup, DONE)


def wake_remaining(burst: list[Any]) -> None:
    """Wakes the tasks that `wake_tasks` has left in `burst`.

    Tasks remain in `burst` if a KeyboardInterrupt has ended `wake_tasks`, or if a task that was
    woken is running a nested event loop.
    """
    if burst:
        try:
            asyncio.get_running_loop().call_soon(wake_remaining, burst)
        finally:
            wake_tasks(burst)


def append_ready(event_loop: asyncio.AbstractEventLoop) -> Callable[[Any], None] | None:
    """Returns the `append` of the ready queue of asyncio's own loop; `None` for any other loop.

    The native core calls this function.
    """
    if not isinstance(event_loop, BaseEventLoop):
        return None
    for name in ("_run_once", "call_soon"):
        if getattr(type(event_loop), name, None) is not getattr(BaseEventLoop, name, None):
            return None
    ready = getattr(event_loop, "_ready", None)
    return ready.append if type(ready) is deque else None


_loops_with_thread: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def has_thread(event_loop: asyncio.AbstractEventLoop) -> bool:
    """Whether `start` has started a thread that wakes the loop."""
    return event_loop in _loops_with_thread


def start(event_loop: asyncio.AbstractEventLoop, requests: _core.Requests) -> None:
    """Starts a thread that wakes `event_loop` until the loop is gone. The thread waits for
    `requests`, the native core's requests to wake this loop, and wakes the loop for each of them.

    The native core calls this function.
    """
    _loops_with_thread.add(event_loop)
    threading.Thread(
        target=_run_wake_thread,
        args=(weakref.ref(event_loop), requests),
        name="turbocql-notify",
        daemon=True,
    ).start()


def _run_wake_thread(
    reference: weakref.ref[asyncio.AbstractEventLoop], requests: _core.Requests
) -> None:
    while (drain := requests.wait()) is not None:
        event_loop = reference()
        if event_loop is not None:
            try:
                event_loop.call_soon_threadsafe(drain)
            except RuntimeError:
                requests.forget()
        # These local references would keep the loop and its queue alive while the thread waits.
        del event_loop, drain
