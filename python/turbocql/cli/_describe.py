"""Writes the CQL for a name of the schema: `turbocql describe`, and DESCRIBE in the shell."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from .._cql.create import create_trigger
from .._cql.names import qualified, quoted
from ._ends import FAILED, USAGE, CommandExit, counted, escaped, folded

__all__ = [
    *("GROUPS", "KIND_OF_GROUP", "KIND_WORDS", "described", "described_in_any_case"),
    *("group_list", "group_names", "keyspace_list", "schema_cql"),
]

GROUPS = ("TABLES", "TYPES", "FUNCTIONS", "AGGREGATES", "INDEXES", "VIEWS")
"""The groups of elements of a keyspace that the shell can list."""
KIND_OF_GROUP = dict(
    zip(GROUPS, ("table", "type", "function", "aggregate", "index", "view"), strict=True)
)
KIND_WORDS = {
    **{"KEYSPACE": "keyspace", "TABLE": "table", "COLUMNFAMILY": "table", "TYPE": "type"},
    **{"FUNCTION": "function", "AGGREGATE": "aggregate", "INDEX": "index", "VIEW": "view"},
    **{"MATERIALIZED VIEW": "view", "MATERIALIZED": "view"},
}
"""Maps the words that precede a name in DESCRIBE to the kind of the element."""
_KINDS = ("type", "function", "aggregate", "table", "index", "view")
"""The kinds of elements of a keyspace. A server accepts the elements' CREATE statements if they are
executed in this order of kinds."""
_PART = r'(?:"(?:[^"]|"")+"|[^".\s]+)'


def described(
    schema: Any, name: str, keyspace: str | None, kind: str | None = None, *, folds: bool = False
) -> str:
    """Returns the statements that create the elements with a name, separated by empty lines.

    `name` may be qualified by a keyspace. A name with dots must be in double quotes. `keyspace` is
    the keyspace in use. `kind` is a value of `KIND_WORDS`. Without `kind`, the keyspace of this
    name is described. If there is no such keyspace, all elements of this name are described. With
    `folds`, letters outside quotes are made lower-case, as in CQL.

    Raises: `CommandExit` if there is no such element.
    """
    parts = _parts(name, folds)
    last = parts[-1]
    if kind == "keyspace" and len(parts) > 1:
        raise CommandExit(USAGE, f"expected the name of a keyspace, got {escaped(name)}")
    if kind == "keyspace" or (kind is None and len(parts) == 1 and last in schema.keyspaces):
        statements = [_keyspace(schema, last).as_cql()]
        in_use = schema.keyspaces.get(keyspace)
        if kind is None and in_use is not None and in_use.name != last:
            # The name of a keyspace has precedence, as in the server's own shell.
            element = escaped(qualified(in_use.name, last))
            statements += [
                f"-- There is also the {element_kind} {element}: DESCRIBE {element}"
                for element_kind in _definitions(in_use, last, _KINDS)
            ]
        return "\n\n".join(statements)
    kinds: tuple[str, ...] = _KINDS if kind is None else (kind,)
    if len(parts) == 1 and keyspace is None:
        raise CommandExit(FAILED, _without_keyspace(schema, last, kinds))
    owner = _keyspace(schema, parts[0] if len(parts) > 1 else str(keyspace))
    definitions = _definitions(owner, last, kinds)
    if not definitions:
        raise CommandExit(FAILED, _unknown(schema, owner, last, kinds))
    statements = [text for texts in definitions.values() for text in texts]
    # The statements of a table include the statements of its indexes. So if an index has the same
    # name as its table, `statements` has its statement twice. `dict.fromkeys` removes the second.
    return "\n\n".join(dict.fromkeys(statements))


def described_in_any_case(schema: Any, name: str, keyspace: str | None) -> str:
    """Calls `described`. If the name does not exist, calls it again with the name in lower case.

    Raises: `CommandExit` if there is no such element.
    """
    try:
        return described(schema, name, keyspace)
    except CommandExit as error:
        try:
            return described(schema, name, keyspace, folds=True)
        except CommandExit:
            raise error from None


def _keyspace(schema: Any, name: str) -> Any:
    try:
        return schema.keyspace(name)
    except KeyError as error:
        raise CommandExit(FAILED, escaped(str(error.args[0]))) from None


def _parts(name: str, folds: bool) -> list[str]:
    """The one or two parts of a name like `keyspace.table`."""
    if not re.fullmatch(rf"{_PART}(\.{_PART})?", name):
        expected = 'KEYSPACE, NAME or KEYSPACE.NAME, with names that have dots in "..."'
        raise CommandExit(USAGE, f"expected {expected}, got {escaped(repr(name))}")
    return [
        part[1:-1].replace('""', '"') if part[0] == '"' else part.lower() if folds else part
        for part in re.findall(_PART, name)
    ]


def _definitions(keyspace: Any, name: str, kinds: Iterable[str]) -> dict[str, list[str]]:
    """Returns the statements that create the elements with a name, by kind. A kind without such an
    element is left out.
    """
    definitions = {kind: _definitions_of_kind(keyspace, name, kind) for kind in kinds}
    return {kind: statements for kind, statements in definitions.items() if statements}


def _definitions_of_kind(keyspace: Any, name: str, kind: str) -> list[str]:
    if kind == "table":
        return _with_dependents(keyspace, keyspace.tables[name]) if name in keyspace.tables else []
    if kind == "view" and name in keyspace.views:
        # On ScyllaDB, the creation of an index creates a view, which stores the index. So the
        # statement of the index is returned for such a view.
        index = keyspace.views[name].index
        return [keyspace.views[name].as_cql()] if index is None else _indexes(keyspace, index)
    if kind == "index":
        return _indexes(keyspace, name)
    if kind in ("function", "aggregate"):
        # Overloaded functions share a name.
        routines = getattr(keyspace, f"{kind}s").values()
        return [routine.as_cql() for routine in routines if routine.name == name]
    elements = getattr(keyspace, f"{kind}s")
    return [elements[name].as_cql()] if name in elements else []


def _indexes(keyspace: Any, name: str) -> list[str]:
    tables = keyspace.tables.values()
    return [table.indexes[name].as_cql() for table in tables if name in table.indexes]


def _with_dependents(keyspace: Any, table: Any) -> list[str]:
    """The statements for a table, its indexes, triggers and views."""
    views = [view for view in keyspace.views.values() if view.base_table == table.name]
    return [
        table.as_cql(),
        *(index.as_cql() for index in table.indexes.values()),
        *(create_trigger(table, trigger) for trigger in table.triggers),
        *(view.as_cql() for view in views if view.index is None),
    ]


# Errors


def _without_keyspace(schema: Any, name: str, kinds: tuple[str, ...]) -> str:
    """Returns the message for a name without a keyspace, while no keyspace is in use.

    If the user has named a kind, `kinds` has only this kind. Otherwise, the user may have meant a
    keyspace, so the message says that there is no keyspace of this name.
    """
    subject = f"no keyspace {escaped(repr(name))}"
    if len(kinds) == 1:
        subject = f"the {kinds[0]} {escaped(name)} needs a keyspace"
    elements = _elements_of_name(schema.keyspaces.values(), name, kinds)
    if elements:
        return f"{subject}; there is {elements}"
    near = _near(schema.keyspaces, name) if len(kinds) > 1 else ""
    return (
        f"{subject}{near}. A table or another element of a keyspace is described by"
        f" KEYSPACE.{escaped(quoted(name))}, or after USE KEYSPACE in the shell, or with --keyspace"
    )


def _unknown(schema: Any, owner: Any, name: str, kinds: tuple[str, ...]) -> str:
    """Returns the message for a name that no element of the keyspace `owner` has."""
    message = f"no {_noun(kinds)} {escaped(repr(name))} in keyspace {escaped(quoted(owner.name))}"
    elements = _elements_of_name([owner], name, _KINDS) or _elements_of_name(
        schema.keyspaces.values(), name, kinds
    )
    if elements:
        return f"{message}; there is {elements}"
    groups = [group for group in GROUPS if KIND_OF_GROUP[group] in kinds]
    return message + _near({each for group in groups for each in group_names(owner, group)}, name)


def _noun(kinds: tuple[str, ...]) -> str:
    return kinds[0] if len(kinds) == 1 else "table, view, index, type, function or aggregate"


def _elements_of_name(keyspaces: Iterable[Any], name: str, kinds: Iterable[str]) -> str:
    """Lists at most five elements with a name in `keyspaces`, such as `the table app.users`."""
    elements = [
        f"the {kind} {escaped(qualified(keyspace.name, name))}"
        for keyspace in keyspaces
        for kind in _definitions(keyspace, name, kinds)
    ]
    if len(elements) > 5:
        elements[5:] = [f"{len(elements) - 5} more"]
    return ", ".join(elements)


def _near(names: Iterable[str], name: str) -> str:
    """Returns a hint at similar names. Letter case is ignored, because it is often mistaken."""
    by_lower = {each.lower(): each for each in names}
    near = [by_lower[lower] for lower in get_close_matches(name.lower(), by_lower)]
    return f"; near: {', '.join(escaped(quoted(each)) for each in near)}" if near else ""


# Lists


def group_names(keyspace: Any, group: str) -> set[str]:
    """The names of the elements of one group of a keyspace."""
    if group == "INDEXES":
        return {name for table in keyspace.tables.values() for name in table.indexes}
    if group in ("FUNCTIONS", "AGGREGATES"):
        return {routine.name for routine in getattr(keyspace, group.lower()).values()}
    return set(getattr(keyspace, group.lower()))


def group_list(schema: Any, group: str, keyspace: str | None) -> str:
    """Lists a group: a line for the keyspace in use, or one for each keyspace if none is in use."""
    keyspaces = schema.keyspaces.values() if keyspace is None else [_keyspace(schema, keyspace)]
    lines = []
    for each in keyspaces:
        names = sorted(group_names(each, group))
        if names:
            lines.append(folded(f"{quoted(each.name)}: {', '.join(map(quoted, names))}"))
    return "\n".join(lines)


def keyspace_list(schema: Any) -> str:
    """The names of all keyspaces, with the numbers of their elements."""
    system = {name for name in schema.keyspaces if name.startswith("system")}
    users = [keyspace for name, keyspace in schema.keyspaces.items() if name not in system]
    lines = [f"{quoted(keyspace.name)}: {_counts(keyspace)}" for keyspace in users]
    return "\n".join([*lines, *map(quoted, sorted(system))])


def _counts(keyspace: Any) -> str:
    elements_by_noun = {
        "table": keyspace.tables,
        "view": keyspace.views,
        "type": keyspace.types,
        "function": keyspace.functions,
    }
    return (
        ", ".join(
            counted(len(elements), noun) for noun, elements in elements_by_noun.items() if elements
        )
        or "empty"
    )


def schema_cql(schema: Any) -> str:
    """The statements that create all keyspaces of users."""
    keyspaces = schema.keyspaces.values()
    users = [keyspace for keyspace in keyspaces if not keyspace.name.startswith("system")]
    return "\n\n".join(keyspace.as_cql() for keyspace in users)
