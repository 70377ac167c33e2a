"""Tests that `AsyncSession.execute` returns an object that works like any coroutine."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import os
import subprocess
import sys
import sysconfig
import time
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.loops import Loop
from tests.support.nodes import paused

import turbocql
from turbocql import errors
from turbocql._native import wake
from turbocql.aio import AsyncSession
from turbocql.testing import Cassandra

SELECT = "SELECT key FROM system.local"


async def test_a_call_is_a_coroutine_and_no_future(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        one = session.execute(SELECT)
        assert isinstance(one, Coroutine)
        assert asyncio.iscoroutine(one)
        assert inspect.isawaitable(one)
        assert not asyncio.isfuture(one)
        assert session.in_flight == 0  # nothing is sent before `one` is awaited
        assert (await one).page()[0].key == "local"
        with pytest.raises(RuntimeError, match="already awaited"):
            await one


async def test_gather_wait_for_and_shield_work(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        task = asyncio.create_task(session.execute(SELECT))
        assert "coro=<AsyncSession.execute" in repr(task)
        results = await asyncio.gather(
            task,
            session.execute(SELECT),
            asyncio.ensure_future(session.execute(SELECT)),
            asyncio.wait_for(session.execute(SELECT), 10),
            asyncio.shield(session.execute(SELECT)),
        )
        assert [rows.page()[0].key for rows in results] == ["local"] * 5


async def test_errors_are_raised_when_the_call_is_awaited(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        wrong: Any = 1
        calls = [
            session.execute("SELECT nothing FROM nowhere.at_all"),
            session.execute(wrong),
            session.execute(SELECT, timeout_s=-1),
            session.execute("SELECT key FROM system.local WHERE key = ?", (1,)),
            session.execute(turbocql.Batch(), (1,)),
            session.execute(SELECT),
        ]
        *failed, right = await asyncio.gather(*calls, return_exceptions=True)
        kinds = [errors.InvalidQuery, TypeError, errors.ConfigError, errors.EncodeError, TypeError]
        assert [type(one) for one in failed] == kinds
        assert isinstance(right, turbocql.AsyncRows)


async def test_a_call_that_is_never_awaited_warns(loop: Loop, points: list[str]) -> None:
    async with turbocql.aio.connect(points) as session:
        unused = [session.execute(SELECT)]
        with pytest.warns(RuntimeWarning, match="AsyncSession.execute' was never awaited"):
            unused.clear()
        closed = session.execute(SELECT)
        closed.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            del closed
        assert session.in_flight == 0


async def pending(session: AsyncSession) -> asyncio.Task[Any]:
    task = asyncio.create_task(session.execute(SELECT))
    while not session.in_flight:
        await asyncio.sleep(0)
    return task


async def test_cancelling_keeps_the_message(loop: Loop, cassandra: Cassandra) -> None:
    async with turbocql.aio.connect(cassandra.contact_points) as session:
        with paused(cassandra.nodes[0]):
            task = await pending(session)
            assert task.cancel("enough")
            # In CPython 3.10, a cancelled task loses the message, also without turbocql.
            message = "^enough$" if sys.version_info >= (3, 11) else "^$"
            with pytest.raises(asyncio.CancelledError, match=message):
                await task
        # A task may be cancelled before it begins.
        task = asyncio.create_task(session.execute(SELECT))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await session.execute(SELECT)).page()[0].key == "local"


async def test_a_statement_that_is_cancelled_while_it_executes(
    loop: Loop, cassandra: Cassandra
) -> None:
    """1,000 requests are cancelled in flight, and the session can still execute the statement."""
    async with turbocql.aio.connect(cassandra.contact_points) as session:
        select = await session.prepare(SELECT)
        with paused(cassandra.nodes[0]):
            tasks = [asyncio.create_task(session.execute(select)) for _ in range(1_000)]
            while session.in_flight < 1_000:
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in results)
            for _ in range(500):
                if session.in_flight == 0:
                    break
                await asyncio.sleep(0.01)
            assert session.in_flight == 0
        assert (await session.execute(select)).page()[0].key == "local"


async def test_tasks_resume_in_their_own_context(loop: Loop, points: list[str]) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

    async def work(session: AsyncSession, number: int) -> None:
        variable.set(number)
        for _ in range(3):
            await session.execute(SELECT)
            assert variable.get() == number
            assert asyncio.current_task() is not None

    async with turbocql.aio.connect(points) as session:
        await asyncio.gather(*(work(session, number) for number in range(50)))


async def test_blocking_calls_inside_concurrent_tasks(loop: Loop, points: list[str]) -> None:
    """The blocking calls and the asynchronous requests of tasks are all answered in time."""
    with turbocql.connect(points) as blocking:

        async def work(session: AsyncSession) -> None:
            for _ in range(3):
                assert (await session.execute(SELECT)).page()[0].key == "local"
                assert blocking.execute(SELECT, timeout_s=10).page()[0].key == "local"

        async with turbocql.aio.connect(points) as session:
            await asyncio.gather(*(work(session) for _ in range(20)))


async def test_an_exception_in_a_task_leaves_others_unaffected(
    loop: Loop, points: list[str]
) -> None:
    async def work(session: AsyncSession, number: int) -> int:
        await session.execute(SELECT)
        if number % 2:
            raise ValueError(number)
        await session.execute(SELECT)
        return number

    async with turbocql.aio.connect(points) as session:
        results = await asyncio.gather(
            *(work(session, number) for number in range(100)), return_exceptions=True
        )
    assert results[::2] == list(range(0, 100, 2))
    assert all(isinstance(result, ValueError) for result in results[1::2])


def test_an_interrupt_loses_no_other_task(points: list[str]) -> None:
    """One task raises KeyboardInterrupt. The others finish when the loop runs again."""

    async def work(session: AsyncSession, number: int) -> int:
        await session.execute(SELECT)
        if number == 10:
            raise KeyboardInterrupt
        return number

    event_loop = asyncio.new_event_loop()
    try:
        session = event_loop.run_until_complete(turbocql.aio.connect(points)._open())

        async def start() -> list[asyncio.Task[int]]:
            return [asyncio.ensure_future(work(session, number)) for number in range(50)]

        tasks = event_loop.run_until_complete(start())
        with pytest.raises(KeyboardInterrupt):
            event_loop.run_until_complete(asyncio.sleep(10))
        others = tasks[:10] + tasks[11:]
        results = event_loop.run_until_complete(asyncio.gather(*others))
        assert results == [number for number in range(50) if number != 10]
        with pytest.raises(KeyboardInterrupt):
            tasks[10].result()
        event_loop.run_until_complete(session.close())
    finally:
        event_loop.close()


async def test_a_step_that_blocks_does_not_delay_requests_of_other_tasks(
    loop: Loop, points: list[str]
) -> None:
    """A task that blocks the event loop does not delay requests that other tasks have made."""
    async with turbocql.aio.connect(points, io_threads=2) as session:
        await session.execute(
            "CREATE KEYSPACE IF NOT EXISTS awaiting WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        await session.execute("CREATE TABLE IF NOT EXISTS awaiting.t (k int PRIMARY KEY)")

        await session.execute("TRUNCATE awaiting.t")
        sent = 0

        async def insert(key: int) -> None:
            nonlocal sent
            await session.execute(SELECT)
            sent += 1
            await session.execute("INSERT INTO awaiting.t (k) VALUES (?)", (key,))

        async def block() -> tuple[int, int]:
            await session.execute(SELECT)
            # This blocks the event loop while another session counts the rows on the server.
            deadline = time.monotonic() + 20
            with turbocql.connect(points) as other:
                while True:
                    seen = other.execute("SELECT count(*) FROM awaiting.t").page()[0][0]
                    if seen == sent or time.monotonic() > deadline:
                        return seen, sent
                    time.sleep(0.01)

        # This prepares the statement.
        await insert(0)
        inserts = [asyncio.create_task(insert(key)) for key in range(1, 20)]
        seen, expected = await block()
        await asyncio.gather(*inserts)
        assert seen == expected
        assert (await session.execute("SELECT count(*) FROM awaiting.t")).page()[0][0] == 20


async def test_a_task_that_runs_another_loop(loop: Loop, points: list[str]) -> None:
    """A task runs another event loop. Synchronous wrappers of asynchronous libraries do the same.

    The task first runs a loop in another thread, and then a nested loop in its own thread.
    """
    async with turbocql.aio.connect(points) as session:
        await session.execute(SELECT)

        async def elsewhere() -> str:
            async with turbocql.aio.connect(points) as other:
                return str((await other.execute(SELECT)).page()[0].key)

        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(asyncio.run, elsewhere()).result(30) == "local"
        running, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        # The outer task must not be the current task while the inner loop runs. From CPython 3.14
        # on, a thread can have only one current task, and not one for each loop.
        asyncio.tasks._leave_task(running, task)
        asyncio.events._set_running_loop(None)
        try:
            inner = asyncio.new_event_loop()
            assert inner.run_until_complete(in_a_task_of_its_own(inner, elsewhere)) == "local"
            inner.close()
        finally:
            asyncio.events._set_running_loop(running)
            asyncio.tasks._enter_task(running, task)
        assert (await session.execute(SELECT)).page()[0].key == "local"


async def in_a_task_of_its_own(
    inner: asyncio.AbstractEventLoop, call: Callable[[], Coroutine[Any, Any, str]]
) -> str:
    return await inner.create_task(call())


async def test_every_failing_callback_reaches_the_exception_handler(
    loop: Loop, points: list[str]
) -> None:
    told: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: told.append(context["exception"])
    )
    async with turbocql.aio.connect(points) as session:

        def fail(future: object) -> None:
            raise ValueError(future)

        calls = [session.execute(SELECT) for _ in range(5)]
        for call in calls:
            call.send(None)
            call.add_done_callback(fail)  # type: ignore[attr-defined]
        while len(told) < 5:
            await asyncio.sleep(0.01)
        assert {error.args[0] for error in told} == set(calls)
        for call in calls:
            with pytest.raises(StopIteration):
                call.send(None)


def test_the_default_exception_handler_works_in_debug_mode(points: list[str]) -> None:
    async def main() -> None:
        async with turbocql.aio.connect(points) as session:
            await session.execute(SELECT)
            # In debug mode, the exception handler reads attributes of the loop's current `Handle`.
            # turbocql made this handle, so it must have these attributes.
            asyncio.get_running_loop().default_exception_handler({"message": "said"})

    asyncio.run(main(), debug=True)


def test_a_failing_wake_does_not_end_the_loop() -> None:
    said: list[dict[str, Any]] = []

    def told() -> None:
        raise RuntimeError("cannot enter context")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: said.append(context))
        ready = wake.Ready()
        ready._function, ready._callback = told, print
        append = wake.append_ready(loop)
        assert append
        append(ready)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert str(said[0]["exception"]) == "cannot enter context"
    assert said[0]["message"] == "Exception in callback <built-in function print>"


class OwnTask(asyncio.Task[Any]):
    """A subclass of `asyncio.Task`. CPython implements `asyncio.Task` in C."""


def test_tasks_of_several_classes_wake_in_the_order_of_completion(
    points: list[str],
) -> None:
    order: list[asyncio.Task[Any]] = []

    async def main() -> None:
        async with turbocql.aio.connect(points) as session:

            async def one(statement: str) -> None:
                await session.execute(statement)
                task = asyncio.current_task()
                assert task
                order.append(task)

            loop = asyncio.get_running_loop()
            tasks = [
                OwnTask(one(SELECT), loop=loop) if i % 2 else loop.create_task(one(SELECT))
                for i in range(40)
            ]
            await asyncio.sleep(0)
            time.sleep(0.1)  # so that the responses arrive in bursts
            await asyncio.gather(*tasks)

    asyncio.run(main())
    kinds = [type(task) for task in order]
    changes = sum(kind is not after for kind, after in itertools.pairwise(kinds))
    assert changes > 4, "one kind after the other"


def test_a_later_callback_runs_after_the_waiting_task(points: list[str]) -> None:
    seen: list[str] = []

    class Awaited:
        def __init__(self, call: Any) -> None:
            self.call = call

        def __await__(self) -> Any:
            self.call.send(None)
            loop = asyncio.get_running_loop()
            loop.call_soon(self.call.add_done_callback, lambda _: seen.append("callback"))
            yield self.call
            seen.append("task")

    async def main() -> None:
        async with turbocql.aio.connect(points) as session:
            await Awaited(session.execute(SELECT))
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert seen == ["task", "callback"]


@pytest.mark.needs(not sysconfig.get_config_var("Py_GIL_DISABLED"), "quick paths")
def test_handles_that_are_not_as_expected_are_not_used(cassandra: Cassandra) -> None:
    """If asyncio's handles are not as expected, only the quick path `handles` is turned off.

    turbocql probes internals of CPython before a quick path relies on them. The environment of a
    child process makes the probe of the handles fail.
    """
    program = (
        "import asyncio, sys, turbocql.aio\n"
        "from turbocql import _core\n"
        "async def main():\n"
        "    async with turbocql.aio.connect(sys.argv[1:]) as session:\n"
        "        for _ in range(20):\n"
        "            rows = await session.execute('SELECT key FROM system.local')\n"
        "            assert rows.one().key == 'local'\n"
        "asyncio.run(main())\n"
        "print([name for name, on, _ in _core.quick_paths() if not on])\n"
    )
    environment = {"_TURBOCQL_TEST_INTERPRETER": "", "_TURBOCQL_TEST_PROBE": "handles:value"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *cassandra.contact_points],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout) == (0, "['handles']\n"), ran.stderr
