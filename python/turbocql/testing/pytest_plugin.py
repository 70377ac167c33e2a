"""Fixtures that provide tests with a real Cassandra, one cluster of each kind for the whole run.

`cassandra_session` and `cassandra_async_session` are sessions that use a keyspace made for the run.
Its tables are empty at the beginning of each test.

A test that needs the database fails when the database cannot start. It is never skipped. Only the
option `--no-cassandra` leaves out tests: those that are marked `cassandra`, and those that use
`cassandra`, `cassandra_secure` or `cassandra_three`, directly or through other fixtures. With
`--cassandra=HOST`, the fixture `cassandra` is a server that is already running.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..aio import AsyncSession
    from ..session import Session
    from .cluster import Cassandra
    from .existing import ExistingServer, RunKeyspace

__all__ = [
    "cassandra",
    "cassandra_async_session",
    "cassandra_keyspace",
    "cassandra_schema",
    "cassandra_secure",
    "cassandra_session",
    "cassandra_settings",
    "cassandra_three",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "unique_keyspace",
]

_CLUSTERS = frozenset({"cassandra", "cassandra_secure", "cassandra_three"})
_MARKER = "cassandra: needs a running Cassandra; --no-cassandra leaves the test out"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options `--no-cassandra` and `--cassandra`."""
    group = parser.getgroup("turbocql")
    group.addoption(
        "--no-cassandra",
        action="store_true",
        help="leave out the tests that need a running Cassandra",
    )
    group.addoption(
        "--cassandra",
        metavar="HOST",
        help="a server that is already running, for the fixture `cassandra`: host, host:port,"
        " several with commas, or a URL such as cql://user:password@host",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker `cassandra`."""
    config.addinivalue_line("markers", _MARKER)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that use fixtures of `_CLUSTERS`. With `--no-cassandra`, deselects all marked
    tests.
    """
    for item in items:
        if not _CLUSTERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("cassandra")
    if config.getoption("--no-cassandra"):
        left_out = [item for item in items if item.get_closest_marker("cassandra")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("cassandra")]


@pytest.fixture(scope="session")
def cassandra(pytestconfig: pytest.Config) -> Iterator[Cassandra | ExistingServer]:
    """One node, shared by all tests of the run, or the server of `--cassandra`.

    Use a keyspace of your own: `cassandra_keyspace` or `unique_keyspace`.
    """
    points = pytestconfig.getoption("--cassandra")
    if points is not None:
        from .existing import ExistingServer

        yield ExistingServer(points)
        return
    from . import Cassandra

    with Cassandra() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cassandra_schema() -> str | list[str]:
    """The statements that make the tables of `cassandra_keyspace`.

    There are none, unless you override this fixture. Names of tables need no keyspace.
    """
    return []


@pytest.fixture(scope="session")
def cassandra_settings() -> dict[str, Any]:
    """Further settings of `cassandra_session` and `cassandra_async_session`.

    There are none, unless you override this fixture.
    """
    return {}


@pytest.fixture(scope="session")
def _cassandra_run(
    cassandra: Any, cassandra_schema: Any, cassandra_settings: Any
) -> Iterator[RunKeyspace]:
    from .existing import RunKeyspace

    run = RunKeyspace(cassandra, cassandra_schema, cassandra_settings)
    try:
        yield run
    finally:
        run.close()


@pytest.fixture(scope="session")
def cassandra_keyspace(_cassandra_run: RunKeyspace) -> str:
    """The name of a new keyspace with the tables of `cassandra_schema`.

    A keyspace on the server of `--cassandra` is dropped at the end of the run.
    """
    return _cassandra_run.name


@pytest.fixture
def _cassandra_empty(_cassandra_run: RunKeyspace) -> RunKeyspace:
    _cassandra_run.empty_tables()
    return _cassandra_run


@pytest.fixture
def cassandra_session(_cassandra_empty: RunKeyspace) -> Session:
    """A `Session` that uses `cassandra_keyspace`. Its tables are empty when a test begins.

    The session stays open until the end of the run.
    """
    return _cassandra_empty.session()


@pytest.fixture
def cassandra_async_session(_cassandra_empty: RunKeyspace) -> AsyncSession:
    """An `AsyncSession` that uses `cassandra_keyspace`. Its tables are empty when a test begins.

    The session stays open until the end of the run, and works on the event loop of any test.
    """
    return _cassandra_empty.async_session()


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
