"""A table for the columns of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._columns.pieces import refused
from .._cql.names import place_of, qualified, quoted, quoted_type, text
from .._files.formats import format_of
from .._files.source import Source, open_source
from .._files.text import library
from ..codec import CqlType
from ..errors import ConfigError, EncodeError
from ._create_arrow import check_field, type_of_fields
from ._create_text import type_of_texts, type_of_values

__all__ = [
    "Wanted",
    "check_files",
    "create_table",
    "drop_if_empty",
    "is_there",
    "types_of_data",
]

_FIRST_SAMPLE, _SAMPLE, _SAMPLED = 10_000, 1000, 100
"""The rows of CSV or JSON lines that tell the types of their columns: of the first file, and of
each other, up to so many files.
"""


class Wanted(NamedTuple):
    """What a load reads of its files."""

    data: Sequence[str]
    format: str | None
    csv: Mapping[str, Any] | None
    rename: Mapping[str, str]
    columns: Sequence[str] | None
    settings: Sequence[str]
    """Columns that are the TTL or the write time of their rows."""
    truncates: bool

    def has(self, name: str) -> bool:
        """Whether a column of the data is loaded."""
        if self.columns is None:
            return name not in self.settings
        return self.rename.get(name, name) in self.columns

    def open(self, data: Sequence[str], types: Mapping[str, CqlType]) -> Source:
        return open_source(data, format=self.format, types=types, csv=self.csv)


def create_table(
    table: str,
    keyspace: str | None,
    types: Mapping[str, CqlType],
    key: Sequence[str],
    clustering: Sequence[str],
) -> str:
    """The statement that creates a table with columns of these types.

    Raises: `ConfigError` for a key that is no column.
    """
    place = place_of(table, keyspace)
    keys = (*key, *clustering)
    for name in keys:
        if name not in types:
            raise ConfigError(f"the data has no column {name!r} for the key; it has {list(types)}")
    if not key:
        raise ConfigError("a table needs a key: pass --key")
    parts = [
        f"{quoted(name)} {_written(of_it, place[0], inner=name in keys)}"
        for name, of_it in types.items()
    ]
    partition = ", ".join(map(quoted, key))
    order = "".join(f", {quoted(name)}" for name in clustering)
    parts.append(f"PRIMARY KEY (({partition}){order})")
    return f"CREATE TABLE IF NOT EXISTS {qualified(*place)} (\n  " + ",\n  ".join(parts) + "\n)"


def _written(cql_type: CqlType, keyspace: str, *, inner: bool) -> str:
    """A type as CQL; within another type and in a key, collections must be frozen.

    The text of a type may come from a file, so it is never copied into the statement.
    """
    while cql_type.kind == "frozen":
        (cql_type,), inner = cql_type.subtypes, True
    kind = cql_type.kind
    parts = [_written(part, keyspace, inner=True) for part in cql_type.subtypes]
    if kind == "udt":
        made = f"{quoted(cql_type.keyspace or keyspace)}.{quoted_type(cql_type.name or '')}"
        # Servers have no column of a type with an open collection that is not frozen.
        is_open = any(part.kind in ("list", "set", "map") for part in cql_type.subtypes)
        return f"frozen<{made}>" if inner or is_open else made
    if kind == "vector":
        return f"vector<{parts[0]}, {cql_type.dimension}>"
    if kind == "tuple":
        return f"tuple<{', '.join(parts)}>"
    if kind in ("list", "set", "map"):
        made = f"{kind}<{', '.join(parts)}>"
        return f"frozen<{made}>" if inner else made
    return kind if kind.isalpha() and not parts else text(cql_type.class_name)


def types_of_data(
    wanted: Wanted, given: Mapping[str, str], types: Mapping[str, str], keyspace: str
) -> dict[str, CqlType]:
    """The CQL type of each column, by its name in the table.

    `given` has types that the user names, `types` the user-defined types of all keyspaces. Parquet
    and Arrow have types; of CSV and JSON lines the first rows tell.

    Raises: `ConfigError` for a type that is none, and for a column without a counterpart in CQL.
    """
    source = wanted.open(wanted.data, {})
    names = {wanted.rename.get(name, name): name for name in source.names if wanted.has(name)}
    if wanted.columns is not None:
        names = {target: names[target] for target in wanted.columns if target in names}
    for target in given:
        if target not in names:
            raise ConfigError(f"--type {target}: the data has no such column; it has {list(names)}")
    unknown = [name for target, name in names.items() if target not in given]
    schemas = list(source.schemas())
    if schemas:
        for path, schema in schemas:
            for name in names.values():
                check_field(path, schema.field(name), name)
        found = {
            name: type_of_fields([(path, schema.field(name)) for path, schema in schemas], name)
            for name in unknown
        }
    else:
        found = _types_of_sample(wanted, source, unknown)
    return {
        target: _parsed(given.get(target) or found[name], target, given, types, keyspace)
        for target, name in names.items()
    }


def is_there(session: Any, table: str) -> bool:
    """Whether a table exists."""
    keyspace, name = place_of(table, session.keyspace)
    known = session.schema().keyspaces.get(keyspace)
    return known is not None and name in known.tables


def check_files(session: Any, table: str, wanted: Wanted, options: Mapping[str, Any]) -> None:
    """Raises `EncodeError` if the table does not take the columns of each Parquet or Arrow file."""
    kept = {it: options[it] for it in ("rename", "columns", "ttl", "timestamp")}
    for path, schema in _schemas_of(wanted):
        pa = library()
        fields = [it for it in schema if wanted.has(it.name) or it.name in wanted.settings]
        try:
            # A load without rows compares the types.
            session.load(table, pa.Table.from_batches([], pa.schema(fields)), **kept)
        except EncodeError as error:
            raise refused(f"{path}: {error}") from error


def drop_if_empty(session: Any, table: str) -> bool:
    """Drops a table that has no rows. Returns whether it did."""
    where = qualified(*place_of(table, session.keyspace))
    if session.execute(f"SELECT * FROM {where} LIMIT 1").one() is not None:
        return False
    session.execute(f"DROP TABLE IF EXISTS {where}")
    return True


def _schemas_of(wanted: Wanted) -> list[tuple[Path, Any]]:
    """The schemas of files of Parquet and Arrow, each once, with the first file that has it."""
    made: list[tuple[Path, Any]] = []
    for path, schema in wanted.open(wanted.data, {}).schemas():
        if not any(schema.equals(known, check_metadata=True) for _, known in made):
            made.append((path, schema))
    return made


def _types_of_sample(wanted: Wanted, source: Source, names: Sequence[str]) -> dict[str, str]:
    """The types of columns of CSV or JSON lines."""
    if not names:
        return {}
    is_csv = (wanted.format or format_of(source.files[0].path)) == "csv"
    sample = _csv_sample(wanted, source) if is_csv else _json_sample(source)
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
            name: type_of_texts(column, truncates=wanted.truncates)
            for name, column in cells.items()
        }
    return {
        name: type_of_values(column, name, truncates=wanted.truncates)
        for name, column in cells.items()
    }


def _csv_sample(wanted: Wanted, source: Source) -> Iterator[dict[str, list[Any]]]:
    """The texts of the first rows of each file."""
    as_texts = dict.fromkeys(source.names, CqlType("text"))
    for number, file in enumerate(source.files[:_SAMPLED]):
        left = _SAMPLE if number else _FIRST_SAMPLE
        one = wanted.open([str(file.path)], as_texts)
        # The load fails rows that cannot be read.
        for _, batch in one.batches(on_unreadable=lambda row, error, raw: None):
            part = batch.slice(0, left)
            yield {name: part.column(name).to_pylist() for name in source.names}
            left -= part.num_rows
            if not left:
                break


def _json_sample(source: Source) -> Iterator[dict[str, list[Any]]]:
    """The values of the first objects of each file: at least of those that tell its names."""
    for number, objects in enumerate(source.objects()):
        if number == _SAMPLED:
            return
        left = _SAMPLE if number else _FIRST_SAMPLE
        for rows in objects:
            yield {name: [row.get(name) for row in rows] for name in source.names}
            left -= len(rows)
            if left <= 0:
                break


def _parsed(
    definition: str,
    name: str,
    given: Mapping[str, str],
    types: Mapping[str, str],
    keyspace: str,
) -> CqlType:
    own = _Own(types, keyspace, is_told=name not in given)
    try:
        return CqlType(definition, udts=own)
    except ValueError as error:
        if own.foreign:
            raise ConfigError(
                f'column "{name}": the type {own.foreign} is of another keyspace than the table,'
                f" whose columns have types of {keyspace} only: create it there"
            ) from None
        listed = ", ".join(own) or "none"
        raise ConfigError(
            f'column "{name}": {definition!r} is no CQL type here: {error}. Name one with'
            f' --type "{name}=TYPE"; a user-defined type must exist in the keyspace {keyspace},'
            f" which has the types: {listed}"
        ) from None


class _Own(Mapping[str, str]):
    """The user-defined types of a keyspace: the columns of its tables can have no others.

    `is_told`: the name comes from a file. Then a type of another keyspace stands for the one of
    that name in this keyspace, since the file may be of another cluster.
    """

    def __init__(self, types: Mapping[str, str], keyspace: str, *, is_told: bool) -> None:
        self._types, self._prefix, self._is_told = types, f"{keyspace}.", is_told
        self.foreign = ""
        """A type of another keyspace that was asked for."""

    def __getitem__(self, name: str) -> str:
        own = [f"{self._prefix}{name}"]
        if name.startswith(self._prefix):
            own.append(name)
        elif self._is_told:
            own.append(f"{self._prefix}{name.partition('.')[2]}")
        for one in own:
            if one in self._types:
                return self._types[one]
        if name in self._types:
            self.foreign = name
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        start = len(self._prefix)
        return (it[start:] for it in self._types if it.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)
