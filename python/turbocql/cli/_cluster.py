"""`turbocql describe`, `nodes` and `diagnose`: the cluster and its schema."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..errors import Error
from ._connect import connected_by, connection_options, opened
from ._ends import NO_CONNECTION, CommandExit

__all__ = ["NODE_COLUMNS", "describe", "diagnose", "node_rows", "nodes"]


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@connection_options
def describe(name: str | None, **connection: Any) -> None:
    """Print the CQL that creates the element NAME; without a name, list keyspaces.

    \b
    turbocql describe app
    turbocql describe app.items
    turbocql describe 'app."ItemsByKind"'

    NAME is a keyspace, or a table, view, index, type, function or aggregate of one. If there is
    none with this letter case, letters outside quotes are made lower-case, as in CQL.
    """  # noqa: D301
    from ._describe import described_in_any_case, keyspace_list

    with opened(**connection) as session:
        schema = session.schema()
        if name is None:
            print(keyspace_list(schema))
        else:
            print(described_in_any_case(schema, name, session.keyspace))


NODE_COLUMNS = ["address", "datacenter", "rack", "state", "tokens", "shards", "host id"]


def node_rows(session: Any) -> list[list[Any]]:
    """A row for each node, with a value for each of `NODE_COLUMNS`."""
    rows = []
    for node in session.nodes:
        rows.append(
            [
                node.at,
                node.datacenter or "",
                node.rack or "",
                node.state,
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
        session = connected_by(**connection)
    except Error as error:
        print_diagnosis()
        sys.stdout.flush()
        raise CommandExit(NO_CONNECTION, f"no session: {error}") from error
    with session:
        print_diagnosis(session)
