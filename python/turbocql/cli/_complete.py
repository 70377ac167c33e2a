"""Completes CQL: its words, and names from the schema of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ._console import COMMANDS, LEVELS
from ._describe import GROUPS, KIND_OF_GROUP, KIND_WORDS, group_names

__all__ = ["completions"]

_WORDS = (
    *("ADD", "AGGREGATE", "ALL", "ALLOW", "ALTER", "AND", "APPLY", "AS", "ASC", "AUTHORIZE"),
    *("BATCH", "BEGIN", "BY", "CALLED", "CLUSTERING", "COLUMNFAMILY", "CONTAINS", "COUNT"),
    *("COUNTER", "CREATE", "CUSTOM", "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DROP", "ENTRIES"),
    *("EXECUTE", "EXISTS", "FILTERING", "FINALFUNC", "FROM", "FROZEN", "FULL", "FUNCTION", "GRANT"),
    *("GROUP", "IF", "IN", "INDEX", "INITCOND", "INPUT", "INSERT", "INTO", "IS", "JSON", "KEY"),
    *(
        "KEYS",
        "KEYSPACE",
        "KEYSPACES",
        "LANGUAGE",
        "LIKE",
        "LIMIT",
        "LIST",
        "LOGIN",
        "MATERIALIZED",
    ),
    *("MODIFY", "NORECURSIVE", "NOT", "NULL", "ON", "OR", "ORDER", "PARTITION", "PASSWORD", "PER"),
    *(
        "PERMISSIONS",
        "PRIMARY",
        "RENAME",
        "REPLACE",
        "RETURNS",
        "REVOKE",
        "ROLE",
        "ROLES",
        "SELECT",
    ),
    *("SET", "SFUNC", "STATIC", "STORAGE", "STYPE", "SUPERUSER", "TABLE", "TABLES", "TIMESTAMP"),
    *("TO", "TOKEN", "TRIGGER", "TRUNCATE", "TTL", "TYPE", "UNLOGGED", "UPDATE", "USE", "USER"),
    *("USERS", "USING", "VALUES", "VIEW", "WHERE", "WITH", "WRITETIME", "ANN", "OF"),
)
_TYPES = (
    *("ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration"),
    *("float", "inet", "int", "list", "map", "set", "smallint", "text", "time", "timestamp"),
    *("timeuuid", "tinyint", "tuple", "uuid", "varchar", "varint", "vector"),
)
_SWITCH = ("ON", "OFF")
_AFTER_COMMAND = {
    **dict.fromkeys(("TRACING", "EXPAND", "TIMING", "PAGING"), _SWITCH),
    **{"CONSISTENCY": LEVELS, "SERIAL": ("CONSISTENCY",), "FORMAT": ("table", "csv", "jsonl")},
    **{"CAPTURE": ("OFF",), "SHOW": ("VERSION", "HOST")},
    **dict.fromkeys(("DESC", "DESCRIBE"), ("KEYSPACES", "SCHEMA", "CLUSTER", *KIND_WORDS, *GROUPS)),
}
_FOLLOWING_WORD = {"ORDER": ("BY",), "GROUP": ("BY",), "PRIMARY": ("KEY",), "ALLOW": ("FILTERING",)}
"""Maps a word to the only word that can follow this word."""
_NAME = r'(?:"(?:[^"]|"")*"|[A-Za-z_]\w*)'
_BEFORE_TABLE = {"FROM", "INTO", "UPDATE", "TABLE", "TRUNCATE", "DESCRIBE", "DESC", "ON", "\\D"}


def completions(text: str, schema: Any, keyspace: str | None) -> Iterator[tuple[str, int, str]]:
    """Yields words that may come next in a text, or that complete the word at its end.

    Each tuple has the word, the number of characters that it replaces at the end of the text, and
    its kind, such as `table`. The kind is empty for words of CQL. `schema` is `None` until it has
    been read.
    """
    quote = re.search(r"'(?:[^']|'')*$", re.sub(r"'(?:[^']|'')*'", "", text))
    if quote is not None:
        return
    qualified = re.search(rf'({_NAME})\.("?\w*)$', text)
    is_description = re.match(r"(?i)\s*(?:DESC|DESCRIBE|\\d)\s", text) is not None
    if qualified is not None:
        yield from _of_keyspace(schema, _bare(qualified[1]), qualified[2], is_description)
        return
    word = re.search(r'(\\?"?\w*)$', text)
    begun = word[1] if word is not None else ""
    before = text[: len(text) - len(begun)]
    last = (re.findall(r"\\?[A-Za-z_]+", before) or [""])[-1].upper()
    is_first = not before.strip() or before.rstrip().endswith(";")
    if is_first:
        yield from _matching(COMMANDS, begun, "command")
        yield from _matching(_WORDS, begun, "")
        return
    words = before.upper().split()
    if words[-1] in _FOLLOWING_WORD:
        yield from _matching(_FOLLOWING_WORD[words[-1]], begun, "")
        return
    if len(words) == 1 and words[0] in _AFTER_COMMAND:
        yield from _matching(_AFTER_COMMAND[words[0]], begun, "")
        if words[0] not in ("DESC", "DESCRIBE"):
            return
    if re.search(rf"(?i)\bCREATE\s+TABLE\b[^;]*[(,]\s*{_NAME}\s+$", before):
        yield from _matching(_TYPES, begun, "type")
        yield from _matching(("FROZEN", "PRIMARY", "KEY"), begun, "")
        return
    if last == "USE" or last == "KEYSPACE":
        yield from _matching(_quoted(_names(schema)), begun, "keyspace")
        return
    if last in _BEFORE_TABLE or (is_description and last in KIND_WORDS):
        if schema is not None and keyspace in schema.keyspaces:
            yield from _of_keyspace(schema, keyspace, begun, is_description)
        yield from _matching(_quoted(_names(schema)), begun, "keyspace")
        yield from _matching(("IF",) if last == "TABLE" else (), begun, "")
        return
    yield from _matching(_quoted(_columns(text, schema, keyspace)), begun, "column")
    yield from _matching(_WORDS, begun, "")
    yield from _matching(_TYPES, begun, "type")


def _bare(name: str | None) -> str | None:
    if name is None or not name.startswith('"'):
        return None if name is None else name.lower()
    return name[1:-1].replace('""', '"')


def _names(schema: Any) -> list[str]:
    return [] if schema is None else list(schema.keyspaces)


def _quoted(names: Iterable[str]) -> list[str]:
    from .._cql.names import quoted

    return [quoted(name) for name in names]


def _of_keyspace(
    schema: Any, name: str | None, begun: str, has_all_kinds: bool
) -> Iterator[tuple[str, int, str]]:
    elements = None if schema is None else schema.keyspaces.get(name)
    if elements is None:
        return
    for group in GROUPS if has_all_kinds else ("TABLES", "VIEWS", "TYPES"):
        yield from _matching(_quoted(group_names(elements, group)), begun, KIND_OF_GROUP[group])


def _columns(text: str, schema: Any, keyspace: str | None) -> list[str]:
    """The columns of the table that the last statement of the text names."""
    if schema is None:
        return []
    statement = text.rsplit(";", 1)[-1]
    named = re.findall(rf"(?i)\b(?:FROM|INTO|UPDATE|ON)\s+({_NAME})(?:\.({_NAME}))?", statement)
    if not named:
        return []
    first, second = named[-1]
    keyspace_name, table = (_bare(first), _bare(second)) if second else (keyspace, _bare(first))
    elements = schema.keyspaces.get(keyspace_name)
    if elements is None:
        return []
    table_or_view = elements.tables.get(table) or elements.views.get(table)
    return [] if table_or_view is None else list(table_or_view.columns)


def _matching(words: Iterable[str], begun: str, kind: str) -> Iterator[tuple[str, int, str]]:
    low = begun.lower()
    for word in sorted(words):
        if word.lower().startswith(low) and word != begun:
            is_lower = begun.islower() and kind in ("", "command")
            yield (word.lower() if is_lower else word), len(begun), kind
