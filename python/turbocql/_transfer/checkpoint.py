"""Which rows of the input were acknowledged: the file that a load goes on from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._files.atomic import replace_file
from ..errors import ConfigError

__all__ = ["Checkpoint", "joined", "left_of"]

_KIND = "turbocql checkpoint of a load"
_VERSION = 1

Ranges = list[tuple[int, int]]
"""Rows by number: the first, and the one after the last. In order, and apart from each other."""


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same rows in as few ranges as can be."""
    made: Ranges = []
    for first, end in sorted(ranges):
        if made and first <= made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        elif first < end:
            made.append((first, end))
    return made


def left_of(first: int, end: int, done: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of a range of rows that are not in `done`, which is in order."""
    for begin, after in done:
        if after <= first:
            continue
        if begin >= end:
            break
        if begin > first:
            yield first, begin
        first = after
    if first < end:
        yield first, end


class Checkpoint:
    """The file of a load, and what it says."""

    def __init__(self, path: str | os.PathLike[str], load: Mapping[str, Any]) -> None:
        """`load` says which load it is of: what differs in it belongs to another load."""
        self.path = Path(path)
        # As it is read back.
        self._load: dict[str, Any] = json.loads(json.dumps(load))
        self._written: Ranges | None = None

    def read(self) -> Ranges:
        """The rows that were acknowledged.

        Raises: `ConfigError` for a damaged file, and for one of another load; `OSError` when it
            cannot be read.
        """
        try:
            body = json.loads(self.path.read_bytes())
            check = body.pop("check")
            whole = body["kind"] == _KIND and check == _check(body)
        except (ValueError, KeyError, TypeError, AttributeError):
            whole = False
        if not whole:
            raise ConfigError(f"{self.path} is damaged, or no checkpoint of a load")
        if body["version"] != _VERSION:
            raise ConfigError(f"{self.path} is of another version of turbocql")
        for name, value in self._load.items():
            other = body["load"].get(name)
            if other != value:
                raise ConfigError(
                    f"{self.path} is of another load: its {name} is {_short(other)}, not"
                    f" {_short(value)}"
                )
        return joined((first, end) for first, end in body["acknowledged"])

    def write(self, acknowledged: Ranges, *, complete: bool = False) -> None:
        """Replaces the file, unless it says the same already.

        Raises: `OSError`, with the path, when it cannot be written. The file is as it was then.
        """
        if acknowledged == self._written and not complete:
            return
        body = {
            "kind": _KIND,
            "version": _VERSION,
            "load": self._load,
            "acknowledged": acknowledged,
            "complete": complete,
        }
        text = json.dumps({**body, "check": _check(body)}, indent=1)
        replace_file(self.path, text.encode())
        self._written = acknowledged


def _check(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
