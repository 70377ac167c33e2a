"""Writes files completely or not at all."""

from __future__ import annotations

import atexit
import os
import secrets
from contextlib import suppress
from pathlib import Path

__all__ = ["drop_temporary", "forget_temporary", "replace_file", "sync_directory", "temporary_path"]

_writers_by_path: dict[Path, int] = {}
"""Maps each temporary file that may exist to the id of the process that writes it."""


def temporary_path(final_path: Path) -> Path:
    """Returns a path beside `final_path`, for the content of the file until it is complete.

    When the process ends, the file at this path is removed, unless `forget_temporary` or
    `drop_temporary` was called. The caller alone cannot be sure to remove the file, because a
    signal may raise an exception before the caller's `try` block begins.
    """
    path = final_path.with_name(f".{final_path.name}.{secrets.token_hex(6)}.part")
    _writers_by_path[path] = os.getpid()
    return path


def forget_temporary(path: Path) -> None:
    """Records that a temporary file no longer exists: it was renamed or removed."""
    _writers_by_path.pop(path, None)


def drop_temporary(path: Path) -> None:
    """Removes the file at a temporary path, if there is one.

    Raises: `OSError` when the file cannot be removed.
    """
    path.unlink(missing_ok=True)
    forget_temporary(path)


def _drop_own_files() -> None:
    for path, process in list(_writers_by_path.items()):
        # A forked process must not remove the files of its parent.
        if process == os.getpid():
            with suppress(OSError):
                drop_temporary(path)


atexit.register(_drop_own_files)


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file completely or not at all.

    Raises: `OSError`, with the path, when the file cannot be written.
    """
    temporary_file = temporary_path(path)
    try:
        with temporary_file.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary_file.replace(path)
        forget_temporary(temporary_file)
    except OSError as error:
        drop_temporary(temporary_file)
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Waits until the names of new files in a directory are on the disk. Does nothing if the system
    refuses to open the directory.
    """
    # Windows refuses to open directories.
    with suppress(PermissionError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
