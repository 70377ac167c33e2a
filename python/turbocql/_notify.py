"""What is particular to event loops: which go the fast way; waking those without descriptors."""

from __future__ import annotations

import asyncio
import threading
import weakref
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable
from typing import Any

from . import _core

C_TASK: Any = asyncio.Task
"""The class of tasks, as asyncio's own loop makes them."""


class Ready:
    """In the place of an `asyncio.Handle`: what the loop calls in its next round.

    Made by the native core.
    """

    __slots__ = ("_callback", "_told")
    _callback: Any
    _told: Callable[[], Any]
    _cancelled = False
    _source_traceback = None

    def _run(self) -> None:
        """Tells a task. What a handle of asyncio's catches does not end the loop here either."""
        try:
            self._told()
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
    """Of a future that nobody waits for."""

    def get_debug(self) -> bool:
        """As futures ask."""
        return False


DONE: Any = asyncio.Future(loop=_NoLoop())  # type: ignore[arg-type]
"""What tasks are told by: done, without a result."""
DONE.set_result(None)


def tell(burst: list[Any]) -> None:
    """Tells tasks that what they wait for is there, each in its context, from the last one on.

    Called by the loop, as the next is.
    """
    take = burst.pop
    while burst:
        wakeup, context = take()
        context.run(wakeup, DONE)


def tell_rest(burst: list[Any]) -> None:
    """The same for those that are left: after an interrupt, or where one runs the loop itself."""
    if burst:
        try:
            asyncio.get_running_loop().call_soon(tell_rest, burst)
        finally:
            tell(burst)


def append_ready(event_loop: asyncio.AbstractEventLoop) -> Callable[[Any], None] | None:
    """Appends to what asyncio's own loop runs in its next round; None for any other loop.

    Called by the native core.
    """
    if not isinstance(event_loop, BaseEventLoop):
        return None
    for name in ("_run_once", "call_soon"):
        if getattr(type(event_loop), name, None) is not getattr(BaseEventLoop, name, None):
            return None
    ready = getattr(event_loop, "_ready", None)
    return ready.append if type(ready) is deque else None


_with_thread: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def has_thread(event_loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop is woken by a thread of ours."""
    return event_loop in _with_thread


def start(event_loop: asyncio.AbstractEventLoop, requests: _core.Requests) -> None:
    """Starts the thread that wakes `event_loop` whenever it is asked to, until the loop is gone.

    Called by the native core.
    """
    _with_thread.add(event_loop)
    threading.Thread(
        target=_run, args=(weakref.ref(event_loop), requests), name="turbocql-notify", daemon=True
    ).start()


def _run(reference: weakref.ref[asyncio.AbstractEventLoop], requests: _core.Requests) -> None:
    while (drain := requests.wait()) is not None:
        event_loop = reference()
        if event_loop is not None:
            try:
                event_loop.call_soon_threadsafe(drain)
            except RuntimeError:
                requests.forget()
        # Nothing here may keep the loop or its queue alive while waiting.
        del event_loop, drain
