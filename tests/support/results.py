"""Builds bodies of RESULT frames from the specification.

The code shares nothing with the codec except `CqlType`, which parses types.

Source: native_protocol_v5.spec, section 4.2.5.2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from turbocql.codec import CqlType

__all__ = ["GLOBAL", "MORE", "NEW_ID", "UNDESCRIBED", "Columns", "cell", "described", "result"]

ROWS = 2
GLOBAL, MORE, UNDESCRIBED, NEW_ID = 1, 2, 4, 8
"""The flags of metadata."""

Cell = bytes | None
Columns = Sequence[tuple[str, str]]
"""The name and type of each column."""

_CODES = {
    **{"ascii": 0x01, "bigint": 0x02, "blob": 0x03, "boolean": 0x04, "counter": 0x05},
    **{"decimal": 0x06, "double": 0x07, "float": 0x08, "int": 0x09, "timestamp": 0x0B},
    **{"uuid": 0x0C, "text": 0x0D, "varint": 0x0E, "timeuuid": 0x0F, "inet": 0x10},
    **{"date": 0x11, "time": 0x12, "smallint": 0x13, "tinyint": 0x14, "duration": 0x15},
    **{"list": 0x20, "map": 0x21, "set": 0x22, "udt": 0x30, "tuple": 0x31},
}


def cell(data: Cell) -> bytes:
    """Encodes a value with its length. `None` becomes a null."""
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _option(cql_type: CqlType) -> bytes:
    """Encodes a type for metadata.

    A type that has no code in the protocol is encoded as a custom type with the name of its Java
    class.
    """
    kind, parts = cql_type.kind, cql_type.subtypes
    if kind == "frozen":
        return _option(parts[0])
    code = _CODES.get(kind, 0)
    head = struct.pack(">H", code)
    if not code:
        return head + _string(cql_type.class_name)
    if kind == "udt":
        head += _string(cql_type.keyspace or "") + _string(cql_type.name or "")
        fields = zip(cql_type.field_names, parts, strict=True)
        body = b"".join(_string(name) + _option(part) for name, part in fields)
        return head + struct.pack(">H", len(parts)) + body
    if kind == "tuple":
        head += struct.pack(">H", len(parts))
    return head + b"".join(map(_option, parts))


def described(columns: Columns, *, shared: bool = True) -> bytes:
    """Encodes the columns of metadata.

    If `shared` is true, the name of the table is written only once, and not with each column.
    """
    table = _string("ks") + _string("t")
    out = table if shared else b""
    for name, cql_type in columns:
        out += (b"" if shared else table) + _string(name) + _option(CqlType(cql_type))
    return out


def result(
    columns: Columns | int,
    rows: Iterable[Sequence[Cell]] = (),
    *,
    shared: bool = True,
    paging_state: bytes | None = None,
    metadata_id: bytes | None = None,
) -> bytes:
    """Returns the body of a RESULT with rows.

    If `columns` is a number, the body has this many columns and no metadata for them.
    """
    undescribed = isinstance(columns, int)
    flags = 0 if undescribed or not shared else GLOBAL
    flags |= UNDESCRIBED if undescribed else 0
    flags |= MORE if paging_state is not None else 0
    flags |= NEW_ID if metadata_id is not None else 0
    count = columns if isinstance(columns, int) else len(columns)
    out = struct.pack(">iii", ROWS, flags, count)
    out += b"" if paging_state is None else cell(paging_state)
    if metadata_id is not None:
        out += struct.pack(">H", len(metadata_id)) + metadata_id
    out += b"" if isinstance(columns, int) else described(columns, shared=shared)
    all_rows = list(rows)
    out += struct.pack(">i", len(all_rows))
    return out + b"".join(cell(data) for row in all_rows for data in row)
