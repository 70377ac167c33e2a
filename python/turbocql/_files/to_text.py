"""Converts Arrow columns to the values of JSON lines and CSV that `from_text` describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .._columns.pieces import refused
from .._core import CqlType
from ..types import Date, Duration, Time, Timestamp
from .from_text import kind_of, library, thawed
from .number_lists import texts_of

__all__ = ["cells_of", "csv_column", "csv_type"]

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_NS = 86_400_000_000_000
_MIN_TEXT_MS, _MAX_TEXT_MS = -62_135_596_800_000, 253_402_300_799_999
_MIN_TEXT_DAY, _MAX_TEXT_DAY = -719_162, 2_932_896
"""The first and the last moment of the years 1 to 9999, in milliseconds and in days since 1970.
Arrow writes times of these years as text correctly."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _kind(field: Any, cql_type: CqlType | None) -> str:
    """The kind of a column's CQL type, or of the type in its field's metadata; empty if unknown."""
    if cql_type is not None:
        return kind_of(cql_type)
    type_text = (field.metadata or {}).get(b"cql_type", b"").decode()
    while type_text.startswith("frozen<"):
        type_text = type_text[7:]
    kind: str = type_text.split("<")[0].rstrip(">")
    return "text" if kind == "varchar" else kind


def _decoded(array: Any) -> Any:
    """An array without dictionary or run-end encoding."""
    pa = library()
    if pa.types.is_dictionary(array.type):
        return _decoded(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return _decoded(pa.compute.run_end_decode(array))
    return array


def _is_uuid(kind: str, array: Any) -> bool:
    arrow_type = array.type
    if getattr(arrow_type, "extension_name", "") == "arrow.uuid":
        return True
    has_16_bytes = library().types.is_fixed_size_binary(arrow_type) and arrow_type.byte_width == 16
    return has_16_bytes and kind in ("uuid", "timeuuid")


def cells_of(array: Any, field: Any, cql_type: CqlType | None) -> list[Any]:
    """The values of a column as values of JSON.

    Raises: `EncodeError` for a value that JSON cannot express.
    """
    try:
        return _cells(array, field, cql_type)
    except (library().ArrowException, OverflowError, UnicodeDecodeError) as error:
        raise refused(f'column "{field.name}": {error}') from error


def _cells(array: Any, field: Any, cql_type: CqlType | None) -> list[Any]:
    pa = library()
    types, array, kind = pa.types, _decoded(array), _kind(field, cql_type)
    if _is_uuid(kind, array):
        return _uuids(getattr(array, "storage", array))
    array = getattr(array, "storage", array)
    arrow_type = array.type
    if types.is_map(arrow_type):
        return _maps(array, cql_type)
    if (
        types.is_list(arrow_type)
        or types.is_large_list(arrow_type)
        or types.is_fixed_size_list(arrow_type)
    ):
        return _lists(array, cql_type)
    if types.is_struct(arrow_type):
        field_names = {child.name for child in arrow_type}
        is_duration = kind in ("duration", "") and field_names == {
            "months",
            "days",
            "nanoseconds",
        }
        return _durations(array) if is_duration else _structs(array, cql_type)
    return _scalars(array, arrow_type, kind)


def _scalars(array: Any, arrow_type: Any, kind: str) -> list[Any]:
    pa = library()
    types = pa.types
    if types.is_integer(arrow_type) and kind == "time":
        return _times(array)
    if types.is_boolean(arrow_type) or types.is_integer(arrow_type) or types.is_null(arrow_type):
        return list(array.to_pylist())
    if types.is_floating(arrow_type):
        return _floats(array)
    if types.is_date(arrow_type):
        return _dates(array.cast(pa.date32()))
    if types.is_time(arrow_type):
        return _times(array.cast(pa.time64("ns")).cast(pa.int64()))
    if types.is_timestamp(arrow_type):
        return _instants(array)
    if types.is_duration(arrow_type):
        factor = 1_000_000_000 // _PER_SECOND[arrow_type.unit]
        values = array.cast(pa.int64()).to_pylist()
        return [None if ticks is None else str(Duration(0, 0, ticks * factor)) for ticks in values]
    if types.is_interval(arrow_type):
        return [None if parts is None else _duration(*parts) for parts in array.to_pylist()]
    if types.is_decimal(arrow_type):
        return list(array.cast(pa.string()).to_pylist())
    if _is_binary(arrow_type) and kind not in ("text", "ascii"):
        return [None if blob is None else f"0x{blob.hex()}" for blob in array.to_pylist()]
    texts = list(array.cast(pa.string()).to_pylist())
    return [_varint(text) for text in texts] if kind == "varint" else texts


def _is_binary(arrow_type: Any) -> bool:
    types = library().types
    type_checks = (
        *(types.is_binary, types.is_large_binary),
        *(types.is_fixed_size_binary, types.is_binary_view),
    )
    return any(has_type(arrow_type) for has_type in type_checks)


def _varint(text: str | None) -> int | str | None:
    # Python refuses to convert more than 4,300 digits, unless the program has changed this limit.
    # So a text of more than 4,000 characters is not converted.
    return text if text is None or len(text) > 4000 else int(text)


def _uuids(array: Any) -> list[str | None]:
    texts: list[str | None] = []
    for value in array.to_pylist():
        if value is None:
            texts.append(None)
            continue
        digits = value.hex()
        groups = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]
        texts.append("-".join(groups))
    return texts


def _floats(array: Any) -> list[Any]:
    pa = library()
    pc = pa.compute
    values: list[Any] = array.to_pylist()
    if array.type == pa.float32():
        # Arrow writes the fewest digits that identify a float32. Python would write the digits of a
        # double.
        texts = array.cast(pa.string()).to_pylist()
        values = [None if text is None else float(text) for text in texts]
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return values
    names = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    # `value != value` is true only for NaN.
    return [
        "NaN" if value is not None and value != value else names.get(value, value)
        for value in values
    ]


def _within(array: Any, first: int, last: int) -> bool:
    extremes = library().compute.min_max(array).as_py()
    return extremes["min"] is None or (extremes["min"] >= first and extremes["max"] <= last)


def _dates(array: Any) -> list[str | None]:
    pa = library()
    days = array.cast(pa.int32())
    if _within(days, _MIN_TEXT_DAY, _MAX_TEXT_DAY):
        return list(array.cast(pa.string()).to_pylist())
    return [None if day is None else str(Date(day)) for day in days.to_pylist()]


def _times(nanoseconds: Any) -> list[str | None]:
    pa = library()
    if _within(nanoseconds, 0, _DAY_NS - 1):
        return list(nanoseconds.cast(pa.time64("ns")).cast(pa.string()).to_pylist())
    return [None if time is None else str(Time(time)) for time in nanoseconds.to_pylist()]


def _instants(array: Any) -> list[str | None]:
    pa = library()
    pc, unit = pa.compute, array.type.unit
    ticks = array.cast(pa.int64())
    if _PER_SECOND[unit] < 1000:
        ticks = pc.multiply_checked(ticks, 1000)
        unit = "ms"
    factor = _PER_SECOND[unit] // 1000
    if _within(ticks, _MIN_TEXT_MS * factor, _MAX_TEXT_MS * factor):
        texts = ticks.cast(pa.timestamp(unit)).cast(pa.string())
        texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
        return list(pc.binary_join_element_wise(texts, "Z", "").to_pylist())
    cells: list[str | None] = []
    for value in ticks.to_pylist():
        if value is None:
            cells.append(None)
            continue
        milliseconds, remainder = divmod(value, factor)
        digits = f"{remainder:0{len(str(factor)) - 1}d}" if factor > 1 else ""
        cells.append(f"{str(Timestamp(milliseconds))[:-1]}{digits}Z")
    return cells


def _duration(months: int, days: int, nanoseconds: int) -> Any:
    parts = (months, days, nanoseconds)
    if min(parts) < 0 < max(parts):
        # The text of a duration has a single sign, so it cannot express mixed signs. (No server
        # stores such a duration.)
        return {"months": months, "days": days, "nanoseconds": nanoseconds}
    return str(Duration(*parts))


def _durations(array: Any) -> list[Any]:
    columns = [array.field(name).to_pylist() for name in ("months", "days", "nanoseconds")]
    rows = zip(array.is_valid().to_pylist(), *columns, strict=True)
    return [_duration(*parts) if is_valid else None for is_valid, *parts in rows]


def _subtype(cql_type: CqlType | None, position: int) -> CqlType | None:
    return None if cql_type is None else thawed(cql_type).subtypes[position]


def _lists(array: Any, cql_type: CqlType | None) -> list[Any]:
    pc = library().compute
    field = array.type.value_field
    lengths = pc.list_value_length(array).to_pylist()
    flat: Iterator[Any] = iter(())
    # pyarrow cannot make an empty array whose elements contain an extension type.
    if any(lengths):
        flat = iter(_cells(array.flatten(), field, _subtype(cql_type, 0)))
    return [None if length is None else list(islice(flat, length)) for length in lengths]


def _maps(array: Any, cql_type: CqlType | None) -> list[Any]:
    types = library().types
    offsets = array.offsets.to_pylist()
    begin, end = offsets[0], offsets[-1]
    key_field, value_field = array.type.key_field, array.type.item_field
    keys = _cells(array.keys[begin:end], key_field, _subtype(cql_type, 0))
    values = _cells(array.items[begin:end], value_field, _subtype(cql_type, 1))
    kind = _kind(key_field, _subtype(cql_type, 0))
    has_text_keys = kind in ("text", "ascii") or (not kind and types.is_string(key_field.type))
    cells: list[Any] = []
    for row, is_valid in enumerate(array.is_valid().to_pylist()):
        if not is_valid:
            cells.append(None)
            continue
        row_slice = slice(offsets[row] - begin, offsets[row + 1] - begin)
        pairs = list(zip(keys[row_slice], values[row_slice], strict=True))
        entries = dict(pairs) if has_text_keys else None
        # If a key occurs twice in a map, a JSON object would lose an entry. So the map becomes a
        # list of pairs.
        cells.append(entries if entries is not None and len(entries) == len(pairs) else pairs)
    return cells


def _structs(array: Any, cql_type: CqlType | None) -> list[Any]:
    names = [field.name for field in array.type]
    fields = () if cql_type is None else thawed(cql_type).field_names
    columns = []
    for position, (field, column) in enumerate(zip(array.type, array.flatten(), strict=True)):
        field_position = fields.index(field.name) if field.name in fields else position
        columns.append(_cells(column, field, _subtype(cql_type, field_position)))
    rows = zip(*columns, strict=True)
    validity = array.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for is_valid, row in zip(validity, rows, strict=True)
    ]


def csv_type(field: Any, cql_type: CqlType | None) -> Any:
    """The Arrow type that a column has in CSV: a number, a boolean or text."""
    pa = library()
    arrow_type = field.type
    is_number = (
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_boolean(arrow_type)
    )
    if is_number and _kind(field, cql_type) != "time":
        return pa.float32() if pa.types.is_float16(arrow_type) else arrow_type
    return pa.string()


def csv_column(array: Any, field: Any, cql_type: CqlType | None) -> Any:
    """A column as an array of `csv_type`. pyarrow writes texts in quotes, and numbers without."""
    pa = library()
    target = csv_type(field, cql_type)
    if target != pa.string():
        return array.cast(target)
    if pa.types.is_string(array.type):
        return array
    numbers = texts_of(array)
    if numbers is not None:
        return numbers
    cells = cells_of(array, field, cql_type)
    texts = [cell if cell is None or isinstance(cell, str) else _encode(cell) for cell in cells]
    return pa.array(texts, pa.string())
