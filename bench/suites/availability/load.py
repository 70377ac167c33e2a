"""Runs an open-loop load in a client's process: sends each request when it is due.

The suite passes the `Load` as JSON on the command line. The process prints a line of JSON just
before the load begins, and a second line with the outcomes of all requests. This module imports no
driver.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from bench.harness.provenance import provenance
from bench.harness.timing import say
from bench.suites.availability.cases import Load

__all__ = ["AwaitedDriver", "CallbackDriver", "main"]

_LEAD_S = 0.2
"""Seconds between the first line of JSON and the first request."""
_EARLY_S = 0.5
"""A timeout error means a lost connection if it comes more than this many seconds before the
request's time limit."""


class Driver(ABC):
    """The benchmark's interface to a driver."""

    version: str
    note: str
    connection_errors: tuple[type[BaseException], ...]
    """The classes of the exceptions that a request raises when its connection, or every connection,
    is lost."""
    timeouts: tuple[type[BaseException], ...] = ()
    """The classes of timeout errors that mean a lost connection if they come early: see
    `_EARLY_S`."""


class AwaitedDriver(Driver):
    """A driver with coroutines."""

    @abstractmethod
    async def open(self, load: Load) -> None:
        """Connects and prepares the statements."""

    @abstractmethod
    async def write(self, row: tuple[int, str]) -> None:
        """Writes a row."""

    @abstractmethod
    async def read(self, key: int) -> Any:
        """Returns the text of a row."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the driver's connections."""


class CallbackDriver(Driver):
    """A driver with callbacks, which it may call from any thread."""

    @abstractmethod
    def open(self, load: Load) -> None:
        """Connects and prepares the statements."""

    @abstractmethod
    def write(
        self, row: tuple[int, str], answered: Callable[[], None], failed: Callable[[Any], None]
    ) -> None:
        """Begins to write a row."""

    @abstractmethod
    def read(
        self, key: int, answered: Callable[[Any], None], failed: Callable[[Any], None]
    ) -> None:
        """Begins to read the text of a row."""

    @abstractmethod
    def close(self) -> None:
        """Closes the driver's connections."""


class Outcomes:
    """The outcomes of the requests. Each request has its own entry, so no lock is needed."""

    def __init__(self, load: Load, driver: Driver) -> None:
        self._load, self._driver = load, driver
        self._ended: list[tuple[float, str, bool] | None] = [None] * load.requests
        self.begins = time.monotonic() + _LEAD_S

    def waiting_s(self, number: int) -> float:
        """Returns the seconds until a request is due. They are negative for a late request."""
        return self.begins + self._load.due_s(number) - time.monotonic()

    def answered(self, number: int, value: Any = None) -> None:
        """Records that a request was answered, with this value if it is a read."""
        right = self._load.writes(number) or value == self._load.row_of(number)[1]
        self._end(number, "" if right else "WrongRow", False)

    def failed(self, number: int, error: BaseException) -> None:
        """Records that a request failed."""
        is_lost = isinstance(error, self._driver.connection_errors)
        if isinstance(error, self._driver.timeouts):
            is_lost = -self.waiting_s(number) < self._load.timeout_s - _EARLY_S
        self._end(number, type(error).__name__, is_lost)

    def _end(self, number: int, error: str, is_lost: bool) -> None:
        if self._ended[number] is None:
            self._ended[number] = (time.monotonic() - self.begins, error, is_lost)

    def lines(self) -> list[list[Any]]:
        """Returns one list for each request.

        Each list has the due time, the end or None, the error, and whether a connection was lost.
        """
        return [
            [round(self._load.due_s(number), 4), *self._line(ended)]
            for number, ended in enumerate(self._ended)
        ]

    def _line(self, ended: tuple[float, str, bool] | None) -> list[Any]:
        return [None, "NoOutcome", False] if ended is None else [round(ended[0], 4), *ended[1:]]


async def _run_awaited(load: Load, driver: AwaitedDriver) -> None:
    await driver.open(load)
    for number in range(load.warm_up):
        await _ask(load, driver, number, load.warming_row_of(number))
    outcomes = Outcomes(load, driver)
    say({"begins": outcomes.begins})

    async def request(number: int) -> None:
        try:
            value = await _ask(load, driver, number, load.row_of(number))
        except Exception as error:  # Every exception is an outcome.
            outcomes.failed(number, error)
        else:
            outcomes.answered(number, value)

    tasks = []
    for number in range(load.requests):
        if (waiting := outcomes.waiting_s(number)) > 0:
            await asyncio.sleep(waiting)
        tasks.append(asyncio.create_task(request(number)))
    await asyncio.wait(tasks, timeout=load.patience_s)
    _tell(load, driver, outcomes)
    await driver.close()


async def _ask(load: Load, driver: AwaitedDriver, number: int, row: tuple[int, str]) -> Any:
    if load.writes(number):
        return await driver.write(row)
    return await driver.read(row[0])


def _run_with_callbacks(load: Load, driver: CallbackDriver) -> None:
    driver.open(load)
    for number in range(load.warm_up):
        _warm_up(load, driver, number)
    outcomes = Outcomes(load, driver)
    ended = threading.Semaphore(0)
    say({"begins": outcomes.begins})

    def request(number: int) -> None:
        def answered(value: Any = None) -> None:
            outcomes.answered(number, value)
            ended.release()

        def failed(error: BaseException) -> None:
            outcomes.failed(number, error)
            ended.release()

        key, value = load.row_of(number)
        try:
            if load.writes(number):
                driver.write((key, value), answered, failed)
            else:
                driver.read(key, answered, failed)
        except Exception as error:  # A driver may raise instead of calling `failed`.
            failed(error)

    for number in range(load.requests):
        if (waiting := outcomes.waiting_s(number)) > 0:
            time.sleep(waiting)
        request(number)
    deadline = time.monotonic() + load.patience_s
    for _ in range(load.requests):
        if not ended.acquire(timeout=max(0.0, deadline - time.monotonic())):
            break
    _tell(load, driver, outcomes)
    driver.close()


def _warm_up(load: Load, driver: CallbackDriver, number: int) -> None:
    """Sends one request before the load, and waits for it.

    Raises: the driver's error.
    """
    ended = threading.Event()
    errors: list[BaseException] = []

    def answered(value: Any = None) -> None:
        ended.set()

    def failed(error: BaseException) -> None:
        errors.append(error)
        ended.set()

    row = load.warming_row_of(number)
    if load.writes(number):
        driver.write(row, answered, failed)
    else:
        driver.read(row[0], answered, failed)
    ended.wait()
    if errors:
        raise errors[0]


def _tell(load: Load, driver: Driver, outcomes: Outcomes) -> None:
    """Prints the outcomes. The client disconnects later: that may wait for the lost node."""
    about = provenance(load.client, driver.version)
    say({**about, "note": driver.note, "outcomes": outcomes.lines()})


def main(driver: AwaitedDriver | CallbackDriver) -> None:
    """Runs the load that is passed on the command line."""
    load = Load(**json.loads(sys.argv[1]))
    if isinstance(driver, CallbackDriver):
        _run_with_callbacks(load, driver)
    else:
        asyncio.run(_run_awaited(load, driver))
