"""Runs the blocking work of asynchronous sessions on threads, and sleeps on the event loop.

The functions import `_native.threads` and asyncio when they are called, because asyncio is slow to
import. They are called in an event loop, so the program has imported asyncio already.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["for_threads", "in_thread", "sleep"]

T = TypeVar("T")


def for_threads(data: Any) -> Any:
    """Returns data that another thread can iterate over. Asynchronous data is replaced by an
    iterator that reads it on the running event loop.
    """
    from .._native import threads

    return threads.for_threads(data)


def in_thread(work: Callable[..., T], *arguments: Any) -> Coroutine[Any, Any, T]:
    """Calls a function on a new daemon thread, so that the program can exit during the call."""
    from .._native import threads

    return threads.in_thread(work, *arguments)


def sleep(seconds: float) -> Coroutine[Any, Any, None]:
    """Waits on the running event loop. Canceling the task ends the wait."""
    import asyncio

    return asyncio.sleep(seconds)
