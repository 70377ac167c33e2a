"""Executes a line of the shell: CQL statements and the shell's commands."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from .. import __version__
from .._cql.names import quoted
from ..errors import RequestError
from ..policies import Consistency
from ..session import connect
from ._cluster import NODE_COLUMNS, node_rows
from ._connect import prompt_for_password
from ._describe import GROUPS, KIND_WORDS, described, group_list, keyspace_list, schema_cql
from ._ends import FAILED, CommandExit, counted, escaped, escaped_lines, report_error
from ._out import write_rows
from ._query import add_count_hint, print_trace
from ._show import print_rows, terminal_width, types_of
from ._split import after_first_statement, statements

__all__ = ["COMMANDS", "LEVELS", "Console", "is_command", "pieces"]

_HELP = (
    ("DESCRIBE [KEYSPACES | TABLES | TYPES | SCHEMA | CLUSTER | NAME]", "\\d [NAME]", "as CQL"),
    ("USE KEYSPACE", "", ""),
    ("CONSISTENCY [LEVEL]", "", "of the statements that follow"),
    ("SERIAL CONSISTENCY [LEVEL]", "", ""),
    ("TRACING [ON | OFF]", "", "what the nodes do for a statement"),
    ("PAGING [ON | OFF | ROWS]", "", "long results in the pager; rows fetched at a time"),
    ("EXPAND [ON | OFF]", "\\x", "a line for each column"),
    ("TIMING [ON | OFF]", "\\timing", "how long a statement takes"),
    ("FORMAT [table | csv | jsonl]", "", ""),
    ("SOURCE 'FILE'", "\\i FILE", "executes the statements of a file"),
    ("CAPTURE ['FILE' | OFF]", "\\o [FILE]", "results go to a file"),
    ("NODES", "\\n", "the nodes of the cluster"),
    ("SHOW [VERSION | HOST]", "", ""),
    ("LOGIN USER", "", "another user; the password is asked for"),
    ("HELP", "\\?", ""),
    ("CLEAR", "", ""),
    ("EXIT", "\\q", ""),
)


def help_text(width: int) -> str:
    """The commands, in lines of this width."""
    lines = ["Statements end with a semicolon and may have several lines. Commands need none:", ""]
    longest = max(len(command) for command, _, _ in _HELP[1:])
    for command, abbreviation, purpose in _HELP:
        line = f"  {command:{longest}}  {abbreviation:10}  {purpose}".rstrip()
        if len(line) > width or len(command) > longest:
            abbreviation_and_purpose = ", ".join(part for part in (abbreviation, purpose) if part)
            line = f"  {command}\n      {abbreviation_and_purpose}".rstrip()
        lines.append(line)
    lines += ["", "Ctrl-C cancels a statement, Ctrl-D ends the shell."]
    return "\n".join(lines)


COMMANDS = (
    *(
        "CAPTURE",
        "CLEAR",
        "CONSISTENCY",
        "COPY",
        "DESC",
        "DESCRIBE",
        "EXIT",
        "EXPAND",
        "FORMAT",
        "HELP",
    ),
    *("LOGIN", "NODES", "PAGING", "QUIT", "SERIAL", "SHOW", "SOURCE", "TIMING", "TRACING"),
    "USE",
)
_ABBREVIATIONS = {
    **{"\\d": "DESCRIBE", "\\l": "DESCRIBE KEYSPACES", "\\x": "EXPAND TOGGLE", "\\q": "EXIT"},
    **{"\\timing": "TIMING TOGGLE", "\\i": "SOURCE", "\\o": "CAPTURE", "\\n": "NODES"},
    **{"\\?": "HELP", "\\h": "HELP", "\\dt": "DESCRIBE TABLES"},
}
_SCHEMA_STATEMENTS = ("CREATE", "ALTER", "DROP")
LEVELS = tuple(level.name for level in Consistency if not level.name.endswith("SERIAL"))


def is_command(text: str) -> bool:
    """Whether a text is a command of the shell, which needs no semicolon."""
    word = _command_and_argument(text)[0]
    return word.startswith("\\") or word.upper() in COMMANDS


def _command_and_argument(text: str) -> tuple[str, str]:
    """The first word of a text and the rest of its line, without semicolons at their ends."""
    first, _, argument = (text.split("\n", 1)[0].strip() or " ").partition(" ")
    first, tab, argument_after_tab = first.partition("\t")
    return first.rstrip(";"), (
        argument_after_tab + " " + argument if tab else argument
    ).strip().rstrip(";").strip()


def pieces(text: str) -> Iterator[str]:
    """Yields the statements and commands of a text. A command ends at the end of its line. A
    command that does not begin with a backslash also ends at a semicolon.
    """
    while text.strip():
        text = text.lstrip()
        if text.startswith("\\"):
            # The argument may be a file name that contains semicolons, so the line is not split.
            line, _, text = text.partition("\n")
            yield line
            continue
        statement_texts = statements(text)
        if not statement_texts:
            return
        if is_command(statement_texts[0]):
            text = text[text.index(statement_texts[0]) :]
            line = text.split("\n", 1)[0]
            yield statements(line)[0]
            text = after_first_statement(line) + text[len(line) :]
        else:
            yield statement_texts[0]
            text = after_first_statement(text)


class Console:
    """Executes statements and commands in a session, and shows their results."""

    def __init__(self, session: Any, *, on_change: Callable[[], None] = lambda: None) -> None:
        """`on_change` is called after a statement that may have changed the schema."""
        self.session = session
        self._on_change = on_change
        self.consistency: str | None = None
        self.serial: str | None = None
        self.tracing = self.expand = self.timing = False
        self.paging, self.page_size = True, 100
        self.form = "table"
        self.capture: Path | None = None
        self._sourced = 0

    @property
    def keyspace(self) -> str | None:
        """The keyspace in use."""
        name: str | None = self.session.keyspace
        return name

    def run(self, text: str) -> bool:
        """Runs a command or statements, and prints errors. Returns whether there was no error.

        Raises: `EOFError` when the shell must end.
        """
        try:
            self._run(text)
        except KeyboardInterrupt:
            print("canceled", file=sys.stderr)
            return False
        except EOFError:
            raise
        except Exception as error:
            # The shell goes on after any error.
            report_error(error, debug=False)
            return False
        return True

    def _run(self, text: str) -> None:
        for piece in pieces(text):
            if is_command(piece):
                self._command(piece)
            else:
                self._execute(piece)

    def _execute(self, statement: str) -> None:
        options: dict[str, Any] = {"rows": "tuple", "page_size": self.page_size}
        if self.consistency is not None:
            options["consistency"] = self.consistency
        if self.serial is not None:
            options["serial_consistency"] = self.serial
        if self.tracing:
            options["tracing"] = True
        began = time.perf_counter()
        try:
            rows = self.session.execute(statement, **options)
        except RequestError as error:
            add_count_hint(error, statement, self.keyspace)
            raise
        took = time.perf_counter() - began
        for warning in rows.warnings:
            print(f"warning: {escaped_lines(warning)}", file=sys.stderr)
        if rows.columns:
            self._show(rows)
        if self.timing:
            print(f"{took * 1e3:.3f} ms", file=sys.stderr)
        if self.tracing:
            print_trace(rows)
        if statement.split(None, 1)[0].upper() in _SCHEMA_STATEMENTS:
            self._on_change()

    def _show(self, rows: Any) -> None:
        names, types = (
            [column.name for column in rows.columns],
            types_of(self.session, rows.columns),
        )
        with self._output() as is_file:
            if self.form != "table":
                # The writers of text files do not escape control characters. On a terminal, these
                # characters must be escaped.
                out = io.BytesIO()
                write_rows(rows, self.form, out)
                text = out.getvalue().decode("utf-8", "replace")
                sys.stdout.write(text if is_file else escaped_lines(text))
                return
            pager = self.paging and not is_file
            number = print_rows(names, rows, types=types, expanded=self.expand, pager=pager)
            row_count = "" if number is None else f"({counted(number, 'row')})"
            if row_count:
                print(f"\n{row_count}")
        if self.capture is not None:
            print(f"{row_count} in {escaped(str(self.capture))}")

    @contextlib.contextmanager
    def _output(self) -> Iterator[bool]:
        """Redirects standard output to the file of CAPTURE. Yields whether there is such a file."""
        if self.capture is None:
            yield False
            return
        with (
            self.capture.open("a", encoding="utf-8") as out,
            contextlib.redirect_stdout(out),
        ):
            yield True

    @contextlib.contextmanager
    def _long_output(self) -> Iterator[None]:
        """Shows the output of a block through the pager if it is longer than the screen."""
        with self._output() as is_file:
            if is_file or not self.paging or not sys.stdout.isatty():
                yield
                return
            buffer = io.StringIO()
            with contextlib.redirect_stdout(buffer):
                yield
            text = buffer.getvalue()
            if text.count("\n") >= shutil.get_terminal_size().lines - 1:
                click.echo_via_pager(text)
            else:
                sys.stdout.write(text)

    def _command(self, text: str) -> None:
        command, argument = _command_and_argument(text)
        if command.startswith("\\"):
            if command == "\\o" and not argument:
                argument = "OFF"
            if command not in _ABBREVIATIONS:
                raise CommandExit(FAILED, f"there is no command {escaped(command)}; \\? lists them")
            command, argument = _command_and_argument(f"{_ABBREVIATIONS[command]} {argument}")
        handlers: dict[str, Callable[[str], None]] = {
            "CAPTURE": self._capture,
            "CLEAR": lambda _: print("\x1b[2J\x1b[H", end=""),
            "CONSISTENCY": self._consistency,
            "COPY": self._copy,
            "DESC": self._describe,
            "DESCRIBE": self._describe,
            "EXIT": self._exit,
            "EXPAND": lambda argument: self._switch("expand", argument),
            "FORMAT": self._format,
            "HELP": lambda _: print(help_text(terminal_width())),
            "LOGIN": self._login,
            "NODES": lambda _: self._nodes(),
            "PAGING": self._paging,
            "QUIT": self._exit,
            "SERIAL": self._serial,
            "SHOW": self._about,
            "SOURCE": self._source,
            "TIMING": lambda argument: self._switch("timing", argument),
            "TRACING": lambda argument: self._switch("tracing", argument),
            "USE": lambda argument: self._execute(f"USE {argument}"),
        }
        handlers[command.upper()](argument.strip())

    def _copy(self, _: str) -> None:
        raise CommandExit(
            FAILED,
            "COPY is two commands outside of the shell: turbocql load FILES KEYSPACE.TABLE, and"
            " turbocql unload KEYSPACE.TABLE PATH",
        )

    def _exit(self, _: str) -> None:
        raise EOFError

    def _switch(self, name: str, argument: str) -> None:
        word = argument.upper()
        if word not in ("", "ON", "OFF", "TOGGLE"):
            raise CommandExit(FAILED, f"expected {name.upper()} ON or OFF, got {argument!r}")
        if word:
            is_on = not getattr(self, name) if word == "TOGGLE" else word == "ON"
            setattr(self, name, is_on)
        print(f"{name} is {'on' if getattr(self, name) else 'off'}")

    def _paging(self, argument: str) -> None:
        if re.fullmatch("[1-9][0-9]{0,8}", argument):
            self.paging, self.page_size = True, int(argument)
        elif argument.upper() in ("ON", "OFF"):
            self.paging = argument.upper() == "ON"
        elif argument:
            raise CommandExit(
                FAILED, f"expected PAGING ON, OFF or a number of rows, got {argument!r}"
            )
        state = "on" if self.paging else "off"
        print(f"paging is {state}, {self.page_size} rows are fetched at a time")

    def _level(self, argument: str, *, serial: bool) -> str:
        levels = [level.name for level in Consistency if level.name.endswith("SERIAL")]
        levels = levels if serial else [*LEVELS, *levels]
        if argument.upper() not in levels:
            raise CommandExit(FAILED, f"expected one of {', '.join(levels)}, got {argument!r}")
        return argument.upper()

    def _consistency(self, argument: str) -> None:
        if argument:
            self.consistency = self._level(argument, serial=False)
        print(f"consistency is {self.consistency or 'that of the session'}")

    def _serial(self, argument: str) -> None:
        word, _, level = argument.partition(" ")
        if word.upper() != "CONSISTENCY":
            raise CommandExit(FAILED, "expected SERIAL CONSISTENCY [LEVEL]")
        if level:
            self.serial = self._level(level.strip(), serial=True)
        print(f"serial consistency is {self.serial or 'that of the session'}")

    def _format(self, argument: str) -> None:
        if argument:
            if argument.lower() not in ("table", "csv", "jsonl"):
                raise CommandExit(FAILED, f"expected table, csv or jsonl, got {argument!r}")
            self.form = argument.lower()
        print(f"results are shown as {self.form}")

    def _describe(self, argument: str) -> None:
        schema = self.session.schema(refresh=True)
        word = argument.upper()
        with self._long_output():
            if word in ("SCHEMA", "FULL SCHEMA"):
                print(schema_cql(schema))
            elif word == "CLUSTER":
                self._about("CLUSTER")
                self._nodes()
            elif word == "KEYSPACES" or (not argument and self.keyspace is None):
                print(keyspace_list(schema))
            elif word in GROUPS or not argument:
                print(group_list(schema, word or "TABLES", self.keyspace))
            else:
                print(self._described(schema, argument))

    def _described(self, schema: Any, argument: str) -> str:
        words = "|".join(kind_words.replace(" ", r"\s+") for kind_words in KIND_WORDS)
        match = re.fullmatch(rf"(?is)({words})(?:\s+(.+))?", argument)
        if match is None:
            return described(schema, argument, self.keyspace, folds=True)
        kind = KIND_WORDS[" ".join(match[1].upper().split())]
        if match[2] is not None:
            return described(schema, match[2], self.keyspace, kind, folds=True)
        if kind == "keyspace" and self.keyspace is not None:
            return described(schema, quoted(self.keyspace), None, kind, folds=True)
        raise CommandExit(FAILED, f"expected DESCRIBE {match[1].upper()} NAME")

    def _about(self, argument: str) -> None:
        statement = "SELECT cluster_name, release_version, partitioner FROM system.local"
        name, version, partitioner = self.session.execute(statement, rows="tuple").one()
        if argument.upper() == "VERSION":
            print(f"turbocql {__version__}, server {version}")
        elif argument.upper() in ("", "HOST", "CLUSTER"):
            kind = partitioner.rpartition(".")[2]
            print(f"cluster {escaped(name)}, server {version}, {kind}")
        else:
            raise CommandExit(FAILED, f"expected SHOW VERSION or SHOW HOST, got {argument!r}")

    def _login(self, argument: str) -> None:
        user = argument.split(" ", 1)[0].strip("'\"")
        if not user:
            raise CommandExit(FAILED, "expected LOGIN USER; the password is asked for")
        config = replace(
            self.session.config,
            user=user,
            password=prompt_for_password(user),
            keyspace=self.keyspace,
            # The database has started, so `connect` need not try again after an error.
            wait_s=0.0,
        )
        new_session = connect(config=config)
        self.session.close()
        self.session = new_session
        print(f"logged in as {escaped(user)}")

    def _nodes(self) -> None:
        with self._output():
            print_rows(NODE_COLUMNS, node_rows(self.session))

    def _path(self, argument: str) -> Path:
        try:
            parts = shlex.split(argument)
        except ValueError as error:
            raise CommandExit(FAILED, f"{argument}: {error}") from None
        if len(parts) != 1:
            raise CommandExit(FAILED, f"expected the name of a file in quotes, got {argument!r}")
        return Path(os.path.expanduser(parts[0]))

    def _source(self, argument: str) -> None:
        path = self._path(argument)
        if self._sourced >= 10:
            raise CommandExit(FAILED, f"{path}: files that source each other")
        text = path.read_text(encoding="utf-8-sig")
        self._sourced += 1
        try:
            self._run(text)
        finally:
            self._sourced -= 1

    def _capture(self, argument: str) -> None:
        if argument.upper() == "OFF":
            self.capture = None
        elif argument:
            path = self._path(argument)
            # If the file cannot be written, `open` raises an error, and `capture` stays as it is.
            with path.open("a", encoding="utf-8"):
                pass
            self.capture = path
        print(f"results go to {'the terminal' if self.capture is None else self.capture}")
