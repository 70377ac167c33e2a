"""`turbocql query`: statements from the command line, a file or standard input."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from .._cql.names import qualified, split_qualified
from ..errors import (
    EncodeError,
    ReadFailure,
    ReadTimeout,
    RequestError,
    RequestTimeout,
    _insert_before_statement,
)
from ..rows import Column
from ._connect import connection_options, opened
from ._ends import FAILED, CommandExit, counted, escaped, escaped_lines, report_error

__all__ = ["add_count_hint", "print_trace", "query"]

_NAME = r'(?:"(?:[^"]|"")+"|\w+)'
_COUNT = re.compile(
    r"(?is)\bSELECT\s+(?:JSON\s+)?COUNT\s*\(\s*[*1]\s*\)(?:\s+AS\s+\S+)?\s+FROM\s+"
    rf"(?P<table>{_NAME}(?:\.{_NAME})?)(?P<where>\s+WHERE\s)?"
)
"""Matches a statement that counts the rows of a table."""


@click.command()
@click.argument("statement", required=False)
@click.option(
    "-f",
    "--file",
    type=click.File("r", encoding="utf-8-sig"),
    help="Read statements from this file; - is standard input.",
)
@click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value for the bind marker :name, or for the column that a ? belongs to.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "jsonl", "arrow"]),
    help="By default a table on a terminal, and CSV elsewhere.",
)
@click.option("-x", "--expand", is_flag=True, help="Show a line for each column.")
@click.option("--trace", is_flag=True, help="Show what the nodes did, on standard error.")
@click.option("--page-size", type=click.IntRange(1, 2**31 - 1), help="Rows fetched at a time.")
@click.option("--limit", type=click.IntRange(0, 2**62), help="Show so many rows at most.")
@click.option("--keep-going", is_flag=True, help="Go on after a statement that failed.")
@click.option("--no-pager", is_flag=True, help="Do not page long tables.")
@connection_options
@click.pass_context
def query(
    ctx: click.Context,
    /,
    statement: str | None,
    file: Any,
    params: Sequence[str],
    form: str | None,
    expand: bool,
    trace: bool,
    page_size: int | None,
    limit: int | None,
    keep_going: bool,
    no_pager: bool,
    **connection: Any,
) -> int:
    """Execute CQL statements, separated by semicolons.

    \b
    turbocql query "SELECT * FROM app.users WHERE id = ?" --param id=7
    turbocql query --file schema.cql
    """  # noqa: D301
    from ._params import pairs_of
    from ._split import statements

    params_by_name = pairs_of(params)
    if statement is not None and file is not None:
        raise click.UsageError("pass statements, or --file, not both")
    if statement is None and file is None:
        if sys.stdin.isatty():
            raise click.UsageError("there is no statement")
        text = sys.stdin.read()
    elif file is None:
        text = statement
    else:
        try:
            text = file.read()
        except UnicodeDecodeError as error:
            raise CommandExit(FAILED, f"{file.name} is not UTF-8: {error}") from None
    statement_texts = statements(text or "")
    if not statement_texts:
        raise click.UsageError("there is no statement")
    if params_by_name and len(statement_texts) > 1:
        raise click.UsageError("--param is for one statement")
    form = form or ("table" if expand or sys.stdout.isatty() else "csv")
    failed = 0
    with opened(**connection) as session:
        for number, statement_text in enumerate(statement_texts, 1):
            try:
                _run(
                    session,
                    statement_text,
                    params_by_name,
                    form,
                    expand,
                    trace,
                    page_size,
                    limit,
                    not no_pager,
                )
            except click.UsageError:
                raise
            except Exception as error:
                if len(statement_texts) > 1:
                    print(f"statement {number}:", file=sys.stderr)
                if not keep_going:
                    raise
                report_error(error, debug=ctx.obj["debug"])
                failed += 1
    return FAILED if failed else 0


def _run(
    session: Any,
    text: str,
    params_by_name: Mapping[str, str | None],
    form: str,
    expand: bool,
    trace: bool,
    page_size: int | None,
    limit: int | None,
    pager: bool,
) -> None:
    options: dict[str, Any] = {"tracing": True} if trace else {}
    if page_size is not None:
        options["page_size"] = page_size
    if form == "table" or limit is not None:
        options["rows"] = "tuple"
    values: Any = None
    statement: Any = text
    if params_by_name or _has_marker(text):
        from ._params import Types, keyspaces_of, values_of

        statement = session.prepare(text)
        _check_names(statement, _bare(text))
        values = values_of(statement, params_by_name, Types(session, keyspaces_of(statement)))
    try:
        rows = session.execute(statement, values, **options)
    except EncodeError as error:
        raise click.UsageError(f"--param: {error}") from error
    except RequestError as error:
        add_count_hint(error, text, session.keyspace)
        raise
    for warning in rows.warnings:
        print(f"warning: {escaped_lines(warning)}", file=sys.stderr)
    if rows.columns:
        _show(session, rows, form, expand, limit, pager)
    if trace:
        print_trace(rows)


def add_count_hint(error: RequestError, statement: str, keyspace: str | None) -> None:
    """Adds the advice to use `turbocql count` to an error, if the statement counts rows, and the
    error is one that a large table can cause. `keyspace` is the keyspace in use.
    """
    match = _COUNT.search(statement)
    if match is None or not isinstance(error, (ReadFailure, ReadTimeout, RequestTimeout)):
        return
    table = split_qualified(match["table"])
    if table is None and keyspace is not None:
        table = split_qualified(f'"{keyspace}".{match["table"]}')
    name = "KEYSPACE.TABLE" if table is None else shlex.quote(qualified(*table))
    condition = " --where CONDITION" if match["where"] else ""
    hint = f"to count the rows of a large table: turbocql count {name}{condition}"
    error.args = (_insert_before_statement(str(error), [hint]),)


def _check_names(prepared: Any, bare: str) -> None:
    """Raises `click.UsageError` if two `?` markers belong to one column, and so have one name."""
    names = [Column(*marker).name for marker in prepared.markers]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None and "?" in bare:
        raise click.UsageError(f"two markers are called {doubled!r}: name them, as in :a and :b")


def _has_marker(text: str) -> bool:
    """Whether the text seems to have a `?` or a `:name` outside of quotes and comments."""
    bare = _bare(text)
    return "?" in bare or re.search(r"(?<![:\w]):[A-Za-z_]", bare) is not None


def _bare(text: str) -> str:
    """A text without quoted parts and comments."""
    return re.sub(
        r"""--[^\n]*|//[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\$.*?\$\$""",
        " ",
        text,
        flags=re.DOTALL,
    )


def _show(session: Any, rows: Any, form: str, expand: bool, limit: int | None, pager: bool) -> None:
    from itertools import islice

    if form != "table":
        from ._out import write_rows

        write_rows(rows, form, limit=limit)
        return
    from ._show import print_rows, types_of

    source = rows if limit is None else islice(rows, limit)
    names, types = [column.name for column in rows.columns], types_of(session, rows.columns)
    count = print_rows(names, source, types=types, expanded=expand, pager=pager)
    if sys.stdout.isatty() and count is not None:
        print(f"({counted(count, 'row')})")


def print_trace(rows: Any) -> None:
    """Prints the trace of a request as a tree on standard error."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    trace = rows.trace()
    if trace is None:
        print("there is no trace", file=sys.stderr)
        return
    total_time = (
        "unknown time" if trace.duration_us is None else f"{trace.duration_us / 1000:.3f} ms"
    )
    tree = Tree(
        Text(f"{escaped(trace.request or 'request')}, {total_time}, by {trace.coordinator}")
    )
    nodes: dict[Any, Any] = {}
    for event in trace.events:
        if event.source not in nodes:
            nodes[event.source] = tree.add(Text(str(event.source)))
        elapsed = (
            "" if event.source_elapsed_us is None else f"{event.source_elapsed_us / 1000:9.3f} ms"
        )
        nodes[event.source].add(Text(f"{elapsed}  {escaped(event.activity or '')}"))
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 1000
    console.print(tree)
