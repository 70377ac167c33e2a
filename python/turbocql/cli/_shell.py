"""`turbocql shell`: an interactive prompt."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from ..errors import Error
from ._connect import connected_by, connection_options
from ._ends import USAGE, CommandExit, counted, escaped

__all__ = ["history_file", "shell"]


def history_file() -> Path:
    """The file with the statements of earlier shells."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "turbocql" / "history"


@click.command()
@connection_options
def shell(**connection: Any) -> None:
    """An interactive prompt for CQL, with completion and history."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandExit(USAGE, "the shell needs a terminal: use turbocql query")
    interactive_shell = _Shell(connected_by(**connection))
    try:
        interactive_shell.run()
    finally:
        interactive_shell.console.session.close()


class _Shell:
    def __init__(self, session: Any) -> None:
        from ._console import Console

        self.schema: Any = None
        self.console = Console(session, on_change=self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        """Starts a thread that reads the schema, which completion uses."""

        def read() -> None:
            # After an error, completion works without the new schema.
            with contextlib.suppress(Error):
                self.schema = self.console.session.schema(refresh=True)

        threading.Thread(target=read, name="turbocql-schema", daemon=True).start()

    def run(self) -> None:
        """Reads and runs statements and commands until the end of the input."""
        prompt = self._prompt()
        nodes = self.console.session.nodes
        where = ", ".join(sorted({escaped(str(node.datacenter)) for node in nodes}))
        print(f"{counted(len(nodes), 'node')} in {where}. HELP lists commands.")
        while True:
            keyspace = self.console.keyspace
            name = "turbocql" if keyspace is None else f"turbocql:{keyspace}"
            try:
                text = prompt.prompt(f"{name}> ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not text.strip():
                continue
            try:
                self.console.run(text)
            except EOFError:
                return

    def _prompt(self) -> Any:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
        from prompt_toolkit.lexers import PygmentsLexer
        from pygments.lexers.sql import SqlLexer

        return PromptSession(
            history=_history(),
            completer=_completer(self),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            lexer=PygmentsLexer(SqlLexer),
            multiline=True,
            key_bindings=_keys(),
            # The continuation of a wrapped line has no prompt.
            prompt_continuation=lambda width, _, wraps: ("" if wraps else "... ").rjust(width),
            enable_open_in_editor=True,
        )


def _history() -> Any:
    """The shell's history: a file that only the user can read. Statements with the word `password`
    are not stored.
    """
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class PasswordFreeHistory(FileHistory):
        def store_string(self, string: str) -> None:
            if re.search(r"(?i)\bpassword\b", string) is None:
                super().store_string(string)

    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError as error:
        print(f"there is no history: {error}", file=sys.stderr)
        return InMemoryHistory()
    return PasswordFreeHistory(str(path))


def _completer(interactive_shell: _Shell) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    from ._complete import completions

    class Names(Completer):
        def get_completions(self, document: Any, event: Any) -> Iterable[Any]:
            return self._completions(document.text_before_cursor)

        def _completions(self, text: str) -> Iterator[Any]:
            for word, length, kind in completions(
                text, interactive_shell.schema, interactive_shell.console.keyspace
            ):
                yield Completion(word, -length, display_meta=kind)

    return Names()


def _keys() -> Any:
    """Returns the key bindings. Enter takes the selected completion if there is one. Otherwise it
    runs the input if it is complete, or begins a new line.
    """
    from prompt_toolkit.enums import DEFAULT_BUFFER
    from prompt_toolkit.filters import has_focus
    from prompt_toolkit.key_binding import KeyBindings

    from ._console import is_command, pieces
    from ._split import ends_with_semicolon

    keys = KeyBindings()

    @keys.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def enter(event: Any) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.apply_completion(state.current_completion)
            return
        text = buffer.text
        input_pieces = list(pieces(text))
        if (
            not text.strip()
            or (input_pieces and is_command(input_pieces[-1]))
            or ends_with_semicolon(text)
        ):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys
