"""Makes prepared statements without a server, and looks up the accelerator's seams."""

from __future__ import annotations

from cassandra.protocol import ColumnMetadata
from cassandra.query import PreparedStatement

from turbocql import accel


def statement(
    *types: type, key: list[int] | None = None, protocol_version: int = 4
) -> PreparedStatement:
    """Returns a statement with one column for each type. `key` has the indexes of the columns that
    form the partition key.
    """
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
    """Maps names to the seams of the accelerator's status.

    A seam is a function of the driver that the accelerator can replace.
    """
    return {seam.name: seam for seam in accel.status().seams}
