"""Simulates ScyllaDB's system tables. For some, the simulator answers the queries itself. For
others, it rewrites Cassandra's results.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .results import INET, INT, MAP_OF_TEXT, TEXT, Column, Rows, rows_of
from .statements import Item, Select

__all__ = ["Refusal", "Rewrite", "Virtual", "plan"]

INVALID = 0x2200
CQL_VERSION = "3.3.1"
_ABSENT_KEYSPACES = frozenset({"system_views", "system_virtual_schema", "system_metrics"})
_ABSENT_TABLES = frozenset({("system", "peers_v2")})
_ABSENT_COLUMNS = {
    "local": frozenset({"broadcast_port", "listen_port", "rpc_port"}),
    "peers": frozenset(),
}
_KEYS = {"local": "key", "peers": "peer"}
_FEATURES = "supported_features"
_FEATURES_VALUE = b"CDC,LWT,RAFT,TABLETS,TYPED_ERRORS_IN_READ_RPC,UDF,VIEW_BUILD_STATUS_ON_GROUP0"
_VALUES = {
    "release_version": b"3.0.8",
    "native_protocol_version": b"4",
    "cql_version": CQL_VERSION.encode(),
}

_VIRTUAL: dict[tuple[str, str], dict[str, bytes]] = {
    ("system", "versions"): {"key": TEXT, "build_id": TEXT, "build_mode": TEXT, "version": TEXT},
    ("system_schema", "scylla_keyspaces"): {
        "keyspace_name": TEXT,
        "consistency": TEXT,
        "initial_tablets": INT,
        "storage_options": MAP_OF_TEXT,
        "storage_type": TEXT,
    },
}
"""The tables whose queries the simulator answers itself, with the types of their columns. The first
column of a table is its partition key."""


@dataclass(frozen=True)
class Refusal:
    """An error that the client gets, because ScyllaDB has no such keyspace, table or column, or
    because the simulator does not understand the SELECT.
    """

    message: str
    code: int = INVALID


@dataclass(frozen=True)
class Virtual:
    """A SELECT that the simulator answers itself, because its table is in `_VIRTUAL`."""

    keyspace: str
    table: str
    columns: tuple[Column, ...]
    """The columns of the result, named as the statement names them."""
    sources: tuple[str, ...]
    """For each column of the result, the name of the table's column whose values it has."""
    key: str | None
    """The literal that the partition key must equal; `None` if the statement has no such
    literal."""
    bound: tuple[Column, ...]
    """The bind marker that the partition key must equal; empty if the statement has none."""

    def rows(self, stored: Sequence[Mapping[str, bytes | None]], key: bytes | None) -> Rows:
        """The result for the rows of the table. `key` is the value of the bind marker."""
        name = next(iter(_VIRTUAL[self.keyspace, self.table]))
        key_value = key if self.bound else None if self.key is None else self.key.encode()
        is_restricted = bool(self.bound) or self.key is not None
        cells = [
            [row.get(source) for source in self.sources]
            for row in stored
            if not is_restricted or row[name] == key_value
        ]
        return rows_of(self.columns, cells)


@dataclass(frozen=True)
class Rewrite:
    """A SELECT from `system.local` or `system.peers`, whose result is changed for the client.

    `text` goes to Cassandra. `items` is empty for `SELECT *`.
    """

    text: str
    table: str
    items: tuple[Item, ...]

    def columns(self, columns: Sequence[Column]) -> list[Column]:
        """Converts the columns of Cassandra's result to the columns of the client's result."""
        return self._changed(columns, [])[0]

    def rows(self, rows: Rows, addresses: Mapping[bytes, bytes]) -> Rows:
        """Returns the result for the client. `addresses` maps the nodes' own addresses to the
        addresses that clients see.
        """
        columns = rows.column_specs()
        cells = [
            [
                addresses.get(cell, cell) if column.type == INET and cell is not None else cell
                for column, cell in zip(columns, row, strict=True)
            ]
            for row in rows.cells()
        ]
        return rows_of(*self._changed(columns, cells), rows.paging_state)

    def _changed(
        self, columns: Sequence[Column], cells: list[list[bytes | None]]
    ) -> tuple[list[Column], list[list[bytes | None]]]:
        first = columns[0]
        features = Column(first.keyspace, first.table, _FEATURES, TEXT)
        # Each entry describes a column of the client's result. It has the index of the column in
        # Cassandra's result, the column, and its name in Cassandra. If Cassandra's result does not
        # have the column, the index is -1 and the name is `None`.
        order: list[tuple[int, Column, str | None]] = []
        if self.items:
            source_index = 0
            for item in self.items:
                if item.column == _FEATURES:
                    order.append((-1, features._replace(name=item.result_name or _FEATURES), None))
                else:
                    order.append((source_index, columns[source_index], item.column))
                    source_index += 1
        else:
            absent = _ABSENT_COLUMNS[self.table]
            for index, column in enumerate(columns):
                # Both servers list columns in the order of their names. So `supported_features`
                # comes before `tokens`.
                if column.name == "tokens":
                    order.append((-1, features, None))
                if column.name not in absent:
                    order.append((index, column, column.name))
        changed = [
            [
                _FEATURES_VALUE if index < 0 else _scylla_value(name, row[index])
                for index, _, name in order
            ]
            for row in cells
        ]
        return [column for _, column, _ in order], changed


def _scylla_value(name: str | None, cell: bytes | None) -> bytes | None:
    return cell if cell is None or name is None else _VALUES.get(name, cell)


def plan(
    select: Select, text: str, keyspace: str | None, upstream: Mapping[str, str]
) -> Refusal | Virtual | Rewrite | None:
    """Decides how a SELECT is answered. Returns `None` if Cassandra's answer needs no change.

    `keyspace` is the connection's keyspace, for a table name without one. `upstream` maps the
    addresses that clients see to the nodes' own.
    """
    qualified_name = (select.keyspace or keyspace or "", select.table)
    if qualified_name[0] in _ABSENT_KEYSPACES:
        return Refusal(f"Keyspace {qualified_name[0]} does not exist")
    if qualified_name in _ABSENT_TABLES:
        return Refusal(f"unconfigured table {qualified_name[1]}")
    if qualified_name in _VIRTUAL:
        return _virtual(select, qualified_name)
    if qualified_name[0] == "system" and qualified_name[1] in _KEYS:
        return _rewrite(select, text, upstream)
    return None


def _virtual(select: Select, qualified_name: tuple[str, str]) -> Refusal | Virtual:
    types = _VIRTUAL[qualified_name]
    key_name = next(iter(types))
    names = [(item.column, item.result_name) for item in select.items] or [(n, n) for n in types]
    columns = []
    for name, result_name in names:
        if name is None:
            return Refusal(f"{'.'.join(qualified_name)}: only columns can be selected here")
        if name not in types:
            return Refusal(f"Unrecognized name {name}")
        columns.append(Column(*qualified_name, result_name or name, types[name]))
    key: str | None = None
    bound: tuple[Column, ...] = ()
    if select.condition is not None:
        name, term = select.condition
        if name != key_name:
            return Refusal(f"{'.'.join(qualified_name)}: only {key_name} can be restricted here")
        if term.text == "?":
            bound = (Column(*qualified_name, key_name, types[key_name]),)
        else:
            key = term.literal
    if not select.is_simple:
        return Refusal(
            f"{'.'.join(qualified_name)}: only WHERE {key_name} = value is understood here"
        )
    sources = tuple(name for name, _ in names if name is not None)
    return Virtual(*qualified_name, tuple(columns), sources, key, bound)


def _rewrite(select: Select, text: str, upstream: Mapping[str, str]) -> Refusal | Rewrite:
    for item in select.items:
        if item.column in _ABSENT_COLUMNS[select.table]:
            return Refusal(f"Unrecognized name {item.column}")
    # The terms are replaced from the end to the beginning, so that the offsets stay right.
    for term in reversed(select.terms):
        upstream_address = upstream.get(term.literal)
        if upstream_address is not None:
            text = f"{text[: term.start]}'{upstream_address}'{text[term.end :]}"
    if any(item.column == _FEATURES for item in select.items):
        selected_texts = [text[i.start : i.end] for i in select.items if i.column != _FEATURES]
        # Cassandra lacks the column `supported_features`, so the text for Cassandra leaves it out.
        # Cassandra derives the id of a prepared statement from its text. The comment makes the
        # text differ from the text of a statement that does not name the column.
        item_text = " ".join(text[select.items[0].start : select.items[-1].end].split())
        select_list = ", ".join(selected_texts or [_KEYS[select.table]])
        start, end = select.items[0].start, select.items[-1].end
        text = f"{text[:start]}{select_list} /* {item_text.replace('*/', '')} */{text[end:]}"
    return Rewrite(text, select.table, select.items)


def packed_map(entries: Mapping[str, str]) -> bytes:
    """A map<text, text> as a value."""
    parts = [struct.pack(">i", len(entries))]
    for pair in entries.items():
        for text in pair:
            data = text.encode()
            parts.append(struct.pack(">i", len(data)) + data)
    return b"".join(parts)
