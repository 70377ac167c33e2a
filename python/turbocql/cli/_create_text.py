"""The CQL types of columns of CSV and JSON lines, which their first rows tell.

A type is chosen only if it keeps each of these rows as the file has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from .._files.text import UNREADABLE, Number, from_texts, guessed, library
from ..codec import CqlType
from ..errors import ConfigError

__all__ = ["type_of_texts", "type_of_values"]

_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([-+]?[0-9]+))?")
_PADDED = re.compile(r"[-+]?0[0-9]")
"""How a post code, a phone number or the number of an order begins."""
_PHONE = re.compile(r"\+[0-9]{7,15}")
_NO_NUMBER = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)
_NO_NUMBER_OF_JSON = {"NaN", "Infinity", "-Infinity"}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def type_of_texts(cells: Iterable[str | None], *, truncates: bool) -> str:
    """The type of a column of CSV.

    `truncates`: the load drops what is finer than a millisecond.
    """
    texts = [cell for cell in cells if cell is not None]
    numbers = [it for it in texts if not _NO_NUMBER.fullmatch(it)]
    if numbers and all(map(_NUMBER.fullmatch, numbers)):
        return _type_of_numbers(numbers, is_finite=len(numbers) == len(texts)) or "text"
    if texts and all(it.lower() in ("true", "false") for it in texts):
        return "boolean"
    return _type_of_words(texts, truncates)


def _type_of_numbers(texts: Sequence[str], *, is_finite: bool) -> str | None:
    """The type of numbers; `None` if text alone keeps them.

    `is_finite`: the column has neither NaN nor infinities, which only doubles have.
    """
    if any(_PADDED.match(it) or _PHONE.fullmatch(it) for it in texts):
        return None
    is_whole = all(map(_WHOLE.fullmatch, texts))
    if is_whole and is_finite and "-0" not in texts:
        return _type_of_integers(texts)
    if all(map(_is_kept, texts)):
        return "double"
    if not is_finite:
        return None
    if is_whole:
        return _type_of_integers(texts)
    return "decimal" if all(map(_is_decimal, texts)) else None


def _type_of_integers(texts: Sequence[str]) -> str:
    # Python converts no more than 4,300 digits, and a bigint has 19.
    is_short = all(len(it) <= 20 and -(2**63) <= int(it) < 2**63 for it in texts)
    return "bigint" if is_short else "varint"


def _is_kept(text: str) -> bool:
    """Whether a double, written with as many digits as tell it from others, is this number."""
    number = float(text)
    if number == 0:
        return not re.search("[1-9]", re.split("[eE]", text)[0])
    return math.isfinite(number) and Decimal(text) == Decimal(repr(number))


def _is_decimal(text: str) -> bool:
    """Whether the places after the point are a number of 32 bits, as a CQL decimal has it."""
    found = _NUMBER.fullmatch(text)
    if found is None or len(found[2] or "") > 12:
        return False
    places = len(found[1].partition(".")[2]) - int(found[2] or 0)
    return -(2**31) <= places < 2**31


def _type_of_words(texts: list[str], truncates: bool) -> str:
    if not texts:
        return "text"
    for kind, pattern in (("date", _DAY), ("uuid", _UUID)):
        # Some dates are none, such as 2020-02-30.
        if all(map(pattern.fullmatch, texts)) and _is_taken(kind, texts):
            return kind
    pa = library()
    try:
        found = guessed(pa.array(texts, pa.string())).type
    except UNREADABLE:
        # JSON can have half of a surrogate pair, and UTF-8 cannot.
        return "text"
    is_time = pa.types.is_timestamp(found) and (truncates or found.unit == "ms")
    return "timestamp" if is_time else "text"


def _is_taken(kind: str, texts: Sequence[str]) -> bool:
    """Whether a load reads all texts as values of a type."""
    pa = library()
    try:
        from_texts(CqlType(kind), pa.array(texts, pa.string()))
    except UNREADABLE:
        return False
    return True


def type_of_values(cells: Iterable[Any], name: str, *, truncates: bool) -> str:
    """The type of values of JSON. Their numbers are `int` and `Number`.

    Raises: `ConfigError` where they have none in common.
    """
    values = [cell for cell in cells if cell is not None]
    found = set(map(type, values))
    if found & {int, Number}:
        rest = [it for it in values if type(it) not in (int, Number)]
        if all(isinstance(it, str) and it in _NO_NUMBER_OF_JSON for it in rest):
            numbers = [str(it) for it in values if type(it) in (int, Number)]
            made = _type_of_numbers(numbers, is_finite=not rest)
            if made is not None:
                return made
    if found <= {str}:
        return _type_of_words(values, truncates)
    if found == {bool}:
        return "boolean"
    if found in ({list}, {dict}):
        parts = [it.values() if isinstance(it, dict) else it for it in values]
        flat = [it for part in parts for it in part]
        if None in flat:
            raise ConfigError(
                f'column "{name}" has a null within an array or an object, which no CQL list or map'
                f' holds: name its type with --type "{name}=TYPE", such as a user-defined type'
            )
        inner = type_of_values(flat, name, truncates=truncates)
        return f"list<{inner}>" if found == {list} else f"map<text, {inner}>"
    if found <= {int, Number}:
        raise ConfigError(
            f'column "{name}" has a number whose exponent no CQL type holds: name a type with'
            f' --type "{name}=TYPE"'
        )
    words: dict[type, str] = {Number: "float", dict: "object", list: "array"}
    kinds = ", ".join(sorted({words.get(it, it.__name__) for it in found}))
    raise ConfigError(
        f'column "{name}" has values of several kinds ({kinds}): name its type with'
        f' --type "{name}=TYPE"'
    )
