"""Tests the bodies of QUERY, EXECUTE and BATCH, with the cases of a proposal for these encoders.

The expected bytes are built with `struct` from the specification. The code that builds them shares
nothing with turbocql.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import pytest

from turbocql import UNSET, Consistency
from turbocql.protocol import BatchMessage, ExecuteMessage, QueryMessage
from turbocql.types import UnsetType

Cell: TypeAlias = bytes | UnsetType | None

VERSIONS = pytest.mark.parametrize("version", [4, 5])
QUERY = "INSERT INTO ks.t (a, b, c) VALUES (?, ?, ?)"
QUERY_ID = bytes(range(16))
METADATA_ID = bytes(range(16, 32))
VECTOR = struct.pack(">1536f", *(i / 7 for i in range(1536)))


def short(number: int) -> bytes:
    return struct.pack(">H", number)


def cell(value: Cell) -> bytes:
    if value is None:
        return struct.pack(">i", -1)
    if isinstance(value, UnsetType):
        return struct.pack(">i", -2)
    return struct.pack(">i", len(value)) + value


def cells(values: Sequence[Cell]) -> bytes:
    return short(len(values)) + b"".join(map(cell, values))


def flags(version: int, bits: int) -> bytes:
    return struct.pack(">I" if version >= 5 else ">B", bits)


def query_body(version: int, values: Sequence[Cell] | None) -> bytes:
    """Returns the body of a QUERY with the consistency QUORUM and, if not `None`, values."""
    text = QUERY.encode()
    body = struct.pack(">i", len(text)) + text + short(4) + flags(version, values is not None)
    return body + (b"" if values is None else cells(values))


def execute_body(version: int, values: Sequence[Cell], bits: int = 0x01, end: bytes = b"") -> bytes:
    """Returns the body of an EXECUTE with the consistency QUORUM."""
    ids = short(16) + QUERY_ID + (short(16) + METADATA_ID if version >= 5 else b"")
    return ids + short(4) + flags(version, bits) + cells(values) + end


def execute(version: int, values: Sequence[Cell]) -> bytes:
    metadata_id = METADATA_ID if version >= 5 else None
    message = ExecuteMessage(
        QUERY_ID, values, consistency=Consistency.QUORUM, result_metadata_id=metadata_id
    )
    return message.encode(version)


def query(version: int, values: Sequence[Cell] | None) -> bytes:
    return QueryMessage(QUERY, values, consistency="QUORUM").encode(version)


@VERSIONS
class TestQueryAndExecuteParameters:
    """Tests bodies of QUERY and EXECUTE."""

    def test_execute_normal_values(self, version: int) -> None:
        values = [b"\0\0\0\x01", b"text", b"\x01"]
        assert execute(version, values) == execute_body(version, values)

    def test_execute_null_values(self, version: int) -> None:
        values = [None, None, None]
        assert execute(version, values) == execute_body(version, values)

    def test_execute_unset_values(self, version: int) -> None:
        values = [UNSET, UNSET]
        assert execute(version, values) == execute_body(version, values)

    def test_execute_empty_values(self, version: int) -> None:
        """Empty values are not null."""
        values = [b"", b""]
        assert execute(version, values) == execute_body(version, values)
        assert execute(version, values) != execute(version, [None, None])

    def test_execute_no_values(self, version: int) -> None:
        assert execute(version, []) == execute_body(version, [])

    def test_execute_large_vector(self, version: int) -> None:
        values = [b"\0\0\0\x07", VECTOR]
        assert execute(version, values) == execute_body(version, values)
        assert len(VECTOR) == 6144

    def test_execute_mixed_values(self, version: int) -> None:
        values: list[Cell] = [b"\0\0\0\x01", None, UNSET, b"", VECTOR, None, b"end"]
        assert execute(version, values) == execute_body(version, values)

    def test_execute_many_values(self, version: int) -> None:
        values = [None if i % 3 == 0 else bytes([i % 256]) * i for i in range(500)]
        assert execute(version, values) == execute_body(version, values)

    def test_execute_with_everything_else(self, version: int) -> None:
        message = ExecuteMessage(
            QUERY_ID,
            [b"v"],
            consistency="QUORUM",
            serial_consistency="LOCAL_SERIAL",
            page_size=5000,
            paging_state=b"state",
            timestamp=1_700_000_000_000_000,
            skip_metadata=True,
            result_metadata_id=METADATA_ID if version >= 5 else None,
        )
        end = struct.pack(">i", 5000) + cell(b"state") + short(9)
        end += struct.pack(">q", 1_700_000_000_000_000)
        assert message.encode(version) == execute_body(version, [b"v"], 0x3F, end)

    def test_query_normal_values(self, version: int) -> None:
        values = [b"\0\0\0\x01", b"text", b"\x01"]
        assert query(version, values) == query_body(version, values)

    def test_query_null_values(self, version: int) -> None:
        values = [None, b"x", None]
        assert query(version, values) == query_body(version, values)

    def test_query_unset_values(self, version: int) -> None:
        values: list[Cell] = [UNSET, b"x", UNSET]
        assert query(version, values) == query_body(version, values)

    def test_query_without_values(self, version: int) -> None:
        """An empty list of values is encoded as its length, 0. A missing list has no length."""
        assert query(version, None) == query_body(version, None)
        assert query(version, []) == query_body(version, [])
        assert query(version, None) != query(version, [])

    def test_query_mixed_values(self, version: int) -> None:
        values: list[Cell] = [VECTOR, None, UNSET, b"", b"\xff" * 300]
        assert query(version, values) == query_body(version, values)


def batch_body(
    version: int, statements: Iterable[tuple[str | bytes, Sequence[Cell]]], count: int
) -> bytes:
    """Returns the body of an unlogged BATCH with the consistency LOCAL_QUORUM."""
    body = struct.pack(">BH", 1, count)
    for statement, values in statements:
        if isinstance(statement, bytes):
            body += b"\x01" + short(len(statement)) + statement
        else:
            text = statement.encode()
            body += b"\x00" + struct.pack(">i", len(text)) + text
        body += cells(values)
    return body + short(6) + flags(version, 0)


def check_batch(version: int, statements: list[tuple[str | bytes, Sequence[Cell]]]) -> None:
    message = BatchMessage(statements, kind="unlogged", consistency=Consistency.LOCAL_QUORUM)
    assert message.encode(version) == batch_body(version, statements, len(statements))


@VERSIONS
class TestBatch:
    """Tests bodies of BATCH."""

    def test_batch_prepared(self, version: int) -> None:
        check_batch(version, [(QUERY_ID, [b"\0\0\0\x01", b"a"]), (METADATA_ID, [b"b"])])

    def test_batch_unprepared(self, version: int) -> None:
        check_batch(version, [(QUERY, [b"1", b"2", b"3"]), ("DELETE FROM ks.é WHERE k = 1", [])])

    def test_batch_mixed(self, version: int) -> None:
        check_batch(version, [(QUERY_ID, [b"1"]), (QUERY, [b"2"]), (METADATA_ID, []), ("x", [])])

    def test_batch_empty(self, version: int) -> None:
        check_batch(version, [])

    def test_batch_50_queries(self, version: int) -> None:
        check_batch(version, [(QUERY_ID, [struct.pack(">i", i), b"x" * i]) for i in range(50)])

    def test_batch_null_and_unset(self, version: int) -> None:
        check_batch(version, [(QUERY_ID, [None, UNSET, b""]), (QUERY, [UNSET, None, b"v"])])

    def test_batch_vectors(self, version: int) -> None:
        check_batch(version, [(QUERY_ID, [struct.pack(">i", i), VECTOR]) for i in range(10)])
