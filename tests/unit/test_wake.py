"""Tests how an event loop wakes tasks whose operations have completed.

The native core passes a list with a callback for each of these tasks. This list is called a batch.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support.loops import LOOPS, Loop

from turbocql._native import wake

name: contextvars.ContextVar[str] = contextvars.ContextVar("name")


def burst(*wakeups: Callable[[Any], None]) -> list[Any]:
    """Returns a batch as the native core makes it.

    A batch is a list of pairs of a callback and its context. The last callback comes first.
    """
    made: list[Any] = []
    for wakeup in reversed(wakeups):
        context = contextvars.copy_context()
        context.run(name.set, wakeup.__name__)
        made.append((wakeup, context))
    return made


class Told:
    """Methods that tests use as callbacks of a batch.

    Each method records the `name` of the context in which it runs.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []

    def first(self, future: Any) -> None:
        assert future.result() is None
        self.seen.append(name.get())

    def second(self, future: Any) -> None:
        self.first(future)

    def interrupt(self, future: Any) -> None:
        self.first(future)
        raise KeyboardInterrupt

    def unable(self, future: Any) -> None:
        self.first(future)
        raise RuntimeError("cannot enter context")


@pytest.fixture(params=LOOPS, ids=lambda loop: loop.name)
def run(request: pytest.FixtureRequest) -> Any:
    """Yields the method `run_until_complete` of a loop. Each test runs with each kind of loop."""
    made: Loop = request.param
    loop = made.make()
    yield loop.run_until_complete
    loop.close()


Run = Callable[[Coroutine[Any, Any, Any]], Any]


async def wake_all(wakeups: list[Any]) -> None:
    for function in (wake.wake_tasks, wake.wake_remaining):
        asyncio.get_running_loop().call_soon(function, wakeups)
    await asyncio.sleep(0.01)


def test_callbacks_run_in_order_each_in_its_context(run: Run) -> None:
    told = Told()
    run(wake_all(burst(told.second, told.first, told.second)))
    assert told.seen == ["second", "first", "second"]
    run(wake_all(burst(told.first)))
    assert told.seen[3:] == ["first"]
    run(wake_all([]))


def test_the_remaining_tasks_are_woken_after_an_interrupt(run: Run) -> None:
    told = Told()
    with pytest.raises(KeyboardInterrupt):
        run(wake_all(burst(told.first, told.interrupt, told.second, told.first)))
    # After the interrupt, uvloop still runs the other ready callbacks of this iteration, so the
    # test first checks only the beginning.
    assert told.seen[:2] == ["first", "interrupt"]
    run(asyncio.sleep(0.01))
    assert told.seen == ["first", "interrupt", "second", "first"]


def test_a_task_that_cannot_be_woken_does_not_affect_the_others(run: Run) -> None:
    told, said = Told(), []

    async def main() -> None:
        handler = asyncio.get_running_loop().set_exception_handler
        handler(lambda _, context: said.append(str(context["exception"])))
        await wake_all(burst(told.unable, told.unable, told.second))

    run(main())
    assert told.seen == ["unable", "unable", "second"]
    assert said == ["cannot enter context"] * 2


def test_a_nested_loop_wakes_the_remaining_tasks() -> None:
    told = Told()
    loop: Any = asyncio.new_event_loop()

    def nested(future: Any) -> None:
        told.first(future)
        left = list(made)
        while made and made == left:
            loop._run_once()
        told.seen.append("back")

    made = burst(nested, told.first, nested, told.second)
    loop.run_until_complete(wake_all(made))
    loop.close()
    assert told.seen == ["nested", "first", "nested", "second", "back", "back"]


def test_an_interrupted_wake_loses_no_task(run: Run) -> None:
    """A KeyboardInterrupt comes before `wake_tasks` runs. `wake_remaining` then wakes all tasks."""
    told = Told()
    made = burst(told.first, told.second)

    def unlucky(_: Any) -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        for call in (unlucky, wake.wake_remaining):
            asyncio.get_running_loop().call_soon(call, made)
        await asyncio.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        run(main())
    run(asyncio.sleep(0.01))
    assert told.seen == ["first", "second"]
