"""The checkpoint of a load: a file that records which rows of the input were acknowledged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._files.atomic import replace_file
from ..errors import ConfigError

__all__ = ["Checkpoint", "merged_ranges", "ranges_without"]

_KIND = "turbocql checkpoint of a load"
_VERSION = 1

Ranges = list[tuple[int, int]]
"""Ranges of rows, in order. A range is a pair: the number of its first row, and the number of the
row after its last row. Between two ranges, there is at least one row that is in neither of them."""


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Returns the rows of `ranges` in as few ranges as possible, in order."""
    merged: Ranges = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif first < end:
            merged.append((first, end))
    return merged


def ranges_without(
    first: int, end: int, excluded: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yields the parts of a range of rows that are not in `excluded`, a list of ranges in order."""
    for excluded_begin, excluded_end in excluded:
        if excluded_end <= first:
            continue
        if excluded_begin >= end:
            break
        if excluded_begin > first:
            yield first, excluded_begin
        first = excluded_end
    if first < end:
        yield first, end


class Checkpoint:
    """The checkpoint file of a load."""

    def __init__(self, path: str | os.PathLike[str], description: Mapping[str, Any]) -> None:
        """`description` identifies the load. A checkpoint with another description is refused."""
        self.path = Path(path)
        # Converting the description to JSON and back makes it equal to the description in the file.
        self._load_identity: dict[str, Any] = json.loads(json.dumps(description))
        self._written: Ranges | None = None

    def read(self) -> Ranges:
        """The rows that were acknowledged.

        Raises: `ConfigError` for a damaged file, or for the checkpoint of another load; `OSError`
            when the file cannot be read.
        """
        try:
            body = json.loads(self.path.read_bytes())
            check = body.pop("check")
            is_intact = body["kind"] == _KIND and check == _checksum(body)
        except (ValueError, KeyError, TypeError, AttributeError):
            is_intact = False
        if not is_intact:
            raise ConfigError(f"{self.path} is damaged, or no checkpoint of a load")
        if body["version"] != _VERSION:
            raise ConfigError(f"{self.path} is of another version of turbocql")
        for name, value in self._load_identity.items():
            stored_value = body["load"].get(name)
            if stored_value != value:
                raise ConfigError(
                    f"{self.path} is of another load: its {name} is {_shortened(stored_value)}, not"
                    f" {_shortened(value)}"
                )
        return merged_ranges((first, end) for first, end in body["acknowledged"])

    def write(self, acknowledged: Ranges, *, complete: bool = False) -> None:
        """Replaces the file, if the acknowledged rows have changed or the load is `complete`.

        Raises: `OSError`, with the path, when the file cannot be written. The file is then
            unchanged.
        """
        if acknowledged == self._written and not complete:
            return
        body = {
            "kind": _KIND,
            "version": _VERSION,
            "load": self._load_identity,
            "acknowledged": acknowledged,
            "complete": complete,
        }
        text = json.dumps({**body, "check": _checksum(body)}, indent=1)
        replace_file(self.path, text.encode())
        self._written = acknowledged


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _shortened(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
