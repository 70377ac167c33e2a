"""Reads with scylla-driver in Ray's workers, without a data source: one query per token range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.query import tuple_factory

__all__ = ["read_ranges"]

_open: dict[str, tuple[Any, Any]] = {}
"""Maps contact points to a pair: the session that this process has opened to them, and its prepared
statement."""


def _session(points: str, table: str) -> tuple[Any, Any]:
    if points not in _open:
        hosts = [point.rpartition(":")[0] for point in points.split(",")]
        port = int(points.rpartition(":")[2])
        profile = ExecutionProfile(row_factory=tuple_factory, request_timeout=60)
        cluster = Cluster(hosts, port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        session = cluster.connect()
        query = f"SELECT * FROM {table} WHERE token(part) > ? AND token(part) <= ?"
        _open[points] = (session, session.prepare(query))
    return _open[points]


def read_ranges(batch: dict[str, Any], points: str, table: str) -> Iterator[pa.Table]:
    """Yields the rows of each token range as an Arrow table."""
    session, statement = _session(points, table)
    for first, last in zip(batch["first"].tolist(), batch["last"].tolist(), strict=True):
        result = session.execute(statement, (first, last))
        names, rows = result.column_names, result.all()
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        yield pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})
