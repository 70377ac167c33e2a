"""Statements: text, prepared, bound, and batches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ._core import Bound, Prepared, Query
from ._options import pack
from .errors import ConfigError
from .policies import Consistency

__all__ = ["Batch", "BatchKind", "Bound", "Prepared", "Query", "Statement", "Values"]

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Values of bind markers: by position, or by name."""

Statement: TypeAlias = str | Query | Prepared | Bound
"""What `execute` takes, besides a batch."""

BatchKind: TypeAlias = Literal["logged", "unlogged", "counter"]


class Batch:
    """Statements that are sent, and with `logged` applied, as one.

    Options are those of [`execute`][turbocql.session.Session.execute], which go before these.
    `timestamp` is that of every statement that has none of its own (`USING TIMESTAMP`).

    Example:
        >>> batch = Batch("unlogged")
        >>> batch.add("INSERT INTO t (k, v) VALUES (?, ?)", (1, "a"))
        >>> batch.add("DELETE FROM t WHERE k = 2")
        >>> len(batch)
        2
    """

    __slots__ = ("_entries", "_kind", "_options")

    def __init__(
        self,
        kind: BatchKind = "logged",
        *,
        consistency: Consistency | str | None = None,
        serial_consistency: Consistency | str | None = None,
        timeout_s: float | None = None,
        timestamp: int | None = None,
        idempotent: bool | None = None,
        tracing: bool | None = None,
        profile: str | None = None,
    ) -> None:
        if kind not in ("logged", "unlogged", "counter"):
            raise ConfigError(f"a batch is 'logged', 'unlogged' or 'counter', got {kind!r}")
        self._kind: BatchKind = kind
        self._options = pack(
            consistency=consistency,
            serial_consistency=serial_consistency,
            timeout_s=timeout_s,
            timestamp=timestamp,
            idempotent=idempotent,
            tracing=tracing,
            profile=profile,
        )
        self._entries: list[tuple[Statement, Values | None]] = []

    @property
    def kind(self) -> BatchKind:
        """`logged`, `unlogged` or `counter`."""
        return self._kind

    def add(self, statement: Statement, values: Values | None = None) -> None:
        """Adds a statement and its values.

        Values of a prepared statement are encoded now; those of a text when the batch is sent,
        for which the text is prepared. Options are the batch's: what the statement is executed
        with alone does not count here.

        Raises: `EncodeError` for a value that its column cannot take; `ConfigError` for a
            statement that has a timestamp, which only `USING TIMESTAMP` can give it in a batch.
        """
        if isinstance(statement, (Query, Prepared, Bound)) and statement._timestamp is not None:
            raise ConfigError(
                "a statement in a batch cannot have the option timestamp: give it to the Batch, or"
                " write USING TIMESTAMP"
            )
        if isinstance(statement, Query):
            # Options are the batch's: a statement within one has none of its own.
            statement = statement.text
        if isinstance(statement, Prepared):
            self._entries.append((statement.bind(values), None))
            return
        if not isinstance(statement, (str, Bound)):
            raise TypeError(
                f"a batch holds str, Query, Prepared and Bound, got {type(statement).__name__}"
            )
        if isinstance(statement, Bound) and values is not None:
            raise TypeError("a bound statement has its values already")
        self._entries.append((statement, values))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Batch {self._kind} of {len(self)}>"
