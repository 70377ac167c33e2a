"""Lists of numbers in cells of CSV, read and written by Arrow: vectors, for the most part.

Python's `json` makes an object of each number, which takes several times as long.
"""

from __future__ import annotations

from typing import Any

from .._core import CqlType
from .text import kind_of, library, thawed, type_of

__all__ = ["numbers_of", "texts_of"]

_WHOLE = "-?(0|[1-9][0-9]*)"
_NUMBERS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    **dict.fromkeys(("float", "double"), _WHOLE + r"(\.[0-9]+)?([eE][-+]?[0-9]+)?"),
}


_BYTES = 2 << 20
"""So many are read at a time: a text of each number takes several times the room."""


def numbers_of(cql_type: CqlType, texts: Any) -> Any:
    """An Arrow column of lists, sets or vectors of numbers, from their JSON; `None` if a cell is
    anything else, empty or wrong: then another way finds what it is.
    """
    if kind_of(cql_type) not in ("list", "set", "vector") or not len(texts):
        return None
    step = max(1, _BYTES * len(texts) // max(1, texts.nbytes))
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
    whole = (
        rf"^[ \t\r\n]*\[[ \t\r\n]*{number}([ \t\r\n]*,[ \t\r\n]*{number})*[ \t\r\n]*\][ \t\r\n]*$"
    )
    if pc.all(pc.match_substring_regex(texts, whole)).as_py() is not True:
        return None
    parts = pc.split_pattern(pc.ascii_trim(texts, " \t\r\n[]"), ",")
    wanted = type_of(cql_type)
    try:
        numbers = pc.ascii_trim_whitespace(parts.values).cast(wanted.value_type)
    except pa.ArrowInvalid:
        return None
    is_whole = pa.types.is_integer(wanted.value_type)
    if not is_whole and not pc.all(pc.is_finite(numbers)).as_py():
        return None
    if kind != "vector":
        mask = parts.is_null() if parts.null_count else None
        return pa.ListArray.from_arrays(parts.offsets, numbers, type=wanted, mask=mask)
    lengths = pc.min_max(pc.list_value_length(parts)).as_py()
    if set(lengths.values()) != {wanted.list_size}:
        return None
    return pa.FixedSizeListArray.from_arrays(numbers, type=wanted)


def texts_of(array: Any) -> Any:
    """The JSON of lists or vectors of numbers; `None` for other columns, and where a number has no
    form of its own in JSON.
    """
    pa = library()
    pc, types = pa.compute, pa.types
    of = array.type
    if not (types.is_list(of) or types.is_fixed_size_list(of)):
        return None
    kind = of.value_type
    if not (types.is_integer(kind) or kind in (pa.float32(), pa.float64())):
        return None
    values = array.flatten()
    if values.null_count or not len(values):
        return None
    texts = values.cast(pa.string())
    if types.is_floating(kind):
        # Without a fraction, a negative zero would be read as a whole number, which has no sign.
        is_odd = pc.or_(pc.invert(pc.is_finite(values)), pc.equal(texts, "-0"))
        if pc.any(is_odd).as_py():
            return None
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = pa.concat_arrays(
        [pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast("int64"))]
    )
    lists = pa.ListArray.from_arrays(offsets.cast(pa.int32()), texts)
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return pc.if_else(array.is_valid(), joined, None) if array.null_count else joined
