"""Writes the `CREATE` statements for the objects of a schema, with quoted names and texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._checks import shown
from .errors import ConfigError

if TYPE_CHECKING:
    from .schema import Aggregate, Function, Index, Keyspace, Table, TableColumn, UserType, View

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
    "name",
    "place_of",
    "qualified",
    "split_qualified",
    "text",
    "type_name",
    "written_type",
]

_RESERVED_WORDS = """
add allow alter and any apply asc authorize batch begin by columnfamily create default delete desc
describe drop entries execute for from full grant if in index infinity insert into is keyspace
keyspaces limit materialized mbean mbeans modify nan norecursive not null of on or order primary
rename replace revoke schema select set table to token truncate unlogged unset update use using view
where with
"""
# The reserved words of all servers. A server that does not reserve a word accepts it in quotes.
_RESERVED = frozenset(_RESERVED_WORDS.split())
_SCALAR_WORDS = """
ascii bigint blob boolean counter date decimal double duration empty float inet int smallint text
time timestamp timeuuid tinyint uuid varchar varint
"""
_OTHER_WORDS = """
bitstring byte cast complex count distinct enum frozen interval json list macaddr map maxwritetime
set ttl tuple vector writetime
"""
_SCALARS = frozenset(_SCALAR_WORDS.split())
_NO_TYPE_NAMES = _SCALARS | frozenset(_OTHER_WORDS.split())
"""Words that need quotes as the name of a type, but not as any other name."""
_WORD = re.compile(r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'|\w+')
_PART = r'(?:"((?:[^"]|"")+)"|(\w+))'
_NEVER_SET = {"extensions"}
"""Options that a server reports and does not accept, or accepts and ignores."""
_OBSOLETE = {"read_repair_chance", "dclocal_read_repair_chance"}
"""Options that servers still report although `read_repair` has replaced them."""
_QUOTED = {"ascii", "text", "varchar", "inet", "date", "time", "timestamp"}
"""Types whose values are written in quotes."""
_PLAIN = {
    *("tinyint", "smallint", "int", "bigint", "varint", "float", "double", "decimal"),
    *("boolean", "uuid", "timeuuid", "duration"),
}


def name(given: str) -> str:
    """A name as CQL, in quotes if it needs them."""
    if re.fullmatch(r"[a-z][a-z0-9_]*", given) and given not in _RESERVED:
        return given
    return '"' + given.replace('"', '""') + '"'


def type_name(given: str) -> str:
    """The name of a type or function as CQL.

    More words need quotes as such a name than as any other name.
    """
    written = name(given)
    return f'"{written}"' if written in _NO_TYPE_NAMES else written


def written_type(cql_type: str) -> str:
    """A type as CQL that servers accept.

    Servers write the names of some user-defined types without the quotes that they require.
    """
    parts, end, before = [], 0, ""
    for match in _WORD.finditer(cql_type):
        between, word = cql_type[end : match.start()], match[0]
        end = match.end()
        # Scalars are never frozen, so a scalar's name within `frozen<>` is a user-defined type.
        stands_for_itself = word in _SCALARS and not (before == "frozen" and between == "<")
        alone = cql_type[end : end + 1] != "<"
        quoted = alone and word in _NO_TYPE_NAMES and not stands_for_itself
        parts += [between, f'"{word}"' if quoted else word]
        before = word
    return "".join([*parts, cql_type[end:]])


def qualified(keyspace: str, given: str) -> str:
    """A name qualified by its keyspace, as CQL."""
    return f"{name(keyspace)}.{name(given)}"


def split_qualified(given: str) -> tuple[str, str] | None:
    """Splits a qualified name, written as in CQL, into keyspace and name; `None` for other text."""
    match = re.fullmatch(rf"{_PART}\.{_PART}", given)
    if match is None:
        return None
    quoted, plain, second_quoted, second_plain = match.groups()
    return _part(quoted, plain), _part(second_quoted, second_plain)


def place_of(table: str, keyspace: str | None) -> tuple[str, str]:
    """The keyspace and the name of a table, as the program writes it.

    Raises: `ConfigError` for other text, or without a keyspace.
    """
    if not isinstance(table, str):
        raise TypeError(f"a table is a str such as 'keyspace.table', got {shown(table)}")
    place = split_qualified(table)
    if place is None and keyspace is not None:
        place = split_qualified(f'"{keyspace}".{table}')
    if place is None:
        raise ConfigError(
            "expected a table as 'keyspace.table', or as 'table' in a session with a keyspace,"
            f" got {shown(table)}"
        )
    return place


def _part(quoted: str | None, plain: str) -> str:
    return plain.lower() if quoted is None else quoted.replace('""', '"')


def text(given: str) -> str:
    """A text as a CQL literal."""
    return "'" + given.replace("'", "''") + "'"


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


def _settings(options: Mapping[str, Any], left_out: set[str]) -> list[str]:
    left_out = left_out | _NEVER_SET
    if "read_repair" in options:
        left_out |= _OBSOLETE
    return [f"{k} = {_option(v)}" for k, v in options.items() if k not in left_out]


def _with(settings: list[str]) -> str:
    return " WITH " + "\n    AND ".join(settings) if settings else ""


def create_keyspace(keyspace: Keyspace) -> str:
    """The statement for the keyspace, without its contents."""
    return (
        f"CREATE KEYSPACE {name(keyspace.name)}"
        f" WITH replication = {_option(keyspace.replication)}"
        f" AND durable_writes = {_option(keyspace.durable_writes)};"
    )


def _column(column: TableColumn) -> str:
    parts = [name(column.name), written_type(column.cql_type)]
    if column.kind == "static":
        parts.append("static")
    if column.mask is not None:
        parts.append(f"MASKED WITH {column.mask}")
    return " ".join(parts)


def _primary_key(owner: Table | View) -> str:
    first = ", ".join(name(column.name) for column in owner.partition_key)
    if len(owner.partition_key) != 1:
        first = f"({first})"
    return ", ".join([first, *(name(column.name) for column in owner.clustering_key)])


def _clustering_order(owner: Table | View) -> list[str]:
    if not owner.clustering_key:
        return []
    order = ", ".join(
        f"{name(column.name)} {'DESC' if column.clustering_order == 'desc' else 'ASC'}"
        for column in owner.clustering_key
    )
    return [f"CLUSTERING ORDER BY ({order})"]


def create_table(table: Table) -> str:
    """The statement for the table, without its indexes and triggers."""
    lines = [*map(_column, table.columns.values()), f"PRIMARY KEY ({_primary_key(table)})"]
    settings = ["COMPACT STORAGE"] if table.compact_storage else []
    settings += _clustering_order(table)
    settings += _settings(table.options, set())
    body = ",\n    ".join(lines)
    where = qualified(table.keyspace, table.name)
    return f"CREATE TABLE {where} (\n    {body}\n){_with(settings)};"


def create_view(view: View) -> str:
    """The statement for the materialized view."""
    columns = "*" if view.include_all_columns else ", ".join(map(name, view.columns))
    # The rows of a view have the time to live of the base table's rows.
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
    where = qualified(index.keyspace, index.table)
    target = _target(index.target)
    return f"CREATE {custom}INDEX {name(index.name)} ON {where} ({target}){using}{options};"


def _target(target: str) -> str:
    if target.startswith("{"):
        import json  # imported here, because few schemas have such indexes

        # A local index of ScyllaDB, which indexes each partition by itself.
        local = json.loads(target)
        partition = ", ".join(map(name, local["pk"]))
        return ", ".join([f"({partition})", *map(name, local["ck"])])
    match = re.fullmatch(r"(keys|values|entries|full)\((.+)\)", target, re.DOTALL)
    function, column = match.groups() if match else ("", target)
    if len(column) > 2 and column[0] == column[-1] == '"':
        column = column[1:-1].replace('""', '"')
    return f"{function}({name(column)})" if function else name(column)


def create_trigger(table: Table, trigger: str) -> str:
    """The statement for a trigger of the table."""
    where, using = qualified(table.keyspace, table.name), text(table.triggers[trigger])
    return f"CREATE TRIGGER {name(trigger)} ON {where} USING {using};"


def create_type(user_type: UserType) -> str:
    """The statement for the user-defined type."""
    fields = ",\n    ".join(
        f"{name(field)} {written_type(kind)}" for field, kind in user_type.fields.items()
    )
    where = f"{name(user_type.keyspace)}.{type_name(user_type.name)}"
    return f"CREATE TYPE {where} (\n    {fields}\n);"


def _not_frozen(cql_type: str) -> str:
    """A type as functions declare it, without `frozen`.

    Arguments and results are frozen anyway, and servers refuse the word `frozen` in the types of
    arguments and results.
    """
    written = written_type(cql_type)
    return written[7:-1] if written.startswith("frozen<") else written


def create_function(function: Function) -> str:
    """The statement for the user-defined function."""
    arguments = ", ".join(
        f"{name(argument)} {_not_frozen(kind)}"
        for argument, kind in zip(function.argument_names, function.argument_types, strict=True)
    )
    nulls = "CALLED" if function.called_on_null_input else "RETURNS NULL"
    body = function.body
    body = text(body) if "$$" in body or body.strip("$") != body else f"$${body}$$"
    return (
        f"CREATE FUNCTION {name(function.keyspace)}.{type_name(function.name)}({arguments})\n"
        f"    {nulls} ON NULL INPUT\n"
        f"    RETURNS {_not_frozen(function.return_type)}\n"
        f"    LANGUAGE {function.language}\n"
        f"    AS {body};"
    )


def create_aggregate(aggregate: Aggregate) -> str:
    """The statement for the user-defined aggregate."""
    arguments = ", ".join(map(_not_frozen, aggregate.argument_types))
    lines = [
        f"CREATE AGGREGATE {name(aggregate.keyspace)}.{type_name(aggregate.name)}({arguments})",
        f"SFUNC {type_name(aggregate.state_function)}",
        f"STYPE {_not_frozen(aggregate.state_type)}",
    ]
    if aggregate.final_function is not None:
        lines.append(f"FINALFUNC {type_name(aggregate.final_function)}")
    if aggregate.initial_condition is not None:
        lines.append(f"INITCOND {aggregate.initial_condition}")
    return "\n    ".join(lines) + ";"


def mask_call(keyspace: str, function: str, arguments: Iterable[tuple[str, str | None]]) -> str:
    """The function call that masks a column. An argument is a type and a value, `None` for null.

    The server reports values of collections and similar types as the hexadecimal digits of their
    bytes. `mask_call` writes each such value as a blob literal of its digits.
    """
    values = []
    for kind, value in arguments:
        if value is None:
            values.append("null")
        elif kind in _QUOTED:
            values.append(text(value))
        else:
            values.append(value if kind in _PLAIN else f"0x{value}")
    return f"{name(keyspace)}.{type_name(function)}({', '.join(values)})"


def by_dependency(types: Mapping[str, UserType]) -> list[UserType]:
    """The types in an order in which each one follows the types that its fields use."""
    ordered: dict[str, UserType] = {}
    begun: set[str] = set()

    def visit(key: str) -> None:
        if key in begun:
            return
        begun.add(key)
        for kind in types[key].field_types:
            for word in _WORD.findall(kind):
                used = word[1:-1].replace('""', '"') if word[0] == '"' else word
                if used in types:
                    visit(used)
        ordered[key] = types[key]

    for key in types:
        visit(key)
    return list(ordered.values())


def keyspace_statements(keyspace: Keyspace) -> list[str]:
    """The statements for the keyspace and its contents, in an order that servers accept."""
    statements = [create_keyspace(keyspace)]
    statements += map(create_type, by_dependency(keyspace.types))
    # Functions come before tables, because columns may be masked by them.
    statements += map(create_function, keyspace.functions.values())
    statements += map(create_aggregate, keyspace.aggregates.values())
    for table in keyspace.tables.values():
        statements.append(create_table(table))
        statements += map(create_index, table.indexes.values())
        statements += [create_trigger(table, trigger) for trigger in table.triggers]
    statements += [create_view(view) for view in keyspace.views.values() if view.index is None]
    return statements
