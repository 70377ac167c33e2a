"""Runs the workload ("the load") in its own process: `python -m tests.faults.load SETTINGS`.

SETTINGS is JSON. Half of the callers are threads that use the synchronous API (`api` "sync"). The
other half are asyncio tasks that use the asynchronous API (`api` "async"). Each caller makes one
call after another.

Commands:

- `begin`: opens the sessions, prepares the statements, and starts the callers, which wait for `go`
- `go`: lets the callers make calls
- `pause`: stops the callers after their current operation, until `go`
- `pace`: makes each caller wait for `seconds` on average after each operation, from now on
- `sample`: returns the fields of a `records.Sample`; the load must be paused
- `look`: returns the number of answered calls and of failed calls, the number of connected nodes of
  each session, the resident memory, and the failures of callers
- `statements`: executes `texts` one after another with `timeout_s`; the records of these calls have
  the kind `kind`
- `use_keyspace`: calls `use_keyspace` with `name`
- `prepare`: prepares `count` statements that no caller uses
- `report`: returns the events that the sessions have logged, and the contradictions in their
  metrics; the load must be paused
- `stop`: ends the callers; the reply lists the calls that did not end, and the failures of callers
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.faults.calls import PREPARED, SPECULATIVE, Ask, Op, Outcome, Shared, Worker
from tests.faults.child import Reply, serve
from tests.faults.records import About, Recorder
from tests.faults.sessions import SLOW_S, Seconds, contradictions
from tests.faults.stored import aside

import turbocql
from turbocql import ConstantSpeculation, ExecutionProfile, Session
from turbocql.aio import AsyncSession

T = TypeVar("T")

_SETTLE_S = 20.0
"""`pause` and `stop` wait at most this many seconds for callers to end their operations. This is
longer than any time limit of a call, and longer than any backoff of a caller."""
_PREPARE_S = 60.0
_POLL_S = 0.01
_BACKOFF_S = 0.02
"""How many seconds a caller waits after a failed operation. Without this wait, calls that fail at
once would outnumber all other calls."""


class Gate:
    """Callers (threads, tasks) pass this gate before each operation. If it is shut, they wait."""

    def __init__(self, callers: int) -> None:
        self._callers = callers
        self._open = threading.Event()
        self._async_open = asyncio.Event()
        self._lock = threading.Lock()
        self._waiting = 0
        self.stopped = False

    def _arrive(self, by: int) -> None:
        with self._lock:
            self._waiting += by

    @property
    def is_quiet(self) -> bool:
        """Whether every caller waits at the gate."""
        with self._lock:
            return self._waiting == self._callers

    def set(self, loop: asyncio.AbstractEventLoop, *, is_open: bool) -> None:
        """Opens or closes the gate."""
        if is_open:
            self._open.set()
            loop.call_soon_threadsafe(self._async_open.set)
        else:
            self._open.clear()
            loop.call_soon_threadsafe(self._async_open.clear)

    def passes(self) -> bool:
        """Waits until the gate is open. Returns `False` if the caller must end."""
        if not self._open.is_set():
            self._arrive(1)
            self._open.wait()
            self._arrive(-1)
        return not self.stopped

    async def passes_soon(self) -> bool:
        """Waits like `passes`, but for a task and not for a thread."""
        if not self._async_open.is_set():
            self._arrive(1)
            await self._async_open.wait()
            self._arrive(-1)
        return not self.stopped


class Load:
    """The synchronous session, the asynchronous session, and the callers."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._seed: str = settings["seed"]
        self._keyspace: str = settings["keyspace"]
        self._callers: int = settings["in_flight"]
        speculation = ConstantSpeculation(delay_s=0.3)
        self._session_settings: dict[str, Any] = {
            **settings["session"],
            "slow_request_s": SLOW_S,
            "profiles": {SPECULATIVE: ExecutionProfile(speculation=speculation)},
        }
        self._connect_settings = {
            **self._session_settings,
            "connect_timeout_s": settings["connect_timeout_s"],
        }
        self._recorder = Recorder(Path(settings["log"]))
        self._shared = Shared()
        self._logged = Seconds()
        logging.getLogger("turbocql").addHandler(self._logged)
        logging.getLogger("turbocql").setLevel(logging.INFO)
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._threads: list[threading.Thread] = []
        self._pace_s = 0.0
        self._prepares = 0
        self._failures: list[str] = []
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._gate = self._on_loop(self._made_gate())

    def handle(self, do: str, arguments: Reply) -> Reply:
        """Carries out a command."""
        reply: Reply = getattr(self, f"_{do}")(**arguments)
        return reply

    # These methods carry out the commands.

    def _begin(self) -> Reply:
        self._sync = turbocql.connect(**self._session_settings)
        self._async = self._on_loop(self._connected())
        texts = {
            name: text.format(self._keyspace, aside(self._keyspace))
            for name, text in PREPARED.items()
        }
        prepared = {name: self._sync.prepare(text) for name, text in texts.items()}
        half = self._callers // 2
        for number in range(1, half + 1):
            worker = Worker(number, self._seed, self._keyspace, self._shared, prepared)
            self._threads.append(
                threading.Thread(target=self._call_on, args=(worker,), daemon=True)
            )
        self._on_loop(self._begin_tasks(texts, range(half + 1, self._callers + 1)))
        for thread in self._threads:
            thread.start()
        return {}

    def _go(self) -> Reply:
        self._gate.set(self._loop, is_open=True)
        return {}

    def _pace(self, seconds: float) -> Reply:
        self._pace_s = seconds
        return {}

    def _pause(self) -> Reply:
        self._gate.set(self._loop, is_open=False)
        deadline = time.monotonic() + _SETTLE_S
        while not self._gate.is_quiet and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return {"open": [str(call) for call in self._recorder.open_calls()]}

    def _sample(self) -> Reply:
        for session in (self._sync, self._async):
            session.forget_prepared()
        gc.collect()
        sessions = (self._sync, self._async)
        return {
            "rss_mib": _rss_mib(),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": _threads(),
            "tasks": len(asyncio.all_tasks(self._loop)),
            "in_flight": sum(session.in_flight for session in sessions),
            "connections": sum(session.metrics().connections for session in sessions),
        }

    def _look(self) -> Reply:
        connected = [
            sum(node.connected for node in session.nodes) for session in (self._sync, self._async)
        ]
        return {
            "answered": self._recorder.answered,
            "failed": self._recorder.failed,
            "connected": connected,
            "rss_mib": _rss_mib(),
            "failures": self._failures,
        }

    def _statements(self, api: str, kind: str, timeout_s: float, texts: list[str]) -> Reply:
        outcomes = []
        for text in texts:
            ask = Ask(kind, "execute", timeout_s, (text,), {"timeout_s": timeout_s})
            ask.about = About(aside="_aside" in text)
            outcomes.append(self._once(api, ask))
        return {"errors": outcomes}

    def _use_keyspace(self, api: str, name: str, timeout_s: float) -> Reply:
        return {"errors": [self._once(api, Ask("use_keyspace", "use", timeout_s, (name,)))]}

    def _prepare(self, api: str, count: int, timeout_s: float) -> Reply:
        outcomes = []
        for _ in range(count):
            self._prepares += 1
            text = f"SELECT value FROM {self._keyspace}.writes WHERE id = ? /* {self._prepares} */"
            outcomes.append(self._once(api, Ask("prepare", "prepare", timeout_s, (text,))))
        return {"errors": outcomes}

    def _report(self) -> Reply:
        wrong = [
            f"{api}: {contradiction}"
            for api, session in (("sync", self._sync), ("async", self._async))
            for contradiction in contradictions(session.metrics())
        ]
        return {"logged": self._logged.pairs(), "wrong": wrong}

    def _stop(self) -> Reply:
        self._gate.stopped = True
        self._gate.set(self._loop, is_open=True)
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline and (
            any(thread.is_alive() for thread in self._threads)
            or not all(task.done() for task in self._tasks)
        ):
            time.sleep(_POLL_S)
        hung = [str(call) for call in self._recorder.open_calls()]
        if hung:
            faulthandler.dump_traceback(all_threads=True)
        else:
            self._sync.close()
            self._on_loop(self._async.close())
        self._recorder.close()
        return {"hung": hung, "failures": self._failures}

    # These methods make the calls.

    def _once(self, api: str, ask: Ask) -> str | None:
        """Makes one call. Returns the name of its error's class, or `None` if it succeeds."""

        def op() -> Op:
            errors.append((yield ask).error)

        errors: list[BaseException | None] = []
        if api == "sync":
            self._run(op())
        else:
            self._on_loop(self._run_soon(op()))
        return None if errors[0] is None else type(errors[0]).__name__

    def _call_on(self, worker: Worker) -> None:
        try:
            while self._gate.passes():
                good = self._run(worker.op())
                if wait_s := self._wait_s(worker, good):
                    time.sleep(wait_s)
        except BaseException as error:
            self._failures.append(f"a thread ended: {error!r}")
            raise

    def _wait_s(self, worker: Worker, good: bool) -> float:
        return worker.chance.uniform(0, 2 * self._pace_s) + (0.0 if good else _BACKOFF_S)

    async def _call_on_soon(self, worker: Worker) -> None:
        try:
            while await self._gate.passes_soon():
                good = await self._run_soon(worker.op())
                if wait_s := self._wait_s(worker, good):
                    await asyncio.sleep(wait_s)
        except BaseException as error:
            self._failures.append(f"a task ended: {error!r}")
            raise

    def _run(self, op: Op) -> bool:
        """Runs an operation on the synchronous API. Returns whether all its calls succeeded."""
        good, ask = True, next(op)
        while True:
            call = self._recorder.begin(ask.kind, "sync", ask.timeout_s, ask.about)
            outcome = Outcome()
            try:
                value = self._perform(ask)
                outcome.value = value if ask.read is None else ask.read(value)
            except BaseException as error:
                outcome.error = error
            call.ended = time.monotonic()
            if outcome.error is not None:
                good = False
                call.failed_with(outcome.error)
            try:
                ask = op.send(outcome)
            except StopIteration:
                return good
            finally:
                self._recorder.end(call)

    async def _run_soon(self, op: Op) -> bool:
        """Runs an operation on the asynchronous API. Returns whether all its calls succeeded."""
        good, ask = True, next(op)
        while True:
            call = self._recorder.begin(ask.kind, "async", ask.timeout_s, ask.about)
            outcome = Outcome()
            try:
                value = await self._perform_soon(ask)
                outcome.value = value if ask.read is None else ask.read(value)
            except BaseException as error:
                outcome.error = error
            call.ended = time.monotonic()
            if outcome.error is not None:
                good = False
                call.failed_with(outcome.error)
            try:
                ask = op.send(outcome)
            except StopIteration:
                return good
            finally:
                self._recorder.end(call)

    def _perform(self, ask: Ask) -> Any:
        session: Session = ask.session or self._sync
        if ask.method == "connect":
            return turbocql.connect(**self._connect_settings)
        if ask.method == "next_page":
            return next(ask.arguments[0], None)
        if ask.method == "use":
            return session.use_keyspace(*ask.arguments)
        return getattr(session, ask.method)(*ask.arguments, **ask.options)

    async def _perform_soon(self, ask: Ask) -> Any:
        session: AsyncSession = ask.session or self._async
        if ask.method == "connect":
            return await turbocql.aio.connect(**self._connect_settings)
        if ask.method == "next_page":
            return await anext(ask.arguments[0], None)
        if ask.method == "use":
            return await session.use_keyspace(*ask.arguments)
        return await getattr(session, ask.method)(*ask.arguments, **ask.options)

    # These methods use the event loop.

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PREPARE_S)

    async def _made_gate(self) -> Gate:
        return Gate(self._callers)

    async def _connected(self) -> AsyncSession:
        return await turbocql.aio.connect(**self._session_settings, compression="lz4")

    async def _begin_tasks(self, texts: dict[str, str], numbers: range) -> None:
        prepared = {name: await self._async.prepare(text) for name, text in texts.items()}
        for number in numbers:
            worker = Worker(number, self._seed, self._keyspace, self._shared, prepared)
            self._tasks.append(self._loop.create_task(self._call_on_soon(worker)))


def _threads() -> int:
    """Counts the threads of this process, except tokio's threads for blocking calls.

    A session that connects uses such threads. They end 10 s after their last call, so their number
    would differ between two samples.
    """
    names = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError):
            names.append(Path(f"/proc/self/task/{thread}/comm").read_text(encoding="utf-8").strip())
    return sum(name != "tokio-rt-worker" for name in names)


def _rss_mib() -> float:
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return round(resident * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


if __name__ == "__main__":
    serve(Load(json.loads(sys.argv[1])).handle)
    os._exit(0)  # exits even if a call hangs
