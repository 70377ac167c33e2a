"""Prepared statements without a server, and what the accelerator's status says of each seam."""

from __future__ import annotations

from cassandra.protocol import ColumnMetadata
from cassandra.query import PreparedStatement

from turbocql import accel


def statement(
    *types: type, key: list[int] | None = None, protocol_version: int = 4
) -> PreparedStatement:
    """A statement with a column of each type; `key` has the places of its partition key."""
    columns = [ColumnMetadata("ks", "t", f"c{i}", cls) for i, cls in enumerate(types)]
    return PreparedStatement(
        column_metadata=columns,
        query_id=b"id",
        routing_key_indexes=key or [],
        query="INSERT",
        keyspace="ks",
        protocol_version=protocol_version,
        result_metadata=[],
        result_metadata_id=None,
    )


def seams() -> dict[str, accel.Seam]:
    """The status of each seam, by the seam's name."""
    return {seam.name: seam for seam in accel.status().seams}
