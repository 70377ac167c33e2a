"""Collections, tuples and user-defined types in cells of CSV: JSON, or CQL literals as cqlsh writes
them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .._core import CqlType
from .text import INTEGERS, Number, kind_of, names_of, thawed

__all__ = ["nested_of"]

_NUMBERS = {*INTEGERS, "varint", "decimal", "float", "double"}
_NULL = re.compile(r"(?:null|NULL|None)(?!\w)")
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s:,{}]+)')
_DAY = r"[-+]?[0-9]{4,9}-[0-9]{2}-[0-9]{2}"
_BARE = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        **dict.fromkeys(
            _NUMBERS,
            r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|nan|inf(?:inity)?)",
        ),
        **dict.fromkeys(("uuid", "timeuuid"), r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        **dict.fromkeys(("blob", "custom", "composite"), r"0x[0-9a-f]*"),
        "boolean": r"true|false",
        "date": _DAY,
        "time": r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?|-?[0-9]+ns",
        "timestamp": rf"{_DAY}(?:[ T][0-9:.]+ ?(?:Z|[-+][0-9:]+)?)?|-?[0-9]+",
        "duration": r"-?(?:[0-9]+(?:mo|ms|us|\u00b5s|ns|[ywdhms]))+",
        "inet": r"[0-9a-f:.]+",
    }.items()
}
"""How values are written without quotes. All others have them."""
_EXAMPLES = {
    **dict.fromkeys(_NUMBERS, 1),
    **{"float": 0.5, "double": 0.5, "boolean": True, "blob": "0x00", "inet": "127.0.0.1"},
    **dict.fromkeys(("uuid", "timeuuid"), "9f1c5b9e-2a5c-4d5c-8d8f-0a1b2c3d4e5f"),
    **{"date": "2026-01-31", "time": "08:30:00", "timestamp": "2026-01-31T08:30:00Z"},
    "duration": "1h30m",
}


def nested_of(cql_type: CqlType, text: str, decoder: json.JSONDecoder) -> Any:
    """The value of a cell, in the form of JSON that `column_of` takes.

    Raises: `ValueError` with an example for the type.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("expected JSON: it is nested too deeply") from None
    except ValueError as error:
        try:
            return _Literal(text).whole(cql_type)
        except ValueError as own:
            example = json.dumps(_example(cql_type), ensure_ascii=False)
            raise ValueError(
                f"expected JSON such as {example} for {cql_type}, or a CQL literal: as JSON,"
                f" {error}; as a literal, {own}"
            ) from None


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
        self._text, self._at = text, 0

    def whole(self, cql_type: CqlType) -> Any:
        """The value of the whole text."""
        made = self._value(cql_type)
        self._skip()
        if self._at != len(self._text):
            raise self._wrong("the end")
        return made

    def _wrong(self, expected: str) -> ValueError:
        found = self._text[self._at : self._at + 20]
        return ValueError(f"expected {expected} at character {self._at + 1}, got {found!r}")

    def _skip(self) -> None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1

    def _takes(self, mark: str) -> bool:
        self._skip()
        if not self._text.startswith(mark, self._at):
            return False
        self._at += 1
        return True

    def _needs(self, mark: str) -> None:
        if not self._takes(mark):
            raise self._wrong(f"{mark!r}")

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self._skip()
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _value(self, cql_type: CqlType) -> Any:
        cql_type = thawed(cql_type)
        kind, parts = cql_type.kind, cql_type.subtypes
        if self._match(_NULL) is not None:
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
        self._needs(begin)
        made: list[Any] = []
        while not self._takes(end):
            if made:
                self._needs(",")
            made.append(read(len(made)))
        return made

    def _entry(self, key: CqlType, value: CqlType) -> list[Any]:
        made = self._value(key)
        self._needs(":")
        return [made, self._value(value)]

    def _component(self, types: Any, number: int) -> Any:
        if number >= len(types):
            raise self._wrong(f"{len(types)} values")
        return self._value(types[number])

    def _field(self, fields: dict[str, CqlType]) -> tuple[str, Any]:
        found = self._match(_NAME)
        name = "" if found is None else found[2] or (found[1] or "").replace('""', '"')
        if name not in fields:
            # Names without quotes are in lower case; cqlsh writes all without.
            name = name.lower() if found is not None and found[2] else name
        if name not in fields:
            raise self._wrong(f"one of the fields {', '.join(fields)}")
        self._needs(":")
        self._skip()
        # cqlsh writes nothing for a null.
        is_null = self._text[self._at : self._at + 1] in (",", "}")
        return name, None if is_null else self._value(fields[name])

    def _scalar(self, kind: str) -> Any:
        found = self._match(_QUOTED)
        if found is not None:
            if "\\" in found[1]:
                # cqlsh writes some of them twice, and some characters as escapes.
                raise ValueError("a backslash, which tools write in different ways")
            return found[1].replace("''", "'")
        pattern = _BARE.get(kind)
        found = None if pattern is None else self._match(pattern)
        if found is None:
            raise self._wrong(f"{kind}" if pattern else f"{kind} in single quotes")
        if kind in _NUMBERS:
            return Number(found[0])
        if kind == "boolean":
            return found[0].lower() == "true"
        is_number = kind == "timestamp" and re.fullmatch("-?[0-9]+", found[0])
        return int(found[0]) if is_number else found[0]
