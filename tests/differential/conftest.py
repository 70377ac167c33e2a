"""Shared fixtures: the seed of random values, and the processes that compare."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from .reports import start_processes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=1, help="of the random values to compare")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """Returns the seed of a test's random values."""
    return int(request.config.getoption("--seed"))


@pytest.fixture(scope="session")
def processes() -> Iterator[ProcessPoolExecutor]:
    """Returns a pool of processes that all tests of the run share."""
    pool = start_processes()
    yield pool
    pool.shutdown(cancel_futures=True)
