"""What the shell does with a line: CQL statements, and commands of its own."""

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
from ..policies import Consistency
from ..session import connect
from ._cluster import GROUPS, NODE_COLUMNS, described, group_names, node_rows
from ._connect import asked_password
from ._ends import FAILED, Ended, counted, folded, plain, said, shown
from ._out import written
from ._query import print_trace
from ._show import printed, terminal_width, types_of
from ._split import rest_after, statements

__all__ = ["COMMANDS", "KINDS", "LEVELS", "Console", "is_command", "pieces"]

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
    for command, short, what in _HELP:
        line = f"  {command:{longest}}  {short:10}  {what}".rstrip()
        if len(line) > width or len(command) > longest:
            more = ", ".join(part for part in (short, what) if part)
            line = f"  {command}\n      {more}".rstrip()
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
_SHORT = {
    **{"\\d": "DESCRIBE", "\\l": "DESCRIBE KEYSPACES", "\\x": "EXPAND TOGGLE", "\\q": "EXIT"},
    **{"\\timing": "TIMING TOGGLE", "\\i": "SOURCE", "\\o": "CAPTURE", "\\n": "NODES"},
    **{"\\?": "HELP", "\\h": "HELP", "\\dt": "DESCRIBE TABLES"},
}
_CHANGES = ("CREATE", "ALTER", "DROP")
LEVELS = tuple(it.name for it in Consistency if not it.name.endswith("SERIAL"))
KINDS = ("KEYSPACE", "TABLE", "TYPE", "FUNCTION", "AGGREGATE", "INDEX", "MATERIALIZED")


def is_command(text: str) -> bool:
    """Whether a text is a command of the shell, which needs no semicolon."""
    word = _words(text)[0]
    return word.startswith("\\") or word.upper() in COMMANDS


def _words(text: str) -> tuple[str, str]:
    """The first word of a text, without semicolons, and the rest of its line."""
    first, _, rest = (text.split("\n", 1)[0].strip() or " ").partition(" ")
    first, tab, more = first.partition("\t")
    return first.rstrip(";"), (more + " " + rest if tab else rest).strip().rstrip(";").strip()


def pieces(text: str) -> Iterator[str]:
    """The statements and commands of a text. A command ends with its line, or at a semicolon."""
    while text.strip():
        text = text.lstrip()
        if text.startswith("\\"):
            # What follows may be the name of a file, with semicolons in it.
            line, _, text = text.partition("\n")
            yield line
            continue
        found = statements(text)
        if not found:
            return
        if is_command(found[0]):
            text = text[text.index(found[0]) :]
            line = text.split("\n", 1)[0]
            yield statements(line)[0]
            text = rest_after(line) + text[len(line) :]
        else:
            yield found[0]
            text = rest_after(text)


class Console:
    """A session, and how its results are shown."""

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
        """Runs a command or statements. Returns whether all went well; errors are shown.

        Raises: `EOFError` when the shell is to end.
        """
        try:
            self._run(text)
        except KeyboardInterrupt:
            print("canceled", file=sys.stderr)
            return False
        except EOFError:
            raise
        except Exception as error:
            # Whatever fails, the shell goes on.
            said(error, debug=False)
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
        rows = self.session.execute(statement, **options)
        took = time.perf_counter() - began
        for warning in rows.warnings:
            print(f"warning: {shown(warning)}", file=sys.stderr)
        if rows.columns:
            self._show(rows)
        if self.timing:
            print(f"{took * 1e3:.3f} ms", file=sys.stderr)
        if self.tracing:
            print_trace(rows)
        if statement.split(None, 1)[0].upper() in _CHANGES:
            self._on_change()

    def _show(self, rows: Any) -> None:
        names, types = (
            [column.name for column in rows.columns],
            types_of(self.session, rows.columns),
        )
        with self._output() as is_file:
            if self.form != "table":
                # Columns of a text file: what a terminal must not obey is escaped by neither.
                out = io.BytesIO()
                written(rows, self.form, out)
                text = out.getvalue().decode("utf-8", "replace")
                sys.stdout.write(text if is_file else shown(text))
                return
            pager = self.paging and not is_file
            number = printed(names, rows, types=types, expanded=self.expand, pager=pager)
            said = "" if number is None else f"({counted(number, 'row')})"
            if said:
                print(f"\n{said}")
        if self.capture is not None:
            print(f"{said} in {plain(str(self.capture))}")

    @contextlib.contextmanager
    def _output(self) -> Iterator[bool]:
        """Standard output, or the file of CAPTURE."""
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
        """Output that goes through the pager where it is longer than the screen."""
        with self._output() as is_file:
            if is_file or not self.paging or not sys.stdout.isatty():
                yield
                return
            kept = io.StringIO()
            with contextlib.redirect_stdout(kept):
                yield
            text = kept.getvalue()
            if text.count("\n") >= shutil.get_terminal_size().lines - 1:
                click.echo_via_pager(text)
            else:
                sys.stdout.write(text)

    def _command(self, text: str) -> None:
        first, rest = _words(text)
        if first.startswith("\\"):
            if first == "\\o" and not rest:
                rest = "OFF"
            if first not in _SHORT:
                raise Ended(FAILED, f"there is no command {plain(first)}; \\? lists them")
            first, rest = _words(f"{_SHORT[first]} {rest}")
        run: dict[str, Callable[[str], None]] = {
            "CAPTURE": self._capture,
            "CLEAR": lambda _: print("\x1b[2J\x1b[H", end=""),
            "CONSISTENCY": self._consistency,
            "COPY": self._copy,
            "DESC": self._describe,
            "DESCRIBE": self._describe,
            "EXIT": self._exit,
            "EXPAND": lambda rest: self._switch("expand", rest),
            "FORMAT": self._format,
            "HELP": lambda _: print(help_text(terminal_width())),
            "LOGIN": self._login,
            "NODES": lambda _: self._nodes(),
            "PAGING": self._paging,
            "QUIT": self._exit,
            "SERIAL": self._serial,
            "SHOW": self._about,
            "SOURCE": self._source,
            "TIMING": lambda rest: self._switch("timing", rest),
            "TRACING": lambda rest: self._switch("tracing", rest),
            "USE": lambda rest: self._execute(f"USE {rest}"),
        }
        run[first.upper()](rest.strip())

    def _copy(self, _: str) -> None:
        raise Ended(
            FAILED,
            "COPY is two commands outside of the shell: turbocql load FILES KEYSPACE.TABLE, and"
            " turbocql unload KEYSPACE.TABLE PATH",
        )

    def _exit(self, _: str) -> None:
        raise EOFError

    def _switch(self, name: str, rest: str) -> None:
        word = rest.upper()
        if word not in ("", "ON", "OFF", "TOGGLE"):
            raise Ended(FAILED, f"expected {name.upper()} ON or OFF, got {rest!r}")
        if word:
            now = not getattr(self, name) if word == "TOGGLE" else word == "ON"
            setattr(self, name, now)
        print(f"{name} is {'on' if getattr(self, name) else 'off'}")

    def _paging(self, rest: str) -> None:
        if re.fullmatch("[1-9][0-9]{0,8}", rest):
            self.paging, self.page_size = True, int(rest)
        elif rest.upper() in ("ON", "OFF"):
            self.paging = rest.upper() == "ON"
        elif rest:
            raise Ended(FAILED, f"expected PAGING ON, OFF or a number of rows, got {rest!r}")
        state = "on" if self.paging else "off"
        print(f"paging is {state}, {self.page_size} rows are fetched at a time")

    def _level(self, rest: str, *, serial: bool) -> str:
        known = [it.name for it in Consistency if it.name.endswith("SERIAL")]
        known = known if serial else [*LEVELS, *known]
        if rest.upper() not in known:
            raise Ended(FAILED, f"expected one of {', '.join(known)}, got {rest!r}")
        return rest.upper()

    def _consistency(self, rest: str) -> None:
        if rest:
            self.consistency = self._level(rest, serial=False)
        print(f"consistency is {self.consistency or 'that of the session'}")

    def _serial(self, rest: str) -> None:
        word, _, level = rest.partition(" ")
        if word.upper() != "CONSISTENCY":
            raise Ended(FAILED, "expected SERIAL CONSISTENCY [LEVEL]")
        if level:
            self.serial = self._level(level.strip(), serial=True)
        print(f"serial consistency is {self.serial or 'that of the session'}")

    def _format(self, rest: str) -> None:
        if rest:
            if rest.lower() not in ("table", "csv", "jsonl"):
                raise Ended(FAILED, f"expected table, csv or jsonl, got {rest!r}")
            self.form = rest.lower()
        print(f"results are shown as {self.form}")

    def _describe(self, rest: str) -> None:
        schema = self.session.schema(refresh=True)
        word, _, name = " ".join(rest.split()).partition(" ")
        word, name = word.upper(), name.strip()
        with self._long_output():
            if word in ("SCHEMA", "FULL"):
                own = [it for it in schema.keyspaces if not it.startswith("system")]
                print("\n\n".join(schema.keyspaces[it].as_cql() for it in own))
            elif word == "CLUSTER":
                self._about("CLUSTER")
                self._nodes()
            elif word in GROUPS and not name:
                self._listed(schema, word)
            elif word == "KEYSPACES" or (not rest and self.keyspace is None):
                print(described(schema, None, None))
            elif not rest:
                self._listed(schema, "TABLES")
            elif word == "KEYSPACE" and not name and self.keyspace is not None:
                print(schema.keyspace(self.keyspace).as_cql())
            elif word in KINDS and name:
                if word == "MATERIALIZED":
                    name = re.sub("(?i)^view +", "", name)
                within = None if word == "KEYSPACE" else self.keyspace
                print(described(schema, _folded(name), within, is_keyspace=word == "KEYSPACE"))
            else:
                print(described(schema, _folded(rest), self.keyspace))

    def _listed(self, schema: Any, group: str) -> None:
        """Names of one kind, of the keyspace in use or of all."""
        names = [self.keyspace] if self.keyspace is not None else list(schema.keyspaces)
        for name in names:
            found = schema.keyspaces.get(name)
            if found is None:
                raise Ended(FAILED, f"no keyspace {plain(repr(name))}")
            listed = sorted(group_names(found, group))
            if listed:
                print(folded(f"{quoted(name)}: {', '.join(map(quoted, listed))}"))

    def _about(self, rest: str) -> None:
        asked = "SELECT cluster_name, release_version, partitioner FROM system.local"
        name, version, partitioner = self.session.execute(asked, rows="tuple").one()
        if rest.upper() == "VERSION":
            print(f"turbocql {__version__}, server {version}")
        elif rest.upper() in ("", "HOST", "CLUSTER"):
            kind = partitioner.rpartition(".")[2]
            print(f"cluster {plain(name)}, server {version}, {kind}")
        else:
            raise Ended(FAILED, f"expected SHOW VERSION or SHOW HOST, got {rest!r}")

    def _login(self, rest: str) -> None:
        user = rest.split(" ", 1)[0].strip("'\"")
        if not user:
            raise Ended(FAILED, "expected LOGIN USER; the password is asked for")
        config = replace(
            self.session.config, user=user, password=asked_password(user), keyspace=self.keyspace
        )
        made = connect(config=config)
        self.session.close()
        self.session = made
        print(f"logged in as {plain(user)}")

    def _nodes(self) -> None:
        with self._output():
            printed(NODE_COLUMNS, node_rows(self.session))

    def _path(self, rest: str) -> Path:
        try:
            parts = shlex.split(rest)
        except ValueError as error:
            raise Ended(FAILED, f"{rest}: {error}") from None
        if len(parts) != 1:
            raise Ended(FAILED, f"expected the name of a file in quotes, got {rest!r}")
        return Path(os.path.expanduser(parts[0]))

    def _source(self, rest: str) -> None:
        path = self._path(rest)
        if self._sourced >= 10:
            raise Ended(FAILED, f"{path}: files that source each other")
        text = path.read_text(encoding="utf-8-sig")
        self._sourced += 1
        try:
            self._run(text)
        finally:
            self._sourced -= 1

    def _capture(self, rest: str) -> None:
        if rest.upper() == "OFF":
            self.capture = None
        elif rest:
            path = self._path(rest)
            # Where it cannot be written, nothing is captured.
            with path.open("a", encoding="utf-8"):
                pass
            self.capture = path
        print(f"results go to {'the terminal' if self.capture is None else self.capture}")


def _folded(name: str) -> str:
    """A name as the schema has it: in lower case, unless it is in quotes."""
    return name if '"' in name else name.lower()
