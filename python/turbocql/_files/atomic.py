"""Files that are written as a whole or not at all."""

from __future__ import annotations

import atexit
import os
import secrets
from contextlib import suppress
from pathlib import Path

__all__ = ["drop_temporary", "forget_temporary", "replace_file", "sync_directory", "temporary_path"]

_temporary: dict[Path, int] = {}
"""Temporary files that may exist, and the process that writes each."""


def temporary_path(final: Path) -> Path:
    """A path in the directory of a file, for its content until it is whole.

    A signal may raise an exception anywhere, also where nothing can catch it yet. So the file at
    this path is removed when the process ends, unless one of the two functions below was called.
    """
    path = final.with_name(f".{final.name}.{secrets.token_hex(6)}.part")
    _temporary[path] = os.getpid()
    return path


def forget_temporary(path: Path) -> None:
    """Says that there is no file at a temporary path any more."""
    _temporary.pop(path, None)


def drop_temporary(path: Path) -> None:
    """Removes the file at a temporary path, if there is one.

    Raises: `OSError` when it cannot be removed.
    """
    path.unlink(missing_ok=True)
    forget_temporary(path)


def _drop_all() -> None:
    for path, process in list(_temporary.items()):
        # A forked process leaves the files of its parent alone.
        if process == os.getpid():
            with suppress(OSError):
                drop_temporary(path)


atexit.register(_drop_all)


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file as a whole or not at all.

    Raises: `OSError`, with the path, when it cannot be written.
    """
    beside = temporary_path(path)
    try:
        with beside.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
        forget_temporary(beside)
    except OSError as error:
        drop_temporary(beside)
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes new names in a directory last, where the system can."""
    # Directories cannot be opened on Windows.
    with suppress(PermissionError):
        opened = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
