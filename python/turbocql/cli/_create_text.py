"""Infers the CQL types of columns of CSV and JSON lines from their first rows.

A type is chosen only if it stores each value of these rows without a change. The one exception:
with `truncates`, timestamps may lose fractions of a millisecond.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from .._files.from_text import UNREADABLE, Number, from_texts, library
from .._files.untyped import guessed
from ..codec import CqlType
from ..errors import ConfigError

__all__ = ["type_of_texts", "type_of_values"]

_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([-+]?[0-9]+))?")
_PADDED = re.compile(r"[-+]?0[0-9]")
"""Matches leading zeros, as in post codes, phone numbers and order numbers."""
_PHONE = re.compile(r"\+[0-9]{7,15}")
_NAN_OR_INFINITY = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)
_JSON_NAN_OR_INFINITY = {"NaN", "Infinity", "-Infinity"}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def type_of_texts(cells: Iterable[str | None], *, truncates: bool) -> str:
    """The type of a column of CSV.

    `truncates` says whether the load drops fractions of a millisecond.
    """
    texts = [cell for cell in cells if cell is not None]
    numbers = [text for text in texts if not _NAN_OR_INFINITY.fullmatch(text)]
    if numbers and all(map(_NUMBER.fullmatch, numbers)):
        return _type_of_numbers(numbers, is_finite=len(numbers) == len(texts)) or "text"
    if texts and all(text.lower() in ("true", "false") for text in texts):
        return "boolean"
    return _type_of_words(texts, truncates)


def _type_of_numbers(texts: Sequence[str], *, is_finite: bool) -> str | None:
    """Returns the type of numbers, or `None` if only text stores them without a change.

    `is_finite` says whether the column has neither NaN nor infinities. Of the types that this
    function chooses, only `double` can store NaN and infinities.
    """
    if any(_PADDED.match(text) or _PHONE.fullmatch(text) for text in texts):
        return None
    is_integer = all(map(_INTEGER.fullmatch, texts))
    if is_integer and is_finite and "-0" not in texts:
        return _type_of_integers(texts)
    if all(map(_is_exact_double, texts)):
        return "double"
    if not is_finite:
        return None
    if is_integer:
        return _type_of_integers(texts)
    return "decimal" if all(map(_is_decimal, texts)) else None


def _type_of_integers(texts: Sequence[str]) -> str:
    # A bigint has at most 19 digits and a sign. Longer texts are not converted, because by default
    # Python refuses more than 4,300 digits.
    is_short = all(len(text) <= 20 and -(2**63) <= int(text) < 2**63 for text in texts)
    return "bigint" if is_short else "varint"


def _is_exact_double(text: str) -> bool:
    """Whether the shortest decimal form of the nearest double equals this number."""
    number = float(text)
    if number == 0:
        return not re.search("[1-9]", re.split("[eE]", text)[0])
    return math.isfinite(number) and Decimal(text) == Decimal(repr(number))


def _is_decimal(text: str) -> bool:
    """Whether the number of places after the point fits the 32 bits of a CQL decimal's scale."""
    match = _NUMBER.fullmatch(text)
    if match is None or len(match[2] or "") > 12:
        return False
    places = len(match[1].partition(".")[2]) - int(match[2] or 0)
    return -(2**31) <= places < 2**31


def _type_of_words(texts: list[str], truncates: bool) -> str:
    if not texts:
        return "text"
    for kind, pattern in (("date", _DAY), ("uuid", _UUID)):
        # A text such as 2020-02-30 matches the pattern, but is not a date.
        if all(map(pattern.fullmatch, texts)) and _is_loadable(kind, texts):
            return kind
    pa = library()
    try:
        guessed_type = guessed(pa.array(texts, pa.string())).type
    except UNREADABLE:
        # A text of JSON may contain an unpaired surrogate, which UTF-8 cannot encode.
        return "text"
    is_time = pa.types.is_timestamp(guessed_type) and (truncates or guessed_type.unit == "ms")
    return "timestamp" if is_time else "text"


def _is_loadable(kind: str, texts: Sequence[str]) -> bool:
    """Whether a load reads all texts as values of a type."""
    pa = library()
    try:
        from_texts(CqlType(kind), pa.array(texts, pa.string()))
    except UNREADABLE:
        return False
    return True


def type_of_values(cells: Iterable[Any], name: str, *, truncates: bool) -> str:
    """The type of values of JSON. Numbers among them are objects of `int` and `Number`.

    Raises: `ConfigError` if the values have no type in common.
    """
    values = [cell for cell in cells if cell is not None]
    value_types = set(map(type, values))
    if value_types & {int, Number}:
        other_values = [value for value in values if type(value) not in (int, Number)]
        if all(isinstance(value, str) and value in _JSON_NAN_OR_INFINITY for value in other_values):
            numbers = [str(value) for value in values if type(value) in (int, Number)]
            number_type = _type_of_numbers(numbers, is_finite=not other_values)
            if number_type is not None:
                return number_type
    if value_types <= {str}:
        return _type_of_words(values, truncates)
    if value_types == {bool}:
        return "boolean"
    if value_types in ({list}, {dict}):
        parts = [value.values() if isinstance(value, dict) else value for value in values]
        flat = [element for part in parts for element in part]
        if None in flat:
            raise ConfigError(
                f'column "{name}" has a null within an array or an object, which no CQL list or map'
                f' holds: name its type with --type "{name}=TYPE", such as a user-defined type'
            )
        inner = type_of_values(flat, name, truncates=truncates)
        return f"list<{inner}>" if value_types == {list} else f"map<text, {inner}>"
    if value_types <= {int, Number}:
        raise ConfigError(
            f'column "{name}" has a number whose exponent no CQL type holds: name a type with'
            f' --type "{name}=TYPE"'
        )
    words: dict[type, str] = {
        **{Number: "number", int: "whole number", str: "text", bool: "boolean"},
        **{dict: "object", list: "array"},
    }
    kinds = ", ".join(
        sorted({words.get(value_type, value_type.__name__) for value_type in value_types})
    )
    raise ConfigError(
        f'column "{name}" has values of several kinds ({kinds}): name its type with'
        f' --type "{name}=TYPE"'
    )
