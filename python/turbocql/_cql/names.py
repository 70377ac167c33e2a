"""Names of keyspaces, tables, columns and types, and texts, as CQL."""

from __future__ import annotations

import re

from .._checks import shown
from ..errors import ConfigError

__all__ = [
    "place_of",
    "qualified",
    "quoted",
    "quoted_type",
    "split_qualified",
    "text",
    "words_of",
    "written_type",
]

_RESERVED_WORDS = """
add allow alter and any apply asc authorize batch begin by columnfamily create default delete desc
describe drop entries execute for from full grant if in index infinity insert into is keyspace
keyspaces limit materialized mbean mbeans modify nan norecursive not null of on or order primary
rename replace revoke schema select set table to token truncate unlogged unset update use using view
where with
"""
# The reserved words of all servers. A server that does not reserve a word accepts it in quotes.
_RESERVED = frozenset(_RESERVED_WORDS.split())
_SCALAR_WORDS = """
ascii bigint blob boolean counter date decimal double duration empty float inet int smallint text
time timestamp timeuuid tinyint uuid varchar varint
"""
_OTHER_WORDS = """
bitstring byte cast complex count distinct enum frozen interval json list macaddr map maxwritetime
set ttl tuple vector writetime
"""
_SCALARS = frozenset(_SCALAR_WORDS.split())
_NO_TYPE_NAMES = _SCALARS | frozenset(_OTHER_WORDS.split())
"""Words that need quotes as the name of a type, but not as any other name."""
_WORD = re.compile(r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'|\w+')
_PART = r'(?:"((?:[^"]|"")+)"|(\w+))'


def quoted(name: str) -> str:
    """A name as CQL, in quotes if it needs them."""
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) and name not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted_type(name: str) -> str:
    """The name of a type or function as CQL.

    More words need quotes as such a name than as any other name.
    """
    written = quoted(name)
    return f'"{written}"' if written in _NO_TYPE_NAMES else written


def written_type(cql_type: str) -> str:
    """A type as CQL that servers accept.

    Servers write the names of some user-defined types without the quotes that they require.
    """
    parts, end, before = [], 0, ""
    for match in _WORD.finditer(cql_type):
        between, word = cql_type[end : match.start()], match[0]
        end = match.end()
        # Scalars are never frozen, so a scalar's name within `frozen<>` is a user-defined type.
        stands_for_itself = word in _SCALARS and not (before == "frozen" and between == "<")
        alone = cql_type[end : end + 1] != "<"
        needs_quotes = alone and word in _NO_TYPE_NAMES and not stands_for_itself
        parts += [between, f'"{word}"' if needs_quotes else word]
        before = word
    return "".join([*parts, cql_type[end:]])


def qualified(keyspace: str, name: str) -> str:
    """A name qualified by its keyspace, as CQL."""
    return f"{quoted(keyspace)}.{quoted(name)}"


def split_qualified(name: str) -> tuple[str, str] | None:
    """Splits a qualified name, written as in CQL, into keyspace and name; `None` for other text."""
    match = re.fullmatch(rf"{_PART}\.{_PART}", name)
    if match is None:
        return None
    in_quotes, plain, second_in_quotes, second_plain = match.groups()
    return _part(in_quotes, plain), _part(second_in_quotes, second_plain)


def place_of(table: str, keyspace: str | None) -> tuple[str, str]:
    """The keyspace and the name of a table, as the program writes it.

    Raises: `ConfigError` for other text, or without a keyspace.
    """
    if not isinstance(table, str):
        raise TypeError(f"a table is a str such as 'keyspace.table', got {shown(table)}")
    place = split_qualified(table)
    if place is None and keyspace is not None:
        place = split_qualified(f'"{keyspace}".{table}')
    if place is None:
        raise ConfigError(
            "expected a table as 'keyspace.table', or as 'table' in a session with a keyspace,"
            f" got {shown(table)}"
        )
    return place


def _part(in_quotes: str | None, plain: str) -> str:
    return plain.lower() if in_quotes is None else in_quotes.replace('""', '"')


def text(value: str) -> str:
    """A text as a CQL literal."""
    return "'" + value.replace("'", "''") + "'"


def words_of(cql_type: str) -> list[str]:
    """The words of a type as CQL, without quotes."""
    return [
        word[1:-1].replace('""', '"') if word[0] == '"' else word
        for word in _WORD.findall(cql_type)
    ]
