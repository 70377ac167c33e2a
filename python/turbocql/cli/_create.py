"""A table for the columns of a file."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from .._files import format_of, open_source
from .._files_text import guessed, library
from .._schema_cql import name as quoted
from .._schema_cql import place_of, qualified, text, type_name
from ..codec import CqlType
from ..errors import ConfigError

__all__ = ["create_table", "type_of_values", "types_of_data"]

_SAMPLE = 10_000
"""So many rows of CSV or JSON lines tell the types of their columns."""
_NUMBER = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


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
        made = f"{quoted(cql_type.keyspace or keyspace)}.{type_name(cql_type.name or '')}"
        return f"frozen<{made}>" if inner else made
    if kind == "vector":
        return f"vector<{parts[0]}, {cql_type.dimension}>"
    if kind == "tuple":
        return f"tuple<{', '.join(parts)}>"
    if kind in ("list", "set", "map"):
        made = f"{kind}<{', '.join(parts)}>"
        return f"frozen<{made}>" if inner else made
    return kind if kind.isalpha() and not parts else text(cql_type.class_name)


def types_of_data(
    data: Sequence[str],
    form: str | None,
    csv: Mapping[str, Any] | None,
    rename: Mapping[str, str],
    columns: Sequence[str] | None,
    given: Mapping[str, str],
    udts: Mapping[str, str],
) -> dict[str, CqlType]:
    """The CQL type of each column, by its name in the table.

    `given` has types that the user names. Parquet and Arrow have types; of CSV and JSON lines the
    first rows tell.

    Raises: `ConfigError` for a type that is none, and for a column without a counterpart in CQL.
    """
    source = open_source(data, format=form, types={}, csv=csv)
    first = source.files[0].path
    of_it = form or format_of(first)
    found: dict[str, Any]
    if of_it == "jsonl":
        found = {name: (type_of_values, cells) for name, cells in _json_cells(first).items()}
    elif of_it == "csv":
        cells_of = _csv_cells(data, form, csv)
        found = {name: (_type_of_texts, cells) for name, cells in cells_of.items()}
    else:
        schema = next((batch.schema for _, batch in source.batches()), None) or ()
        found = {field.name: (_type_of_field, field) for field in schema}
    if not found:
        raise ConfigError("the files have no rows, which would tell the types of their columns")
    made: dict[str, CqlType] = {}
    for name, (find, of_name) in found.items():
        target = rename.get(name, name)
        if columns is not None and target not in columns:
            continue
        made[target] = _parsed(given.get(target) or find(of_name, target), target, udts)
    for name in given:
        if name not in made:
            raise ConfigError(f"--type {name}: the data has no such column; it has {list(made)}")
    return made if columns is None else {name: made[name] for name in columns if name in made}


def _parsed(definition: str, name: str, udts: Mapping[str, str]) -> CqlType:
    try:
        return CqlType(definition, udts=udts)
    except ValueError as error:
        raise ConfigError(
            f'column "{name}": {definition!r} is no CQL type here: {error}. Name one with'
            f' --type "{name}=TYPE"; a user-defined type must exist'
        ) from None


def _type_of_field(field: Any, name: str) -> str:
    """The CQL type for a column of Arrow: that of its metadata, or the one that loses nothing."""
    told = (field.metadata or {}).get(b"cql_type")
    return told.decode("utf-8", "replace") if told else _type_of(field.type, name)


def _type_of(kind: Any, name: str) -> str:
    pa = library()
    types = pa.types
    plain = {
        **{pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint"},
        **{pa.int32(): "int", pa.int64(): "bigint", pa.uint8(): "smallint"},
        **{pa.uint16(): "int", pa.uint32(): "bigint", pa.uint64(): "varint"},
        **{pa.float16(): "float", pa.float32(): "float", pa.float64(): "double"},
        **{pa.date32(): "date", pa.date64(): "date", pa.null(): "text"},
    }
    if kind in plain:
        return plain[kind]
    if types.is_dictionary(kind):
        return _type_of(kind.value_type, name)
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return "uuid"
        if kind.extension_name == "arrow.fixed_shape_tensor":
            return _type_of(kind.storage_type, name)
    if any(check(kind) for check in (types.is_string, types.is_large_string)):
        return "text"
    if str(kind) == "string_view":
        return "text"
    if any(check(kind) for check in (types.is_binary, types.is_large_binary)):
        return "blob"
    if types.is_fixed_size_binary(kind) or str(kind) == "binary_view":
        return "blob"
    if types.is_timestamp(kind):
        return "timestamp"
    if types.is_time(kind):
        return "time"
    if types.is_decimal(kind):
        return "decimal"
    if types.is_interval(kind) or types.is_duration(kind):
        return "duration"
    if types.is_fixed_size_list(kind):
        return f"vector<{_type_of(kind.value_type, name)}, {kind.list_size}>"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"list<{_type_of(kind.value_type, name)}>"
    if types.is_map(kind):
        of = (_type_of(part, name) for part in (kind.key_type, kind.item_type))
        return f"map<{', '.join(of)}>"
    if types.is_struct(kind):
        raise ConfigError(
            f'column "{name}" is {kind}: create a user-defined type, and name it with'
            f' --type "{name}=TYPE"'
        )
    raise ConfigError(f'column "{name}": there is no CQL type for {kind}')


def _csv_cells(
    data: Sequence[str], form: str | None, csv: Mapping[str, Any] | None
) -> dict[str, list[str | None]]:
    """The texts of the first rows, by column."""
    names = open_source(data, format=form, types={}, csv=csv).names
    as_texts = {name: CqlType("text") for name in names}
    source = open_source(data, format=form, types=as_texts, csv=csv)
    batch = next((batch for _, batch in source.batches() if batch.num_rows), None)
    if batch is None:
        return {}
    part = batch.slice(0, _SAMPLE)
    return {name: part.column(name).to_pylist() for name in part.schema.names}


def _type_of_texts(cells: Iterable[str | None], name: str) -> str:
    """The type of a column of CSV."""
    texts = [cell for cell in cells if cell is not None]
    if not texts:
        return "text"
    if all(re.fullmatch(r"[-+]?[0-9]{1,18}", it) for it in texts):
        # What begins with a zero is a number of a post code, a phone or an order.
        return "text" if any(re.match(r"[-+]?0[0-9]", it) for it in texts) else "bigint"
    if all(re.fullmatch(_NUMBER, it) for it in texts):
        return "double"
    if all(it.lower() in ("true", "false") for it in texts):
        return "boolean"
    return _type_of_words(texts)


def _type_of_words(texts: list[str]) -> str:
    if all(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", it) for it in texts):
        return "date"
    if all(re.fullmatch(_UUID, it) for it in texts):
        return "uuid"
    pa = library()
    found = guessed(pa.array(texts, pa.string())).type
    return "timestamp" if pa.types.is_timestamp(found) else "text"


def _json_cells(path: Path) -> dict[str, list[Any]]:
    """The values of the first objects, by name."""
    with open(path, "rb") as plain:
        is_gzip = plain.read(2) == b"\x1f\x8b"
    made: dict[str, list[Any]] = {}
    with gzip.open(path) if is_gzip else open(path, "rb") as lines:
        for line in islice(lines, _SAMPLE):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except ValueError as error:
                raise ConfigError(f"{path}: {error}") from None
            if not isinstance(found, dict):
                raise ConfigError(f"{path}: expected an object on each line")
            for name, value in found.items():
                made.setdefault(name, []).append(value)
    return made


def type_of_values(cells: Iterable[Any], name: str) -> str:
    """The type of values of JSON.

    Raises: `ConfigError` where they have none in common.
    """
    values = [cell for cell in cells if cell is not None]
    found = set(map(type, values))
    if found <= {str}:
        return _type_of_words(values) if values else "text"
    if found == {bool}:
        return "boolean"
    if found == {int}:
        return "bigint" if all(-(2**63) <= it < 2**63 for it in values) else "varint"
    if found <= {int, float}:
        return "double"
    if found == {list}:
        return f"list<{type_of_values([it for value in values for it in value], name)}>"
    if found == {dict}:
        return f"map<text, {type_of_values([it for one in values for it in one.values()], name)}>"
    kinds = ", ".join(sorted(it.__name__ for it in found))
    raise ConfigError(
        f'column "{name}" has values of several kinds ({kinds}): name its type with'
        f' --type "{name}=TYPE"'
    )
