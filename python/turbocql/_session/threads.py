"""Threads for blocking work.

The functions import `_native.threads` when they are called, because it imports asyncio, which is
slow. By then an event loop runs, so asyncio is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["for_threads", "in_thread"]

T = TypeVar("T")


def for_threads(data: Any) -> Any:
    """Data that another thread can read: asynchronous data is read on this event loop."""
    from .._native import threads

    return threads.for_threads(data)


def in_thread(work: Callable[..., T], *arguments: Any) -> Coroutine[Any, Any, T]:
    """Calls a function on a new daemon thread, so that the program can exit before it returns."""
    from .._native import threads

    return threads.in_thread(work, *arguments)
