"""Native methods of futures and pools lose nothing if other code runs between their steps.

Up to CPython 3.11, any allocation may start the GC. So Python code or another thread may run
between any two steps of a native method. In these tests, the GC starts at each possible step in
turn.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.accel.futures import Connection, a_pool, future

from turbocql import accel

STEPS = range(1, 41)
"""The other code runs when the GC starts for the `step`-th time during a call. Few calls start the
GC more often than 40 times."""
WAIT_S = 30.0


class Interruption:
    """Calls `act` when the GC starts for the `step`-th time in the thread that made this object."""

    def __init__(self, step: int, act: Callable[[], Any]) -> None:
        self.remaining, self.act, self.has_acted = step, act, False
        self.thread = threading.get_ident()
        self.objects: list[Any] = []

    def __call__(self, phase: str, details: dict[str, int]) -> None:
        if phase == "stop":
            # The GC starts when there have been more allocations than deallocations since it last
            # ran. These lists make the next allocation start it.
            self.objects.extend([] for _ in range(20))
        elif threading.get_ident() == self.thread and not self.has_acted:
            self.remaining -= 1
            if self.remaining == 0:
                self.has_acted = True
                self.act()


@contextmanager
def interrupted(step: int, act: Callable[[], Any]) -> Iterator[None]:
    """Calls `act` at a step of the `with` block. If the block has fewer steps, calls `act` after
    it.
    """
    interruption = Interruption(step, act)
    thresholds = gc.get_threshold()
    gc.callbacks.append(interruption)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(interruption)
    if not interruption.has_acted:
        act()


@pytest.mark.parametrize("step", range(1, 101))
def test_a_result_comes_while_a_thread_begins_to_wait(step: int) -> None:
    with accel.accelerated():
        waiting = future()
        has_result = threading.Event()
        rows: list[Any] = []

        def end() -> None:
            waiting._set_final_result(["row"])
            has_result.set()

        def wait() -> None:
            with interrupted(step, lambda: None if has_result.is_set() else end()):
                rows.append(waiting.result()._current_rows)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        # If the wait has fewer steps, no interruption ends it. Then it is ended here.
        if not has_result.wait(0.2):
            end()
        thread.join(WAIT_S)
        assert rows == [["row"]]


@pytest.mark.parametrize("step", STEPS)
def test_a_callback_is_added_while_the_result_is_set(step: int) -> None:
    with accel.accelerated():
        waiting = future()
        called: list[Any] = []
        waiting.add_callback(called.append)
        with interrupted(step, lambda: waiting.add_callback(called.append)):
            waiting._set_final_result("rows")
        assert called == ["rows", "rows"]


@pytest.mark.parametrize("step", STEPS)
def test_the_result_is_set_while_a_callback_is_added(step: int) -> None:
    with accel.accelerated():
        waiting = future()
        called: list[Any] = []
        with interrupted(step, lambda: waiting._set_final_result("rows")):
            waiting.add_callback(called.append)
        assert called == ["rows"]


@pytest.mark.parametrize("step", STEPS)
def test_the_result_is_set_while_callbacks_are_cleared(step: int) -> None:
    with accel.accelerated():
        waiting = future()
        called: list[Any] = []
        waiting.add_callback(called.append)
        with interrupted(step, lambda: waiting._set_final_result("rows")):
            waiting.clear_callbacks()
        assert called in ([], ["rows"])
        assert (waiting._callbacks, waiting._errbacks) == ([], [])


@pytest.mark.parametrize("change", ["defunct", "trash"])
def test_a_connection_changes_while_its_return_waits_for_the_lock(change: str) -> None:
    def ended() -> Any:
        pool: Any = a_pool()
        connection: Any = Connection()
        calls: list[str] = []
        pool._session = Recorder(calls)
        pool.host = Recorder(calls)
        pool._connections, pool._is_replacing, pool.shutdown_on_error = {}, False, False
        connection.features = Recorder(calls)
        connection.in_flight = 1
        is_locked, is_returning = threading.Event(), threading.Event()

        def fail() -> None:
            with connection.lock:
                is_locked.set()
                is_returning.wait(WAIT_S)
                # During this sleep, the main thread begins to wait for the lock. There is no event
                # that would show this.
                time.sleep(0.1)
                if change == "defunct":
                    connection.is_defunct = True
                else:
                    pool._trash.add(connection)

        thread = threading.Thread(target=fail)
        thread.start()
        is_locked.wait(WAIT_S)
        is_returning.set()
        pool.return_connection(connection)
        thread.join()
        return connection.in_flight, connection.is_closed, len(pool._trash), calls

    plain = ended()
    with accel.accelerated():
        assert ended() == plain


class Recorder:
    """Records the names of the methods that are called on this object and on its cluster."""

    shard_id = 0

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    @property
    def cluster(self) -> Recorder:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: self.calls.append(name)
