"""Makes reports of comparisons in other processes, before the tests need them."""

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
    """Starts new processes that import both drivers.

    They are not forked, because a forked process could deadlock on locks of pytest's threads.
    """
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(PROCESSES, context, initializer=_prepare)


def _prepare() -> None:
    faulthandler.enable()
    # NumPy and the reference warn about some of the values that are compared.
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)


def selected(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Returns the values of a parameter in the module's selected tests."""
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

    The reports of the keys in `ahead` are begun immediately, the others when they are asked for.
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
        """Returns the reports of all these keys, even of keys whose own tests are not selected."""
        keys = list(keys)
        self._begin(keys)
        return [self[key] for key in keys]
