"""`turbocql load`, `unload`, `verify` and `count`: whole tables."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from .._cql.names import parse_table_name
from ..errors import Error
from ._arguments import with_options
from ._bar import Bar, duration, size
from ._connect import connection_options, opened
from ._ends import DIFFERENT, FAILED, REJECTED, CommandExit, counted, escaped
from ._params import Types, names_of, number_or_name, pairs_of, typed_pairs_of

__all__ = ["count", "load", "unload", "verify"]

Command = TypeVar("Command", bound=Callable[..., Any])
_FORMATS = click.Choice(["parquet", "csv", "jsonl", "arrow"])
_PATH = click.Path(path_type=Path)


_retry_for = click.option(
    "--retry-for",
    metavar="SECONDS",
    type=float,
    default=60.0,
    show_default=True,
    help="How long a request that fails is tried again.",
)


def _data_options(command: Command) -> Command:
    """Adds the options that say how files are read."""
    for option in reversed(
        [
            click.option("--format", "form", type=_FORMATS, help="Where suffixes do not say it."),
            click.option("--columns", metavar="A,B,...", help="Only these columns of the table."),
            click.option(
                "--rename",
                multiple=True,
                metavar="DATA=TABLE",
                help="The table's name of a column of the data.",
            ),
            click.option(
                "--nulls",
                type=click.Choice(["unset", "null"]),
                default="unset",
                show_default=True,
                help="What a null of the data does: leave the cell as it is, or delete it.",
            ),
            click.option("--truncate-time", is_flag=True, help="Drop parts of a millisecond."),
            click.option("--delimiter", metavar="CHAR", help="Between cells of CSV."),
            click.option(
                "--escape",
                metavar="CHAR",
                help="Before a quote in a cell of CSV, such as \\; else a quote is written twice.",
            ),
            click.option("--null", "null_text", metavar="TEXT", help="A null cell of CSV."),
            click.option("--no-header", is_flag=True, help="CSV without names; needs --names."),
            click.option("--names", metavar="A,B,...", help="The columns of CSV without a header."),
        ]
    ):
        command = option(command)
    return command


def _csv_of(
    delimiter: str | None,
    escape: str | None,
    null_text: str | None,
    no_header: bool,
    names: str | None,
) -> dict[str, Any] | None:
    csv_options: dict[str, Any] = {}
    if delimiter is not None:
        csv_options["delimiter"] = "\t" if delimiter in ("\\t", "tab") else delimiter
    if escape is not None:
        csv_options["escape"] = escape
    if null_text is not None:
        csv_options["null"] = null_text
    if no_header:
        csv_options["header"] = False
    if names is not None:
        csv_options["names"] = names_of(names)
    return csv_options or None


def _read_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """Pops the options of `_data_options`. Returns them in the form of `Session.load`'s options."""
    renamed = pairs_of(arguments.pop("rename"), "--rename")
    columns, form = arguments.pop("columns"), arguments.pop("form")
    read_options: dict[str, Any] = {
        "rename": {name: str(value) for name, value in renamed.items()} or None,
        "columns": None if columns is None else names_of(columns),
        "format": form,
        "nulls": arguments.pop("nulls"),
        "truncate_time": arguments.pop("truncate_time"),
    }
    parts = (
        arguments.pop(name) for name in ("delimiter", "escape", "null_text", "no_header", "names")
    )
    read_options["csv"] = _csv_of(*parts)
    return read_options


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.argument("table")
@click.option("--create", is_flag=True, help="Create the table for the columns of the files.")
@click.option("--key", metavar="A,B,...", help="With --create: the partition key.")
@click.option("--clustering", metavar="A,B,...", help="With --create: the clustering columns.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="COLUMN=TYPE",
    help="With --create: the CQL type of a column.",
)
@click.option("--dry-run", is_flag=True, help="Read and convert every row, and send none.")
@click.option("--limit", type=click.IntRange(0, 2**62), metavar="ROWS", help="Only the first rows.")
@_data_options
@click.option("--ttl", metavar="SECONDS", help="A number, or the name of a column.")
@click.option("--timestamp", metavar="MICROSECONDS", help="A number, or the name of a column.")
@click.option("--checkpoint", type=_PATH, help="Keep in this file which rows are acknowledged.")
@click.option("--resume", type=_PATH, help="Go on from this checkpoint.")
@click.option(
    "--resume-if-there",
    is_flag=True,
    help="Go on from the file of --checkpoint, if it is there.",
)
@click.option("--rejects", type=_PATH, help="Write rows that fail to this file.")
@click.option("--max-errors", metavar="N|SHARE", help="Rows that may fail, such as 100 or 0.01.")
@click.option("--rate-limit", metavar="RATE", help='Rows a second, or bytes such as "20 MB".')
@click.option("--concurrency", type=click.IntRange(1), default=256, help="Requests at a time.")
@click.option("--no-batches", is_flag=True, help="Never several rows in a request.")
@_retry_for
@connection_options
def load(files: Sequence[str], table: str, **arguments: Any) -> int:
    """Load FILES (Parquet, CSV, JSON lines, Arrow; patterns too) into KEYSPACE.TABLE.

    \b
    turbocql load data/*.parquet app.items --checkpoint items.checkpoint
    turbocql load items.csv app.items --create --key id
    zcat items.csv.gz | turbocql load - app.items --format csv

    Ctrl-C ends a load cleanly. Go on from its checkpoint with --resume.

    In lists of names, and before the = of --rename and --type, a name may be in quotes, as in CSV:
    --key '" id","a,b"'.
    """  # noqa: D301
    if "-" in files:
        with _spooled(files, arguments["form"]) as path:
            return _load([path], table, arguments)
    return _load([str(path) for path in files], table, arguments)


@contextmanager
def _spooled(files: Sequence[str], form: str | None) -> Iterator[str]:
    """Copies standard input to a file, because readers seek in files, or read them twice."""
    if list(files) != ["-"] or form is None:
        raise click.UsageError("- is standard input: it is alone, and needs --format")
    with tempfile.NamedTemporaryFile(prefix="standard-input-", suffix=f".{form}") as spool_file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, spool_file)
            spool_file.flush()
        except OSError as error:
            raise OSError(
                f"cannot copy standard input to {spool_file.name}: {error.strerror}; TMPDIR names"
                " another directory for temporary files"
            ) from error
        yield spool_file.name


def _load(data: list[str], table: str, arguments: dict[str, Any]) -> int:
    options = _read_options(arguments)
    create, types = arguments.pop("create"), arguments.pop("types")
    key, clustering = arguments.pop("key"), arguments.pop("clustering")
    for name in ("ttl", "timestamp"):
        options[name] = number_or_name(arguments.pop(name))
    max_errors = arguments.pop("max_errors")
    if max_errors is not None:
        options["max_errors"] = _errors(max_errors)
    rate = arguments.pop("rate_limit")
    options["rate_limit"] = float(rate) if rate is not None and _is_number(rate) else rate
    options["batches"] = False if arguments.pop("no_batches") else "auto"
    options["retry_for_s"] = arguments.pop("retry_for")
    if arguments.pop("resume_if_there"):
        if arguments["resume"] is not None or arguments["checkpoint"] is None:
            raise click.UsageError("--resume-if-there goes with --checkpoint, not with --resume")
        arguments["resume"] = "auto"
    shared_names = ("dry_run", "limit", "checkpoint", "resume", "rejects", "concurrency")
    options |= {name: arguments.pop(name) for name in shared_names}
    if (key or clustering or types) and not create:
        raise click.UsageError("--key, --clustering and --type are for --create")
    began = time.monotonic()
    with opened(**arguments) as session:
        is_new = False
        if create:
            keys = [names_of(key), names_of(clustering)]
            is_new = _create(session, table, data, keys, pairs_of(types, "--type"), options)
            if options["dry_run"]:
                print("the table was not created, so no row was converted", file=sys.stderr)
                return 0
        with _dropped_after_errors(session, table, is_new):
            report = _report(session, table, data, options)
        if is_new and report.failures and not report.succeeded:
            _drop(session, table)
    return _loaded(report, options, time.monotonic() - began)


def _report(session: Any, table: str, data: list[str], options: dict[str, Any]) -> Any:
    try:
        with Bar("load") as bar:
            return session.load(table, data, raise_failures=False, progress=bar, **options)
    except KeyboardInterrupt:
        path = options["checkpoint"] or options["resume"]
        hint = f"go on with --resume {path}" if path else "without --checkpoint it begins again"
        raise CommandExit(130, f"interrupted; {hint}") from None


@contextmanager
def _dropped_after_errors(session: Any, table: str, is_new: bool) -> Iterator[None]:
    """Drops a table that this command created, if an error comes before the table has rows."""
    try:
        yield
    except Exception:
        if is_new:
            # If dropping fails too, the first error is raised.
            with suppress(Error):
                _drop(session, table)
        raise


def _drop(session: Any, table: str) -> None:
    from ._create import drop_if_empty

    if drop_if_empty(session, table):
        print(f"no row was loaded, so the new table {table} was dropped again", file=sys.stderr)


def _errors(text: str) -> float | int:
    if not _is_number(text):
        raise click.UsageError(f"--max-errors must be a number or a share, got {text!r}")
    return int(text) if re.fullmatch("[0-9]+", text) else float(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _create(
    session: Any,
    table: str,
    data: list[str],
    keys: Sequence[list[str]],
    user_types: dict[str, str | None],
    options: dict[str, Any],
) -> bool:
    """Creates the table if it does not exist, and returns whether it is new. A dry run only prints
    the statement.
    """
    from . import _create as creation

    selection = creation.FileSelection(
        data,
        options["format"],
        options["csv"],
        options["rename"] or {},
        options["columns"],
        [setting for setting in (options["ttl"], options["timestamp"]) if isinstance(setting, str)],
        options["truncate_time"],
    )
    named = {name: str(definition) for name, definition in user_types.items()}
    keyspace = parse_table_name(table, session.keyspace)[0]
    types = creation.types_of_data(selection, named, Types(session), keyspace)
    statement = creation.create_table(table, session.keyspace, types, *keys)
    if options["dry_run"]:
        print(f"{statement};")
        return False
    existing = creation.existing_table(session, table)
    if existing is None:
        print(f"{statement};")
    else:
        print(escaped(creation.describe_existing(table, existing, keys)), file=sys.stderr)
    session.execute(statement)
    return existing is None


def _loaded(report: Any, options: dict[str, Any], took: float) -> int:
    verb = "fit" if options["dry_run"] else "loaded"
    rate = "" if options["dry_run"] else f" ({report.succeeded / max(took, 1e-9):,.0f}/s)"
    summary = f"{report.succeeded:,} of {counted(report.rows, 'row')} {verb}"
    if options["resume"] is not None and not options["dry_run"]:
        earlier = report.earlier_rows
        rows = counted(earlier + report.rows, "row")
        summary = f"{rows}: {earlier:,} before, {report.succeeded:,} now"
    print(f"{summary} in {duration(took)}{rate}")
    if not report.failures:
        return FAILED if report.stopped else 0
    first = report.failures[0]
    subject = "it is" if len(report.failures) == 1 else "they are"
    rejects_hint = f"; {subject} in {options['rejects']}" if options["rejects"] is not None else ""
    print(f"{counted(len(report.failures), 'row')} failed{rejects_hint}", file=sys.stderr)
    if report.stop_reason is not None:
        print(f"stopped because {with_options(report.stop_reason)}", file=sys.stderr)
    reason = with_options(escaped(str(first.error)))
    print(f"the first, row {first.row}: {reason}", file=sys.stderr)
    return FAILED if report.stopped else REJECTED


@click.command()
@click.argument("table")
@click.argument("path", type=click.Path())
@click.option("--format", "form", type=_FORMATS, help="Where the suffix does not say it.")
@click.option("--columns", metavar="A,B,...", help="Only these columns.")
@click.option("--where", metavar="CONDITION", help="In CQL, filtered by the server.")
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="For --where.")
@click.option("--limit", type=click.IntRange(0, 2**62), metavar="ROWS", help="Some rows only.")
@click.option("--compression", metavar="NAME", help="Such as zstd, gzip or none.")
@click.option("--files", type=click.IntRange(1), default=1, help="Write so many files at most.")
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@click.option("--concurrency", type=click.IntRange(1), help="Token ranges at a time.")
@_retry_for
@connection_options
def unload(
    table: str, path: str, form: str | None, columns: str | None, retry_for: float, **arguments: Any
) -> None:
    """Write KEYSPACE.TABLE to PATH: Parquet, CSV, JSON lines or Arrow, a file or a directory.

    \b
    turbocql unload app.items items.parquet
    turbocql unload app.items parts/ --format csv --files 4

    A name in --columns may be in quotes, as in CSV: --columns 'id,"a,b"'.
    """  # noqa: D301
    if path == "-":
        raise click.UsageError(
            f'to write to standard output: turbocql query "SELECT * FROM {table}" --format csv'
        )
    where, params = arguments.pop("where"), arguments.pop("params")
    option_names = ("limit", "compression", "files", "overwrite", "concurrency")
    options: dict[str, Any] = {name: arguments.pop(name) for name in option_names}
    options |= {"format": form, "retry_for_s": retry_for, "where": where}
    options["columns"] = None if columns is None else names_of(columns)
    began = time.monotonic()
    with opened(**arguments) as session, Bar("unload") as bar:
        options["values"] = typed_pairs_of(session, table, where, pairs_of(params))
        report = session.unload(table, path, progress=bar, **options)
    took = time.monotonic() - began
    names = ", ".join(escaped(str(file)) for file in report.files[:3])
    files_not_named = f" and {len(report.files) - 3} more" if len(report.files) > 3 else ""
    rate = report.rows / max(took, 1e-9)
    print(
        f"{counted(report.rows, 'row')} in {duration(took)} ({rate:,.0f}/s):"
        f" {names}{files_not_named}, {size(report.bytes)}"
    )


@click.command()
@click.argument("table")
@click.option("--where", metavar="CONDITION", help="In CQL, filtered by the server.")
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="For --where.")
@connection_options
def count(table: str, where: str | None, params: Sequence[str], **connection: Any) -> None:
    """Count the rows of KEYSPACE.TABLE, token range by token range."""
    with opened(**connection) as session, Bar("count") as bar:
        keyspace, name = parse_table_name(table, session.keyspace)
        try:
            table_schema = session.schema().keyspace(keyspace).table(name)
        except KeyError as error:
            raise CommandExit(FAILED, str(error.args[0])) from None
        values = typed_pairs_of(session, table, where, pairs_of(params))
        first = table_schema.partition_key[0].name
        rows = session.scan(table, columns=[first], where=where, values=values)
        total = 0
        for batch in rows.batches():
            total += batch.num_rows
            bar.show_rows(total)
    print(total)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.argument("table")
@_data_options
@click.option("--limit", type=click.IntRange(0, 2**62), metavar="ROWS", help="Only the first rows.")
@click.option("--sample", type=float, metavar="SHARE", help="Look up a share of the rows.")
@click.option("--seed", type=int, default=0, help="Chooses the sample.")
@click.option("--show", type=click.IntRange(0), default=10, help="So many differences.")
@click.option("--concurrency", type=click.IntRange(1), default=256, help="Requests at a time.")
@connection_options
def verify(files: Sequence[str], table: str, show: int, **arguments: Any) -> int:
    """Compare KEYSPACE.TABLE with FILES: each row of the files by its key.

    In lists of names, and before the = of --rename, a name may be in quotes, as in CSV:
    --columns 'id,"a,b"'.
    """
    options = _read_options(arguments)
    options |= {name: arguments.pop(name) for name in ("limit", "sample", "seed", "concurrency")}
    with opened(**arguments) as session, Bar("verify") as bar:
        report = session.verify(
            table, [str(path) for path in files], progress=bar.show_rows, **options
        )
    print(f"{report.checked:,} of {counted(report.rows, 'row')} compared")
    counts = {
        "missing": report.missing,
        "different": report.different,
        "not loadable": report.unfit,
        "with a key that came before": report.duplicates,
    }
    for outcome, number in counts.items():
        if number:
            print(f"{number:,} {outcome}")
    for failure in report.failures[:show]:
        reason = with_options(escaped(str(failure.error)))
        print(f"row {failure.row} is not loadable: {reason}")
    for difference in report.differences[:show]:
        if difference.column is None:
            print(f"row {difference.row}: the table has no row with its key")
        else:
            expected, actual = escaped(repr(difference.expected)), escaped(repr(difference.found))
            cell_position = f'row {difference.row}, "{difference.column}"'
            print(f"{cell_position}: expected {expected}, found {actual}")
    if report.equal:
        print("equal")
    return 0 if report.equal else DIFFERENT
