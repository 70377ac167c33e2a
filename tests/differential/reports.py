"""Compares the drivers in other processes, so that reports are ready when the tests need them."""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Generic, TypeVar

import pytest

PROCESSES = 2

Key = TypeVar("Key")
Report = TypeVar("Report")


def start_processes() -> ProcessPoolExecutor:
    """Returns a pool of processes that import both drivers.

    The processes are spawned, not forked. A forked process could deadlock on a lock that one of
    pytest's threads held at the time of the fork.
    """
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(PROCESSES, context, initializer=_prepare)


def _prepare() -> None:
    faulthandler.enable()
    # NumPy and the reference warn about some values. No test checks these warnings.
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)


def selected(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Returns the values that a parameter has in those tests of the module that pytest will run."""
    parameters = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and hasattr(item, "callspec")
    ]
    return [values[parameter] for values in parameters if parameter in values]


class Reports(Generic[Key, Report]):
    """Makes a report for each key, for example for each CQL type.

    The constructor begins the reports of the keys in `ahead`. Each other report is begun when it is
    first requested.
    """

    def __init__(
        self,
        processes: ProcessPoolExecutor,
        compare: Callable[[Key], Report],
        ahead: Iterable[Key],
    ) -> None:
        self._processes = processes
        self._compare = compare
        self._futures: dict[Key, Future[Report]] = {}
        self._begin(ahead)

    def _begin(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if key not in self._futures:
                self._futures[key] = self._processes.submit(self._compare, key)

    def __getitem__(self, key: Key) -> Report:
        self._begin([key])
        return self._futures[key].result()

    def of_all(self, keys: Iterable[Key]) -> list[Report]:
        """Returns the reports of all these keys.

        A test that needs all reports can call this even if pytest runs only some of the tests.
        """
        keys = list(keys)
        self._begin(keys)
        return [self[key] for key in keys]
