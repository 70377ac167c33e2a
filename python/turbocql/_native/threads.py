"""Threads of Python's for asynchronous sessions: a producer of columns has one of its own.

They are daemon threads, which end with the interpreter wherever they are. A thread of the native
core that runs Python code could not: the interpreter would unwind its native frames, and the
process would abort.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .. import _core

__all__ = ["Apart", "for_threads", "in_thread"]

T = TypeVar("T")

END = object()
"""What is taken after the last piece."""


class _Shared:
    """What the thread and its user both have."""

    def __init__(self) -> None:
        self.taken: deque[Any] = deque()
        self.room = threading.Semaphore(1)
        self.is_awaited = False
        self.is_dropped = False


class Apart:
    """Takes pieces on a thread, one ahead, and calls `wake` if one was waited for."""

    def __init__(self, pieces: Iterator[_core.Piece], wake: Callable[[], None]) -> None:
        self._shared = shared = _Shared()
        # The thread has the shared part only, so that it ends when nobody takes any more.
        run = threading.Thread(
            target=_run, args=(pieces, shared, wake), name="turbocql-columns", daemon=True
        )
        run.start()

    def take(self) -> Any:
        """The next piece; `END` after the last; `None` if there is none yet.

        Raises: what the producer has raised.
        """
        shared = self._shared
        if not shared.taken:
            shared.is_awaited = True
            # It may have come in between.
            if not shared.taken:
                return None
        shared.is_awaited = False
        taken = shared.taken.popleft()
        shared.room.release()
        if isinstance(taken, BaseException):
            raise taken
        return taken

    def __del__(self) -> None:
        self._shared.is_dropped = True
        self._shared.room.release()


def _run(pieces: Iterator[_core.Piece], shared: _Shared, wake: Callable[[], None]) -> None:
    taken: Any = None
    while taken is not END and not isinstance(taken, BaseException):
        shared.room.acquire()
        if shared.is_dropped:
            return
        try:
            taken = next(pieces, END)
        except BaseException as error:
            taken = error
        shared.taken.append(taken)
        if shared.is_awaited:
            shared.is_awaited = False
            wake()


def _taken_on(loop: asyncio.AbstractEventLoop, items: AsyncIterable[T]) -> Iterator[T]:
    """The items of an asynchronous iterable, for another thread than its event loop's."""
    items = items.__aiter__()

    async def step() -> Any:
        async for item in items:
            return item
        return END

    while (item := asyncio.run_coroutine_threadsafe(step(), loop).result()) is not END:
        yield item


def for_threads(data: Any) -> Any:
    """Data that another thread can read: asynchronous data is read on this event loop."""
    if isinstance(data, AsyncIterable):
        batches: AsyncIterable[Any] = data.batches() if hasattr(data, "batches") else data
        return _taken_on(asyncio.get_running_loop(), batches)
    return data


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Calls a function on a thread of its own, for which the program's end does not wait."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        set_outcome: Callable[[Any], None] = done.set_result
        try:
            outcome: Any = work(*arguments)
        except BaseException as error:
            set_outcome, outcome = done.set_exception, error
        try:
            loop.call_soon_threadsafe(finish, set_outcome, outcome)
        except RuntimeError:
            # The loop is closed, so nobody waits.
            return

    threading.Thread(target=run, name="turbocql-columns", daemon=True).start()
    return await done
