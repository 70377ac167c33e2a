"""Threads for blocking work, and pauses, of asynchronous sessions.

The functions import `_native.threads` when they are called, because it imports asyncio, which is
slow to import. When they are called, an event loop runs, so asyncio is already imported.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["for_threads", "in_thread", "sleep"]

T = TypeVar("T")


def for_threads(data: Any) -> Any:
    """Data that another thread can read: asynchronous data is read on this event loop."""
    from .._native import threads

    return threads.for_threads(data)


def in_thread(work: Callable[..., T], *arguments: Any) -> Coroutine[Any, Any, T]:
    """Calls a function on a new daemon thread, which does not keep the program from exiting."""
    from .._native import threads

    return threads.in_thread(work, *arguments)


def sleep(seconds: float) -> Coroutine[Any, Any, None]:
    """Waits on the running event loop. Canceling the task ends the wait."""
    import asyncio

    return asyncio.sleep(seconds)
