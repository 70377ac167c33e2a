"""Splits CQL text into its statements, at semicolons."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["after_first_statement", "ends_with_semicolon", "statements"]

_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*|//[^\n]*|/\*.*?\*/)
    | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\$.*?\$\$)
    | (?P<open>/\*|'|"|\$\$)
    | (?P<end>;)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def _split_statements(text: str) -> Iterator[tuple[str, bool, int]]:
    """Yields a tuple for each statement: the statement's text, without comments before and after
    it; whether a semicolon ends the statement; and the offset at which the next statement begins.
    """
    start = last = at = 0
    depth = 0
    first = ""
    is_open, has_content = False, False
    for token in _TOKEN.finditer(text):
        kind, at = token.lastgroup, token.end()
        if kind == "open":
            # This quote or comment is not closed.
            is_open = True
            has_content = True
            break
        if kind == "comment" or (kind == "other" and token[0].isspace()):
            if not has_content:
                start = at
            continue
        if kind == "end" and not depth:
            if has_content:
                yield text[start:last], True, token.end()
            start, has_content, first = at, False, ""
            continue
        has_content, last = True, at
        if kind == "word":
            word = token[0].upper()
            first = first or word
            # The semicolons within BEGIN ... APPLY BATCH do not end the statement.
            if first == "BEGIN" and word == "BEGIN":
                depth = 1
            elif word == "APPLY":
                depth = 0
    if has_content:
        yield (text[start:] if is_open else text[start:last]), False, len(text)


def statements(text: str) -> list[str]:
    """The statements of a text, in their order. The last statement needs no semicolon."""
    return [statement for statement, *_ in _split_statements(text)]


def ends_with_semicolon(text: str) -> bool:
    """Whether all statements of a text end with a semicolon."""
    return all(is_terminated for _, is_terminated, _ in _split_statements(text))


def after_first_statement(text: str) -> str:
    """The text after the first statement."""
    return text[next((end for *_, end in _split_statements(text)), len(text)) :]
