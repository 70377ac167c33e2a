"""Reads and rewrites RESULT messages: rows and prepared statements."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..frames import Reader, int32, short_bytes, string, value_bytes

__all__ = ["Column", "Prepared", "Rows", "is_rows", "metadata_id", "rows_of"]

ROWS, SET_KEYSPACE, PREPARED, SCHEMA_CHANGE = 2, 3, 4, 5
GLOBAL_TABLE, MORE_PAGES, NO_METADATA, METADATA_CHANGED = 0x01, 0x02, 0x04, 0x08
_HEAD = struct.Struct(">iii")
_ROWS_KIND = int32(ROWS)
_SHAPE = GLOBAL_TABLE | NO_METADATA
"""The flags that say how columns are described."""

TEXT, INT, UUID, INET = b"\x00\x0d", b"\x00\x09", b"\x00\x0c", b"\x00\x10"
MAP_OF_TEXT = b"\x00\x21" + TEXT + TEXT


class Column(NamedTuple):
    """One column of a result: its keyspace, table, name, and type as encoded in the protocol."""

    keyspace: str
    table: str
    name: str
    type: bytes


def is_rows(message: bytes) -> bool:
    """Whether a RESULT contains rows."""
    return message.startswith(_ROWS_KIND)


def metadata_id(count: int, columns: bytes, salt: bytes) -> bytes:
    """The 16 bytes that identify the metadata of a result.

    `columns` is the encoded description of `count` columns. A different `salt` makes different ids.
    """
    return hashlib.sha256(salt + int32(count) + columns).digest()[:16]


def _skip_columns(reader: Reader, flags: int, count: int) -> None:
    if flags & GLOBAL_TABLE:
        reader.short_bytes()
        reader.short_bytes()
    for _ in range(count):
        if not flags & GLOBAL_TABLE:
            reader.short_bytes()
            reader.short_bytes()
        reader.short_bytes()
        reader.skip_type()


def decode_columns(data: bytes, is_global: bool, count: int) -> list[Column]:
    """The columns that an encoded description contains."""
    reader = Reader(data)
    shared = (reader.string(), reader.string()) if is_global else None
    columns = []
    for _ in range(count):
        keyspace, table = shared or (reader.string(), reader.string())
        name, start = reader.string(), reader.at
        reader.skip_type()
        columns.append(Column(keyspace, table, name, data[start : reader.at]))
    return columns


def encode_columns(columns: Sequence[Column]) -> tuple[int, bytes]:
    """Returns a flag and the encoded columns.

    The flag is `GLOBAL_TABLE` if all columns are of one table. Otherwise, it is 0.
    """
    tables = {(column.keyspace, column.table) for column in columns}
    if len(tables) == 1:
        first = columns[0]
        parts = [string(first.keyspace), string(first.table)]
        parts += [string(column.name) + column.type for column in columns]
        return GLOBAL_TABLE, b"".join(parts)
    return 0, b"".join(
        string(column.keyspace) + string(column.table) + string(column.name) + column.type
        for column in columns
    )


@dataclass(frozen=True)
class Rows:
    """The parts of a RESULT that contains rows. `columns` and `rows` are encoded bytes.

    `rows` begins with the number of rows.
    """

    flags: int
    count: int
    paging_state: bytes | None
    columns: bytes
    rows: bytes

    @classmethod
    def parse(cls, message: bytes, earlier: Rows | None = None) -> Rows:
        """Reads a message for which `is_rows` is true.

        `earlier` is a result of the same statement. If the columns are the same, their bytes are
        only compared, not parsed.
        """
        _, flags, count = _HEAD.unpack_from(message)
        reader = Reader(message, _HEAD.size)
        paging_state = reader.value() if flags & MORE_PAGES else None
        start = reader.at
        if not flags & NO_METADATA:
            # If the table has got a new column, the description of this column follows the earlier
            # bytes. So the columns are the same only if their number and the flags are equal too.
            is_alike = earlier is not None and (
                (earlier.flags & _SHAPE, earlier.count) == (flags & _SHAPE, count)
            )
            if earlier is not None and is_alike and message.startswith(earlier.columns, start):
                reader.at += len(earlier.columns)
            else:
                _skip_columns(reader, flags, count)
        return cls(flags, count, paging_state, message[start : reader.at], message[reader.at :])

    def encoded(self, *, new_id: bytes | None = None, is_bare: bool = False) -> bytes:
        """The message. `new_id` is the id of changed metadata; `is_bare` leaves metadata out."""
        flags = self.flags & ~(MORE_PAGES | METADATA_CHANGED)
        parts = [b""]
        if self.paging_state is not None:
            flags |= MORE_PAGES
            parts.append(value_bytes(self.paging_state))
        if is_bare:
            flags = flags & ~GLOBAL_TABLE | NO_METADATA
        else:
            if new_id is not None:
                flags |= METADATA_CHANGED
                parts.append(short_bytes(new_id))
            parts.append(self.columns)
        parts.append(self.rows)
        parts[0] = _HEAD.pack(ROWS, flags, self.count)
        return b"".join(parts)

    def without_rows(self, paging_state: bytes) -> Rows:
        """A copy without rows. With `paging_state`, the client requests the page after this one."""
        return replace(self, paging_state=paging_state, rows=int32(0))

    def cells(self) -> list[list[bytes | None]]:
        """The rows, as the bytes of their cells."""
        reader = Reader(self.rows)
        count = reader.int32()
        return [[reader.value() for _ in range(self.count)] for _ in range(count)]

    def column_specs(self) -> list[Column]:
        """The columns. The result must contain metadata."""
        return decode_columns(self.columns, bool(self.flags & GLOBAL_TABLE), self.count)


def rows_of(
    columns: Sequence[Column],
    cells: Sequence[Sequence[bytes | None]],
    paging_state: bytes | None = None,
) -> Rows:
    """A result with these columns and cells."""
    flag, described = encode_columns(columns)
    data = [int32(len(cells))]
    for row in cells:
        data += [value_bytes(cell) for cell in row]
    return Rows(flag, len(columns), paging_state, described, b"".join(data))


@dataclass(frozen=True)
class Prepared:
    """The RESULT of a PREPARE. `bind_columns` and `columns` are encoded bytes.

    `key_indexes` are the indexes of the partition key's bind markers, in the order of the key.
    Version 3 of the protocol lacks them.
    """

    id: bytes
    bind_flags: int
    bind_count: int
    key_indexes: tuple[int, ...]
    bind_columns: bytes
    flags: int
    count: int
    columns: bytes

    @classmethod
    def parse(cls, message: bytes, version: int) -> Prepared:
        """Reads the RESULT of a PREPARE, which must have no metadata id."""
        reader = Reader(message, 4)
        statement_id = reader.short_bytes()
        bind_flags, bind_count = reader.int32(), reader.int32()
        indexes: tuple[int, ...] = ()
        if version >= 4:
            indexes = tuple(reader.short() for _ in range(reader.int32()))
        start = reader.at
        if not bind_flags & NO_METADATA:
            _skip_columns(reader, bind_flags, bind_count)
        bind_columns = message[start : reader.at]
        flags, count = reader.int32(), reader.int32()
        return cls(
            statement_id,
            bind_flags & 0xFFFFFFFF,
            bind_count,
            indexes,
            bind_columns,
            flags,
            count,
            reader.remaining(),
        )

    def encoded(self, version: int, new_id: bytes | None = None) -> bytes:
        """The message, with the id of the result's metadata if `new_id` is not `None`."""
        parts = [int32(PREPARED), short_bytes(self.id)]
        if new_id is not None:
            parts.append(short_bytes(new_id))
        parts.append(struct.pack(">Ii", self.bind_flags, self.bind_count))
        if version >= 4:
            parts.append(int32(len(self.key_indexes)))
            parts += [struct.pack(">H", index) for index in self.key_indexes]
        parts += [self.bind_columns, int32(self.flags), int32(self.count), self.columns]
        return b"".join(parts)

    def bound(self) -> list[Column]:
        """The bind markers."""
        if self.bind_flags & NO_METADATA:
            return []
        is_global = bool(self.bind_flags & GLOBAL_TABLE)
        return decode_columns(self.bind_columns, is_global, self.bind_count)

    def column_specs(self) -> list[Column]:
        """The columns of the result; empty for a statement without rows."""
        if self.flags & NO_METADATA:
            return []
        return decode_columns(self.columns, bool(self.flags & GLOBAL_TABLE), self.count)

    def with_columns(self, columns: Sequence[Column]) -> Prepared:
        """A copy with `columns` as the columns of the result."""
        flag, described = encode_columns(columns)
        return replace(self, flags=flag, count=len(columns), columns=described)
