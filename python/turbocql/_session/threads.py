"""Threads for blocking work.

The calls import `_native.threads`, because it imports asyncio, which is slow. By then asyncio is
loaded.
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
    """Calls a function on a thread of its own, for which the program's end does not wait."""
    from .._native import threads

    return threads.in_thread(work, *arguments)
