"""Fixtures that provide tests with a real Cassandra, one cluster of each kind for the whole run.

A test that needs the database fails when the database cannot start. It is never skipped. Only the
option `--no-cassandra` leaves out the tests that use one of these fixtures or are marked
`cassandra`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .cluster import Cassandra

__all__ = [
    "cassandra",
    "cassandra_secure",
    "cassandra_three",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "unique_keyspace",
]

_CLUSTERS = frozenset({"cassandra", "cassandra_secure", "cassandra_three"})
_MARKER = "cassandra: needs a running Cassandra; --no-cassandra leaves the test out"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `--no-cassandra`."""
    parser.getgroup("turbocql").addoption(
        "--no-cassandra",
        action="store_true",
        help="leave out the tests that need a running Cassandra",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker `cassandra`."""
    config.addinivalue_line("markers", _MARKER)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that use the fixtures, and deselects marked tests with `--no-cassandra`."""
    for item in items:
        if not _CLUSTERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("cassandra")
    if config.getoption("--no-cassandra"):
        left_out = [item for item in items if item.get_closest_marker("cassandra")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("cassandra")]


@pytest.fixture(scope="session")
def cassandra() -> Iterator[Cassandra]:
    """One node, shared by all tests of the run. Use your own keyspace."""
    from . import Cassandra

    with Cassandra() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cassandra_three() -> Iterator[Cassandra]:
    """Three nodes, shared by all tests of the run. Restart every node that you stop."""
    from . import Cassandra

    with Cassandra(nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cassandra_secure() -> Iterator[Cassandra]:
    """One node, shared by all tests of the run, that requires TLS, a user and a password."""
    from . import Cassandra

    with Cassandra(tls=True, authentication=True, heap_mb=512) as cluster:
        yield cluster


@pytest.fixture
def unique_keyspace() -> str:
    """A keyspace name that no other test uses. The test creates the keyspace."""
    from uuid import uuid4

    return f"test_{uuid4().hex[:16]}"
