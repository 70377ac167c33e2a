"""A table for the columns of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._files_text import library
from .._schema_cql import name as quoted
from .._schema_cql import place_of, qualified
from ..errors import ConfigError

__all__ = ["create_table"]


def create_table(
    table: str,
    keyspace: str | None,
    schema: Any,
    key: Sequence[str],
    clustering: Sequence[str],
    rename: Mapping[str, str],
    columns: Sequence[str] | None,
) -> str:
    """The statement that creates a table for data with this Arrow schema.

    Arguments: `key` and `clustering` name columns of the table.

    Raises: `ConfigError` for a key that is no column, and for a type without a counterpart.
    """
    types = {rename.get(field.name, field.name): cql_type_of(field) for field in schema}
    if columns is not None:
        types = {name: types[name] for name in columns if name in types}
    for name in (*key, *clustering):
        if name not in types:
            raise ConfigError(f"the data has no column {name!r} for the key; it has {list(types)}")
    if not key:
        raise ConfigError("a table needs a key: pass --key")
    parts = [f"{quoted(name)} {cql_type}" for name, cql_type in types.items()]
    partition = ", ".join(map(quoted, key))
    order = "".join(f", {quoted(name)}" for name in clustering)
    parts.append(f"PRIMARY KEY (({partition}){order})")
    where = qualified(*place_of(table, keyspace))
    return f"CREATE TABLE IF NOT EXISTS {where} (\n  " + ",\n  ".join(parts) + "\n)"


def cql_type_of(field: Any) -> str:
    """The CQL type for a column of Arrow: that of its metadata, or the one that loses nothing."""
    told = (field.metadata or {}).get(b"cql_type")
    if told:
        return str(told.decode())
    return _type_of(field.type, field.name)


def _type_of(kind: Any, name: str) -> str:
    pa = library()
    types = pa.types
    plain = {
        **{pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint"},
        **{pa.int32(): "int", pa.int64(): "bigint", pa.uint8(): "smallint"},
        **{pa.uint16(): "int", pa.uint32(): "bigint", pa.uint64(): "varint"},
        **{pa.float16(): "float", pa.float32(): "float", pa.float64(): "double"},
        **{pa.date32(): "date", pa.date64(): "date"},
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
    if types.is_fixed_size_list(kind):
        return f"vector<{_type_of(kind.value_type, name)}, {kind.list_size}>"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"list<{_frozen(_type_of(kind.value_type, name))}>"
    if types.is_map(kind):
        of = (_frozen(_type_of(part, name)) for part in (kind.key_type, kind.item_type))
        return f"map<{', '.join(of)}>"
    if types.is_struct(kind):
        raise ConfigError(
            f'column "{name}" is {kind}: create a user-defined type and the table first'
        )
    raise ConfigError(f'column "{name}": there is no CQL type for {kind}')


def _frozen(cql_type: str) -> str:
    is_open = cql_type.startswith(("list<", "set<", "map<"))
    return f"frozen<{cql_type}>" if is_open else cql_type
