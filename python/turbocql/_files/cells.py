"""Arrow columns as the values of JSON lines and CSV, in the forms of `text`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .._columns.pieces import refused
from .._core import CqlType
from ..types import Date, Duration, Time, Timestamp
from .number_lists import texts_of
from .text import kind_of, library, thawed

__all__ = ["cells_of", "csv_column", "csv_type"]

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_NS = 86_400_000_000_000
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The years 1 to 9999, for which Arrow writes text."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _kind(field: Any, cql_type: CqlType | None) -> str:
    """The kind of a column's CQL type, of which its field may have the text; empty if unknown."""
    if cql_type is not None:
        return kind_of(cql_type)
    text = (field.metadata or {}).get(b"cql_type", b"").decode()
    while text.startswith("frozen<"):
        text = text[7:]
    kind: str = text.split("<")[0].rstrip(">")
    return "text" if kind == "varchar" else kind


def _plain(array: Any) -> Any:
    """An array without dictionary, runs or extension."""
    pa = library()
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pa.compute.run_end_decode(array))
    return array


def _is_uuid(kind: str, array: Any) -> bool:
    of = array.type
    if getattr(of, "extension_name", "") == "arrow.uuid":
        return True
    is_16 = library().types.is_fixed_size_binary(of) and of.byte_width == 16
    return is_16 and kind in ("uuid", "timeuuid")


def cells_of(array: Any, field: Any, cql_type: CqlType | None) -> list[Any]:
    """The values of a column as those of JSON.

    Raises: `EncodeError` for a value that has no form.
    """
    try:
        return _cells(array, field, cql_type)
    except (library().ArrowException, OverflowError, UnicodeDecodeError) as error:
        raise refused(f'column "{field.name}": {error}') from error


def _cells(array: Any, field: Any, cql_type: CqlType | None) -> list[Any]:
    pa = library()
    is_, array, kind = pa.types, _plain(array), _kind(field, cql_type)
    if _is_uuid(kind, array):
        return _uuids(getattr(array, "storage", array))
    array = getattr(array, "storage", array)
    of = array.type
    if is_.is_map(of):
        return _maps(array, cql_type)
    if is_.is_list(of) or is_.is_large_list(of) or is_.is_fixed_size_list(of):
        return _lists(array, cql_type)
    if is_.is_struct(of):
        named = {child.name for child in of}
        is_duration = kind in ("duration", "") and named == {
            "months",
            "days",
            "nanoseconds",
        }
        return _durations(array) if is_duration else _structs(array, cql_type)
    return _scalars(array, of, kind)


def _scalars(array: Any, of: Any, kind: str) -> list[Any]:
    pa = library()
    is_ = pa.types
    if is_.is_integer(of) and kind == "time":
        return _times(array)
    if is_.is_boolean(of) or is_.is_integer(of) or is_.is_null(of):
        return list(array.to_pylist())
    if is_.is_floating(of):
        return _floats(array)
    if is_.is_date(of):
        return _dates(array.cast(pa.date32()))
    if is_.is_time(of):
        return _times(array.cast(pa.time64("ns")).cast(pa.int64()))
    if is_.is_timestamp(of):
        return _instants(array)
    if is_.is_duration(of):
        factor = 1_000_000_000 // _PER_SECOND[of.unit]
        values = array.cast(pa.int64()).to_pylist()
        return [None if it is None else str(Duration(0, 0, it * factor)) for it in values]
    if is_.is_interval(of):
        return [None if it is None else _duration(*it) for it in array.to_pylist()]
    if is_.is_decimal(of):
        return list(array.cast(pa.string()).to_pylist())
    if _is_binary(of) and kind not in ("text", "ascii"):
        return [None if it is None else f"0x{it.hex()}" for it in array.to_pylist()]
    texts = list(array.cast(pa.string()).to_pylist())
    return [_varint(it) for it in texts] if kind == "varint" else texts


def _is_binary(of: Any) -> bool:
    is_ = library().types
    is_view = is_.is_binary_view(of)
    return bool(is_.is_binary(of) or is_.is_large_binary(of) or is_.is_fixed_size_binary(of)) or (
        bool(is_view)
    )


def _varint(text: str | None) -> int | str | None:
    # Python converts no more than 4,300 digits.
    return text if text is None or len(text) > 4000 else int(text)


def _uuids(array: Any) -> list[str | None]:
    made: list[str | None] = []
    for value in array.to_pylist():
        if value is None:
            made.append(None)
            continue
        digits = value.hex()
        parts = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]
        made.append("-".join(parts))
    return made


def _floats(array: Any) -> list[Any]:
    pa = library()
    pc = pa.compute
    values: list[Any] = array.to_pylist()
    if array.type == pa.float32():
        # The digits that tell it from other floats, and not those of the double that it equals.
        texts = array.cast(pa.string()).to_pylist()
        values = [None if it is None else float(it) for it in texts]
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return values
    names = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    # A NaN is equal to nothing.
    return ["NaN" if it is not None and it != it else names.get(it, it) for it in values]


def _within(array: Any, first: int, last: int) -> bool:
    ends = library().compute.min_max(array).as_py()
    return ends["min"] is None or (ends["min"] >= first and ends["max"] <= last)


def _dates(array: Any) -> list[str | None]:
    pa = library()
    days = array.cast(pa.int32())
    if _within(days, _FIRST_DAY, _LAST_DAY):
        return list(array.cast(pa.string()).to_pylist())
    return [None if it is None else str(Date(it)) for it in days.to_pylist()]


def _times(nanoseconds: Any) -> list[str | None]:
    pa = library()
    if _within(nanoseconds, 0, _DAY_NS - 1):
        return list(nanoseconds.cast(pa.time64("ns")).cast(pa.string()).to_pylist())
    return [None if it is None else str(Time(it)) for it in nanoseconds.to_pylist()]


def _instants(array: Any) -> list[str | None]:
    pa = library()
    pc, unit = pa.compute, array.type.unit
    ticks = array.cast(pa.int64())
    if _PER_SECOND[unit] < 1000:
        ticks = pc.multiply_checked(ticks, 1000)
        unit = "ms"
    factor = _PER_SECOND[unit] // 1000
    if _within(ticks, _FIRST_MS * factor, _LAST_MS * factor):
        texts = ticks.cast(pa.timestamp(unit)).cast(pa.string())
        texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
        return list(pc.binary_join_element_wise(texts, "Z", "").to_pylist())
    made: list[str | None] = []
    for value in ticks.to_pylist():
        if value is None:
            made.append(None)
            continue
        whole, rest = divmod(value, factor)
        digits = f"{rest:0{len(str(factor)) - 1}d}" if factor > 1 else ""
        made.append(f"{str(Timestamp(whole))[:-1]}{digits}Z")
    return made


def _duration(months: int, days: int, nanoseconds: int) -> Any:
    parts = (months, days, nanoseconds)
    if min(parts) < 0 < max(parts):
        # No server has one, and the text has one sign for all parts.
        return {"months": months, "days": days, "nanoseconds": nanoseconds}
    return str(Duration(*parts))


def _durations(array: Any) -> list[Any]:
    columns = [array.field(name).to_pylist() for name in ("months", "days", "nanoseconds")]
    rows = zip(array.is_valid().to_pylist(), *columns, strict=True)
    return [_duration(*parts) if valid else None for valid, *parts in rows]


def _part(cql_type: CqlType | None, number: int) -> CqlType | None:
    return None if cql_type is None else thawed(cql_type).subtypes[number]


def _lists(array: Any, cql_type: CqlType | None) -> list[Any]:
    pc = library().compute
    field = array.type.value_field
    lengths = pc.list_value_length(array).to_pylist()
    flat: Iterator[Any] = iter(())
    # pyarrow cannot make an array of no elements that have an extension type within them.
    if any(lengths):
        flat = iter(_cells(array.flatten(), field, _part(cql_type, 0)))
    return [None if length is None else list(islice(flat, length)) for length in lengths]


def _maps(array: Any, cql_type: CqlType | None) -> list[Any]:
    is_ = library().types
    offsets = array.offsets.to_pylist()
    begin, end = offsets[0], offsets[-1]
    key_field, value_field = array.type.key_field, array.type.item_field
    keys = _cells(array.keys[begin:end], key_field, _part(cql_type, 0))
    values = _cells(array.items[begin:end], value_field, _part(cql_type, 1))
    kind = _kind(key_field, _part(cql_type, 0))
    of_texts = kind in ("text", "ascii") or (not kind and is_.is_string(key_field.type))
    made: list[Any] = []
    for place, valid in enumerate(array.is_valid().to_pylist()):
        if not valid:
            made.append(None)
            continue
        part = slice(offsets[place] - begin, offsets[place + 1] - begin)
        own = list(zip(keys[part], values[part], strict=True))
        entries = dict(own) if of_texts else None
        # Entries with one key would be lost in an object.
        made.append(entries if entries is not None and len(entries) == len(own) else own)
    return made


def _structs(array: Any, cql_type: CqlType | None) -> list[Any]:
    names = [field.name for field in array.type]
    fields = () if cql_type is None else thawed(cql_type).field_names
    columns = []
    for place, (field, column) in enumerate(zip(array.type, array.flatten(), strict=True)):
        number = fields.index(field.name) if field.name in fields else place
        columns.append(_cells(column, field, _part(cql_type, number)))
    rows = zip(*columns, strict=True)
    valid = array.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if it else None
        for it, row in zip(valid, rows, strict=True)
    ]


def csv_type(field: Any, cql_type: CqlType | None) -> Any:
    """The Arrow type of a column that is written to CSV."""
    pa = library()
    of = field.type
    is_number = pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_boolean(of)
    if is_number and _kind(field, cql_type) != "time":
        return pa.float32() if pa.types.is_float16(of) else of
    return pa.string()


def csv_column(array: Any, field: Any, cql_type: CqlType | None) -> Any:
    """A column as numbers or as texts, which CSV has in quotes."""
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
    texts = [it if it is None or isinstance(it, str) else _encode(it) for it in cells]
    return pa.array(texts, pa.string())
