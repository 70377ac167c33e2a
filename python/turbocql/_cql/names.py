"""Writes names, types and texts as CQL, and parses qualified names."""

from __future__ import annotations

import re

from .._checks import shown
from ..errors import ConfigError

__all__ = [
    "in_quotes",
    "parse_table_name",
    "qualified",
    "quoted",
    "quoted_type",
    "split_qualified",
    "text",
    "type_words",
    "written_type",
]

_RESERVED_WORDS = """
add allow alter and any apply asc authorize batch begin by columnfamily create default delete desc
describe drop entries execute for from full grant if in index infinity insert into is keyspace
keyspaces limit materialized mbean mbeans modify nan norecursive not null of on or order primary
rename replace revoke schema select set table to token truncate unlogged unset update use using view
where with
"""
# Each of these words is reserved by some servers. All servers accept it as a name in quotes.
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
"""Words that need quotes if they are the name of a type or function. Only one of them, `set`, also
needs quotes as the name of anything else, such as a column, because only `set` is in
`_RESERVED`."""
_WORD = re.compile(r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'|\w+')
_PART = r'(?:"((?:[^"]|"")+)"|(\w+))'


def quoted(name: str) -> str:
    """A name as CQL, in quotes if it needs them."""
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) and name not in _RESERVED:
        return name
    return in_quotes(name)


def in_quotes(name: str) -> str:
    """A name as CQL, in quotes."""
    # A subclass of `str` may define its own `replace`, which must not be called here.
    return '"' + str.replace(name, '"', '""') + '"'


def quoted_type(name: str) -> str:
    """The name of a type or function as CQL, in quotes if it needs them.

    The words in `_NO_TYPE_NAMES` need quotes too.
    """
    type_name = quoted(name)
    return f'"{type_name}"' if type_name in _NO_TYPE_NAMES else type_name


def written_type(cql_type: str) -> str:
    """A type as CQL that servers accept.

    Servers report the names of some user-defined types without quotes, but do not accept them
    without quotes.
    """
    pieces, end, previous_word = [], 0, ""
    for match in _WORD.finditer(cql_type):
        separator, word = cql_type[end : match.start()], match[0]
        end = match.end()
        # Scalars are never frozen, so in `frozen<date>`, `date` is the name of a user-defined type.
        is_scalar = word in _SCALARS and not (previous_word == "frozen" and separator == "<")
        without_parameters = cql_type[end : end + 1] != "<"
        needs_quotes = without_parameters and word in _NO_TYPE_NAMES and not is_scalar
        pieces += [separator, f'"{word}"' if needs_quotes else word]
        previous_word = word
    return "".join([*pieces, cql_type[end:]])


def qualified(keyspace: str, name: str) -> str:
    """A name qualified by its keyspace, as CQL."""
    return f"{quoted(keyspace)}.{quoted(name)}"


def split_qualified(name: str) -> tuple[str, str] | None:
    """Splits a qualified name in CQL into keyspace and name; `None` for other text."""
    match = re.fullmatch(rf"{_PART}\.{_PART}", name)
    if match is None:
        return None
    quoted_keyspace, plain_keyspace, quoted_name, plain_name = match.groups()
    return _part(quoted_keyspace, plain_keyspace), _part(quoted_name, plain_name)


def parse_table_name(table: str, keyspace: str | None) -> tuple[str, str]:
    """The keyspace and the name of a table, from CQL text that may leave out the keyspace.

    Raises: `TypeError` unless `table` is a str; `ConfigError` for text that is no name of a table,
        or if neither the text nor `keyspace` names a keyspace.
    """
    if not isinstance(table, str):
        raise TypeError(f"a table is a str such as 'keyspace.table', got {shown(table)}")
    keyspace_and_name = split_qualified(table)
    if keyspace_and_name is None and keyspace is not None:
        keyspace_and_name = split_qualified(f'"{keyspace}".{table}')
    if keyspace_and_name is None:
        raise ConfigError(
            "expected a table as 'keyspace.table', or as 'table' in a session with a keyspace,"
            f" got {shown(table)}"
        )
    return keyspace_and_name


def _part(in_quotes: str | None, unquoted: str) -> str:
    return unquoted.lower() if in_quotes is None else in_quotes.replace('""', '"')


def text(value: str) -> str:
    """A text as a CQL literal."""
    # A subclass of `str` may define its own `replace`, which must not be called here.
    return "'" + str.replace(value, "'", "''") + "'"


def type_words(cql_type: str) -> list[str]:
    """Returns the words in the CQL text of a type, in their order. Names lose their double quotes.
    Class names keep their single quotes.
    """
    return [
        word[1:-1].replace('""', '"') if word[0] == '"' else word
        for word in _WORD.findall(cql_type)
    ]
