"""What the shell does with a line: CQL statements, and commands of its own."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import Error
from ..policies import Consistency
from ._cluster import NODE_COLUMNS, described, node_rows
from ._ends import FAILED, Ended, plain, said
from ._out import written
from ._query import print_trace
from ._show import printed
from ._split import statements

__all__ = ["COMMANDS", "HELP", "Console", "is_command"]

HELP = """\
Statements end with a semicolon and may have several lines. Commands need none:

  DESCRIBE [KEYSPACES | TABLES | SCHEMA | CLUSTER | NAME]    \\d [NAME]   \\l
  USE KEYSPACE
  CONSISTENCY [LEVEL]          SERIAL CONSISTENCY [LEVEL]
  TRACING [ON | OFF]           what the nodes do for a statement
  PAGING [ON | OFF | ROWS]     long results through the pager; rows fetched at a time
  EXPAND [ON | OFF]            a line for each column                \\x
  TIMING [ON | OFF]            how long a statement takes            \\timing
  FORMAT [table | csv | jsonl]
  SOURCE 'FILE'                executes the statements of a file     \\i FILE
  CAPTURE ['FILE' | OFF]       results go to a file                  \\o FILE
  NODES                        the nodes of the cluster              \\n
  HELP   CLEAR   EXIT                                                \\?   \\q

Ctrl-C cancels a statement, Ctrl-D ends the shell."""

COMMANDS = (
    *("CAPTURE", "CLEAR", "CONSISTENCY", "DESC", "DESCRIBE", "EXIT", "EXPAND", "FORMAT", "HELP"),
    *("NODES", "PAGING", "QUIT", "SERIAL", "SOURCE", "TIMING", "TRACING"),
)
_SHORT = {
    **{"\\d": "DESCRIBE", "\\l": "DESCRIBE KEYSPACES", "\\x": "EXPAND TOGGLE", "\\q": "EXIT"},
    **{"\\timing": "TIMING TOGGLE", "\\i": "SOURCE", "\\o": "CAPTURE", "\\n": "NODES"},
    **{"\\?": "HELP", "\\h": "HELP", "\\dt": "DESCRIBE TABLES"},
}
_CHANGES = ("CREATE", "ALTER", "DROP")


def is_command(text: str) -> bool:
    """Whether a text is a command of the shell, which needs no semicolon."""
    words = text.split(None, 1)
    return bool(words) and (words[0].startswith("\\") or words[0].rstrip(";").upper() in COMMANDS)


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
            if is_command(text):
                self._command(text)
            else:
                for statement in statements(text):
                    if is_command(statement):
                        self._command(statement)
                    else:
                        self._execute(statement)
        except KeyboardInterrupt:
            print("canceled", file=sys.stderr)
            return False
        except EOFError:
            raise
        except (Error, Ended, OSError, ValueError) as error:
            said(error, debug=False)
            return False
        return True

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
            print(f"warning: {plain(warning)}", file=sys.stderr)
        if rows.columns:
            self._show(rows)
        if self.timing:
            print(f"{took * 1e3:.3f} ms", file=sys.stderr)
        if self.tracing:
            print_trace(rows)
        if statement.split(None, 1)[0].upper() in _CHANGES:
            self._on_change()

    def _show(self, rows: Any) -> None:
        names = [column.name for column in rows.columns]
        with self._output() as is_file:
            if self.form != "table":
                # Columns of a text file: what a terminal must not obey is escaped by neither.
                out = io.BytesIO()
                written(rows, self.form, out)
                text = out.getvalue().decode("utf-8", "replace")
                sys.stdout.write(text if is_file else _shown(text))
                return
            pager = self.paging and not is_file
            count = printed(names, rows, expanded=self.expand, pager=pager)
            print(f"\n({count:,} row{'' if count == 1 else 's'})")

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

    def _command(self, text: str) -> None:
        text = text.strip().rstrip(";").strip()
        first, _, rest = text.partition(" ")
        if first.startswith("\\"):
            if first not in _SHORT:
                raise Ended(FAILED, f"there is no command {first}; \\? lists them")
            text = f"{_SHORT[first]} {rest}".strip()
            first, _, rest = text.partition(" ")
        run: dict[str, Callable[[str], None]] = {
            "CAPTURE": self._capture,
            "CLEAR": lambda _: print("\x1b[2J\x1b[H", end=""),
            "CONSISTENCY": self._consistency,
            "DESC": self._describe,
            "DESCRIBE": self._describe,
            "EXIT": self._exit,
            "EXPAND": lambda rest: self._switch("expand", rest),
            "FORMAT": self._format,
            "HELP": lambda _: print(HELP),
            "NODES": lambda _: self._nodes(),
            "PAGING": self._paging,
            "QUIT": self._exit,
            "SERIAL": self._serial,
            "SOURCE": self._source,
            "TIMING": lambda rest: self._switch("timing", rest),
            "TRACING": lambda rest: self._switch("tracing", rest),
        }
        run[first.upper()](rest.strip())

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
        if rest.isdigit() and int(rest) > 0:
            self.paging, self.page_size = True, int(rest)
        elif rest.upper() in ("ON", "OFF"):
            self.paging = rest.upper() == "ON"
        elif rest:
            raise Ended(FAILED, f"expected PAGING ON, OFF or a number of rows, got {rest!r}")
        state = "on" if self.paging else "off"
        print(f"paging is {state}, {self.page_size} rows are fetched at a time")

    def _level(self, rest: str, *, serial: bool) -> str:
        known = [it.name for it in Consistency if it.name.endswith("SERIAL") is serial]
        if not serial:
            known += [it.name for it in Consistency if it.name.endswith("SERIAL")]
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
        word, _, name = rest.partition(" ")
        kinds = ("KEYSPACE", "TABLE", "TYPE", "FUNCTION", "AGGREGATE", "INDEX", "MATERIALIZED")
        with self._output():
            if word.upper() == "KEYSPACES":
                print(described(schema, None, None))
            elif word.upper() == "TABLES" or (not rest and self.keyspace is not None):
                self._tables(schema)
            elif not rest:
                print(described(schema, None, None))
            elif word.upper() in ("SCHEMA", "FULL"):
                own = [it for it in schema.keyspaces if not it.startswith("system")]
                print("\n\n".join(schema.keyspaces[it].as_cql() for it in own))
            elif word.upper() == "CLUSTER":
                self._nodes()
            elif word.upper() in kinds and name.strip():
                name = name.strip().removeprefix("VIEW ").removeprefix("view ")
                print(described(schema, _folded(name), self.keyspace))
            else:
                print(described(schema, _folded(rest), self.keyspace))

    def _tables(self, schema: Any) -> None:
        names = [self.keyspace] if self.keyspace is not None else list(schema.keyspaces)
        for name in names:
            found = schema.keyspaces.get(name)
            if found is not None and found.tables:
                print(f"{name}: {', '.join(sorted(found.tables))}")

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
        text = path.read_text(encoding="utf-8")
        self._sourced += 1
        try:
            for statement in statements(text):
                if is_command(statement):
                    self._command(statement)
                else:
                    self._execute(statement)
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


def _shown(text: str) -> str:
    return "\n".join(plain(line) for line in text.split("\n"))
