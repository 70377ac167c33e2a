"""Creates the tables that scenarios share. Each scenario uses its own keys."""

from __future__ import annotations

from collections.abc import Sequence

import turbocql

__all__ = ["KEYSPACE", "ROWS", "make_tables"]

KEYSPACE = (
    "CREATE KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
)

ROWS = 997
"""The number of rows in partition 0 of `wide`. It is a prime, so no page size from 2 to 996 divides
it, and the last page is not full."""


def make_tables(contact_points: Sequence[str], keyspace: str) -> None:
    """Creates the keyspace and its tables."""
    with turbocql.connect(contact_points) as session:
        session.execute(KEYSPACE.format(keyspace))
        for table in (
            "kv (k int PRIMARY KEY, v text, w int)",
            "counts (k int PRIMARY KEY, n counter)",
            "wide (p int, c int, v text, PRIMARY KEY (p, c))",
        ):
            session.execute(f"CREATE TABLE {keyspace}.{table}")
        session.execute_many(
            f"INSERT INTO {keyspace}.wide (p, c, v) VALUES (0, ?, ?)",
            ((number, f"v{number}") for number in range(ROWS)),
        )
