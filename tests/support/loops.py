"""The kinds of event loops that the asynchronous API must support."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import uvloop

T = TypeVar("T")

_LIMIT_S = 60
"""The time limit of `Loop.run`."""

__all__ = ["LOOPS", "Loop", "loop_without_readers"]


@dataclass(frozen=True)
class Loop:
    """A kind of event loop."""

    name: str
    make: Callable[[], asyncio.AbstractEventLoop]

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs `main` on a new loop of this kind, and returns its result.

        Raises: AssertionError if a callback failed or a task of the loop has not ended.
        """
        failures: list[dict[str, Any]] = []
        loop = self.make()
        try:
            loop.set_exception_handler(lambda _, context: failures.append(context))
            result = loop.run_until_complete(asyncio.wait_for(main, _LIMIT_S))
            left = asyncio.all_tasks(loop)
            # If an asynchronous generator was not read to its end, the loop closes it in a task.
            closing = {
                task for task in left if type(task.get_coro()).__name__ == "async_generator_athrow"
            }
            if closing:
                loop.run_until_complete(asyncio.wait(closing))
            left -= closing
            assert not left, f"tasks were left over: {left}"
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        assert not failures, f"the event loop was told of failures: {failures}"
        return result


def loop_without_readers() -> asyncio.AbstractEventLoop:
    """Makes a loop that cannot watch file descriptors, like asyncio's loop on Windows. So turbocql
    wakes it from a thread.
    """
    loop = asyncio.new_event_loop()
    loop.add_reader = _refuse_reader  # type: ignore[method-assign,assignment]
    return loop


def _refuse_reader(*_: object) -> NoReturn:
    raise NotImplementedError


LOOPS = (
    Loop("asyncio", asyncio.new_event_loop),
    Loop("notifier", loop_without_readers),
    Loop("uvloop", uvloop.new_event_loop),
)
