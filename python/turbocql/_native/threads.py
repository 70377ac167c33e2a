"""Threads on which asynchronous sessions read columns.

They are daemon threads, so that a program can exit while they read. When the program exits, the
interpreter ends these threads at any point. If the native core had started them, this would unwind
their native frames, and the process would abort. So Python starts them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .. import _core

__all__ = ["ThreadedPieces", "for_threads", "in_thread"]

T = TypeVar("T")

END = object()
"""The object that `take` returns after the last piece."""


class _PieceQueue:
    """Pieces of columns that were read ahead. The reading thread and the consumer share them."""

    def __init__(self) -> None:
        self.pieces: deque[Any] = deque()
        self.lock = threading.Lock()
        """Guards both `pieces` and `is_awaited`, so that a waiting consumer is always woken."""
        self.free_slots = threading.Semaphore(1)
        self.is_awaited = False
        self.is_dropped = False


class ThreadedPieces:
    """Reads pieces on a thread, one ahead, and calls `wake` if the consumer waits for a piece."""

    def __init__(self, pieces: Iterator[_core.Piece], wake: Callable[[], None]) -> None:
        self._shared = shared = _PieceQueue()
        # The thread does not refer to this object. So the object can be deleted, and `__del__` ends
        # the thread.
        run = threading.Thread(
            target=_read_ahead, args=(pieces, shared, wake), name="turbocql-columns", daemon=True
        )
        run.start()

    def take(self) -> Any:
        """The next piece; `END` after the last; `None` if no piece is ready yet.

        Raises: the exception with which the iteration over the pieces has ended.
        """
        shared = self._shared
        with shared.lock:
            shared.is_awaited = not shared.pieces
            if shared.is_awaited:
                return None
            piece = shared.pieces.popleft()
        shared.free_slots.release()
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def __del__(self) -> None:
        self._shared.is_dropped = True
        self._shared.free_slots.release()


def _read_ahead(
    pieces: Iterator[_core.Piece], shared: _PieceQueue, wake: Callable[[], None]
) -> None:
    piece: Any = None
    while piece is not END and not isinstance(piece, BaseException):
        shared.free_slots.acquire()
        if shared.is_dropped:
            return
        try:
            piece = next(pieces, END)
        except BaseException as error:
            piece = error
        with shared.lock:
            shared.pieces.append(piece)
            must_wake, shared.is_awaited = shared.is_awaited, False
        if must_wake:
            wake()


def _iterate_on_loop(loop: asyncio.AbstractEventLoop, batches: AsyncIterable[T]) -> Iterator[T]:
    """Iterates over an asynchronous iterable from a thread other than that of the event loop."""
    batches = batches.__aiter__()

    async def step() -> Any:
        async for batch in batches:
            return batch
        return END

    while (batch := asyncio.run_coroutine_threadsafe(step(), loop).result()) is not END:
        yield batch


def for_threads(data: Any) -> Any:
    """Returns data that another thread can iterate over.

    For an asynchronous iterable, this is an iterator that takes items on the running event loop.
    """
    if isinstance(data, AsyncIterable):
        batches: AsyncIterable[Any] = data.batches() if hasattr(data, "batches") else data
        return _iterate_on_loop(asyncio.get_running_loop(), batches)
    return data


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Calls a function on a new daemon thread, so that the program can exit during the call."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            set_outcome(outcome)

    def run() -> None:
        set_outcome: Callable[[Any], None] = future.set_result
        try:
            outcome: Any = function(*arguments)
        except BaseException as error:
            set_outcome, outcome = future.set_exception, error
        try:
            loop.call_soon_threadsafe(finish, set_outcome, outcome)
        except RuntimeError:
            # The loop is closed, so no task waits for the outcome.
            return

    threading.Thread(target=run, name="turbocql-columns", daemon=True).start()
    return await future
