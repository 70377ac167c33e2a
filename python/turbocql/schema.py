"""The keyspaces, tables, types and functions of a cluster as plain data, and the CQL to make them.

[`Session.schema`][turbocql.session.Session.schema] reads it from the server. Everything here is
read-only and can be compared, copied and pickled. Comparing leaves out the ids of tables and the
version of the schema: what is dropped and made again is equal to what it was.

Types are CQL text as the server writes it, such as `frozen<list<int>>`; also those that the driver
knows nothing of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeVar
from uuid import UUID

from . import _schema_cql as cql

__all__ = [
    "Aggregate",
    "Function",
    "Index",
    "Keyspace",
    "Schema",
    "Table",
    "TableColumn",
    "UserType",
    "View",
]

T = TypeVar("T")


class _Plain:
    """Makes the mappings of a dataclass read-only, and undoes it for pickling and copying."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if isinstance(value, Mapping):
                object.__setattr__(self, each.name, _read_only(value))

    def __reduce__(self) -> tuple[Any, ...]:
        names = [each.name for each in dataclasses.fields(self)]  # type: ignore[arg-type]
        return _made, (type(self), {one: _plain(getattr(self, one)) for one in names})


def _made(cls: type[Any], fields: dict[str, Any]) -> Any:
    return cls(**fields)


def _read_only(value: Any) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType({key: _read_only(one) for key, one in value.items()})
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return value


def _look_up(what: str, name: str, among: Mapping[str, T], where: str = "") -> T:
    """The one of that name, or a `KeyError` that says which names are near."""
    try:
        return among[name]
    except KeyError:
        from difflib import get_close_matches

        near = get_close_matches(name, among)
        # Letter case alone is the likeliest mistake of all.
        near += [one for one in among if one.lower() == name.lower() and one not in near]
        hint = f"; near: {', '.join(near)}" if near else ""
        raise KeyError(f"no {what} {name!r}{where}{hint}") from None


@dataclass(frozen=True)
class TableColumn(_Plain):
    """A column of a table or view."""

    name: str
    cql_type: str
    """As CQL, such as `list<int>`."""
    kind: Literal["partition_key", "clustering", "static", "regular"]
    clustering_order: Literal["asc", "desc"] | None = None
    """Of a clustering column."""
    mask: str | None = None
    """The call that hides the column's values from who may not see them, as CQL."""


@dataclass(frozen=True)
class Index(_Plain):
    """A secondary index."""

    keyspace: str
    table: str
    name: str
    kind: str
    """As the server says: `COMPOSITES`, `KEYS` or `CUSTOM`."""
    target: str
    """What is indexed, as the server says: a column, or `keys(column)` and the like."""
    class_name: str | None = None
    """Who does the indexing, such as `sai`; none for the server's first kind of indexes."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Those beside target and class."""

    def as_cql(self) -> str:
        """The statement that makes it."""
        return cql.create_index(self)


@dataclass(frozen=True)
class UserType(_Plain):
    """A user-defined type."""

    keyspace: str
    name: str
    field_names: tuple[str, ...]
    field_types: tuple[str, ...]

    @property
    def fields(self) -> dict[str, str]:
        """The type of each field, in order."""
        return dict(zip(self.field_names, self.field_types, strict=True))

    def as_cql(self) -> str:
        """The statement that makes it."""
        return cql.create_type(self)


@dataclass(frozen=True)
class Function(_Plain):
    """A user-defined function."""

    keyspace: str
    name: str
    argument_names: tuple[str, ...]
    argument_types: tuple[str, ...]
    return_type: str
    language: str
    body: str
    called_on_null_input: bool
    """Or else it is null where one of its arguments is."""

    @property
    def signature(self) -> str:
        """Name and types of arguments, by which functions of one name differ: `f(int, text)`."""
        return f"{self.name}({', '.join(self.argument_types)})"

    def as_cql(self) -> str:
        """The statement that makes it."""
        return cql.create_function(self)


@dataclass(frozen=True)
class Aggregate(_Plain):
    """A user-defined aggregate."""

    keyspace: str
    name: str
    argument_types: tuple[str, ...]
    state_function: str
    state_type: str
    return_type: str
    final_function: str | None = None
    initial_condition: str | None = None
    """As CQL."""

    @property
    def signature(self) -> str:
        """Name and types of arguments, by which aggregates of one name differ: `sum(int)`."""
        return f"{self.name}({', '.join(self.argument_types)})"

    def as_cql(self) -> str:
        """The statement that makes it."""
        return cql.create_aggregate(self)


@dataclass(frozen=True, repr=False)
class _Columns(_Plain):
    """What tables and views have in common."""

    keyspace: str
    name: str
    id: UUID | None = field(compare=False)
    """None for virtual tables."""
    columns: Mapping[str, TableColumn]
    """By name: the partition key, the clustering key, static columns, and the others."""
    partition_key: tuple[TableColumn, ...]
    clustering_key: tuple[TableColumn, ...]
    options: Mapping[str, Any]
    """What follows `WITH`, as the server reports it: `comment`, `compaction`, `gc_grace_seconds`
    and so on. What the server has no value for is not there."""

    @property
    def primary_key(self) -> tuple[TableColumn, ...]:
        """Partition key and clustering key."""
        return self.partition_key + self.clustering_key

    @property
    def static_columns(self) -> tuple[TableColumn, ...]:
        """The columns with one value for each partition."""
        return tuple(column for column in self.columns.values() if column.kind == "static")

    def column(self, name: str) -> TableColumn:
        """The column of that name.

        Raises: `KeyError` that names those near, when there is none.
        """
        return _look_up("column", name, self.columns, f" in {self.keyspace}.{self.name}")

    def __repr__(self) -> str:
        where = cql.qualified(self.keyspace, self.name)
        return f"<{type(self).__name__} {where} ({', '.join(map(cql.name, self.columns))})>"


@dataclass(frozen=True, repr=False)
class Table(_Columns):
    """A table."""

    flags: frozenset[str] = frozenset()
    """As the server says, such as `counter` and `compound`."""
    compact_storage: bool = False
    """Whether it was made `WITH COMPACT STORAGE`. Columns that the server hides are left out."""
    indexes: Mapping[str, Index] = field(default_factory=dict)
    triggers: Mapping[str, str] = field(default_factory=dict)
    """The Java class of each trigger."""

    @property
    def is_counter(self) -> bool:
        """Whether its values are counters."""
        return "counter" in self.flags

    def as_cql(self) -> str:
        """The statement that makes it, without its indexes and triggers."""
        return cql.create_table(self)


@dataclass(frozen=True, repr=False)
class View(_Columns):
    """A materialized view."""

    base_table: str
    """In the same keyspace."""
    where_clause: str
    """Which rows it shows, as CQL."""
    include_all_columns: bool
    """Whether it was made with `SELECT *`."""
    index: str | None = None
    """ScyllaDB: the index of the base table that is kept in it, and makes it."""

    def as_cql(self) -> str:
        """The statement that makes it."""
        return cql.create_view(self)


@dataclass(frozen=True, repr=False)
class Keyspace(_Plain):
    """A keyspace and what is in it."""

    name: str
    replication: Mapping[str, str]
    """`class`, and what it needs to know. Empty for virtual keyspaces."""
    durable_writes: bool
    virtual: bool
    """Whether its tables are views of a node's state, kept nowhere."""
    tables: Mapping[str, Table]
    views: Mapping[str, View]
    types: Mapping[str, UserType]
    functions: Mapping[str, Function]
    """By signature, such as `f(int, text)`."""
    aggregates: Mapping[str, Aggregate]
    """By signature."""

    def table(self, name: str) -> Table:
        """The table of that name; letter case matters.

        Raises: `KeyError` that names those near, when there is none.
        """
        return _look_up("table", name, self.tables, f" in keyspace {self.name}")

    def statements(self) -> list[str]:
        """The statements that make the keyspace and all that is in it, in a working order.

        What was dropped from a table is not in them, nor are `extensions`, which servers report
        and do not take. Those of system keyspaces are for reading: no server takes them.
        """
        return cql.keyspace_statements(self)

    def as_cql(self) -> str:
        """The statements as one text, a line between them."""
        return "\n\n".join(self.statements())

    def __repr__(self) -> str:
        parts = ("tables", "views", "types", "functions", "aggregates")
        counts = [f"{len(getattr(self, part))} {part}" for part in parts if getattr(self, part)]
        return f"<Keyspace {cql.name(self.name)}: {', '.join(counts) or 'empty'}>"


@dataclass(frozen=True, repr=False)
class Schema(_Plain):
    """All keyspaces, those of the system among them, at one moment."""

    version: UUID = field(compare=False)
    """Changes with every change of the schema."""
    keyspaces: Mapping[str, Keyspace]

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace of that name; letter case matters.

        Raises: `KeyError` that names those near, when there is none.
        """
        return _look_up("keyspace", name, self.keyspaces)

    def table(self, name: str) -> Table:
        """The table of a name with its keyspace, written as in CQL: `app.docs`, `app."Docs"`.

        Raises: `KeyError` when there is none; it names those near. `ValueError` for what is no
            such name.
        """
        parts = cql.split_qualified(name)
        if parts is None:
            raise ValueError(f"expected a name like keyspace.table, got {name!r}")
        return self.keyspace(parts[0]).table(parts[1])

    def __repr__(self) -> str:
        return f"<Schema {self.version} of {', '.join(map(cql.name, self.keyspaces))}>"
