"""Chooses lossless CQL types for the columns of Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._files.from_text import library
from .._files.reader import inner_fields
from ..errors import ConfigError

__all__ = ["check_field", "type_of_fields"]

_EXTENSIONS = {"arrow.uuid", "arrow.json", "arrow.fixed_shape_tensor"}
"""Arrow extension types that loads accept."""
_WIDER_TYPES = {
    **{"tinyint": ("smallint", "int", "bigint", "varint", "decimal", "float", "double")},
    **{"smallint": ("int", "bigint", "varint", "decimal", "float", "double")},
    **{"int": ("bigint", "varint", "decimal", "double"), "bigint": ("varint", "decimal")},
    **{"varint": ("decimal",), "float": ("double",), "ascii": ("text",), "timeuuid": ("uuid",)},
    **{"date": ("timestamp",)},
}
"""For each type, the wider types that hold all its values, the narrowest first."""

Fields = Sequence[tuple[Path, Any]]
"""Fields of Arrow, each with the path of its file."""


def type_of_fields(fields: Fields, name: str) -> str:
    """The CQL type of a column that several files have. It comes from the metadata that turbocql
    wrote for the column, or else from the column's Arrow types.

    Raises: `ConfigError` if no type takes the values of all files.
    """
    pa = library()
    for path, field in fields:
        check_field(path, field, name)
    # In a file where the column has only nulls, the column fits all types, so the file is left out.
    typed_fields = [(path, field, _plain(field.type)) for path, field in fields]
    typed_fields = [typed_field for typed_field in typed_fields if typed_field[2] != pa.null()]
    if not typed_fields:
        return "text"
    metadata_types = [(field.metadata or {}).get(b"cql_type") for _, field, _ in typed_fields]
    if not any(metadata_types):
        nested = _type_of_lists(typed_fields, name) or _type_of_maps(typed_fields, name)
        if nested is not None:
            return nested
    common_type, first = "", typed_fields[0][0]
    for (path, field, kind), metadata_type in zip(typed_fields, metadata_types, strict=True):
        if metadata_type:
            definition = str(metadata_type, "utf-8", "replace")
        elif len(typed_fields) > 1:
            definition = type_of_fields([(path, field)], name)
        else:
            definition = _type_of(kind, name)
        common = _common(common_type or definition, definition)
        if common is None and len(set(metadata_types) - {None}) == 1:
            # All files that have metadata contain the same type there, so this type is chosen. The
            # load compares the type with the Arrow types of all files.
            return str(
                next(metadata_type for metadata_type in metadata_types if metadata_type),
                "utf-8",
                "replace",
            )
        if common is None:
            raise ConfigError(
                f'column "{name}" is {common_type} in {first} and {definition} in {path}: no type'
                f' takes both without a loss. Name one with --type "{name}=TYPE"'
            )
        common_type = common
    return common_type


def _common(first: str, second: str) -> str | None:
    """Returns the narrowest type that holds all values of both types, or `None`."""
    if first == second:
        return first
    first_and_wider, second_and_wider = (
        (type_name, *_WIDER_TYPES.get(type_name, ())) for type_name in (first, second)
    )
    return next((type_name for type_name in first_and_wider if type_name in second_and_wider), None)


def check_field(path: Path, field: Any, name: str) -> None:
    """Raises `ConfigError` for a column that cannot be loaded into a column of any CQL type."""
    types, kind = library().types, field.type
    extension_name = (
        (field.metadata or {}).get(b"ARROW:extension:name", b"").decode("utf-8", "replace")
    )
    extension = getattr(kind, "extension_name", extension_name)
    if extension and extension not in _EXTENSIONS:
        raise ConfigError(
            f'{path}: column "{name}" has the extension type {extension}, which no CQL type takes:'
            " write its storage to the file, or leave the column out with --columns"
        )
    if types.is_union(kind):
        raise ConfigError(
            f'{path}: column "{name}": there is no CQL type for {kind}: leave it out with --columns'
        )
    for part in inner_fields(kind):
        check_field(path, part, name)


def _plain(kind: Any) -> Any:
    """Returns a type without dictionary and run-end encoding. An extension type other than
    `arrow.uuid` becomes its storage type.
    """
    pa = library()
    while True:
        if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.uuid":
            kind = kind.storage_type
        else:
            return kind


def _type_of_lists(typed_fields: list[tuple[Path, Any, Any]], name: str) -> str | None:
    """The type of a column that has lists in all files: a vector if all lists have the same fixed
    size, else a list. `None` if the column has no lists in one of the files.
    """
    types = library().types
    lists = (types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view)
    sizes: set[int | None] = set()
    for _, _, kind in typed_fields:
        if types.is_fixed_size_list(kind):
            sizes.add(kind.list_size)
        elif any(is_list(kind) for is_list in lists):
            sizes.add(None)
        else:
            return None
    inner = type_of_fields([(path, kind.value_field) for path, _, kind in typed_fields], name)
    if sizes == {0}:
        raise ConfigError(
            f'column "{name}" has lists of the fixed size 0, which no vector has: name its type'
            f' with --type "{name}=list<{inner}>", or leave it out with --columns'
        )
    size = sizes.pop()
    return f"list<{inner}>" if sizes or size is None else f"vector<{inner}, {size}>"


def _type_of_maps(typed_fields: list[tuple[Path, Any, Any]], name: str) -> str | None:
    types = library().types
    if not all(types.is_map(kind) for _, _, kind in typed_fields):
        return None
    parts = (
        [(path, getattr(kind, part)) for path, _, kind in typed_fields]
        for part in ("key_field", "item_field")
    )
    return f"map<{', '.join(type_of_fields(part, name) for part in parts)}>"


def _type_of(kind: Any, name: str) -> str:
    pa = library()
    types = pa.types
    plain = {
        **{pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint"},
        **{pa.int32(): "int", pa.int64(): "bigint", pa.uint8(): "smallint"},
        **{pa.uint16(): "int", pa.uint32(): "bigint", pa.uint64(): "varint"},
        **{pa.float16(): "float", pa.float32(): "float", pa.float64(): "double"},
        **{pa.string(): "text", pa.large_string(): "text", pa.string_view(): "text"},
        **{pa.binary(): "blob", pa.large_binary(): "blob", pa.binary_view(): "blob"},
        **{pa.date32(): "date", pa.date64(): "date", pa.uuid(): "uuid"},
    }
    if kind in plain:
        return plain[kind]
    checks_by_type: dict[str, tuple[Callable[[Any], bool], ...]] = {
        "blob": (types.is_fixed_size_binary,),
        "timestamp": (types.is_timestamp,),
        "time": (types.is_time,),
        "decimal": (types.is_decimal,),
        "duration": (types.is_interval, types.is_duration),
    }
    for type_name, checks in checks_by_type.items():
        if any(check(kind) for check in checks):
            return type_name
    if types.is_struct(kind):
        raise ConfigError(
            f'column "{name}" is {kind}: create a user-defined type, and name it with'
            f' --type "{name}=TYPE"'
        )
    if types.is_nested(kind):
        # `type_of_fields` handles lists and maps itself, so no nested type of today's pyarrow comes
        # here. The returned text is not a CQL type, so the caller raises an error with the text.
        return str(kind)
    raise ConfigError(f'column "{name}": there is no CQL type for {kind}')
