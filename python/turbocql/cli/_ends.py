"""Defines the exit codes of commands, and prints messages for errors."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import traceback

import click

from ..errors import (
    AuthenticationError,
    BulkError,
    ConfigError,
    ConnectError,
    Error,
)
from ._arguments import Options, with_options

__all__ = [
    "DIFFERENT",
    "FAILED",
    "INTERRUPTED",
    "NO_CONNECTION",
    "REJECTED",
    "USAGE",
    "CommandExit",
    "OutputClosed",
    "code_of",
    "counted",
    "escaped",
    "escaped_lines",
    "folded",
    "report_error",
]

FAILED = 1
"""A statement, a request or a file failed."""
USAGE = 2
"""The arguments or settings are invalid."""
NO_CONNECTION = 3
"""There is no connection: no node answers, or the server refuses the user."""
REJECTED = 4
"""Everything was done, but some rows failed."""
DIFFERENT = 5
"""A table differs from the data that it was compared with."""
INTERRUPTED = 130
"""The user pressed Ctrl-C."""
_PIPE = 141
"""The reader of the output has closed its end."""


class OutputClosed(Exception):
    """The reader of the output has closed its end."""


class CommandExit(Exception):
    """Ends a command with an exit code and a message."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


def escaped(text: str) -> str:
    """Text with its control characters escaped, so that a terminal does not obey them."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def escaped_lines(text: str) -> str:
    """Lines of text with their control characters escaped."""
    return "\n".join(escaped(line) for line in text.split("\n"))


def counted(count: int, noun: str) -> str:
    """A number and its noun, such as `1 row` or `1,000 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def code_of(error: BaseException) -> int:
    """The exit code for an error."""
    if isinstance(error, CommandExit):
        return error.code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    if isinstance(error, (BrokenPipeError, OutputClosed)):
        return _PIPE
    if isinstance(error, (click.UsageError, ConfigError)):
        return USAGE
    if isinstance(error, (ConnectError, AuthenticationError)):
        return NO_CONNECTION
    return FAILED


def report_error(error: BaseException, *, debug: bool, options: Options | None = None) -> int:
    """Prints the message for an error on standard error and returns the exit code.

    `options` are the options of the command that failed. By default, they are the options of the
    running command.
    """
    code = code_of(error)
    if code == _PIPE:
        # Python flushes standard output when it exits, and would then report the error again. So
        # standard output is redirected to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    if debug:
        traceback.print_exception(error)
    if code == INTERRUPTED:
        print(str(error) or "interrupted", file=sys.stderr)
        return code
    text = str(error) or type(error).__name__
    if isinstance(error, click.ClickException):
        text = error.format_message()
        if isinstance(error, click.UsageError) and error.ctx is not None:
            text = f"{text.rstrip('.')}. See {error.ctx.command_path} --help"
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    elif not isinstance(error, (CommandExit, OSError, Error)):
        text = f"{type(error).__name__}: {text}"
    if isinstance(error, AuthenticationError):
        text += ". The user is that of --user, of the profile, or of the environment"
    failures = error.report.failures if isinstance(error, BulkError) else []
    if failures and str(failures[0].error) not in text:
        text += f"; the first, row {failures[0].row}: {failures[0].error}"
    if isinstance(error, Error):
        text = with_options(text, options)
    if isinstance(error, BulkError) and error.__cause__ is not None:
        # The text of the error contains the cause already.
        error.__cause__ = None
    print(_paragraph(text), file=sys.stderr)
    return code


def folded(text: str) -> str:
    """A paragraph in lines of the terminal's width; one line if the output is no terminal."""
    if not sys.stdout.isatty():
        return text
    width = max(40, min(100, shutil.get_terminal_size().columns))
    return textwrap.fill(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _paragraph(text: str) -> str:
    lines = [escaped(line) for line in text.split("\n") if line.strip()]
    paragraph = f"error: {' '.join(lines)}"
    if not sys.stderr.isatty():
        return paragraph  # one line of a log
    filled = textwrap.fill(
        paragraph,
        max(40, min(100, shutil.get_terminal_size().columns)),
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled
