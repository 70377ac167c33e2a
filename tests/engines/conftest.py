"""Shared fixtures of the tests of engines (Dask, DuckDB, Ray and Spark).

The fixtures are three nodes, the tables, and faults.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.rows import COUNT
from tests.engines.support import Faults, Tables

import turbocql
from turbocql.testing import Cassandra

ROOT = Path(__file__).resolve().parents[2]
# The settings of the nodes. With this period, a killed node loses at most its writes of the last
# 100 ms. The other two nodes still have these writes, because all three nodes store each row.
CLUSTER = {"commitlog_sync_period": "100ms", "num_tokens": 16}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rows", type=int, default=COUNT, help="that the engines write and read")


def pytest_configure(config: pytest.Config) -> None:
    # The engines warn about their own code and about killed workers. These warnings must not fail
    # the tests.
    config.addinivalue_line("filterwarnings", "default")


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """Sets environment variables that an engine's processes inherit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT / "python"), str(ROOT))))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        yield


@pytest.fixture(scope="session")
def nodes() -> Iterator[Cassandra]:
    with Cassandra(nodes=3, heap_mb=1024, config=CLUSTER) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def points(nodes: Cassandra) -> list[str]:
    return nodes.contact_points


@pytest.fixture(scope="session")
def config(points: list[str]) -> turbocql.Config:
    return turbocql.Config(contact_points=points)


@pytest.fixture(scope="session")
def tables(config: turbocql.Config, request: pytest.FixtureRequest) -> Tables:
    tables = Tables(config, request.config.getoption("--rows"))
    tables.make_keyspace()
    return tables


@pytest.fixture(scope="session")
def count(tables: Tables) -> int:
    """Returns the number of rows of a table."""
    return tables.count


@pytest.fixture
def faults(nodes: Cassandra) -> Iterator[Faults]:
    """Yields the faults, and starts killed nodes again after the test."""
    faults = Faults(nodes)
    yield faults
    faults.start_killed_nodes()
