"""Statements: text, prepared, bound, and batches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ._core import Bound, Prepared
from .errors import ConfigError

__all__ = ["Batch", "BatchKind", "Bound", "Prepared", "Statement", "Values"]

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Values of bind markers: by position, or by name."""

Statement: TypeAlias = str | Prepared | Bound
"""What `execute` takes, besides a batch."""

BatchKind: TypeAlias = Literal["logged", "unlogged", "counter"]


class Batch:
    """Statements that are sent, and with `logged` applied, as one.

    Example:
        >>> batch = Batch("unlogged")
        >>> batch.add("INSERT INTO t (k, v) VALUES (?, ?)", (1, "a"))
        >>> batch.add("DELETE FROM t WHERE k = 2")
        >>> len(batch)
        2
    """

    __slots__ = ("_entries", "_kind")

    def __init__(self, kind: BatchKind = "logged") -> None:
        if kind not in ("logged", "unlogged", "counter"):
            raise ConfigError(f"a batch is 'logged', 'unlogged' or 'counter', got {kind!r}")
        self._kind: BatchKind = kind
        self._entries: list[tuple[Statement, Values | None]] = []

    @property
    def kind(self) -> BatchKind:
        """`logged`, `unlogged` or `counter`."""
        return self._kind

    def add(self, statement: Statement, values: Values | None = None) -> None:
        """Adds a statement and its values.

        Values of a prepared statement are encoded now; those of a text when the batch is sent,
        for which the text is prepared.

        Raises: `EncodeError` for a value that its column cannot take.
        """
        if isinstance(statement, Prepared):
            self._entries.append((statement.bind(values), None))
            return
        if not isinstance(statement, (str, Bound)):
            raise TypeError(
                f"a batch holds str, Prepared and Bound, got {type(statement).__name__}"
            )
        if isinstance(statement, Bound) and values is not None:
            raise TypeError("a bound statement has its values already")
        self._entries.append((statement, values))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Batch {self._kind} of {len(self)}>"
