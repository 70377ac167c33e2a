"""Reads and writes cells of CSV that are lists of numbers, such as vectors. Arrow converts them.

Python's `json` creates an object for each number, and takes several times as long.
"""

from __future__ import annotations

from typing import Any

from .._core import CqlType
from .from_text import kind_of, library, thawed, type_of

__all__ = ["numbers_of", "texts_of"]

_INTEGER = "-?(0|[1-9][0-9]*)"
_NUMBERS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _INTEGER),
    **dict.fromkeys(("float", "double"), _INTEGER + r"(\.[0-9]+)?([eE][-+]?[0-9]+)?"),
}


_MAX_PART_BYTES = 2 << 20
"""How many bytes of cells are read at a time. Splitting the cells into single numbers takes several
times as much memory."""


def numbers_of(cql_type: CqlType, texts: Any) -> Any:
    """Converts the JSON of lists, sets or vectors of numbers to an Arrow column.

    Returns `None` for another type, or if Arrow cannot read all cells, for example because a cell
    is an empty array. The caller then parses each cell, and so finds the cells that are wrong.
    """
    if kind_of(cql_type) not in ("list", "set", "vector") or not len(texts):
        return None
    step = max(1, _MAX_PART_BYTES * len(texts) // max(1, texts.nbytes))
    parts = []
    for begin in range(0, len(texts), step):
        part = _numbers(cql_type, texts.slice(begin, step))
        if part is None:
            return None
        parts.append(part)
    return library().concat_arrays(parts)


def _numbers(cql_type: CqlType, texts: Any) -> Any:
    pa = library()
    pc, kind = pa.compute, kind_of(cql_type)
    number = _NUMBERS.get(kind_of(thawed(cql_type).subtypes[0]))
    if number is None or (kind == "vector" and texts.null_count):
        return None
    pattern = (
        rf"^[ \t\r\n]*\[[ \t\r\n]*{number}([ \t\r\n]*,[ \t\r\n]*{number})*[ \t\r\n]*\][ \t\r\n]*$"
    )
    if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not True:
        return None
    parts = pc.split_pattern(pc.ascii_trim(texts, " \t\r\n[]"), ",")
    list_type = type_of(cql_type)
    try:
        numbers = pc.ascii_trim_whitespace(parts.values).cast(list_type.value_type)
    except pa.ArrowInvalid:
        return None
    is_integer = pa.types.is_integer(list_type.value_type)
    if not is_integer and not pc.all(pc.is_finite(numbers)).as_py():
        return None
    if kind != "vector":
        mask = parts.is_null() if parts.null_count else None
        return pa.ListArray.from_arrays(parts.offsets, numbers, type=list_type, mask=mask)
    lengths = pc.min_max(pc.list_value_length(parts)).as_py()
    if set(lengths.values()) != {list_type.list_size}:
        return None
    return pa.FixedSizeListArray.from_arrays(numbers, type=list_type)


def texts_of(array: Any) -> Any:
    """Converts an Arrow column of lists or vectors of numbers to JSON.

    Returns `None` for a column of another type or without elements, or if an element is null, not
    finite or negative zero.
    """
    pa = library()
    pc, types = pa.compute, pa.types
    arrow_type = array.type
    if not (types.is_list(arrow_type) or types.is_fixed_size_list(arrow_type)):
        return None
    value_type = arrow_type.value_type
    if not (types.is_integer(value_type) or value_type in (pa.float32(), pa.float64())):
        return None
    values = array.flatten()
    if values.null_count or not len(values):
        return None
    texts = values.cast(pa.string())
    if types.is_floating(value_type):
        # Arrow writes a negative zero as `-0`. JSON readers read `-0` as an integer, and so lose
        # the sign.
        has_no_json_form = pc.or_(pc.invert(pc.is_finite(values)), pc.equal(texts, "-0"))
        if pc.any(has_no_json_form).as_py():
            return None
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = pa.concat_arrays(
        [pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast("int64"))]
    )
    lists = pa.ListArray.from_arrays(offsets.cast(pa.int32()), texts)
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return pc.if_else(array.is_valid(), joined, None) if array.null_count else joined
