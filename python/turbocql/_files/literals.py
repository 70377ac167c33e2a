"""Reads collections, tuples and user-defined types in cells of CSV.

A cell is JSON, or a CQL literal as cqlsh writes it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .._core import CqlType
from .from_text import INTEGERS, Number, kind_of, names_of, thawed

__all__ = ["parse_nested_cell"]

_NUMBERS = {*INTEGERS, "varint", "decimal", "float", "double"}
_NULL = re.compile(r"(?:null|NULL|None)(?!\w)")
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s:,{}]+)')
_DATE = r"[-+]?[0-9]{4,9}-[0-9]{2}-[0-9]{2}"
_UNQUOTED_PATTERNS = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        **dict.fromkeys(
            _NUMBERS,
            r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|nan|inf(?:inity)?)",
        ),
        **dict.fromkeys(("uuid", "timeuuid"), r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        **dict.fromkeys(("blob", "custom", "composite"), r"0x[0-9a-f]*"),
        "boolean": r"true|false",
        "date": _DATE,
        "time": r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?|-?[0-9]+ns",
        "timestamp": rf"{_DATE}(?:[ T][0-9:.]+ ?(?:Z|[-+][0-9:]+)?)?|-?[0-9]+",
        "duration": r"-?(?:[0-9]+(?:mo|ms|us|\u00b5s|ns|[ywdhms]))+",
        "inet": r"[0-9a-f:.]+",
    }.items()
}
"""The patterns of values that are written without quotes. Values of other types are in quotes."""
_EXAMPLES = {
    **dict.fromkeys(_NUMBERS, 1),
    **{"float": 0.5, "double": 0.5, "boolean": True, "blob": "0x00", "inet": "127.0.0.1"},
    **dict.fromkeys(("uuid", "timeuuid"), "9f1c5b9e-2a5c-4d5c-8d8f-0a1b2c3d4e5f"),
    **{"date": "2026-01-31", "time": "08:30:00", "timestamp": "2026-01-31T08:30:00Z"},
    "duration": "1h30m",
}


def parse_nested_cell(cql_type: CqlType, text: str, decoder: json.JSONDecoder) -> Any:
    """Parses a cell. Returns a value such as `json` returns, for `json_values.column_of`.

    Raises: `ValueError`, with an example, for text that is neither JSON nor a CQL literal.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("expected JSON: it is nested too deeply") from None
    except ValueError as error:
        try:
            return _Literal(text).parse(cql_type)
        except ValueError as literal_error:
            example = json.dumps(_example(cql_type), ensure_ascii=False)
            raise ValueError(
                f"expected JSON such as {example} for {cql_type}, or a CQL literal: as JSON,"
                f" {_reason(error)}; as a literal, {literal_error}"
            ) from None


def _reason(error: ValueError) -> str:
    """Says why a cell is not JSON. The message of a `JSONDecodeError` states the position twice, as
    a line with a column and as a number of characters. The result states it once.
    """
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos + 1}"


def _example(cql_type: CqlType) -> Any:
    cql_type = thawed(cql_type)
    kind, parts = cql_type.kind, cql_type.subtypes
    if kind in ("list", "set", "vector"):
        return [_example(parts[0])] * (cql_type.dimension or 1)
    if kind == "map":
        key, value = map(_example, parts)
        return {key: value} if kind_of(parts[0]) in ("text", "ascii") else [[key, value]]
    if kind in ("tuple", "udt"):
        values = list(map(_example, parts))
        return values if kind == "tuple" else dict(zip(names_of(cql_type), values, strict=True))
    return _EXAMPLES.get(kind, "a")


class _Literal:
    """A CQL literal that is read from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._position = text, 0

    def parse(self, cql_type: CqlType) -> Any:
        """The value of the text.

        Raises: `ValueError` for other text.
        """
        value = self._value(cql_type)
        self._skip_spaces()
        if self._position != len(self._text):
            raise self._error("the end")
        return value

    def _error(self, expected: str) -> ValueError:
        following_text = self._text[self._position : self._position + 20]
        return ValueError(
            f"expected {expected} at character {self._position + 1}, got {following_text!r}"
        )

    def _skip_spaces(self) -> None:
        while self._text[self._position : self._position + 1].isspace():
            self._position += 1

    def _accept(self, mark: str) -> bool:
        self._skip_spaces()
        if not self._text.startswith(mark, self._position):
            return False
        self._position += 1
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise self._error(f"{mark!r}")

    def _consume(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self._skip_spaces()
        match = pattern.match(self._text, self._position)
        if match is not None:
            self._position = match.end()
        return match

    def _value(self, cql_type: CqlType) -> Any:
        cql_type = thawed(cql_type)
        kind, parts = cql_type.kind, cql_type.subtypes
        if self._consume(_NULL) is not None:
            return None
        if kind in ("list", "vector", "set"):
            begin, end = "{}" if kind == "set" else "[]"
            return self._items(begin, end, lambda number: self._value(parts[0]))
        if kind == "map":
            return self._items("{", "}", lambda number: self._entry(*parts))
        if kind == "tuple":
            return self._items("(", ")", lambda number: self._component(parts, number))
        if kind == "udt":
            fields = dict(zip(names_of(cql_type), parts, strict=True))
            pairs = self._items("{", "}", lambda number: self._field(fields))
            if len(dict(pairs)) != len(pairs):
                raise ValueError("a field has two values")
            return dict(pairs)
        return self._scalar(kind)

    def _items(self, begin: str, end: str, read: Any) -> list[Any]:
        self._expect(begin)
        items: list[Any] = []
        while not self._accept(end):
            if items:
                self._expect(",")
            items.append(read(len(items)))
        return items

    def _entry(self, key_type: CqlType, value_type: CqlType) -> list[Any]:
        entry_key = self._value(key_type)
        self._expect(":")
        return [entry_key, self._value(value_type)]

    def _component(self, types: Any, number: int) -> Any:
        if number >= len(types):
            raise self._error(f"{len(types)} values")
        return self._value(types[number])

    def _field(self, fields: dict[str, CqlType]) -> tuple[str, Any]:
        match = self._consume(_NAME)
        name = "" if match is None else match[2] or (match[1] or "").replace('""', '"')
        if name not in fields:
            # In CQL, an unquoted name means the name in lower case. But cqlsh writes all names
            # without quotes, so the name was first compared as it is written.
            name = name.lower() if match is not None and match[2] else name
        if name not in fields:
            raise self._error(f"one of the fields {', '.join(fields)}")
        self._expect(":")
        self._skip_spaces()
        # cqlsh writes nothing after the colon for a null.
        is_null = self._text[self._position : self._position + 1] in (",", "}")
        return name, None if is_null else self._value(fields[name])

    def _scalar(self, kind: str) -> Any:
        match = self._consume(_QUOTED)
        if match is not None:
            if "\\" in match[1]:
                # In files of cqlsh, a backslash may be half of a doubled backslash, or the
                # beginning of an escape. So its meaning is not known.
                raise ValueError("a backslash, which tools write in different ways")
            return match[1].replace("''", "'")
        pattern = _UNQUOTED_PATTERNS.get(kind)
        match = None if pattern is None else self._consume(pattern)
        if match is None:
            raise self._error(f"{kind}" if pattern else f"{kind} in single quotes")
        if kind in _NUMBERS:
            return Number(match[0])
        if kind == "boolean":
            return match[0].lower() == "true"
        is_number = kind == "timestamp" and re.fullmatch("-?[0-9]+", match[0])
        return int(match[0]) if is_number else match[0]
