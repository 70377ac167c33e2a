"""`turbocql describe`, `nodes` and `diagnose`: the cluster and its schema."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..errors import Error
from ._connect import config_of, connection_options, opened
from ._ends import FAILED, NO_CONNECTION, USAGE, Ended, counted

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
    """The statements for what has this name, or the names of all keyspaces.

    Raises: `Ended` for an unknown name.
    """
    from .._cql.names import quoted

    if name is None:
        system = {it for it in schema.keyspaces if it.startswith("system")}
        own = [it for it in schema.keyspaces if it not in system]
        lines = [f"{quoted(it)}: {_counts(schema.keyspaces[it])}" for it in own]
        return "\n".join([*lines, *map(quoted, sorted(system))])
    parts = _parts(name)
    if len(parts) == 1 and keyspace is not None and parts[0] not in schema.keyspaces:
        parts = [keyspace, *parts]
    try:
        if len(parts) == 1 or is_keyspace:
            return str(schema.keyspace(parts[0]).as_cql())
        return _within(schema.keyspace(parts[0]), parts[1])
    except KeyError as error:
        raise Ended(FAILED, str(error.args[0])) from None


def _within(keyspace: Any, name: str) -> str:
    found = [group[name] for group in (keyspace.types, keyspace.views) if name in group]
    for group in (keyspace.functions, keyspace.aggregates):
        found += [it for it in group.values() if it.name == name]
    if not found or name in keyspace.tables:
        table = keyspace.table(name)
        views = [it for it in keyspace.views.values() if it.base_table == name]
        found = [
            table,
            *table.indexes.values(),
            *(view for view in views if view.index is None),
            *found,
        ]
    return "\n\n".join(it.as_cql() for it in found)


def _parts(name: str) -> list[str]:
    """The parts of a name like `keyspace.table`, which may be in double quotes."""
    import re

    if not re.fullmatch(r'("(?:[^"]|"")+"|[^".]+)(\.("(?:[^"]|"")+"|[^".]+))?', name):
        raise Ended(USAGE, f"expected KEYSPACE or KEYSPACE.TABLE, got {name!r}")
    found = re.findall(r'"(?:[^"]|"")+"|[^".]+', name)
    return [it[1:-1].replace('""', '"') if it.startswith('"') else it for it in found]


def _counts(keyspace: Any) -> str:
    parts = {
        "table": keyspace.tables,
        "view": keyspace.views,
        "type": keyspace.types,
        "function": keyspace.functions,
    }
    return ", ".join(counted(len(it), what) for what, it in parts.items() if it) or "empty"


GROUPS = ("TABLES", "TYPES", "FUNCTIONS", "AGGREGATES", "INDEXES", "VIEWS")
"""What can be listed of a keyspace."""


def group_names(keyspace: Any, group: str) -> set[str]:
    """The names of what a keyspace has of a group."""
    if group == "INDEXES":
        return {name for table in keyspace.tables.values() for name in table.indexes}
    if group in ("FUNCTIONS", "AGGREGATES"):
        # Several may have one name.
        return {it.name for it in getattr(keyspace, group.lower()).values()}
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
        found = node_rows(session)
    if form == "table":
        from ._show import printed

        printed(NODE_COLUMNS, found)
    elif form == "csv":
        import csv

        rows = csv.writer(sys.stdout, lineterminator="\n")
        rows.writerows([NODE_COLUMNS, *found])
    else:
        import json

        for row in found:
            print(json.dumps(dict(zip(NODE_COLUMNS, row, strict=True)), ensure_ascii=False))


@click.command()
@connection_options
def diagnose(**connection: Any) -> None:
    """Print versions, platform, settings, and the state of the cluster."""
    from ..diagnose import diagnose as told
    from ..session import connect

    try:
        session = connect(config=config_of(**connection))
    except Error as error:
        told()
        sys.stdout.flush()
        raise Ended(NO_CONNECTION, f"no session: {error}") from error
    with session:
        told(session)
