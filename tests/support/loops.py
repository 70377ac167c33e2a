"""Event loops of every kind that the asynchronous face has to get along with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

from turbocql import _core

T = TypeVar("T")

_LIMIT_S = 60
"""A scenario that takes longer hangs."""

__all__ = ["LOOPS", "Loop"]


@dataclass(frozen=True)
class Loop:
    """A kind of event loop, and the way in which completions come home to it."""

    name: str
    make: Callable[[], asyncio.AbstractEventLoop]
    notifier: bool = False

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs `main` on a new loop of this kind, and insists on a tidy end.

        Raises: AssertionError when a callback failed or a task was left over.
        """
        failures: list[dict[str, Any]] = []
        _core.force_notifier(self.notifier)
        loop = self.make()
        try:
            loop.set_exception_handler(lambda _, context: failures.append(context))
            result = loop.run_until_complete(asyncio.wait_for(main, _LIMIT_S))
            left = asyncio.all_tasks(loop)
            # An asynchronous generator that was left early is closed by a task of the loop's own.
            closing = {
                task for task in left if type(task.get_coro()).__name__ == "async_generator_athrow"
            }
            if closing:
                loop.run_until_complete(asyncio.wait(closing))
            left -= closing
            assert not left, f"tasks were left over: {left}"
        finally:
            _core.force_notifier(False)
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        assert not failures, f"the event loop was told of failures: {failures}"
        return result


LOOPS = (
    Loop("asyncio", asyncio.new_event_loop),
    Loop("notifier", asyncio.new_event_loop, notifier=True),
    Loop("uvloop", uvloop.new_event_loop),
)
