"""The commands, and how an error of one of them ends the process."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Sequence
from typing import Any

import click

from .. import __version__
from ._ends import Gone, said

__all__ = ["root", "run"]

_COMMANDS = {
    "query": "_query",
    "shell": "_shell",
    "load": "_transfer",
    "unload": "_transfer",
    "verify": "_transfer",
    "count": "_transfer",
    "describe": "_cluster",
    "nodes": "_cluster",
    "top": "_top",
    "diagnose": "_cluster",
    "testing": "_others",
    "accel": "_others",
    "completion": "_others",
}
"""Each command's module, which has it under its name."""


class _Commands(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        found: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), cmd_name)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # click would end the process by itself, with 1.
            raise Gone from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="turbocql")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def root(ctx: click.Context, debug: bool) -> None:
    """Apache Cassandra and ScyllaDB from the command line.

    Each command connects by its own options, by the environment (TURBOCQL_URL), or by a profile:
    see "turbocql query --help". Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no session, 4
    some rows failed, 5 tables differ, 130 interrupted.
    """
    ctx.obj["debug"] = debug


def _end_cleanly() -> None:
    """Has the signals that end programs unwind this one, so that it leaves no unfinished files."""

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup has SIGHUP ignored.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    state: dict[str, Any] = {"debug": False}
    given = None if arguments is None else list(arguments)
    _end_cleanly()
    try:
        done = root.main(given, "turbocql", standalone_mode=False, obj=state)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return said(error, debug=bool(state["debug"]))
    return done if isinstance(done, int) else 0
