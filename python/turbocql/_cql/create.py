"""Writes the `CREATE` statements for the objects of a schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .names import qualified, quoted, quoted_type, text, type_words, written_type

if TYPE_CHECKING:
    from ..schema import Aggregate, Function, Index, Keyspace, Table, TableColumn, UserType, View

__all__ = [
    "by_dependency",
    "create_aggregate",
    "create_function",
    "create_index",
    "create_keyspace",
    "create_table",
    "create_trigger",
    "create_type",
    "create_view",
    "keyspace_statements",
    "mask_call",
]

_NEVER_SET = {"extensions"}
"""Options that servers report, but refuse or ignore in a statement."""
_OBSOLETE = {"read_repair_chance", "dclocal_read_repair_chance"}
"""Options that servers still report, although `read_repair` has replaced these options."""
_QUOTED = {"ascii", "text", "varchar", "inet", "date", "time", "timestamp"}
"""Types whose values `mask_call` writes in quotes."""
_PLAIN = {
    *("tinyint", "smallint", "int", "bigint", "varint", "float", "double", "decimal"),
    *("boolean", "uuid", "timeuuid", "duration"),
}
"""Types whose values `mask_call` writes as the server reports them."""


def _option(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_option(k)}: {_option(v)}" for k, v in value.items()) + "}"
    return repr(value)


def _settings(options: Mapping[str, Any], excluded: set[str]) -> list[str]:
    excluded = excluded | _NEVER_SET
    if "read_repair" in options:
        excluded |= _OBSOLETE
    return [f"{k} = {_option(v)}" for k, v in options.items() if k not in excluded]


def _with(settings: list[str]) -> str:
    return " WITH " + "\n    AND ".join(settings) if settings else ""


def create_keyspace(keyspace: Keyspace) -> str:
    """The statement for the keyspace, without its contents."""
    return (
        f"CREATE KEYSPACE {quoted(keyspace.name)}"
        f" WITH replication = {_option(keyspace.replication)}"
        f" AND durable_writes = {_option(keyspace.durable_writes)};"
    )


def _column(column: TableColumn) -> str:
    parts = [quoted(column.name), written_type(column.cql_type)]
    if column.kind == "static":
        parts.append("static")
    if column.mask is not None:
        parts.append(f"MASKED WITH {column.mask}")
    return " ".join(parts)


def _primary_key(table_or_view: Table | View) -> str:
    partition_key = ", ".join(quoted(column.name) for column in table_or_view.partition_key)
    if len(table_or_view.partition_key) != 1:
        partition_key = f"({partition_key})"
    return ", ".join(
        [partition_key, *(quoted(column.name) for column in table_or_view.clustering_key)]
    )


def _clustering_order(table_or_view: Table | View) -> list[str]:
    if not table_or_view.clustering_key:
        return []
    order = ", ".join(
        f"{quoted(column.name)} {'DESC' if column.clustering_order == 'desc' else 'ASC'}"
        for column in table_or_view.clustering_key
    )
    return [f"CLUSTERING ORDER BY ({order})"]


def create_table(table: Table) -> str:
    """The statement for the table, without its indexes and triggers."""
    lines = [*map(_column, table.columns.values()), f"PRIMARY KEY ({_primary_key(table)})"]
    settings = ["COMPACT STORAGE"] if table.compact_storage else []
    settings += _clustering_order(table)
    settings += _settings(table.options, set())
    body = ",\n    ".join(lines)
    table_name = qualified(table.keyspace, table.name)
    return f"CREATE TABLE {table_name} (\n    {body}\n){_with(settings)};"


def create_view(view: View) -> str:
    """The statement for the materialized view."""
    columns = "*" if view.include_all_columns else ", ".join(map(quoted, view.columns))
    # The rows of a view have the TTL of the base table's rows, so a view has no default TTL.
    settings = _clustering_order(view) + _settings(view.options, {"default_time_to_live"})
    return (
        f"CREATE MATERIALIZED VIEW {qualified(view.keyspace, view.name)} AS\n"
        f"    SELECT {columns}\n"
        f"    FROM {qualified(view.keyspace, view.base_table)}\n"
        f"    WHERE {view.where_clause}\n"
        f"    PRIMARY KEY ({_primary_key(view)}){_with(settings)};"
    )


def create_index(index: Index) -> str:
    """The statement for the index."""
    custom = "" if index.class_name is None else "CUSTOM "
    using = "" if index.class_name is None else f" USING {text(index.class_name)}"
    options = f" WITH OPTIONS = {_option(index.options)}" if index.options else ""
    table_name = qualified(index.keyspace, index.table)
    target = _target(index.target)
    return f"CREATE {custom}INDEX {quoted(index.name)} ON {table_name} ({target}){using}{options};"


def _target(target: str) -> str:
    if target.startswith("{"):
        import json  # imported here, because few schemas have such indexes

        # This is a local index of ScyllaDB, which indexes each partition by itself.
        local = json.loads(target)
        partition = ", ".join(map(quoted, local["pk"]))
        return ", ".join([f"({partition})", *map(quoted, local["ck"])])
    match = re.fullmatch(r"(keys|values|entries|full)\((.+)\)", target, re.DOTALL)
    function, column = match.groups() if match else ("", target)
    if len(column) > 2 and column[0] == column[-1] == '"':
        column = column[1:-1].replace('""', '"')
    return f"{function}({quoted(column)})" if function else quoted(column)


def create_trigger(table: Table, trigger: str) -> str:
    """The statement for a trigger of the table."""
    table_name, using = qualified(table.keyspace, table.name), text(table.triggers[trigger])
    return f"CREATE TRIGGER {quoted(trigger)} ON {table_name} USING {using};"


def create_type(user_type: UserType) -> str:
    """The statement for the user-defined type."""
    fields = ",\n    ".join(
        f"{quoted(field)} {written_type(field_type)}"
        for field, field_type in user_type.fields.items()
    )
    type_name = f"{quoted(user_type.keyspace)}.{quoted_type(user_type.name)}"
    return f"CREATE TYPE {type_name} (\n    {fields}\n);"


def _not_frozen(cql_type: str) -> str:
    """A type without `frozen`, as `CREATE FUNCTION` and `CREATE AGGREGATE` accept it.

    Arguments and results are frozen anyway, and servers refuse the word `frozen` in their types.
    """
    type_text = written_type(cql_type)
    return type_text[7:-1] if type_text.startswith("frozen<") else type_text


def create_function(function: Function) -> str:
    """The statement for the user-defined function."""
    arguments = ", ".join(
        f"{quoted(argument)} {_not_frozen(argument_type)}"
        for argument, argument_type in zip(
            function.argument_names, function.argument_types, strict=True
        )
    )
    null_handling = "CALLED" if function.called_on_null_input else "RETURNS NULL"
    body = function.body
    body = text(body) if "$$" in body or body.strip("$") != body else f"$${body}$$"
    return (
        f"CREATE FUNCTION {quoted(function.keyspace)}.{quoted_type(function.name)}({arguments})\n"
        f"    {null_handling} ON NULL INPUT\n"
        f"    RETURNS {_not_frozen(function.return_type)}\n"
        f"    LANGUAGE {function.language}\n"
        f"    AS {body};"
    )


def create_aggregate(aggregate: Aggregate) -> str:
    """The statement for the user-defined aggregate."""
    arguments = ", ".join(map(_not_frozen, aggregate.argument_types))
    lines = [
        f"CREATE AGGREGATE {quoted(aggregate.keyspace)}.{quoted_type(aggregate.name)}({arguments})",
        f"SFUNC {quoted_type(aggregate.state_function)}",
        f"STYPE {_not_frozen(aggregate.state_type)}",
    ]
    if aggregate.final_function is not None:
        lines.append(f"FINALFUNC {quoted_type(aggregate.final_function)}")
    if aggregate.initial_condition is not None:
        lines.append(f"INITCOND {aggregate.initial_condition}")
    return "\n    ".join(lines) + ";"


def mask_call(keyspace: str, function: str, arguments: Iterable[tuple[str, str | None]]) -> str:
    """The function call that masks a column. Each argument is a pair: its type, and its value or
    `None` for null.

    The server reports values of collections and similar types as the hexadecimal digits of their
    bytes. `mask_call` writes each such value as a blob literal of its digits.
    """
    literals = []
    for cql_type, value in arguments:
        if value is None:
            literals.append("null")
        elif cql_type in _QUOTED:
            literals.append(text(value))
        else:
            literals.append(value if cql_type in _PLAIN else f"0x{value}")
    return f"{quoted(keyspace)}.{quoted_type(function)}({', '.join(literals)})"


def by_dependency(types: Mapping[str, UserType]) -> list[UserType]:
    """The types, each after the types that its fields use."""
    ordered: dict[str, UserType] = {}
    visited: set[str] = set()

    def visit(name: str) -> None:
        if name in visited:
            return
        visited.add(name)
        for field_type in types[name].field_types:
            for word in type_words(field_type):
                if word in types:
                    visit(word)
        ordered[name] = types[name]

    for name in types:
        visit(name)
    return list(ordered.values())


def keyspace_statements(keyspace: Keyspace) -> list[str]:
    """The statements for the keyspace and its contents, in an order that servers accept."""
    statements = [create_keyspace(keyspace)]
    statements += map(create_type, by_dependency(keyspace.types))
    # Functions come before tables, because functions may mask columns.
    statements += map(create_function, keyspace.functions.values())
    statements += map(create_aggregate, keyspace.aggregates.values())
    for table in keyspace.tables.values():
        statements.append(create_table(table))
        statements += map(create_index, table.indexes.values())
        statements += [create_trigger(table, trigger) for trigger in table.triggers]
    # On ScyllaDB, an index may have a view. `CREATE INDEX` creates this view, so it is left out
    # here.
    statements += [create_view(view) for view in keyspace.views.values() if view.index is None]
    return statements
