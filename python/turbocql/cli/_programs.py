"""`turbocql testing`, `accel` and `completion`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

__all__ = ["accel", "completion", "testing"]


@click.command()
@click.option("--nodes", type=click.IntRange(1, 3), default=1, help="By default 1.")
@click.option("--tls", is_flag=True, help="Encrypt connections of clients.")
@click.option("--auth", is_flag=True, help="Require a user and a password.")
@click.option("--heap-mb", type=click.IntRange(128), help="The heap of each node, in MiB.")
@click.option("--keep-logs", is_flag=True, help="Do not remove the logs.")
def testing(nodes: int, tls: bool, auth: bool, heap_mb: int | None, keep_logs: bool) -> None:
    """Start Apache Cassandra on this machine, until Ctrl-C. It needs Java 17 and Maven."""
    arguments = ["--nodes", str(nodes)]
    flags = {"--tls": tls, "--auth": auth, "--keep-logs": keep_logs}
    arguments += [flag for flag, is_set in flags.items() if is_set]
    arguments += [] if heap_mb is None else ["--heap-mb", str(heap_mb)]
    _replace_process("turbocql.testing", arguments)


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def accel(arguments: tuple[str, ...]) -> None:
    """Run a program of cassandra-driver accelerated: [--status] PROGRAM ARGS."""
    _replace_process("turbocql.accel", arguments)


def _replace_process(module: str, arguments: Sequence[str]) -> None:
    """Replaces this process with one that runs a module, so that the module itself gets signals."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands and options.

    \b
    bash: eval "$(turbocql completion bash)"        in ~/.bashrc
    zsh:  eval "$(turbocql completion zsh)"         in ~/.zshrc
    fish: turbocql completion fish | source         in ~/.config/fish/config.fish
    """  # noqa: D301
    from click.shell_completion import get_completion_class

    script_class: Any = get_completion_class(shell)
    script_source = script_class(ctx.find_root().command, {}, "turbocql", "_TURBOCQL_COMPLETE")
    click.echo(script_source.source())
