"""Finds advice for errors of requests. `turbocql.errors` adds the advice to error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from ._advice import (
    BY_CLASS,
    FOR_INVALID,
    FOR_SYNTAX,
    FOR_VALUES,
    PROPERTIES,
    TYPES,
    TYPES_ELSEWHERE,
)

__all__ = ["hints", "value_hint"]


class _Session(Protocol):
    @property
    def keyspace(self) -> str | None: ...
    def _known_columns(self, coordinator: str) -> Iterable[tuple[str, str, str]]: ...


_REFUSED = ("CqlSyntaxError", "InvalidQuery")
"""The names of the classes of errors for a statement that the server does not accept."""
_WITHOUT_MARKERS = frozenset(
    ["ALTER", "CREATE", "DESC", "DESCRIBE", "DROP", "GRANT", "LIST", "REVOKE", "TRUNCATE", "USE"]
)
"""The first words of statements that take no bind markers."""
_CONSTANTS = frozenset(["null", "true", "false", "nan", "infinity", *TYPES])
"""Words that may be in the place of a value without quotes. Names of types are among them, because
a cast has the name of a type in that place."""
_VALUE_END = r"\s*\b([A-Za-z_]\w*(?:@[\w.-]+)?)(?=\s*(?:[,)\]};]|$)|\s+\w)"
_WORD_IN_VALUES = re.compile(r"(?:[(,\[{]|[\w…]\s*:)" + _VALUE_END)
"""A word in the place of a value in `VALUES`. The word may be in a collection."""
_WORD_IN_CONDITION = re.compile(r"(?:[=<>]|\bIN\s*\(|\bCONTAINS(?:\s+KEY)?\b)" + _VALUE_END, re.I)
"""A word in the place of a value in `WHERE`, `SET` and `IF`."""
_UNKNOWN_COLUMN = re.compile(
    r"[Cc]olumn (?:name )?(\w+) (?:was not found )?in table '?(\w+)\.(\w+)"
)
_UNKNOWN_TABLE = (
    re.compile(r"[Tt]able '?(?:(\w+)\.)?(\w+)'? does(?: not|n't) exist"),
    re.compile(r"unconfigured table (?:(\w+)\.)?(\w+)"),
)
"""Messages about a table that does not exist. Some of them also name the keyspace."""
_MARKER = re.compile(r"\?|(?<=[\s=(,]):[A-Za-z_]")
"""A bind marker in a statement whose literals are masked. A colon within a map literal does not
match, because it follows a key."""


_MAX_MESSAGE = 600
"""Only this many characters of a message are searched. A server quotes values of any length, and
some patterns take a time that grows with the square of the length, or faster."""


def hints(
    error_class: str,
    message: str,
    statement: str,
    coordinator: str | None,
    sessions: Iterable[_Session],
) -> list[str]:
    """Returns advice for an error of the class `error_class`: a list of one text, or an empty list.

    `message` is the engine's message without the statement at its end. `statement` is this
    statement, in which each literal is replaced by `…`. `coordinator` is the node that was asked;
    `None` if the error does not have it. `sessions` are searched for names of columns and tables.
    """
    message = message[:_MAX_MESSAGE]
    hint = _hint_for_statement(error_class, message, statement)
    if coordinator is None and (asked := re.search(r"; asked ([^\s;]+)", message)):
        # If a PREPARE has failed, the node is named only in the engine's message.
        coordinator = asked[1]
    if hint is None and error_class in _REFUSED and coordinator is not None:
        hint = _hint_for_name(message, statement, coordinator, sessions)
    if hint is None and error_class == "ConnectionLost" and "the body of a frame has" in message:
        hint = "read smaller pages (page_size), or set max_frame_bytes higher"
    if hint is None and error_class == "ConfigError" and "BadEncoding" in message:
        hint = "a certificate in the file is damaged: export it again"
    if hint is None:
        hint = BY_CLASS.get(error_class)
    return [] if hint is None else [hint]


def value_hint(message: str) -> str | None:
    """Returns advice for an `EncodeError` about the number of values, about values of `IN`, or with
    a message that matches a pattern in `FOR_VALUES`; `None` for other errors.

    `message` ends with the statement.
    """
    text, _, statement = message.partition("; statement: ")
    if len(text) > _MAX_MESSAGE:
        text = text[: _MAX_MESSAGE // 2] + text[-_MAX_MESSAGE // 2 :]
    return _list_hint(text, statement) or _hint_for_value(text, statement)


def _hint_for_value(text: str, statement: str) -> str | None:
    counts = re.search(r"the statement has (\d+) bind markers?, got (\d+) values?$", text)
    if counts is not None:
        if re.search(r"token\(.*\) > \? AND token\(.*\) <= \?", statement):
            # Two of the markers and two of the values come from the scan itself, not from the
            # caller.
            markers, values = (int(count) - 2 for count in counts.groups())
            return (
                f"where= has {markers} of these markers, and {values} of these values are those of"
                " values=: write one ? in where= for each value"
            )
        return "pass one value for each, in their order, or {name: value}"
    for pattern, advice in FOR_VALUES:
        if re.search(pattern, text):
            return advice
    return None


def _list_hint(text: str, statement: str) -> str | None:
    if re.search(r"\bIN *\( *[?:]", statement, re.IGNORECASE):
        is_list = re.search("expected (?!list|set|frozen).*, got (list|tuple|set|range)", text)
        return "to bind a list, write IN ? without parentheses" if is_list else None
    is_of_in = text.startswith('column "in(') or re.search("bind markers?, got", text)
    if is_of_in and re.search(r"\bIN *[?:]", statement, re.IGNORECASE):
        return "IN ? takes one value, which is a list: ([1, 2],)"
    return None


def _hint_for_statement(error_class: str, message: str, statement: str) -> str | None:
    if error_class in _REFUSED and _has_misplaced_marker(message, statement):
        first_word = _first_word(statement)
        if first_word in _WITHOUT_MARKERS:
            return (
                f"{first_word} takes no bind markers: write values into the text with"
                " turbocql.quote_literal(value), and names with turbocql.quote_identifier(name)"
            )
        return (
            "a bind marker stands for a value only: write names into the text with"
            " turbocql.quote_identifier(name)"
        )
    if error_class == "CqlSyntaxError":
        return _hint_for_syntax(message, statement)
    is_without_values = re.search(r"Invalid amount of bind|There were \d+ markers", message)
    if error_class == "InvalidQuery" and is_without_values:
        return (
            "pass the values of the bind markers: session.execute(text, (value, ...)), or"
            " {name: value} by name"
        )
    if error_class in ("InvalidQuery", "InvalidSchema"):
        return _hint_for_invalid(message, statement)
    if error_class == "Unauthorized" and "have to be logged in" in message:
        return "pass user= and password= to connect"
    if error_class == "AlreadyExists":
        return "CREATE ... IF NOT EXISTS leaves it as it is"
    if error_class in ("ReadFailure", "ReadTimeout") and not re.search(
        r"\bWHERE\b", statement, re.IGNORECASE
    ):
        if re.search(r"\bcount *\(", statement, re.IGNORECASE):
            return (
                "count a large table by token ranges: the command turbocql count, or session.scan"
            )
        return "read a large table by token ranges: session.scan"
    return None


def _hint_for_invalid(message: str, statement: str) -> str | None:
    if match := re.search(r"Unknown type (\S+)", message):
        return _hint_for_type(match[1].rpartition(".")[2])
    if "ANN ordering" in message:
        return _hint_for_vector_index(message, statement)
    for pattern, advice in FOR_INVALID:
        if match := re.search(pattern, message):
            return match.expand(advice)
    return None


def _hint_for_vector_index(message: str, statement: str) -> str:
    """Returns advice for `ORDER BY ... ANN OF` on a column that has no index for this."""
    pattern = r'\bFROM\s+([\w."]+).*\bORDER\s+BY\s+([\w"]+)\s+ANN\b'
    match = re.search(pattern, statement, re.IGNORECASE | re.DOTALL)
    table, column = match.groups() if match else ("table", "column")
    if "to be indexed" not in message:
        # The column is not a vector, or has an index of another kind. So the advice must not name
        # this column.
        column = "column"
    # Only ScyllaDB's message contains `vector_index`, the class of its index.
    custom, index = ("CUSTOM ", "vector_index") if "vector_index" in message else ("", "sai")
    return (
        f"ANN OF needs a column of vectors with an index: CREATE {custom}INDEX ON {table}"
        f" ({column}) USING '{index}'"
    )


def _hint_for_syntax(message: str, statement: str) -> str | None:
    word = _word_as_value(statement)
    if word == "None":
        return "write null in place of None"
    if word is not None:
        return f"a text is in single quotes: '{word}'; better pass values for bind markers ?"
    if match := re.search(r"Unknown property '(\w+)'", message):
        name = PROPERTIES.get(match[1].lower())
        return f"did you mean {name}?" if name else None
    for pattern, text_pattern, advice in FOR_SYNTAX:
        if re.search(pattern, message) and re.search(text_pattern, statement, re.DOTALL):
            return advice
    # The parser's message marks the word that the parser cannot read. If this word is where a name
    # is expected, it is a reserved word.
    if match := re.search(r"no viable alternative at input '([A-Za-z]\w*)' .*\[\1\]", message):
        name = match[1]
        if re.search(rf"[(,]\s*{name}\s*[\w,)]|\bSELECT\s+{name}\s+FROM\b", statement, re.I):
            return f'{name} is a reserved word: to use it as a name, write "{name}"'
    return None


def _word_as_value(statement: str) -> str | None:
    """Returns a word where a value is expected, such as a text without quotes; `None` without one.

    The literals of the statement are masked.
    """
    parts = re.split(r"\bVALUES\b", statement, maxsplit=1, flags=re.IGNORECASE)
    conditions = re.split(r"\b(?:SET|WHERE|IF)\b", parts[-1], maxsplit=1, flags=re.IGNORECASE)
    words = _WORD_IN_CONDITION.findall(conditions[-1]) if len(conditions) > 1 else []
    if len(parts) > 1:
        words = _WORD_IN_VALUES.findall(conditions[0]) + words
    return next((word for word in words if word.lower() not in _CONSTANTS), None)


def _hint_for_name(
    message: str, statement: str, coordinator: str, sessions: Iterable[_Session]
) -> str | None:
    """Advice for a column or table that does not exist: a similar name that one of `sessions`
    already has in its caches.
    """
    column, table = _UNKNOWN_COLUMN.search(message), None
    for pattern in _UNKNOWN_TABLE:
        table = table or pattern.search(message)
    if column is None and table is None:
        return None
    from difflib import get_close_matches

    for session in _copied(sessions):
        columns = session._known_columns(coordinator)
        if column is not None:
            name, *in_table = column.groups()
            names = {known for *known_in, known in columns if known_in == in_table}
        elif table is not None:
            name = table[2]
            qualified = re.search(rf"(\w+)\.{name}\b", statement)
            keyspace = table[1] or (qualified[1].lower() if qualified else session.keyspace)
            names = {known for known_keyspace, known, _ in columns if known_keyspace == keyspace}
        if name in names:
            # The column or table exists in the session's caches, so it was dropped, and is not
            # misspelt.
            return None
        for near in get_close_matches(name, names, 1, 0.65):
            return f"did you mean {near}?"
    return None


def _copied(sessions: Iterable[_Session]) -> list[_Session]:
    try:
        return list(sessions)
    except RuntimeError:
        # Another thread has opened or closed a session during the iteration.
        return []


def _hint_for_type(name: str) -> str | None:
    """Advice for a type that does not exist."""
    from difflib import get_close_matches

    word = name.lower()
    close_matches = get_close_matches(word, TYPES, 1, 0.7)
    meant = [TYPES_ELSEWHERE[word]] if word in TYPES_ELSEWHERE else close_matches
    return f"did you mean {meant[0]}?" if meant else None


def _has_misplaced_marker(message: str, statement: str) -> bool:
    """Whether the server refused the statement because a bind marker is where none is allowed."""
    if "Bind variables cannot be used" in message or "input '?'" in message:
        return True
    if _first_word(statement) not in _WITHOUT_MARKERS:
        return False
    # `statement` is cut off after PASSWORD, so a marker after it cannot be found. But turbocql
    # prepares only statements with values. So if the preparation failed, there is a marker.
    is_cut = message.startswith("preparing") and statement.upper().endswith("PASSWORD")
    return is_cut or _MARKER.search(statement) is not None


def _first_word(statement: str) -> str:
    """The first word of a statement, in capitals. Comments before it are already masked."""
    match = re.match(r"[\s…]*(\w+)", statement)
    return match[1].upper() if match else ""
