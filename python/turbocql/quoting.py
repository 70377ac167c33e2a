"""Writes names and values as CQL text, for statements that take no bind markers.

Pass values for bind markers wherever the server takes bind markers. Statements that change the
schema, roles or permissions take none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._cql.literals import literal
from ._cql.names import in_quotes
from .errors import EncodeError

if TYPE_CHECKING:
    from .codec import CqlType

__all__ = ["quote_identifier", "quote_literal"]


def quote_identifier(name: str, /, *names: str) -> str:
    """Writes the name of a keyspace, table, column, type, index or role in double quotes.

    Several names, such as a keyspace's and a table's name, are joined by dots. A name in quotes
    keeps its letter case, may have any characters, and is never a keyword.

    Raises: `TypeError` unless every name is a `str`; `ValueError` for an empty name, and for one
        that cannot be sent as UTF-8.

    Example:
        >>> turbocql.quote_identifier("app", 'a "b" c')
        '"app"."a ""b"" c"'
    """
    for part in (name, *names):
        if not isinstance(part, str):
            raise TypeError(f"a name must be a str, got {type(part).__name__}")
        if not part:
            raise ValueError("a name in CQL has at least one character")
        if any("\ud800" <= character <= "\udfff" for character in part):
            raise ValueError("a name with half a surrogate pair cannot be sent as UTF-8")
    return ".".join(map(in_quotes, (name, *names)))


def quote_literal(value: Any, cql_type: str | CqlType | None = None) -> str:
    r"""Writes a value as a CQL literal. No text in the value can end the literal early.

    | value | literal |
    |---|---|
    | `str`, `ipaddress` objects, `date`, `time`, `turbocql.Time` | `'it''s'` |
    | `bytes` | `0x00ff` |
    | `int`, `float`, `Decimal`, NumPy's numbers | `5`, `1.5`, `NaN`, `-Infinity` |
    | `bool`, `None`, `UUID`, `Duration`, `timedelta` | `true`, `null`, the UUID, `1mo2d3s` |
    | `datetime` (naive: UTC), `turbocql.Timestamp` | `'2026-01-31 08:30:00.000Z'` |
    | a list, an array, another sequence: for lists and vectors | `[1, 2]` |
    | a set | `{1, 2}` |
    | a mapping | `{'a': 1}` |
    | a tuple | `(1, 'a')` |
    | an object with fields (see below), for user-defined types | `{a: 1}` |

    A `datetime` before 1600 is written as its milliseconds, because servers read earlier dates in
    text by another calendar. Objects with fields are named tuples, dataclasses, and objects of
    attrs, msgspec and pydantic.

    With `cql_type`, a type as for [`encode`][turbocql.codec.encode], the value is first converted
    to this type, as a bind value would be. So a tuple can be written as a list, and a mapping as a
    user-defined type. A value that the type cannot take is an error.

    Raises: `EncodeError` for a value that has no literal, or that the type cannot take;
        `ValueError` for text that is not a CQL type.

    Example:
        >>> turbocql.quote_literal({"it's": [b"\x00", None]})
        "{'it''s': [0x00, null]}"
        >>> turbocql.quote_literal((1, 2), "list<int>")
        '[1, 2]'
    """
    try:
        if cql_type is None:
            return literal(value)
        # Imported here, because the codec is large, and most calls do not pass `cql_type`.
        from .codec import CqlType, decode, encode

        converted = None if value is None else decode(cql_type, encode(cql_type, value))
        return literal(converted, CqlType(cql_type))
    except RecursionError:
        raise EncodeError("a value that is nested too deeply has no CQL literal") from None
