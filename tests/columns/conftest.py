"""Shared fixtures of the tests of columns, for example a session with the node of this test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import turbocql
from turbocql.testing import Cassandra

from .support import SPACE


@pytest.fixture(scope="session")
def point(cassandra: Cassandra) -> str:
    """Returns the contact point of the node."""
    return cassandra.contact_points[0]


@pytest.fixture(scope="module")
def session(point: str) -> Iterator[turbocql.Session]:
    with turbocql.connect(point, timeout_s=60) as opened:
        yield opened


@pytest.fixture(scope="module")
def loaded(session: turbocql.Session) -> None:
    """Creates the keyspace for the tables that tests load. If it exists, drops it first."""
    session.execute(f"DROP KEYSPACE IF EXISTS {SPACE}")
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.execute(f"CREATE KEYSPACE {SPACE} WITH replication = {replication}")
