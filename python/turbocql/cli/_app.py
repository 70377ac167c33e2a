"""Runs the commands, and turns their errors into messages and exit statuses."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from .. import __version__
from .._checks import with_nearest
from ._ends import OutputClosed, report_error

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
    "testing": "_programs",
    "accel": "_programs",
    "completion": "_programs",
}
"""The module of each command. The module has an attribute with the command's name."""


class _Commands(click.Group):
    """Imports the module of a command when the command is looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(
            importlib.import_module(f"{__package__}.{module}"), cmd_name
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name == "help":
            raise click.UsageError("help is an option: turbocql --help, turbocql load --help")
        if name not in _COMMANDS and not name.startswith("-"):
            raise click.UsageError(
                with_nearest(f"no command {name!r}", name, _COMMANDS, "there are")
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # click itself would end the process with exit status 1.
            raise OutputClosed from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
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
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        ctx.exit(2)


@contextmanager
def _unwinding_on_signals() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into `SystemExit`, so that unfinished files are removed.

    Python sets handlers only in the main thread. Another thread leaves the signals as they are.
    """

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    numbers = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # A signal that the parent process ignores, as nohup ignores SIGHUP, stays ignored.
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, end)
                numbers.append(number)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    state: dict[str, Any] = {"debug": False}
    argument_list = None if arguments is None else list(arguments)
    try:
        with _unwinding_on_signals():
            exit_status = root.main(argument_list, "turbocql", standalone_mode=False, obj=state)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return report_error(error, debug=bool(state["debug"]), options=state.get("options"))
    return exit_status if isinstance(exit_status, int) else 0
