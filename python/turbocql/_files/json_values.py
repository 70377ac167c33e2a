"""Converts values of JSON to Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from .._core import CqlType
from .from_text import (
    INTEGERS,
    Number,
    expected_integer,
    expected_number,
    from_texts,
    has_kind,
    library,
    names_of,
    thawed,
    type_of,
)
from .times import duration_parts_of

__all__ = [
    "column_of",
    "json_decoder",
    "needs_exact_numbers",
    "reject_duplicate_keys",
    "shown_type",
]


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes the dict of a JSON object. This function is the `object_pairs_hook` of a decoder.

    Raises: `ValueError` if a name occurs twice.
    """
    value_by_name = dict(pairs)
    if len(value_by_name) != len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has two values for {duplicate!r}")
    return value_by_name


def _parse_int(digits: str) -> int | str:
    # Python refuses to convert more than 4,300 digits.
    return int(digits) if len(digits) < 4000 else Number(digits)


def needs_exact_numbers(types: Sequence[CqlType | None]) -> bool:
    """Whether one of the types is or contains `decimal` or `varint`. The values of these types need
    all digits of a number.
    """
    kinds = {"decimal", "varint"}
    return any(cql_type is not None and has_kind(cql_type, kinds) for cql_type in types)


def json_decoder(*, exact: bool) -> json.JSONDecoder:
    """A decoder of JSON. If `exact` is true, it keeps all digits of numbers."""
    return json.JSONDecoder(
        parse_float=Number if exact else None,
        parse_int=_parse_int,
        # The words NaN, Infinity and -Infinity are read in the same way with and without quotes.
        parse_constant=str,
        object_pairs_hook=reject_duplicate_keys,
    )


def column_of(cql_type: CqlType, cells: Sequence[Any]) -> Any:
    """An Arrow column of values that were parsed from JSON.

    Raises: `ValueError`, `TypeError` or `OverflowError` if a cell is not a value of the type.
    """
    cql_type = thawed(cql_type)
    kind = cql_type.kind
    if kind in ("list", "set", "vector"):
        return _lists(cql_type, cells)
    if kind == "map":
        return _maps(cql_type, cells)
    if kind in ("tuple", "udt"):
        return _structs(cql_type, cells)
    return _scalars(cql_type, cells)


def _scalars(cql_type: CqlType, cells: Sequence[Any]) -> Any:
    pa, kind = library(), cql_type.kind
    classes = set(map(type, cells)) - {type(None)}
    native_classes: dict[str, set[type]] = {
        **{name: {int} for name in INTEGERS},
        **{"float": {int, float}, "double": {int, float}, "boolean": {bool}},
    }
    if kind in native_classes and classes <= native_classes[kind]:
        if float in native_classes[kind]:
            return _floats(kind, cells)
        try:
            return pa.array(cells, type_of(cql_type))
        except (OverflowError, pa.ArrowInvalid):
            raise ValueError(f"expected {expected_integer(kind)}") from None
    if kind == "duration" and dict in classes:
        cells = [duration_parts_of(cell) for cell in cells]
        return pa.array(cells, type_of(cql_type))
    if kind == "timestamp" and int in classes:
        if classes != {int}:
            raise ValueError("timestamps as text and as numbers cannot be mixed")
        if any(cell is not None and not -(2**63) <= cell < 2**63 for cell in cells):
            raise ValueError("expected milliseconds since 1970 of 64 bits, or a timestamp as text")
        return pa.array(cells, pa.int64()).cast(type_of(cql_type))
    allowed_classes: set[type] = {str}
    if kind in ("varint", "decimal", "float", "double", *INTEGERS):
        allowed_classes = {str, int, Number} | ({float} if kind in ("float", "double") else set())
    refused_classes = classes - allowed_classes
    if refused_classes:
        raise ValueError(
            f"expected {_expected_form(kind)}, got {shown_type(refused_classes.pop())}"
        )
    if classes != {str}:
        cells = [cell if cell is None or isinstance(cell, str) else repr(cell) for cell in cells]
    return from_texts(cql_type, _texts(cells))


def _texts(cells: Sequence[Any]) -> Any:
    try:
        return library().array(cells, library().string())
    except UnicodeError as error:
        raise ValueError(
            "expected Unicode text, got one with half of a surrogate pair, which UTF-8 cannot"
            " encode"
        ) from error


def _expected_form(kind: str) -> str:
    words = {"boolean": "true or false", "text": "text", "ascii": "text of ASCII characters"}
    words |= dict.fromkeys((*INTEGERS, "varint"), f"a whole number for {kind}")
    is_number = kind in INTEGERS or kind in ("varint", "decimal", "float", "double")
    return words.get(kind, f"a number for {kind}" if is_number else f"{kind} as text")


def shown_type(cls: type) -> str:
    """Returns the kind of JSON value that is parsed to this class, such as `an object`."""
    names = {dict: "an object", list: "an array", bool: "a boolean", str: "text"}
    return names.get(cls, "a number with a point or an exponent" if cls is float else "a number")


def _floats(kind: str, cells: Sequence[Any]) -> Any:
    pa = library()
    pc = pa.compute
    # Arrow would refuse large ints. `float` rounds a large int to the nearest double if the int is
    # within the range of doubles.
    try:
        doubles = pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    except OverflowError:
        raise ValueError(f"expected {expected_number(kind)}") from None
    floats = doubles.cast(pa.float32()) if kind == "float" else doubles
    if pc.any(pc.is_inf(floats)).as_py():
        raise ValueError(f"expected {expected_number(kind)}")
    return floats


def _lists(cql_type: CqlType, cells: Sequence[Any]) -> Any:
    pa, dimension = library(), cql_type.dimension
    if cql_type.kind == "set":
        # As a CQL literal, `{}` is an empty set. JSON reads it as an object, so it is converted
        # here.
        cells = [[] if cell == {} else cell for cell in cells]
    _check_class(cells, list, "an array")
    validity = [cell is not None for cell in cells]
    element = cql_type.subtypes[0]
    if dimension is None:
        flat = [item for cell in cells if cell is not None for item in cell]
        return pa.ListArray.from_arrays(_offsets(cells), column_of(element, flat))
    nulls = [None] * dimension
    for cell in cells:
        if cell is not None and len(cell) != dimension:
            raise ValueError(f"expected {dimension} elements, got {len(cell)}")
    flat = [item for cell in cells for item in (nulls if cell is None else cell)]
    mask = None if all(validity) else pa.array([not is_valid for is_valid in validity])
    return pa.FixedSizeListArray.from_arrays(column_of(element, flat), dimension, mask=mask)


def _check_class(cells: Iterable[Any], cls: type, expected: str) -> None:
    for other_class in set(map(type, cells)) - {type(None), cls}:
        raise ValueError(f"expected {expected}, got {shown_type(other_class)}")


def _offsets(cells: Sequence[Any]) -> Any:
    """Returns Arrow's offsets of lists. A list's offset is the position of its first element among
    the elements of all lists. The offset of a null list is null. The last offset is the number of
    elements of all lists.
    """
    offsets, end = [], 0
    for cell in cells:
        offsets.append(None if cell is None else end)
        end += 0 if cell is None else len(cell)
    return library().array([*offsets, end], library().int32())


def _maps(cql_type: CqlType, cells: Sequence[Any]) -> Any:
    pa = library()
    pairs: list[Any] = []
    for cell in cells:
        if cell is None or isinstance(cell, dict):
            pairs.append(cell if cell is None else list(cell.items()))
            continue
        if not isinstance(cell, list) or not all(
            isinstance(entry, list) and len(entry) == 2 for entry in cell
        ):
            raise ValueError("expected a map as an object or as an array of [key, value]")
        pairs.append(cell)
    flat = [entry for cell in pairs if cell is not None for entry in cell]
    keys = [key for key, _ in flat]
    if None in keys:
        raise ValueError("the key of a map cannot be null")
    key, value = cql_type.subtypes
    values = column_of(value, [entry for _, entry in flat])
    return pa.MapArray.from_arrays(_offsets(pairs), column_of(key, keys), values)


def _structs(cql_type: CqlType, cells: Sequence[Any]) -> Any:
    pa, names = library(), names_of(cql_type)
    objects: list[Any] = []
    for cell in cells:
        if isinstance(cell, list) and cql_type.kind == "tuple" and len(cell) <= len(names):
            objects.append(dict(zip(names, cell, strict=False)))
            continue
        if cell is not None and not isinstance(cell, dict):
            is_tuple = cql_type.kind == "tuple"
            array = f"an array of at most {len(names)} values, or " if is_tuple else ""
            raise ValueError(f"expected {array}an object with the fields {', '.join(names)}")
        for name in cell or ():
            if name not in names:
                raise ValueError(f"{cql_type} has no field {name!r}; it has {', '.join(names)}")
        objects.append(cell)
    parts = zip(names, cql_type.subtypes, strict=True)
    columns = [
        column_of(part, [None if cell is None else cell.get(name) for cell in objects])
        for name, part in parts
    ]
    mask = pa.array([cell is None for cell in objects], pa.bool_())
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
