"""Parses CQL statements, and removes the syntax that only ScyllaDB has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Analysis", "Item", "KeyspaceChange", "Select", "Token", "analyse", "tokens_of"]

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|//[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^']|'')*'|\$\$.*?\$\$)
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<word>[A-Za-z]\w*)
    |(?P<number>[0-9][\w.]*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_LONGEST_CACHED = 10_000
"""Longer texts are analyzed each time, so that the cache stays small."""
_WRITES = frozenset({"insert", "update", "delete", "begin"})


class Token(NamedTuple):
    """A token of a statement. `start` and `end` are its offsets in the statement's text."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """The word in lower case, or the quoted identifier without its quotes."""
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.text.lower()

    @property
    def literal(self) -> str:
        """The contents of a string literal; any other token as it is."""
        if self.kind != "text":
            return self.text
        if self.text.startswith("$$"):
            return self.text[2:-2]
        return self.text[1:-1].replace("''", "'")

    def is_word(self, *words: str) -> bool:
        """Whether the token is one of these keywords, and not a quoted identifier or a literal."""
        return self.kind == "word" and self.text.lower() in words


@dataclass(frozen=True)
class KeyspaceChange:
    """CREATE, ALTER or DROP of a keyspace. An option that the statement lacks is `None`."""

    action: str
    keyspace: str
    replication_factor: int | None = None
    has_tablets: bool | None = None
    initial: int | None = None


@dataclass(frozen=True)
class Item:
    """One item of a select list. `column` is `None` if the item is not the name of a column."""

    column: str | None
    result_name: str | None
    start: int
    end: int


@dataclass(frozen=True)
class Select:
    """A SELECT of named columns, or of all (`items` is empty), from one table.

    `condition` is the column and the term of `WHERE column = term`. `is_simple` means that nothing
    else follows the table's name.
    """

    keyspace: str | None
    table: str
    items: tuple[Item, ...]
    condition: tuple[str, Token] | None
    is_simple: bool
    terms: tuple[Token, ...]
    """The string literals after FROM."""


@dataclass(frozen=True)
class Analysis:
    """The properties of a statement. `text` is the statement in Cassandra's syntax."""

    text: str
    verb: str
    is_conditional: bool
    change: KeyspaceChange | None
    dropped_table: tuple[str | None, str] | None
    select: Select | None

    @property
    def is_write(self) -> bool:
        """Whether the statement changes rows."""
        return self.verb in _WRITES


def tokens_of(text: str) -> list[Token]:
    """The tokens of a statement, without white space and comments."""
    return [
        Token(str(match.lastgroup), match.group(), match.start(), match.end())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]


def analyse(text: str) -> Analysis:
    """Analyzes a statement. Syntax that it does not recognize stays in the text unchanged."""
    return _analyse_once(text) if len(text) <= _LONGEST_CACHED else _analyse(text)


def _analyse(text: str) -> Analysis:
    tokens = tokens_of(text)
    verb = tokens[0].name if tokens else ""
    if "timeout" in text.lower():
        text = _without_timeouts(text, tokens)
        tokens = tokens_of(text)
    is_conditional = verb in _WRITES and _has_condition(tokens)
    change, dropped, select = None, None, None
    if verb in ("create", "alter", "drop"):
        text, change = _keyspace_change(text, tokens)
        if verb == "drop" and len(tokens) > 1 and tokens[1].is_word("table", "columnfamily"):
            dropped = _table_at(tokens, 4 if _is_if(tokens, 2) else 2)[0]
    elif verb == "select":
        select = _select(tokens)
    return Analysis(text, verb, is_conditional, change, dropped, select)


_analyse_once = lru_cache(maxsize=4096)(_analyse)


def _without_timeouts(text: str, tokens: Sequence[Token]) -> str:
    """Returns the text with each TIMEOUT of a USING clause in a comment.

    A TIMEOUT is not removed, because Cassandra derives a prepared statement's id from the text, and
    statements that differ for the client must get different ids. A timeout that is a bind marker
    stays, because without it the statement would need one value less.
    """
    parts, copied_to = [], 0
    for index, token in enumerate(tokens):
        if not token.is_word("using"):
            continue
        clauses = list(_using_clauses(tokens, index + 1))
        kept_clauses = [(first, last) for first, last in clauses if not first.is_word("timeout")]
        timeout_ends = [last for first, last in clauses if first.is_word("timeout")]
        if not timeout_ends or any(last.kind != "number" for last in timeout_ends):
            continue
        end = clauses[-1][1].end
        parts.append(text[copied_to : token.start])
        if kept_clauses:
            parts.append(
                "USING " + " AND ".join(text[a.start : b.end] for a, b in kept_clauses) + " "
            )
        parts.append("/* " + text[token.start : end].replace("*/", "") + " */")
        copied_to = end
    return "".join([*parts, text[copied_to:]])


def _using_clauses(tokens: Sequence[Token], index: int) -> Iterator[tuple[Token, Token]]:
    """The first and the last token of each clause: `TTL 5`, `TIMEOUT 2s`, `TIMESTAMP :at`."""
    while index + 1 < len(tokens) and tokens[index].is_word("ttl", "timestamp", "timeout"):
        last = index + 1
        if tokens[last].text == ":" and last + 1 < len(tokens):
            last += 1
        yield tokens[index], tokens[last]
        index = last + 1
        if index >= len(tokens) or not tokens[index].is_word("and"):
            return
        index += 1


def _has_condition(tokens: Sequence[Token]) -> bool:
    # IF is reserved, so a column named `if` is quoted. After `:` or `.`, `if` is a name.
    return any(
        token.is_word("if") and tokens[index - 1].text not in (":", ".")
        for index, token in enumerate(tokens)
        if index
    )


def _is_if(tokens: Sequence[Token], index: int) -> bool:
    return index < len(tokens) and tokens[index].is_word("if")


def _table_at(tokens: Sequence[Token], index: int) -> tuple[tuple[str | None, str] | None, int]:
    """The keyspace and the table named at an index, and the index after the name."""
    if index >= len(tokens) or tokens[index].kind not in ("word", "quoted"):
        return None, index
    if index + 2 < len(tokens) and tokens[index + 1].text == ".":
        return (tokens[index].name, tokens[index + 2].name), index + 3
    return (None, tokens[index].name), index + 1


def _keyspace_change(text: str, tokens: Sequence[Token]) -> tuple[str, KeyspaceChange | None]:
    if len(tokens) < 3 or not tokens[1].is_word("keyspace", "schema"):
        return text, None
    index = 2
    while index < len(tokens) - 1 and tokens[index].is_word("if", "not", "exists"):
        index += 1
    action, keyspace = tokens[0].name, tokens[index].name
    properties = list(_properties(tokens, index + 1))
    factor, has_tablets, initial = None, None, None
    kept_options = []
    for name, first, last, values in properties:
        if name == "replication":
            factor = sum(int(v) for k, v in values.items() if k != "class" and v.isdigit())
        if name == "tablets":
            has_tablets = values.get("enabled", "true").lower() == "true"
            initial = int(values["initial"]) if values.get("initial", "").isdigit() else None
        else:
            kept_options.append(text[first.start : last.end])
    if has_tablets is not None:
        # WITH needs an option. If none is left, the text gets the default `durable_writes = true`.
        options = " AND ".join(kept_options or ["durable_writes = true"])
        text = text[: properties[0][1].start] + options + text[properties[-1][2].end :]
    return text, KeyspaceChange(action, keyspace, factor, has_tablets, initial)


def _properties(
    tokens: Sequence[Token], index: int
) -> Iterator[tuple[str, Token, Token, dict[str, str]]]:
    """Yields the name of each option after WITH, its first and last token, and its entries. Only an
    option that is a map has entries.
    """
    while index + 3 < len(tokens) and tokens[index].is_word("with", "and"):
        first, index = tokens[index + 1], index + 3
        start = index
        if tokens[index].text == "{":
            while index < len(tokens) - 1 and tokens[index].text != "}":
                index += 1
        inside = [token for token in tokens[start + 1 : index] if token.text not in (":", ",")]
        texts = [token.literal for token in inside]
        yield first.name, first, tokens[index], dict(zip(texts[::2], texts[1::2], strict=False))
        index += 1


def _select(tokens: Sequence[Token]) -> Select | None:
    if len(tokens) < 4 or tokens[1].is_word("json", "distinct"):
        return None
    depth, start, index = 0, 1, 1
    items = []
    while True:
        if index >= len(tokens):
            return None
        token = tokens[index]
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        is_end = token.is_word("from") and depth == 0
        if is_end or (token.text == "," and depth == 0):
            if index == start:
                return None
            items.append(_item(tokens[start:index]))
            start = index + 1
            if is_end:
                break
        index += 1
    named, index = _table_at(tokens, index + 1)
    if named is None:
        return None
    is_star = len(items) == 1 and tokens[1].text == "*"
    where_tokens = [token for token in tokens[index:] if token.text != ";"]
    condition = None
    if len(where_tokens) >= 4 and where_tokens[0].is_word("where") and where_tokens[2].text == "=":
        condition = (where_tokens[1].name, where_tokens[3])
        if where_tokens[3].text == ":" and len(where_tokens) > 4:
            condition = (
                where_tokens[1].name,
                Token("mark", "?", where_tokens[3].start, where_tokens[4].end),
            )
            where_tokens = [*where_tokens[:3], condition[1], *where_tokens[5:]]
    terms = tuple(token for token in where_tokens if token.kind == "text")
    is_simple = len(where_tokens) == (4 if condition else 0)
    return Select(*named, () if is_star else tuple(items), condition, is_simple, terms)


def _item(tokens: Sequence[Token]) -> Item:
    start, end = tokens[0].start, tokens[-1].end
    result_name = None
    if len(tokens) > 2 and tokens[-2].is_word("as"):
        result_name, tokens = tokens[-1].name, tokens[:-2]
    if len(tokens) == 1 and tokens[0].kind in ("word", "quoted"):
        return Item(tokens[0].name, result_name or tokens[0].name, start, end)
    return Item(None, result_name, start, end)
