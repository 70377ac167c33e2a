"""Fixtures that hand a real Cassandra to a test, one cluster of each kind for the whole run.

A test that needs the database fails when it cannot start, it is never skipped. Only the option
`--no-cassandra` leaves such tests out: those that use one of these fixtures, and those marked
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
    """Adds `--no-cassandra`."""
    parser.getgroup("turbocql").addoption(
        "--no-cassandra",
        action="store_true",
        help="leave out the tests that need a running Cassandra",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the users of the fixtures, and leaves all marked tests out if asked to."""
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
    """One node, shared by the run: use a keyspace of your own."""
    from . import Cassandra

    with Cassandra() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cassandra_three() -> Iterator[Cassandra]:
    """Three nodes, shared by the run: start again what you stop."""
    from . import Cassandra

    with Cassandra(nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cassandra_secure() -> Iterator[Cassandra]:
    """One node that speaks TLS only and asks for a user and a password, shared by the run."""
    from . import Cassandra

    with Cassandra(tls=True, authentication=True, heap_mb=512) as cluster:
        yield cluster


@pytest.fixture
def unique_keyspace() -> str:
    """A name for a keyspace that nobody else has in this run; the test creates it."""
    from uuid import uuid4

    return f"test_{uuid4().hex[:16]}"
