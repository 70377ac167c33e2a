"""Statements: text, prepared statements, bound statements, and batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, cast, get_args

from ._checks import advise, did_you_mean
from ._core import Bound, Prepared, Query, check_batch_options
from ._options import MEANINGS, BatchOptions, spelled_out
from .errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Unpack

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
"""The values of bind markers, by position or by name. Fields of an object are values by name when
its class is a dataclass, or a class of attrs, msgspec or pydantic."""

Statement: TypeAlias = str | Query | Prepared | Bound
"""A statement that `execute` takes. `execute` also takes a `Batch`."""

BatchKind: TypeAlias = Literal["logged", "unlogged", "counter"]


class Batch:
    """Statements that are sent as one request and, with `logged`, applied as a unit.

    `kind` is `logged`, `unlogged` or `counter`, in any letter case. The options are those of
    [`execute`][turbocql.session.Session.execute]; an option passed to `execute` wins over the same
    option of the batch. `timestamp` applies to every statement without a timestamp of its own
    (`USING TIMESTAMP`).

    Raises: `ConfigError` or `TypeError` for an invalid option.

    Example:
        >>> batch = Batch("unlogged")
        >>> batch.add("INSERT INTO t (k, v) VALUES (?, ?)", (1, "a"))
        >>> batch.add("DELETE FROM t WHERE k = 2")
        >>> len(batch)
        2
    """

    __slots__ = ("_entries", "_kind", "_options")

    @spelled_out(BatchOptions.__annotations__, MEANINGS["execute"], {})
    def __init__(
        self,
        kind: BatchKind | Literal["LOGGED", "UNLOGGED", "COUNTER"] = "logged",
        **options: Unpack[BatchOptions],
    ) -> None:
        batch_kind = kind.lower() if isinstance(kind, str) else kind
        if batch_kind not in get_args(BatchKind):
            # The message shows only a str: another object may be a statement with values, passed by
            # mistake.
            got = repr(kind) if isinstance(kind, str) else type(kind).__name__
            hint = did_you_mean(kind, get_args(BatchKind), repr)
            if not isinstance(kind, str):
                hint = ": add statements with Batch.add"
            raise ConfigError(f"a batch is 'logged', 'unlogged' or 'counter', got {got}{hint}")
        self._kind = cast(BatchKind, batch_kind)
        # The options are checked now, and not only when the batch is sent.
        check_batch_options(options)
        self._options = options
        self._entries: list[tuple[Statement, Values | None]] = []

    @property
    def kind(self) -> BatchKind:
        """`logged`, `unlogged` or `counter`."""
        return self._kind

    def add(self, statement: Statement, values: Values | None = None) -> None:
        """Adds a statement and its values.

        Values of a prepared statement are encoded now. Values of a text are encoded when the batch
        is sent, because the text is prepared then. The statement's own options are ignored, and the
        options of the batch apply.

        Raises: `EncodeError` for a value that its column cannot take; `TypeError` for an object
            that is not a statement, or for values that are not accepted, such as a single number or
            text; `ConfigError` for a statement with the option `timestamp`: in a batch, only
            `USING TIMESTAMP` sets the timestamp of one statement.
        """
        if isinstance(statement, (Query, Prepared, Bound)) and statement._timestamp is not None:
            raise ConfigError(
                "a statement in a batch cannot have the option timestamp: pass it to the Batch, or"
                " write USING TIMESTAMP"
            )
        if isinstance(statement, Query):
            # A statement in a batch has no options of its own: the batch's options apply.
            statement = statement.text
        if isinstance(statement, Prepared):
            self._entries.append((statement.bind(values), None))
            return
        if not isinstance(statement, (str, Bound)):
            is_awaitable = hasattr(type(statement), "__await__")
            got = "a coroutine: await it first" if is_awaitable else type(statement).__name__
            raise TypeError(f"a batch holds str, Query, Prepared and Bound, got {got}")
        if isinstance(statement, Bound) and values is not None:
            raise TypeError("a bound statement has its values already")
        if values is not None and not _are_values(values):
            is_single = not isinstance(values, Iterable) or isinstance(values, (str, bytes))
            hint = ": a single value is passed as (value,)" if is_single else ""
            raise TypeError(
                "values must be a list, tuple, other sequence, mapping or object with fields, got"
                f" {type(values).__name__}{hint}"
            )
        self._entries.append((statement, values))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Batch {self._kind} of {len(self)}>"


_NO_OPTIONS = {
    "consistency_level": "pass consistency= to execute{}",
    "fetch_size": "pass page_size= to execute{}",
    "is_idempotent": "pass idempotent=True to execute{}",
    "retry_policy": "pass retry= to connect",
    "serial_consistency_level": "pass serial_consistency= to execute{}",
}
"""Advice for the options that statements of other drivers have as attributes."""


def _advise_statement(cls: type[Any], where: str, advice_by_name: Mapping[str, str]) -> None:
    """Adds advice for attributes that objects of `cls` do not have.

    The advice for an option is to pass it to `execute`. At the end of this advice, `where` names
    the second place that takes the option, such as `, or to prepared.with_options`.
    """
    options = {name: advice.format(where) for name, advice in _NO_OPTIONS.items()}
    advise(cls, {**options, **advice_by_name})


_advise_statement(
    Prepared,
    ", or to prepared.with_options",
    {
        "column_metadata": "use prepared.markers",
        "execute": "use session.execute(prepared, values)",
        "query_string": "use prepared.text",
        "result_metadata": "use prepared.result_columns",
    },
)
_advise_statement(
    Bound,
    ", or to bound.with_options",
    {
        "bind": "use bound.prepared.bind(values), which returns another Bound",
        "execute": "use session.execute(bound)",
        "prepared_statement": "use bound.prepared",
        "values": "use bound.cells",
    },
)
_advise_statement(
    Query,
    ", or to turbocql.Query",
    {
        "bind": "use session.execute(query, values)",
        "execute": "use session.execute(query, values)",
        "query_string": "use query.text",
    },
)
_advise_statement(
    Batch,
    ", or to turbocql.Batch",
    {
        "add_all": "call batch.add(statement, values) for each statement",
        "append": "use batch.add(statement, values)",
        "batch_type": "use batch.kind",
        "clear": "make a new turbocql.Batch",
        "execute": "use session.execute(batch)",
    },
)


def _are_values(values: object) -> bool:
    """Returns `False` for an object that a session always refuses as the values of a statement."""
    if isinstance(values, (tuple, list, Mapping)) or _has_fields(values):
        return True
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        return False
    return hasattr(values, "__getitem__") and hasattr(values, "__len__")


def _has_fields(instance: object) -> bool:
    """Whether an object is an instance of a dataclass, or of a class of attrs, msgspec or pydantic.

    It is false for a named tuple, which is a sequence.
    """
    names = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "__pydantic_fields__")
    return any(hasattr(type(instance), name) for name in names)
