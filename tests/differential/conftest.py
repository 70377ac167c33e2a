"""What the tests share: how much they compare, and the processes that compare it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from .reports import start_processes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=1, help="of the random values to compare")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """What the random values of a test are derived from."""
    return int(request.config.getoption("--seed"))


@pytest.fixture(scope="session")
def processes() -> Iterator[ProcessPoolExecutor]:
    """They are kept for all tests of the run."""
    pool = start_processes()
    yield pool
    pool.shutdown(cancel_futures=True)
