"""The parts into which `splits` cuts a table."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Split"]


@dataclass(frozen=True)
class Split:
    """A part of a table, to be read by `scan(split=...)` in any process. It can be pickled."""

    keyspace: str
    table: str
    ranges: tuple[tuple[int, int], ...]
    """Token ranges. Each is a pair of the token before the range and the last token of the
    range."""
    size_bytes: int | None
    """The size of the part on disk, as the nodes estimate it; `None` without estimates."""
    replicas: tuple[str, ...]
    """The nodes that store most of the part, as `address:port`. A reader near one of them is fast.
    """
