"""Fixtures for a Cassandra cluster behind a simulation of ScyllaDB's protocol extensions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import turbocql
from turbocql.testing import Cassandra, Scylla, Shards

from .arrivals import ROWS, SHARDS, pools_are_full, wait_until

REPLICATION = "{'class': 'NetworkTopologyStrategy', 'replication_factor': %d}"
KEYSPACES = {
    "vnodes": REPLICATION % 1,
    "tablets": REPLICATION % 1 + " AND tablets = {'enabled': true, 'initial': 8}",
    "copies": REPLICATION % 3,
}


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cassandra]:
    """Three nodes with different numbers of shards, and tables with and without tablets."""
    settings = [Shards(SHARDS[0]), Shards(SHARDS[1]), None]
    with Cassandra(nodes=3, scylla=settings) as nodes:
        with turbocql.connect(nodes.contact_points) as session:
            for keyspace, replication in KEYSPACES.items():
                session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
                session.execute(f"CREATE TABLE {keyspace}.t (id int PRIMARY KEY, a text)")
                session.execute_many(
                    f"INSERT INTO {keyspace}.t (id, a) VALUES (?, ?)",
                    [(number, str(number)) for number in range(ROWS)],
                )
        yield nodes
        assert nodes.scylla is not None
        assert nodes.scylla.failures() == []


@pytest.fixture
def scylla(cluster: Cassandra) -> Scylla:
    """The handle of the simulation. It shows the requests that arrived, and can change nodes."""
    assert cluster.scylla is not None
    return cluster.scylla


@pytest.fixture
def session(cluster: Cassandra, scylla: Scylla) -> Iterator[turbocql.Session]:
    """A session that has a connection to each shard of each node."""
    with turbocql.connect(cluster.contact_points) as opened:
        wait_until(lambda: pools_are_full(scylla))
        yield opened
