"""Advice for errors of requests: what the user may do. `turbocql.errors` adds it to messages."""

from __future__ import annotations

import re

__all__ = ["hints"]

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
    if error_class == "CqlSyntaxError" and "'%" in message:
        return "bind markers are ? or :name"
    if error_class == "InvalidQuery" and "Invalid amount of bind variables" in message:
        return (
            "pass the values of the bind markers: session.execute(text, (value, ...)), or"
            " {name: value} by name"
        )
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
