"""Advice for errors of requests: what the user may do. `turbocql.errors` adds it to messages."""

from __future__ import annotations

import re

__all__ = ["hints", "list_hint"]

_BY_CLASS = {
    "Overloaded": "send fewer requests at a time",
    "RateLimited": "send fewer requests to one partition",
    "SessionFull": 'send fewer requests at a time, or set max_in_flight or when_full="wait"',
    "Unprepared": "bind markers in place of literals make fewer statements to prepare",
}
"""Advice by the name of the error's class."""
_REFUSED = ("CqlSyntaxError", "InvalidQuery")
"""The classes of errors for a statement that the server does not accept."""
_WITHOUT_MARKERS = frozenset(
    ["ALTER", "CREATE", "DESC", "DESCRIBE", "DROP", "GRANT", "LIST", "REVOKE", "TRUNCATE", "USE"]
)
"""The first words of statements that take no bind markers."""
_TYPES = (
    *("ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration"),
    *("float", "inet", "int", "list", "map", "set", "smallint", "text", "time", "timestamp"),
    *("timeuuid", "tinyint", "tuple", "uuid", "varchar", "varint", "vector"),
)
_TYPES_ELSEWHERE = {
    **{"integer": "int", "long": "bigint", "number": "decimal", "numeric": "decimal"},
    **{"string": "text", "str": "text", "char": "text", "bytes": "blob", "binary": "blob"},
    **{"datetime": "timestamp", "json": "text", "real": "float", "array": "list"},
}
"""The CQL type for names that other languages and databases have for types."""
_MARKER = re.compile(r"\?|(?<=[\s=(,]):[A-Za-z_]")
"""A bind marker in a statement whose literals are masked. The colon of a map is after a key."""


def hints(error_class: str, message: str, statement: str) -> list[str]:
    """Returns advice for an error of this class: a list of one text, or an empty list.

    `message` is the engine's message without its last part, which is the statement, with its
    literals masked.
    """
    hint = _hint_for_statement(error_class, message, statement)
    if hint is None and error_class == "ConnectionLost" and "the body of a frame has" in message:
        hint = "read smaller pages (page_size), or set max_frame_bytes higher"
    if hint is None:
        hint = _BY_CLASS.get(error_class)
    return [] if hint is None else [hint]


def list_hint(message: str) -> str | None:
    """Advice for an `EncodeError` about the values of `IN`; `None` for other errors.

    `message` ends with the statement.
    """
    text, _, statement = message.partition("; statement: ")
    if re.search(r"\bIN *\( *[?:]", statement, re.IGNORECASE):
        is_list = re.search("expected (?!list|set|frozen).*, got (list|tuple|set|range)", text)
        return "to bind a list, write IN ? without parentheses" if is_list else None
    is_of_in = text.startswith('column "in(') or "bind markers, got" in text
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
    if error_class == "InvalidQuery" and "Unsupported unset value" in message:
        return "pass a value for each bind marker"
    if error_class == "InvalidQuery" and (match := re.search(r"Unknown type (\S+)", message)):
        return _hint_for_type(match[1].rpartition(".")[2])
    if error_class == "InvalidQuery" and re.search("Keyspace '.*[A-Z].*' does not", message):
        return "letter case matters: keyspaces that were created without quotes are in lower case"
    if error_class == "AlreadyExists":
        return "CREATE ... IF NOT EXISTS leaves it as it is"
    if error_class == "InvalidQuery" and "No keyspace has been specified" in message:
        return "write keyspace.table, pass keyspace= to connect, or call session.use_keyspace(name)"
    if error_class == "InvalidQuery" and "Batch too large" in message:
        return (
            "split the batch: the server's limit is batch_size_fail_threshold, its log has the size"
        )
    if error_class in ("ReadFailure", "ReadTimeout") and not re.search(
        r"\bWHERE\b", statement, re.IGNORECASE
    ):
        if re.search(r"\bcount *\(", statement, re.IGNORECASE):
            return (
                "count a large table by token ranges: the command turbocql count, or session.scan"
            )
        return "read a large table by token ranges: session.scan"
    return None


def _hint_for_syntax(message: str, statement: str) -> str | None:
    if re.search("'%|'@'|expecting '\\$'", message):
        return "bind markers are ? or :name"
    if re.search(r";\s*\w", statement):
        return "execute one statement at a time, or several as a Batch"
    if re.search(r'[=(,]\s*"[^"]*"', statement):
        return "a text is in single quotes; double quotes are for names"
    return None


def _hint_for_type(name: str) -> str | None:
    """Advice for a type that does not exist."""
    from difflib import get_close_matches

    word = name.lower()
    close_matches = get_close_matches(word, _TYPES, 1, 0.7)
    meant = [_TYPES_ELSEWHERE[word]] if word in _TYPES_ELSEWHERE else close_matches
    return f"did you mean {meant[0]}?" if meant else None


def _has_misplaced_marker(message: str, statement: str) -> bool:
    """Whether the server refused a bind marker, where the statement may not have one."""
    if "Bind variables cannot be used" in message or "input '?'" in message:
        return True
    if _first_word(statement) not in _WITHOUT_MARKERS:
        return False
    # The text after PASSWORD is never shown. A statement is prepared if it has values.
    is_cut = message.startswith("preparing") and statement.upper().endswith("PASSWORD")
    return is_cut or _MARKER.search(statement) is not None


def _first_word(statement: str) -> str:
    """The first word of a statement, in capitals. Comments before it are masked."""
    match = re.match(r"[\s…]*(\w+)", statement)
    return match[1].upper() if match else ""
