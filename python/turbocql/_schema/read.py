"""Makes a `Schema` from the rows of the server's schema tables.

This module uses no session: the caller executes the queries of a `SchemaReading`, and passes it the
rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from time import monotonic
from typing import Any, TypeAlias
from uuid import UUID

from .._checks import check_seconds
from .._cql.create import mask_call
from ..errors import Error, InvalidQuery, RequestError, RequestTimeout, UnreadableAnswer
from ..schema import (
    Aggregate,
    Function,
    Index,
    Keyspace,
    Schema,
    Table,
    TableColumn,
    UserType,
    View,
)

__all__ = ["PAGE_SIZE", "Answer", "Deadline", "Row", "SchemaReading", "make_schema"]

Row: TypeAlias = dict[str, Any]
Answer: TypeAlias = "list[Row] | InvalidQuery"
"""The rows of a query, or the server's error that the query is invalid."""

PAGE_SIZE = 2000

_VERSION = "SELECT schema_version FROM system.local"
_REQUIRED = ("keyspaces", "tables", "columns")
_OPTIONAL = ("views", "indexes", "triggers", "types", "functions", "aggregates", "column_masks")
"""Tables that some servers do not have."""
_VIRTUAL_TABLES = ("keyspaces", "tables", "columns")
_SOURCES = {
    "version": _VERSION,
    **{name: f"SELECT * FROM system_schema.{name}" for name in (*_REQUIRED, *_OPTIONAL)},
    # Only ScyllaDB has this table.
    "scylla": "SELECT keyspace_name FROM system_schema.scylla_tables LIMIT 1",
    **{
        f"virtual_{name}": f"SELECT * FROM system_virtual_schema.{name}" for name in _VIRTUAL_TABLES
    },
}

_MAX_READINGS = 20

# The columns of `tables` and `views` that are not options.
_NO_OPTIONS = {
    *("keyspace_name", "table_name", "view_name", "id", "flags"),
    *("base_table_id", "base_table_name", "where_clause", "include_all_columns"),
}


class Deadline:
    """The time limit of a reading of the schema, for all its requests and pages together."""

    def __init__(self, timeout_s: float) -> None:
        check_seconds("timeout_s", timeout_s)
        self._timeout_s = timeout_s
        self._ends_at = monotonic() + timeout_s

    def left_s(self) -> float:
        """The seconds until the time limit.

        Raises: `RequestTimeout` when the time limit has passed.
        """
        remaining_s = self._ends_at - monotonic()
        if remaining_s <= 0:
            raise RequestTimeout(
                f"reading the schema: not complete within {self._timeout_s} s, the client's own"
                " deadline"
            )
        return remaining_s


class SchemaReading:
    """Reads the schema. While `queries` is not empty, the caller executes the queries and passes
    the answers to `take`.

    All tables are read repeatedly, until two consecutive readings are equal. During a change of the
    schema, a server writes its schema tables one after another, and then the new schema version.
    So a single reading may contain only a part of the change.
    """

    def __init__(self, cached_schema: Schema | None, refresh: bool) -> None:
        self._cached_schema = None if refresh else cached_schema
        self._previous_reading: Schema | None = None
        self._readings = 0
        self._schema: Schema | None = None

    @property
    def queries(self) -> list[str]:
        """The next queries to execute; empty when the schema is complete."""
        if self._schema is not None:
            return []
        return [_VERSION] if self._cached_schema is not None else list(_SOURCES.values())

    def take(self, answers: Sequence[Answer]) -> None:
        """Takes the answers to `queries`, in the order of the queries.

        Raises: `InvalidQuery` when the server lacks a required table; `RequestError` when none of
            20 readings equals the previous one, or when the schema has no version;
            `UnreadableAnswer` when a row lacks a required column, or has a value of an unexpected
            type.
        """
        try:
            self._take(answers)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, Error):
                raise
            raise UnreadableAnswer(
                f"the server's schema tables have another form than expected: {error!r}"
            ) from error

    def _take(self, answers: Sequence[Answer]) -> None:
        if self._cached_schema is not None:
            if _version(answers[0]) == self._cached_schema.version:
                self._schema = self._cached_schema
            self._cached_schema = None
            return
        reading = make_schema(dict(zip(_SOURCES, answers, strict=True)))
        previous, self._previous_reading = self._previous_reading, reading
        if previous is not None and previous.version == reading.version and previous == reading:
            self._schema = reading
            return
        self._readings += 1
        if self._readings == _MAX_READINGS:
            raise RequestError(
                f"the schema was read {_MAX_READINGS} times and never twice the same: it is being"
                " changed, or the nodes do not agree on it"
            )

    def result(self) -> Schema:
        """The schema, once `queries` is empty."""
        assert self._schema is not None
        return self._schema


def _rows(answer: Answer) -> list[Row]:
    if isinstance(answer, InvalidQuery):
        raise answer
    return answer


def _version(answer: Answer) -> UUID:
    version: UUID | None = rows[0].get("schema_version") if (rows := _rows(answer)) else None
    if version is None:
        raise RequestError("the server does not say which version its schema has")
    return version


def make_schema(answers: dict[str, Answer]) -> Schema:
    """Makes a schema from the answers to the queries in `_SOURCES`. `answers` has the same keys.

    Raises: `InvalidQuery` when the server refused to read a required table; `RequestError` when the
        schema has no version.
    """
    required_tables = {name: _rows(answers[name]) for name in ("version", *_REQUIRED)}
    tables = {
        name: [] if isinstance(answer, InvalidQuery) else answer for name, answer in answers.items()
    }
    is_scylla = not isinstance(answers["scylla"], InvalidQuery)
    return Schema(
        version=_version(required_tables["version"]),
        keyspaces={
            keyspace.name: keyspace
            for keyspace in sorted(
                [*_real_keyspaces(tables, is_scylla), *_virtual_keyspaces(tables)],
                key=attrgetter("name"),
            )
        },
    )


_Grouped: TypeAlias = "dict[str, list[Row]]"


def _by_keyspace(rows: Iterable[Row], *order: str) -> _Grouped:
    """Groups rows by keyspace, sorted by the columns `order`."""
    groups: _Grouped = defaultdict(list)
    for row in sorted(rows, key=lambda row: [row[column] for column in order]):
        groups[row["keyspace_name"]].append(row)
    return groups


def _by_table(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["keyspace_name"], row["table_name"]].append(row)
    return groups


def _real_keyspaces(tables: dict[str, list[Row]], is_scylla: bool) -> Iterable[Keyspace]:
    table_rows = _by_keyspace(tables["tables"], "table_name")
    view_rows = _by_keyspace(tables["views"], "view_name")
    type_rows = _by_keyspace(tables["types"], "type_name")
    function_rows = _by_keyspace(tables["functions"], "function_name", "argument_types")
    aggregate_rows = _by_keyspace(tables["aggregates"], "aggregate_name", "argument_types")
    columns, masks = _by_table(tables["columns"]), _by_table(tables["column_masks"])
    indexes, triggers = _by_table(tables["indexes"]), _by_table(tables["triggers"])
    for row in tables["keyspaces"]:
        name = row["keyspace_name"]
        functions = list(map(_function, function_rows[name]))
        aggregates = list(map(_aggregate, aggregate_rows[name]))
        types = list(map(_user_type, type_rows[name]))
        keyspace_tables = []
        for table_row in table_rows[name]:
            key = name, table_row["table_name"]
            keyspace_tables.append(
                _table(table_row, columns[key], masks[key], indexes[key], triggers[key])
            )
        indexes_by_view = _indexes_by_view(keyspace_tables) if is_scylla else {}
        views = []
        for view_row in view_rows[name]:
            key = name, view_row["view_name"]
            views.append(_view(view_row, columns[key], masks[key], indexes_by_view))
        yield Keyspace(
            name=name,
            replication=row.get("replication") or {},
            durable_writes=bool(row.get("durable_writes", True)),
            virtual=False,
            tables={table.name: table for table in keyspace_tables},
            views={view.name: view for view in views},
            types={user_type.name: user_type for user_type in types},
            functions={function.signature: function for function in functions},
            aggregates={aggregate.signature: aggregate for aggregate in aggregates},
        )


def _virtual_keyspaces(tables: dict[str, list[Row]]) -> Iterable[Keyspace]:
    table_rows = _by_keyspace(tables["virtual_tables"], "table_name")
    columns = _by_table(tables["virtual_columns"])
    real_keyspace_names = {row["keyspace_name"] for row in tables["keyspaces"]}
    for row in tables["virtual_keyspaces"]:
        name = row["keyspace_name"]
        if name in real_keyspace_names:
            continue
        yield Keyspace(
            name=name,
            replication={},
            durable_writes=False,
            virtual=True,
            tables={
                table_row["table_name"]: _table(
                    table_row, columns[name, table_row["table_name"]], [], [], []
                )
                for table_row in table_rows[name]
            },
            views={},
            types={},
            functions={},
            aggregates={},
        )


def _columns(rows: list[Row], masks: list[Row]) -> list[TableColumn]:
    """Returns the columns in this order: partition key, clustering key, static and regular columns.
    Static and regular columns are sorted by name.
    """
    kind_order = {"partition_key": 0, "clustering": 1, "static": 2}
    masks_by_column = {row["column_name"]: _mask(row) for row in masks}
    rows = sorted(
        rows,
        key=lambda row: (
            kind_order.get(row["kind"], 3),
            row.get("position", -1),
            row["column_name"],
        ),
    )
    return [
        TableColumn(
            name=row["column_name"],
            cql_type=row["type"],
            kind=row["kind"] if row["kind"] in kind_order else "regular",
            clustering_order=(
                None
                if row["kind"] != "clustering"
                else "desc"
                if str(row.get("clustering_order")).lower() == "desc"
                else "asc"
            ),
            mask=masks_by_column.get(row["column_name"]),
        )
        for row in rows
    ]


def _mask(row: Row) -> str:
    arguments = zip(
        row.get("function_argument_types") or [],
        row.get("function_argument_values") or [],
        row.get("function_argument_nulls") or [],
        strict=True,
    )
    return mask_call(
        row["function_keyspace"],
        row["function_name"],
        [
            (argument_type, None if is_null else value)
            for argument_type, value, is_null in arguments
        ],
    )


def _without_hidden(columns: list[TableColumn], flags: set[str]) -> list[TableColumn]:
    """Returns the columns that statements can name, for a table with compact storage."""
    if not flags & {"compound", "dense", "super"}:
        # A table without these flags was declared without a clustering key. The server stores the
        # columns outside the primary key as static columns. It also stores regular and clustering
        # columns for the Thrift protocol. Statements cannot name these columns, so they are hidden.
        return [
            TableColumn(
                column.name,
                column.cql_type,
                "regular" if column.kind == "static" else column.kind,
                mask=column.mask,
            )
            for column in columns
            if column.kind in ("partition_key", "static")
        ]
    return [column for column in columns if column.cql_type != "empty"]


def _table_fields(row: Row, name: str, columns: list[TableColumn]) -> dict[str, Any]:
    options = {
        key: value
        for key, value in sorted(row.items())
        if key not in _NO_OPTIONS and value is not None
    }
    return {
        "keyspace": row["keyspace_name"],
        "name": name,
        "id": row.get("id"),
        "columns": {column.name: column for column in columns},
        "partition_key": tuple(column for column in columns if column.kind == "partition_key"),
        "clustering_key": tuple(column for column in columns if column.kind == "clustering"),
        "options": options,
    }


def _table(
    row: Row, columns: list[Row], masks: list[Row], indexes: list[Row], triggers: list[Row]
) -> Table:
    table_columns, flags = _columns(columns, masks), set(row.get("flags") or ())
    # Virtual tables have no flags, and no compact storage.
    is_compact = row.get("flags") is not None and (
        "compound" not in flags or bool(flags & {"dense", "super"})
    )
    if is_compact:
        table_columns = _without_hidden(table_columns, flags)
    indexes = sorted(indexes, key=lambda index_row: str(index_row["index_name"]))
    triggers = sorted(triggers, key=lambda trigger_row: str(trigger_row["trigger_name"]))
    return Table(
        **_table_fields(row, row["table_name"], table_columns),
        flags=frozenset(flags),
        compact_storage=is_compact,
        indexes={index.name: index for index in map(_index, indexes)},
        triggers={
            trigger_row["trigger_name"]: (trigger_row.get("options") or {}).get("class", "")
            for trigger_row in triggers
        },
    )


_IndexesByView: TypeAlias = "dict[tuple[str, str], str]"


def _indexes_by_view(tables: Iterable[Table]) -> _IndexesByView:
    """Maps the views in which ScyllaDB stores indexes to the names of these indexes.

    The key is a pair: the name of the indexed table, and the name of the view.
    """
    return {(table.name, f"{index}_index"): index for table in tables for index in table.indexes}


def _view(row: Row, columns: list[Row], masks: list[Row], indexes_by_view: _IndexesByView) -> View:
    return View(
        **_table_fields(row, row["view_name"], _columns(columns, masks)),
        base_table=row["base_table_name"],
        where_clause=row.get("where_clause") or "",
        include_all_columns=bool(row.get("include_all_columns")),
        index=indexes_by_view.get((row["base_table_name"], row["view_name"])),
    )


def _index(row: Row) -> Index:
    options = dict(row.get("options") or {})
    return Index(
        keyspace=row["keyspace_name"],
        table=row["table_name"],
        name=row["index_name"],
        kind=row.get("kind") or "",
        target=options.pop("target", ""),
        class_name=options.pop("class_name", None),
        options=options,
    )


def _user_type(row: Row) -> UserType:
    return UserType(
        keyspace=row["keyspace_name"],
        name=row["type_name"],
        field_names=tuple(row["field_names"] or ()),
        field_types=tuple(row["field_types"] or ()),
    )


def _function(row: Row) -> Function:
    return Function(
        keyspace=row["keyspace_name"],
        name=row["function_name"],
        argument_names=tuple(row["argument_names"] or ()),
        argument_types=tuple(row["argument_types"] or ()),
        return_type=row["return_type"],
        language=row["language"],
        body=row["body"],
        called_on_null_input=bool(row["called_on_null_input"]),
    )


def _aggregate(row: Row) -> Aggregate:
    return Aggregate(
        keyspace=row["keyspace_name"],
        name=row["aggregate_name"],
        argument_types=tuple(row["argument_types"] or ()),
        state_function=row["state_func"],
        state_type=row["state_type"],
        return_type=row["return_type"],
        final_function=row.get("final_func"),
        initial_condition=row.get("initcond"),
    )
