"""Creates a table for the columns of files, for `turbocql load --create`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._cql.names import parse_table_name, qualified, quoted, quoted_type, text
from .._files.reader import Selection
from .._files.source import Source, open_source
from .._files.suffixes import format_of
from ..codec import CqlType
from ..errors import ConfigError
from ..schema import Table
from ._create_arrow import check_field, type_of_fields
from ._create_text import type_of_texts, type_of_values

__all__ = [
    "FileSelection",
    "create_table",
    "describe_existing",
    "drop_if_empty",
    "existing_table",
    "types_of_data",
]

_FIRST_FILE_SAMPLE_ROWS, _LATER_FILE_SAMPLE_ROWS, _MAX_SAMPLED_FILES = 10_000, 1000, 100
"""Types of CSV and JSON lines are inferred from the first rows of at most 100 files: 10,000 rows of
the first file, and 1,000 rows of each later file."""


class FileSelection(NamedTuple):
    """The files of a load, their format, and the columns that are loaded."""

    data: Sequence[str]
    format: str | None
    csv: Mapping[str, Any] | None
    rename: Mapping[str, str]
    columns: Sequence[str] | None
    settings: Sequence[str]
    """The columns of the data that have the TTL or the write time of their rows."""
    truncates: bool
    """Whether the load drops fractions of a millisecond."""

    def has(self, name: str) -> bool:
        """Whether a column of the data is loaded."""
        if self.columns is None:
            return name not in self.settings
        return self.rename.get(name, name) in self.columns

    def open(self, data: Sequence[str], types: Mapping[str, CqlType]) -> Source:
        return open_source(
            data,
            format=self.format,
            types=types,
            csv=self.csv,
            selection=Selection(lambda name: name in self.settings or self.has(name)),
        )


def create_table(
    table: str,
    keyspace: str | None,
    types: Mapping[str, CqlType],
    key: Sequence[str],
    clustering: Sequence[str],
) -> str:
    """The statement that creates a table with columns of these types.

    Raises: `ConfigError` if a key is not among the columns.
    """
    qualified_name = parse_table_name(table, keyspace)
    keys = (*key, *clustering)
    for name in keys:
        if name not in types:
            raise ConfigError(f"the data has no column {name!r} for the key; it has {list(types)}")
    if not key:
        raise ConfigError("a table needs a key: pass --key")
    if "" in types:
        raise ConfigError(
            "the data has a column without a name: name it with --rename '\"\"=NAME', or leave it"
            " out with --columns"
        )
    parts = [
        f"{quoted(name)} {_type_as_cql(cql_type, qualified_name[0], inner=name in keys)}"
        for name, cql_type in types.items()
    ]
    partition = ", ".join(map(quoted, key))
    order = "".join(f", {quoted(name)}" for name in clustering)
    parts.append(f"PRIMARY KEY (({partition}){order})")
    return (
        f"CREATE TABLE IF NOT EXISTS {qualified(*qualified_name)} (\n  "
        + ",\n  ".join(parts)
        + "\n)"
    )


def _type_as_cql(cql_type: CqlType, keyspace: str, *, inner: bool) -> str:
    """Writes a type as CQL. Within another type or a key, collections and user types are frozen.

    The type may come from the metadata of a file, which may contain any text. So no text of the
    file is copied: the type is written anew from its parsed form. The class name of a custom type
    is written as a quoted literal.
    """
    while cql_type.kind == "frozen":
        (cql_type,), inner = cql_type.subtypes, True
    kind = cql_type.kind
    parts = [_type_as_cql(part, keyspace, inner=True) for part in cql_type.subtypes]
    if kind == "udt":
        type_text = f"{quoted(cql_type.keyspace or keyspace)}.{quoted_type(cql_type.name or '')}"
        # Servers refuse an unfrozen user-defined type with unfrozen collections. So a type that has
        # collections is frozen.
        is_open = any(part.kind in ("list", "set", "map") for part in cql_type.subtypes)
        return f"frozen<{type_text}>" if inner or is_open else type_text
    if kind == "vector":
        return f"vector<{parts[0]}, {cql_type.dimension}>"
    if kind == "tuple":
        return f"tuple<{', '.join(parts)}>"
    if kind in ("list", "set", "map"):
        type_text = f"{kind}<{', '.join(parts)}>"
        return f"frozen<{type_text}>" if inner else type_text
    if kind == "custom" or parts:
        return text(cql_type.class_name)
    return kind


def types_of_data(
    selection: FileSelection, user_types: Mapping[str, str], types: Mapping[str, str], keyspace: str
) -> dict[str, CqlType]:
    """The CQL type of each column, by its name in the table.

    `user_types` are the types of `--type`. `types` are the user-defined types of all keyspaces. A
    column without `--type` gets the type that it has in its Parquet or Arrow file. For CSV and JSON
    lines, its type is inferred from the first rows.

    Raises: `ConfigError` for an invalid type, and for a column that no CQL type can store.
    """
    source = selection.open(selection.data, {})
    names = {selection.rename.get(name, name): name for name in source.names if selection.has(name)}
    if selection.columns is not None:
        names = {target: names[target] for target in selection.columns if target in names}
    for target in user_types:
        if target not in names:
            raise ConfigError(f"--type {target}: the data has no such column; it has {list(names)}")
    unknown = [name for target, name in names.items() if target not in user_types]
    schemas = list(source.schemas())
    if schemas:
        for path, schema in schemas:
            for name in names.values():
                check_field(path, schema.field(name), name)
        definitions = {
            name: type_of_fields([(path, schema.field(name)) for path, schema in schemas], name)
            for name in unknown
        }
    else:
        definitions = _types_of_sample(selection, source, unknown)
    return {
        target: _parsed(
            user_types.get(target) or definitions[name], target, user_types, types, keyspace
        )
        for target, name in names.items()
    }


def existing_table(session: Any, table: str) -> Table | None:
    """Returns the schema of a table, or `None` if there is no such table."""
    keyspace, name = parse_table_name(table, session.keyspace)
    keyspace_schema = session.schema().keyspaces.get(keyspace)
    return None if keyspace_schema is None else keyspace_schema.tables.get(name)


def describe_existing(table: str, existing: Table, keys: Sequence[Sequence[str]]) -> str:
    """Returns the note that a table is not created, because it exists already. `keys` are the
    partition key and the clustering columns that the user has named. If the key of the existing
    table is different, the note shows it.
    """
    existing_keys = [
        [column.name for column in columns]
        for columns in (existing.partition_key, existing.clustering_key)
    ]
    note = f"{table} exists already, and is loaded into as it is"
    if existing_keys == [list(names) for names in keys]:
        return note
    partition, clustering = (",".join(names) for names in existing_keys)
    options = f"--key {partition}" + (f" --clustering {clustering}" if clustering else "")
    return f"{note}: its key is another, that of {options}"


def drop_if_empty(session: Any, table: str) -> bool:
    """Drops a table if it has no rows. Returns whether it was dropped."""
    table_name = qualified(*parse_table_name(table, session.keyspace))
    if session.execute(f"SELECT * FROM {table_name} LIMIT 1").one() is not None:
        return False
    session.execute(f"DROP TABLE IF EXISTS {table_name}")
    return True


def _types_of_sample(
    selection: FileSelection, source: Source, names: Sequence[str]
) -> dict[str, str]:
    """The types of columns of CSV or JSON lines."""
    if not names:
        return {}
    is_csv = (selection.format or format_of(source.files[0].path)) == "csv"
    sample = _csv_sample(selection, source) if is_csv else _json_sample(source)
    cells: dict[str, list[Any]] = {name: [] for name in names}
    for columns in sample:
        for name in names:
            cells[name] += columns[name]
    if not any(cells.values()):
        listed = ", ".join(map(repr, names))
        raise ConfigError(
            f"{source.files[0].path}: the files have no rows, which would tell the types of"
            f' {listed}: name each with --type "COLUMN=TYPE"'
        )
    if is_csv:
        return {
            name: type_of_texts(column, truncates=selection.truncates)
            for name, column in cells.items()
        }
    return {
        name: type_of_values(column, name, truncates=selection.truncates)
        for name, column in cells.items()
    }


def _csv_sample(selection: FileSelection, source: Source) -> Iterator[dict[str, list[Any]]]:
    """The texts of the first rows of each file."""
    as_texts = dict.fromkeys(source.names, CqlType("text"))
    for number, file in enumerate(source.files[:_MAX_SAMPLED_FILES]):
        rows_left = _LATER_FILE_SAMPLE_ROWS if number else _FIRST_FILE_SAMPLE_ROWS
        source_of_file = selection.open([str(file.path)], as_texts)
        # Rows that cannot be read are left out here. The load reports them.
        for _, batch in source_of_file.batches(on_unreadable=lambda row, error, raw: None):
            part = batch.slice(0, rows_left)
            yield {name: part.column(name).to_pylist() for name in source.names}
            rows_left -= part.num_rows
            if not rows_left:
                break


def _json_sample(source: Source) -> Iterator[dict[str, list[Any]]]:
    """The values of the first objects of each file, including the objects from which `source.names`
    was read.
    """
    for number, objects in enumerate(source.objects()):
        if number == _MAX_SAMPLED_FILES:
            return
        rows_left = _LATER_FILE_SAMPLE_ROWS if number else _FIRST_FILE_SAMPLE_ROWS
        for rows in objects:
            yield {name: [row.get(name) for row in rows] for name in source.names}
            rows_left -= len(rows)
            if rows_left <= 0:
                break


def _parsed(
    definition: str,
    name: str,
    user_types: Mapping[str, str],
    types: Mapping[str, str],
    keyspace: str,
) -> CqlType:
    udts = _KeyspaceTypes(types, keyspace, is_from_file=name not in user_types)
    try:
        return CqlType(definition, udts=udts)
    except ValueError as error:
        if udts.foreign:
            raise ConfigError(
                f'column "{name}": the type {udts.foreign} is of another keyspace than the table,'
                f" whose columns have types of {keyspace} only: create it there"
            ) from None
        listed = ", ".join(udts) or "none"
        raise ConfigError(
            f'column "{name}": {definition!r} is no CQL type here: {error}. Name one with'
            f' --type "{name}=TYPE"; a user-defined type must exist in the keyspace {keyspace},'
            f" which has the types: {listed}"
        ) from None


class _KeyspaceTypes(Mapping[str, str]):
    """The user-defined types of a keyspace. The columns of a table can only have user-defined types
    of the table's own keyspace.

    `is_from_file` says whether names of types come from a file. The file may have been written from
    a table of another keyspace. So if `is_from_file` is true, `other.address` is looked up as
    `address` in this keyspace.
    """

    def __init__(self, types: Mapping[str, str], keyspace: str, *, is_from_file: bool) -> None:
        self._types, self._prefix, self._is_from_file = types, f"{keyspace}.", is_from_file
        self.foreign = ""
        """The name of the last looked-up type that is in another keyspace; empty if there was
        none."""

    def __getitem__(self, name: str) -> str:
        candidates = [f"{self._prefix}{name}"]
        if name.startswith(self._prefix):
            candidates.append(name)
        elif self._is_from_file:
            candidates.append(f"{self._prefix}{name.partition('.')[2]}")
        for candidate in candidates:
            if candidate in self._types:
                return self._types[candidate]
        if name in self._types:
            self.foreign = name
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        start = len(self._prefix)
        return (
            qualified_name[start:]
            for qualified_name in self._types
            if qualified_name.startswith(self._prefix)
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)
