"""How commands end: exit codes, and what is said of an error."""

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

__all__ = [
    "DIFFERENT",
    "FAILED",
    "INTERRUPTED",
    "NO_CONNECTION",
    "REJECTED",
    "USAGE",
    "Ended",
    "code_of",
    "plain",
    "said",
]

FAILED = 1
"""A statement, a request or a file failed."""
USAGE = 2
"""The arguments or settings cannot be."""
NO_CONNECTION = 3
"""There is no connection: no node answers, or it refuses the user."""
REJECTED = 4
"""Everything was done, but some rows failed."""
DIFFERENT = 5
"""A table differs from the data that it was compared with."""
INTERRUPTED = 130
"""Ctrl-C."""
_PIPE = 141
"""The reader of the output has gone."""


class Ended(Exception):
    """Ends a command with an exit code and a message."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


def plain(text: str) -> str:
    """Text without what a terminal would obey: control characters are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(
        it if it.isprintable() else it.encode("unicode_escape").decode("ascii") for it in text
    )


def code_of(error: BaseException) -> int:
    """The exit code for an error."""
    if isinstance(error, Ended):
        return error.code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return _PIPE
    if isinstance(error, (click.UsageError, ConfigError)):
        return USAGE
    if isinstance(error, (ConnectError, AuthenticationError)):
        return NO_CONNECTION
    return FAILED


def said(error: BaseException, *, debug: bool) -> int:
    """Says of an error what helps, on standard error, and returns the exit code."""
    code = code_of(error)
    if isinstance(error, BrokenPipeError):
        # Python would complain again when it flushes standard output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    if debug:
        traceback.print_exception(error)
    if isinstance(error, click.UsageError):
        error.show()
        return code
    if code == INTERRUPTED:
        print(str(error) or "interrupted", file=sys.stderr)
        return code
    text = str(error) or type(error).__name__
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.strerror}: {error.filename}"
    elif not isinstance(error, (Ended, OSError, Error)):
        text = f"{type(error).__name__}: {text}"
    if isinstance(error, AuthenticationError):
        text += ". The user is that of --user, of the profile, or of the environment"
    if isinstance(error, BulkError) and error.__cause__ is not None:
        # It quotes its cause already.
        error.__cause__ = None
    print(_paragraph(text), file=sys.stderr)
    return code


def _paragraph(text: str) -> str:
    width = max(40, min(100, shutil.get_terminal_size().columns))
    lines = [plain(line) for line in text.split("\n") if line.strip()]
    filled = textwrap.fill(
        f"error: {' '.join(lines)}",
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled
