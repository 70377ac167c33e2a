"""The keyspaces, tables, types and functions of a cluster as plain data, and as CQL statements.

[`Session.schema`][turbocql.session.Session.schema] reads the schema from the server. All objects
are read-only and can be compared, copied and pickled. Comparisons ignore the ids of tables and
the version of the schema. So a table that is dropped and created again is equal to the old one.

Types are CQL text as the server writes it, such as `frozen<list<int>>`. This includes types that
the driver does not know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeVar
from uuid import UUID

from ._checks import advise
from ._cql import create as cql
from ._cql.names import qualified, quoted, split_qualified

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
    """Makes the mappings of a dataclass read-only. Pickles and copies are made from plain `dict`s,
    because a `MappingProxyType` cannot be pickled.
    """

    def __post_init__(self) -> None:
        for dataclass_field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, dataclass_field.name)
            if isinstance(value, Mapping):
                object.__setattr__(self, dataclass_field.name, _read_only(value))

    def __reduce__(self) -> tuple[Any, ...]:
        names = [dataclass_field.name for dataclass_field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return _from_fields, (type(self), {name: _plain(getattr(self, name)) for name in names})


def _from_fields(cls: type[Any], fields: dict[str, Any]) -> Any:
    return cls(**fields)


def _read_only(value: Any) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType(
            {key: _read_only(mapping_value) for key, mapping_value in value.items()}
        )
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(mapping_value) for key, mapping_value in value.items()}
    return value


def _look_up(noun: str, name: str, items_by_name: Mapping[str, T], location: str = "") -> T:
    """Returns the item with that name, or raises a `KeyError` that lists similar names."""
    try:
        return items_by_name[name]
    except KeyError:
        from difflib import get_close_matches

        similar_names = get_close_matches(name, items_by_name)
        # Wrong letter case is the most likely mistake, so such names are always listed.
        similar_names += [
            similar_name
            for similar_name in items_by_name
            if similar_name.lower() == name.lower() and similar_name not in similar_names
        ]
        hint = f"; near: {', '.join(similar_names)}" if similar_names else ""
        raise KeyError(f"no {noun} {name!r}{location}{hint}") from None


@dataclass(frozen=True)
class TableColumn(_Plain):
    """A column of a table or view."""

    name: str
    cql_type: str
    """The type as CQL, such as `list<int>`."""
    kind: Literal["partition_key", "clustering", "static", "regular"]
    clustering_order: Literal["asc", "desc"] | None = None
    """The order of a clustering column; `None` for other columns."""
    mask: str | None = None
    """The masking function call, as CQL, that hides the values from users who may not see them."""


@dataclass(frozen=True)
class Index(_Plain):
    """A secondary index."""

    keyspace: str
    table: str
    name: str
    kind: str
    """The kind as the server reports it: `COMPOSITES`, `KEYS` or `CUSTOM`."""
    target: str
    """The indexed target as the server reports it: a column, `keys(column)` and similar."""
    class_name: str | None = None
    """The index implementation, such as `sai`; `None` for the server's built-in kind of index."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The options, except the target and the class name."""

    def as_cql(self) -> str:
        """The `CREATE` statement."""
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
        """The type of each field by name, in the order of the fields."""
        return dict(zip(self.field_names, self.field_types, strict=True))

    def as_cql(self) -> str:
        """The `CREATE` statement."""
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
    """Whether the function is called with null arguments. If not, it returns null when an argument
    is null.
    """

    @property
    def signature(self) -> str:
        """The name and argument types, which distinguish functions of one name: `f(int, text)`."""
        return f"{self.name}({', '.join(self.argument_types)})"

    def as_cql(self) -> str:
        """The `CREATE` statement."""
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
    """The initial state, as CQL."""

    @property
    def signature(self) -> str:
        """The name and argument types, which distinguish aggregates of one name: `sum(int)`."""
        return f"{self.name}({', '.join(self.argument_types)})"

    def as_cql(self) -> str:
        """The `CREATE` statement."""
        return cql.create_aggregate(self)


@dataclass(frozen=True, repr=False)
class _Columns(_Plain):
    """The attributes that tables and views share."""

    keyspace: str
    name: str
    id: UUID | None = field(compare=False)
    """The server's id; `None` for virtual tables."""
    columns: Mapping[str, TableColumn]
    """The columns by name: partition key, clustering key, static columns, then all others."""
    partition_key: tuple[TableColumn, ...]
    clustering_key: tuple[TableColumn, ...]
    options: Mapping[str, Any]
    """The options after `WITH`, as the server reports them: `comment`, `compaction`,
    `gc_grace_seconds` and so on. Options for which the server reports no value are left out."""

    @property
    def primary_key(self) -> tuple[TableColumn, ...]:
        """The columns of the partition key, then the columns of the clustering key."""
        return self.partition_key + self.clustering_key

    @property
    def static_columns(self) -> tuple[TableColumn, ...]:
        """The static columns, which have one value per partition."""
        return tuple(column for column in self.columns.values() if column.kind == "static")

    def column(self, name: str) -> TableColumn:
        """The column with that name. Letter case matters.

        Raises: `KeyError`, with a list of similar names, when there is no such column.
        """
        return _look_up("column", name, self.columns, f" in {self.keyspace}.{self.name}")

    def __repr__(self) -> str:
        qualified_name = qualified(self.keyspace, self.name)
        return f"<{type(self).__name__} {qualified_name} ({', '.join(map(quoted, self.columns))})>"


@dataclass(frozen=True, repr=False)
class Table(_Columns):
    """A table."""

    flags: frozenset[str] = frozenset()
    """The table's flags as the server reports them, such as `counter` and `compound`."""
    compact_storage: bool = False
    """Whether the table was created `WITH COMPACT STORAGE`. If so, `columns` leaves out the
    columns that statements cannot name."""
    indexes: Mapping[str, Index] = field(default_factory=dict)
    triggers: Mapping[str, str] = field(default_factory=dict)
    """The Java class of each trigger, by the trigger's name."""

    @property
    def is_counter(self) -> bool:
        """Whether it is a counter table."""
        return "counter" in self.flags

    def as_cql(self) -> str:
        """The `CREATE TABLE` statement, without indexes and triggers."""
        return cql.create_table(self)


@dataclass(frozen=True, repr=False)
class View(_Columns):
    """A materialized view."""

    base_table: str
    """The name of the base table, which is in the same keyspace."""
    where_clause: str
    """The condition that selects the rows of the view, as CQL."""
    include_all_columns: bool
    """Whether the view was created with `SELECT *`."""
    index: str | None = None
    """On ScyllaDB, a view may store an index of its base table. `index` is the name of this index.
    Creating the index creates the view."""

    def as_cql(self) -> str:
        """The `CREATE` statement."""
        return cql.create_view(self)


@dataclass(frozen=True, repr=False)
class Keyspace(_Plain):
    """A keyspace and its contents."""

    name: str
    replication: Mapping[str, str]
    """The replication `class` and its options. It is empty for virtual keyspaces."""
    durable_writes: bool
    virtual: bool
    """Whether the tables of the keyspace are virtual: they show a node's state, and are not
    stored."""
    tables: Mapping[str, Table]
    views: Mapping[str, View]
    types: Mapping[str, UserType]
    functions: Mapping[str, Function]
    """The functions by signature, such as `f(int, text)`."""
    aggregates: Mapping[str, Aggregate]
    """The aggregates by signature."""

    def table(self, name: str) -> Table:
        """The table with that name. Letter case matters.

        Raises: `KeyError`, with a list of similar names, when there is no such table.
        """
        return _look_up("table", name, self.tables, f" in keyspace {self.name}")

    def statements(self) -> list[str]:
        """The statements that create the keyspace and its contents, in an executable order.

        They leave out columns that were dropped from a table. They also leave out the option
        `extensions`, which servers report and do not accept. The statements of system keyspaces
        are for reading only, because no server accepts them.
        """
        return cql.keyspace_statements(self)

    def as_cql(self) -> str:
        """The statements as one text, separated by empty lines."""
        return "\n\n".join(self.statements())

    def __repr__(self) -> str:
        parts = ("tables", "views", "types", "functions", "aggregates")
        counts = [f"{len(getattr(self, part))} {part}" for part in parts if getattr(self, part)]
        return f"<Keyspace {quoted(self.name)}: {', '.join(counts) or 'empty'}>"


@dataclass(frozen=True, repr=False)
class Schema(_Plain):
    """All keyspaces of a cluster at one moment, including the system keyspaces."""

    version: UUID = field(compare=False)
    """The server's version of the schema, which changes with every change of the schema."""
    keyspaces: Mapping[str, Keyspace]

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace with that name. Letter case matters.

        Raises: `KeyError`, with a list of similar names, when there is no such keyspace.
        """
        return _look_up("keyspace", name, self.keyspaces)

    def table(self, name: str) -> Table:
        """The table with a qualified name, written as in CQL: `app.docs`, `app."Docs"`.

        Raises: `KeyError`, with a list of similar names, when there is no such table or keyspace;
            `ValueError` when `name` is not of this form.
        """
        parts = split_qualified(name)
        if parts is None:
            raise ValueError(f"expected a name like keyspace.table, got {name!r}")
        return self.keyspace(parts[0]).table(parts[1])

    def __repr__(self) -> str:
        return f"<Schema {self.version} of {', '.join(map(quoted, self.keyspaces))}>"


for _cls in (Index, UserType, Function, Aggregate, _Columns, Keyspace):
    advise(_cls, {"as_cql_query": "use as_cql()", "export_as_string": "use as_cql()"})
advise(_Columns, {"keyspace_name": "use keyspace"})
advise(Keyspace, {"replication_strategy": "use replication", "user_types": "use types"})
advise(Schema, {"export_schema_as_string": "use as_cql() of each of keyspaces.values()"})
