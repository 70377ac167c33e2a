"""Tests of the asynchronous API: load, cancellation, event loops, threads, and process exit."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.children import finish, run_python, start_python
from tests.support.loops import LOOPS, Loop
from tests.support.nodes import eventually, paused

import turbocql
from turbocql import errors
from turbocql.aio import AsyncSession
from turbocql.testing import Cassandra

INSERT = "INSERT INTO t (k, v) VALUES (?, ?)"
SELECT = "SELECT v FROM t WHERE k = ?"


@pytest.fixture(scope="module")
def keyspace(cassandra: Cassandra) -> str:
    """Creates a keyspace with one table of 1,000 rows and returns its name."""
    name = f"asyncio_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {name} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"CREATE TABLE {name}.t (k int PRIMARY KEY, v text)")
        session.execute_many(
            f"INSERT INTO {name}.t (k, v) VALUES (?, ?)", ((k, f"v{k}") for k in range(1_000))
        )
    return name


async def is_idle(session: AsyncSession) -> bool:
    """Waits until no request is in flight, for about 5 s at most. Returns whether none is left."""
    for _ in range(500):
        if session.in_flight == 0:
            return True
        await asyncio.sleep(0.01)
    return False


async def value(session: AsyncSession, key: int) -> str:
    found: str = (await session.execute(SELECT, (key,))).page()[0].v
    return found


# Load and cancellation


async def test_ten_thousand_at_once(loop: Loop, points: list[str], keyspace: str) -> None:
    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        select = await session.prepare(SELECT)
        results = await asyncio.gather(
            *(session.execute(select, (k % 1_000,)) for k in range(10_000))
        )
        assert [rows.page()[0].v for rows in results] == [f"v{k % 1_000}" for k in range(10_000)]
        assert await is_idle(session)


async def test_cancellation_under_load(loop: Loop, points: list[str], keyspace: str) -> None:
    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        for round_number in range(3):
            tasks = [asyncio.ensure_future(value(session, k % 1_000)) for k in range(2_000)]
            # Depending on the round, tasks are cancelled before they begin, while their requests
            # are in flight, or perhaps after they are done.
            for _ in range(round_number):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for k, result in enumerate(results):
                if k % 2:
                    assert result == f"v{k % 1_000}"
                else:
                    assert isinstance(result, asyncio.CancelledError) or result == f"v{k % 1_000}"
            assert sum(isinstance(one, asyncio.CancelledError) for one in results) > 0
            assert await is_idle(session)
            assert await value(session, 7) == "v7"


async def test_cancelling_calls_of_several_requests(
    loop: Loop, cassandra: Cassandra, keyspace: str
) -> None:
    """Each kind of call is cancelled while it waits for a paused node."""
    points = cassandra.contact_points
    session = await turbocql.aio.connect(points, keyspace=keyspace)
    insert = await session.prepare(INSERT)
    rows = await session.execute("SELECT k FROM t", page_size=10)
    read = 0

    def endless() -> Any:
        nonlocal read
        while True:
            read += 1
            yield (read % 1_000, f"v{read % 1_000}")

    async def iterate() -> None:
        async for _ in rows:
            pass

    batch = turbocql.Batch()
    batch.add("UPDATE t SET v = ? WHERE k = 7", ("v7",))
    with paused(cassandra.nodes[0]):
        given_up: list[Any] = [
            turbocql.aio.connect(points)._open(),
            session.prepare("SELECT k, v FROM t WHERE k = ?"),
            session.execute("SELECT k, v, v FROM t WHERE k = ?", (1,)),
            session.execute(insert, (7, "v7")),
            session.execute(batch),
            session.execute_many(insert, endless()),
            session.execute_many("INSERT INTO t (v, k) VALUES (?, ?)", endless()),
            iterate(),
        ]
        tasks = [asyncio.ensure_future(one) for one in given_up]
        await asyncio.wait(tasks, timeout=0.1)
        for task in tasks:
            assert not task.done()
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError)
        taken = read
    assert await is_idle(session)
    assert read == taken < 2_000
    assert await value(session, 7) == "v7"
    await session.close()


async def test_wait_for(loop: Loop, cassandra: Cassandra, keyspace: str) -> None:
    async with turbocql.aio.connect(cassandra.contact_points, keyspace=keyspace) as session:
        assert await asyncio.wait_for(value(session, 3), 10) == "v3"
        with paused(cassandra.nodes[0]):
            before = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(value(session, 3), 0.2)
            assert time.monotonic() - before < 2
        assert await is_idle(session)
        assert await value(session, 3) == "v3"


async def test_an_iteration_never_ends_before_its_last_row(
    loop: Loop, cassandra: Cassandra, keyspace: str
) -> None:
    select = "SELECT k FROM t"
    async with turbocql.aio.connect(
        cassandra.contact_points, keyspace=keyspace, page_size=100
    ) as session:
        everything = [row.k for row in await (await session.execute(select)).all()]
        iterator = (await session.execute(select, timeout_s=0.5)).__aiter__()
        seen: list[int] = []

        async def read(limit_s: float) -> None:
            while True:
                seen.append((await asyncio.wait_for(iterator.__anext__(), limit_s)).k)

        with paused(cassandra.nodes[0]), pytest.raises(errors.RequestTimeout):
            await read(30)
        assert 0 < len(seen) < len(everything)
        # The iteration continues: it requests the page that failed again.
        seen += [row.k async for row in iterator]
        assert seen == everything
        with pytest.raises(StopAsyncIteration):
            await iterator.__anext__()

        iterator, seen = (await session.execute(select)).__aiter__(), []
        with paused(cassandra.nodes[0]), pytest.raises(asyncio.TimeoutError):
            await read(0.3)
        assert 0 < len(seen) < len(everything)
        for _ in range(2):
            with pytest.raises(errors.Error, match="rows may be missing"):
                await iterator.__anext__()


async def test_a_loop_that_is_kept_busy(loop: Loop, points: list[str], keyspace: str) -> None:
    """While the event loop is blocked, completed requests wait, and none of them is lost."""
    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        tasks = [asyncio.ensure_future(value(session, k)) for k in range(100)]
        await asyncio.sleep(0)
        time.sleep(0.2)  # blocks the loop on purpose
        assert await asyncio.gather(*tasks) == [f"v{k}" for k in range(100)]


async def test_calls_in_the_wait_functions_of_asyncio(
    loop: Loop, points: list[str], keyspace: str
) -> None:
    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        done = [await one for one in asyncio.as_completed([value(session, k) for k in range(20)])]
        assert sorted(done) == sorted(f"v{k}" for k in range(20))
        first, _ = await asyncio.wait(
            [asyncio.ensure_future(value(session, k)) for k in range(5)],
            return_when=asyncio.ALL_COMPLETED,
        )
        assert len(first) == 5
        assert await asyncio.shield(value(session, 4)) == "v4"


async def test_a_connect_that_is_never_awaited_is_harmless(loop: Loop, points: list[str]) -> None:
    connecting = turbocql.aio.connect(points)
    del connecting
    session = await turbocql.aio.connect(points)
    await session.close()


# Loops and threads


async def test_tasks_without_other_references_complete(
    loop: Loop, points: list[str], keyspace: str
) -> None:
    """Tasks complete even if only turbocql refers to them.

    The event loop has only weak references to tasks. So if a task awaits a request, the request
    must keep a reference to the task.
    """
    done = []

    async def one(session: AsyncSession, key: int) -> None:
        done.append(await value(session, key))

    async with turbocql.aio.connect(points, keyspace=keyspace) as session:
        await session.prepare(SELECT)
        for key in range(200):
            asyncio.ensure_future(one(session, key))  # noqa: RUF006
            if key % 20 == 0:
                await asyncio.sleep(0)
                gc.collect()
        for _ in range(500):
            if len(done) == 200:
                break
            await asyncio.sleep(0.01)
    assert sorted(done) == sorted(f"v{key}" for key in range(200))


def test_loops_closed_with_requests_pending_leave_nothing_behind(points: list[str]) -> None:
    program = """
        import asyncio, gc, os, sys
        import turbocql

        async def leave(session):
            asyncio.ensure_future(session.execute("SELECT key FROM system.local"))
            await asyncio.sleep(0)

        async def connect():
            return await turbocql.aio.connect(sys.argv[1])

        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda loop, context: None)
        session = loop.run_until_complete(connect())
        for _ in range(50):
            other = asyncio.new_event_loop()
            # Says that a task was destroyed, as it should.
            other.set_exception_handler(lambda loop, context: None)
            other.run_until_complete(leave(session))
            other.close()
        async def idle():
            while session.in_flight:
                await asyncio.sleep(0.01)
        loop.run_until_complete(idle())
        del other
        gc.collect()
        print(len(os.listdir("/proc/self/fd")))
        loop.run_until_complete(session.close())
        loop.close()
    """
    assert int(run_python(program, points[0])) < 40


def io_threads() -> int:
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return names.count("turbocql-io")


async def test_an_interrupted_close_still_closes(
    loop: Loop, cassandra: Cassandra, keyspace: str
) -> None:
    before = io_threads()
    session = await turbocql.aio.connect(cassandra.contact_points, keyspace=keyspace)
    await session.prepare(SELECT)
    with paused(cassandra.nodes[0]):
        pending = asyncio.ensure_future(value(session, 1))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(session.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert session.closed
        with pytest.raises(errors.ClosedError):
            await pending
    assert eventually(lambda: io_threads() <= before)
    await session.close()


def test_one_session_on_loops_one_after_another(points: list[str], keyspace: str) -> None:
    session = LOOPS[0].run(turbocql.aio.connect(points, keyspace=keyspace)._open())
    for loop in LOOPS * 3:
        assert loop.run(value(session, 5)) == "v5"
    LOOPS[-1].run(session.close())


def test_one_session_on_loops_in_several_threads(points: list[str], keyspace: str) -> None:
    async def work(session: AsyncSession, start: int) -> None:
        for _ in range(3):
            found = await asyncio.gather(*(value(session, k) for k in range(start, start + 100)))
            assert found == [f"v{k}" for k in range(start, start + 100)]

    session = LOOPS[0].run(turbocql.aio.connect(points, keyspace=keyspace)._open())
    failures: list[BaseException] = []

    def run(number: int) -> None:
        loop = (LOOPS[0], LOOPS[2])[number % 2].make()
        try:
            loop.run_until_complete(work(session, number * 100))
        except BaseException as error:
            failures.append(error)
        finally:
            loop.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert eventually(lambda: session.in_flight == 0)
    LOOPS[0].run(session.close())


def test_many_threads_share_a_sync_session(points: list[str], keyspace: str) -> None:
    failures: list[BaseException] = []

    with turbocql.connect(points, keyspace=keyspace) as session:

        def work(start: int) -> None:
            try:
                for k in range(start, start + 50):
                    assert session.execute(SELECT, (k,)).page()[0].v == f"v{k}"
                    session.execute(INSERT, (k, f"v{k}"))
                assert len(session.execute("SELECT k FROM t", page_size=100).all()) == 1_000
                session.execute_many(INSERT, ((k, f"v{k}") for k in range(start, start + 50)))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n * 50,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert eventually(lambda: session.in_flight == 0)


# Process exit. Each child runs with warnings as errors and must leave nothing on stderr.


LOOP_ENDS = f"""
    import asyncio, gc, sys
    import turbocql
    sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
    from tests.support.loops import LOOPS

    points, kind, keyspace = sys.argv[1:]
    make = next(loop.make for loop in LOOPS if loop.name == kind)
"""


@pytest.mark.parametrize("kind", [loop.name for loop in LOOPS])
def test_a_loop_closed_with_requests_pending(
    cassandra: Cassandra, keyspace: str, kind: str
) -> None:
    child = start_python(
        LOOP_ENDS
        + """
    async def pending():
        session = await turbocql.aio.connect(points, keyspace=keyspace)
        select = await session.prepare("SELECT v FROM t WHERE k = ?")
        print("ready", flush=True)
        sys.stdin.readline()
        tasks = [asyncio.ensure_future(session.execute(select, (k,))) for k in range(100)]
        while session.in_flight < 100:
            await asyncio.sleep(0.01)
        return session, tasks

    loop = make()
    session, tasks = loop.run_until_complete(pending())
    # As asyncio.run does it: cancelled, and the loop run once more.
    for task in tasks[50:]:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks[50:], return_exceptions=True))
    # As a program that has given up does it: closed over what is still pending.
    for task in tasks[:50]:
        task._log_destroy_pending = False  # asyncio's own complaint, about the program
    loop.close()
    print("closed", flush=True)
    sys.stdin.readline()
    del tasks
    gc.collect()

    async def again():
        assert (await session.execute("SELECT v FROM t WHERE k = ?", (7,))).one().v == "v7"
        while session.in_flight:
            await asyncio.sleep(0.01)
        await session.close()

    loop = make()
    loop.run_until_complete(again())
    loop.close()
    print("done")
    """,
        cassandra.contact_points[0],
        kind,
        keyspace,
    )
    assert child.stdin
    assert child.stdout
    assert child.stdout.readline() == "ready\n"
    with paused(cassandra.nodes[0]):
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "closed\n", finish(child)
    child.stdin.write("\n")  # now the responses arrive, after their loop was closed
    child.stdin.flush()
    assert finish(child) == "done\n"


@pytest.mark.parametrize("kind", [loop.name for loop in LOOPS])
@pytest.mark.parametrize("held", ["open", "closed", "in a cycle", "in flight"])
def test_the_interpreter_ends_with_an_async_session(
    points: list[str], keyspace: str, kind: str, held: str
) -> None:
    ends = {
        "open": "",
        "closed": "await session.close()",
        "in a cycle": "cycle = [session, rows]; cycle.append(cycle)",
        "in flight": "task = turbocql._core.execute(session._core, 'SELECT * FROM t', None, {})",
    }
    output = run_python(
        LOOP_ENDS
        + f"""
    async def main():
        global session, rows, task, cycle
        session = await turbocql.aio.connect(points, keyspace=keyspace)
        rows = await session.execute("SELECT k FROM t", page_size=10)
        assert len([row async for row in rows]) == 1000
        rows = await session.execute("SELECT k FROM t", page_size=10)
        async for row in rows:
            break  # the next page is on its way
        {ends[held]}

    loop = make()
    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    print("end")
    """,
        points[0],
        kind,
        keyspace,
    )
    assert output == "end\n"


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "cycle = [session, rows]; cycle.append(cycle); del session, rows",
        "op = turbocql._core.execute(session._core, 'SELECT * FROM t', None, {})",
        "threading.Thread(target=work, daemon=True).start(); begun.wait()",
        "session.close()",
    ],
    ids=["open", "in a cycle", "in flight", "daemon thread", "closed"],
)
def test_the_interpreter_ends_with_a_sync_session(
    points: list[str], keyspace: str, end: str
) -> None:
    output = run_python(
        f"""
        import sys, threading
        import turbocql

        session = turbocql.connect(sys.argv[1], keyspace=sys.argv[2])
        rows = session.execute("SELECT k FROM t", page_size=10)
        next(iter(rows))
        begun = threading.Event()

        def work():
            while True:
                session.execute("SELECT v FROM t WHERE k = ?", (1,))
                begun.set()

        {end}
        print("end")
        """,
        points[0],
        keyspace,
    )
    assert output == "end\n"


@pytest.mark.parametrize(
    "blocked",
    [
        "session.execute(select, (1,))",
        'session.execute("SELECT k, v FROM t WHERE k = ?", (1,))',
        'session.prepare("SELECT k, v, v FROM t")',
        'session.execute_many(insert, ((k % 1000, f"v{k % 1000}") for k in range(1_000_000)))',
        "rows.all()",
        "turbocql.connect(points)",
    ],
    ids=["execute", "preparing", "prepare", "many", "pages", "connect"],
)
def test_control_c_ends_a_blocked_call(cassandra: Cassandra, keyspace: str, blocked: str) -> None:
    child = start_python(
        f"""
        import sys, time
        import turbocql

        points, keyspace = sys.argv[1:]
        session = turbocql.connect(points, keyspace=keyspace)
        select = session.prepare("SELECT v FROM t WHERE k = ?")
        insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)")
        rows = session.execute("SELECT k FROM t", page_size=10)
        print("ready", flush=True)
        sys.stdin.readline()
        print("blocking", flush=True)
        try:
            {blocked}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        else:
            print("answered", flush=True)
        sys.stdin.readline()
        assert session.execute(select, (7,)).one().v == "v7"
        deadline = time.monotonic() + 10
        while session.in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
        print(session.in_flight)
        session.close()
        """,
        cassandra.contact_points[0],
        keyspace,
    )
    assert child.stdin
    assert child.stdout
    assert child.stdout.readline() == "ready\n", finish(child)
    with paused(cassandra.nodes[0]):
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "blocking\n"
        time.sleep(0.2)  # this process cannot see when the child blocks
        before = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n", finish(child)
        assert time.monotonic() - before < 1
    child.stdin.write("\n")
    child.stdin.flush()
    assert finish(child) == "0\n"


def test_control_c_ends_an_event_loop(cassandra: Cassandra, keyspace: str) -> None:
    child = start_python(
        """
        import asyncio, sys
        import turbocql

        async def main():
            async with turbocql.aio.connect(sys.argv[1], keyspace=sys.argv[2]) as session:
                select = await session.prepare("SELECT v FROM t WHERE k = ?")
                print("ready", flush=True)
                sys.stdin.readline()
                await asyncio.gather(*(session.execute(select, (k,)) for k in range(100)))

        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted")
        """,
        cassandra.contact_points[0],
        keyspace,
    )
    assert child.stdin
    assert child.stdout
    assert child.stdout.readline() == "ready\n", finish(child)
    with paused(cassandra.nodes[0]):
        child.stdin.write("\n")
        child.stdin.flush()
        time.sleep(0.2)  # gives the child time to wait
        before = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert finish(child) == "interrupted\n"
        assert time.monotonic() - before < 3


def test_a_closed_session_raises_on_every_loop(points: list[str]) -> None:
    async def main() -> None:
        session = await turbocql.aio.connect(points)
        await session.close()
        with pytest.raises(errors.ClosedError):
            await session.execute("SELECT key FROM system.local")

    for loop in LOOPS:
        loop.run(main())
