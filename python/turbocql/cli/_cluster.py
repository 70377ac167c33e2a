"""`turbocql describe`, `nodes` and `diagnose`: the cluster and its schema."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..errors import Error
from ._connect import config_of, connected, connection_options, opened
from ._ends import FAILED, NO_CONNECTION, USAGE, CommandExit, counted

__all__ = ["describe", "described", "diagnose", "node_rows", "nodes"]


@click.command()
@click.argument("name", metavar="[KEYSPACE[.TABLE]]", required=False)
@connection_options
def describe(name: str | None, **connection: Any) -> None:
    """Print the CQL that makes a keyspace or a table; without a name, list keyspaces."""
    with opened(**connection) as session:
        print(described(session.schema(), name, session.keyspace))


def described(
    schema: Any, name: str | None, keyspace: str | None, *, is_keyspace: bool = False
) -> str:
    """The statements that create the elements of this name, or the names of all keyspaces.

    Raises: `CommandExit` for an unknown name.
    """
    from .._cql.names import quoted

    if name is None:
        system_keyspaces = {
            keyspace_name
            for keyspace_name in schema.keyspaces
            if keyspace_name.startswith("system")
        }
        user_keyspaces = [
            keyspace_name
            for keyspace_name in schema.keyspaces
            if keyspace_name not in system_keyspaces
        ]
        lines = [
            f"{quoted(keyspace_name)}: {_counts(schema.keyspaces[keyspace_name])}"
            for keyspace_name in user_keyspaces
        ]
        return "\n".join([*lines, *map(quoted, sorted(system_keyspaces))])
    parts = _parts(name)
    if len(parts) == 1 and keyspace is not None and parts[0] not in schema.keyspaces:
        parts = [keyspace, *parts]
    try:
        if len(parts) == 1 or is_keyspace:
            return str(schema.keyspace(parts[0]).as_cql())
        return _definitions_of(schema.keyspace(parts[0]), parts[1])
    except KeyError as error:
        raise CommandExit(FAILED, str(error.args[0])) from None


def _definitions_of(keyspace: Any, name: str) -> str:
    definitions = [group[name] for group in (keyspace.types, keyspace.views) if name in group]
    for group in (keyspace.functions, keyspace.aggregates):
        definitions += [routine for routine in group.values() if routine.name == name]
    if not definitions or name in keyspace.tables:
        table = keyspace.table(name)
        views = [view for view in keyspace.views.values() if view.base_table == name]
        definitions = [
            table,
            *table.indexes.values(),
            *(view for view in views if view.index is None),
            *definitions,
        ]
    return "\n\n".join(definition.as_cql() for definition in definitions)


def _parts(name: str) -> list[str]:
    """The parts of a name like `keyspace.table`, which may be in double quotes."""
    import re

    if not re.fullmatch(r'("(?:[^"]|"")+"|[^".]+)(\.("(?:[^"]|"")+"|[^".]+))?', name):
        raise CommandExit(USAGE, f"expected KEYSPACE or KEYSPACE.TABLE, got {name!r}")
    name_parts = re.findall(r'"(?:[^"]|"")+"|[^".]+', name)
    return [
        name_part[1:-1].replace('""', '"') if name_part.startswith('"') else name_part
        for name_part in name_parts
    ]


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


GROUPS = ("TABLES", "TYPES", "FUNCTIONS", "AGGREGATES", "INDEXES", "VIEWS")
"""The groups of elements of a keyspace that the shell can list."""


def group_names(keyspace: Any, group: str) -> set[str]:
    """The names of the elements of one group of a keyspace."""
    if group == "INDEXES":
        return {name for table in keyspace.tables.values() for name in table.indexes}
    if group in ("FUNCTIONS", "AGGREGATES"):
        # Overloaded functions share a name.
        return {routine.name for routine in getattr(keyspace, group.lower()).values()}
    return set(getattr(keyspace, group.lower()))


NODE_COLUMNS = ["address", "datacenter", "rack", "state", "tokens", "shards", "host id"]


def node_rows(session: Any) -> list[list[Any]]:
    """A row of text for each node."""
    rows = []
    for node in session.nodes:
        state = "up" if node.connected else "down"
        if node.silent:
            state = "silent"
        if not node.enabled:
            state = "not used"
        host = f"[{node.address}]" if ":" in str(node.address) else str(node.address)
        rows.append(
            [
                f"{host}:{node.port}",
                node.datacenter or "",
                node.rack or "",
                state,
                len(node.tokens),
                "" if node.shards is None else node.shards,
                str(node.host_id),
            ]
        )
    return rows


@click.command()
@click.option("--format", "form", type=click.Choice(["table", "csv", "jsonl"]), default="table")
@connection_options
def nodes(form: str, **connection: Any) -> None:
    """List the nodes of the cluster, and whether they are up."""
    with opened(**connection) as session:
        node_texts = node_rows(session)
    if form == "table":
        from ._show import print_rows

        print_rows(NODE_COLUMNS, node_texts)
    elif form == "csv":
        import csv

        rows = csv.writer(sys.stdout, lineterminator="\n")
        rows.writerows([NODE_COLUMNS, *node_texts])
    else:
        import json

        for row in node_texts:
            print(json.dumps(dict(zip(NODE_COLUMNS, row, strict=True)), ensure_ascii=False))


@click.command()
@connection_options
def diagnose(**connection: Any) -> None:
    """Print versions, platform, settings, and the state of the cluster."""
    from ..diagnose import diagnose as print_diagnosis

    try:
        session = connected(config_of(**connection))
    except Error as error:
        print_diagnosis()
        sys.stdout.flush()
        raise CommandExit(NO_CONNECTION, f"no session: {error}") from error
    with session:
        print_diagnosis(session)
