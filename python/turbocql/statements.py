"""Statements: text, prepared, bound, and batches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast, get_args

from ._core import Bound, Prepared, Query
from ._options import StatementOptions, pack
from .errors import ConfigError
from .policies import Consistency

__all__ = ["Batch", "BatchKind", "Bound", "Prepared", "Query", "Statement", "Values"]


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[Any]


class _Attrs(Protocol):
    __attrs_attrs__: ClassVar[Any]


class _Struct(Protocol):
    __struct_fields__: ClassVar[Any]


class _Model(Protocol):
    __pydantic_fields__: ClassVar[Any]


Values: TypeAlias = Sequence[Any] | Mapping[str, Any] | _Dataclass | _Attrs | _Struct | _Model
"""Values of bind markers: by position, or by name. The fields of an object of a dataclass, or of a
class of attrs, msgspec or pydantic, are values by name."""

Statement: TypeAlias = str | Query | Prepared | Bound
"""What `execute` takes, besides a batch."""

BatchKind: TypeAlias = Literal["logged", "unlogged", "counter"]


class Batch:
    """Statements that are sent, and with `logged` applied, as one.

    `kind` is `logged`, `unlogged` or `counter`, in any case. Options are those of
    [`execute`][turbocql.session.Session.execute], which go before these. `timestamp` is that of
    every statement that has none of its own (`USING TIMESTAMP`).

    Raises: `ConfigError` or `TypeError` for an option that cannot be.

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
        kind: BatchKind | str = "logged",
        *,
        consistency: Consistency | str | None = None,
        serial_consistency: Consistency | str | None = None,
        timeout_s: float | None = None,
        timestamp: int | None = None,
        idempotent: bool | None = None,
        tracing: bool | None = None,
        profile: str | None = None,
    ) -> None:
        known = kind.lower() if isinstance(kind, str) else kind
        if known not in get_args(BatchKind):
            raise ConfigError(f"a batch is 'logged', 'unlogged' or 'counter', got {kind!r}")
        self._kind = cast(BatchKind, known)
        options = StatementOptions(
            consistency=consistency,
            serial_consistency=serial_consistency,
            timeout_s=timeout_s,
            timestamp=timestamp,
            idempotent=idempotent,
            tracing=tracing,
            profile=profile,
        )
        # Refuses what cannot be an option now, and not when the batch is sent.
        Query("", **options)
        self._options = pack(**options)
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

        Raises: `EncodeError` for a value that its column cannot take; `TypeError` for what is no
            statement, and for values that are none, such as a single number or text; `ConfigError`
            for a statement that has a timestamp, which only `USING TIMESTAMP` can give it in a
            batch.
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
        if values is not None and not _are_values(values):
            raise TypeError(
                "values must be a list, tuple, other sequence, mapping or object with fields, got"
                f" {type(values).__name__}"
            )
        self._entries.append((statement, values))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Batch {self._kind} of {len(self)}>"


def _are_values(given: object) -> bool:
    """Whether a session would look for values in it: what it refuses in any case is none."""
    if isinstance(given, (tuple, list, Mapping)) or _has_fields(given):
        return True
    if isinstance(given, (str, bytes, bytearray, memoryview)):
        return False
    return hasattr(given, "__getitem__") and hasattr(given, "__len__")


def _has_fields(given: object) -> bool:
    """Whether it is an object of a class that says which fields it has, and no sequence."""
    names = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "__pydantic_fields__")
    return any(hasattr(type(given), name) for name in names)
