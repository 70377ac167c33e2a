"""Writes the first rows of a page as an HTML table, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from .._cql.literals import literal, scalar
from ..errors import Error

__all__ = ["result_table"]

_MAX_ROWS = 10
_MAX_COLUMNS = 50
_MAX_CHARACTERS = 200
"""Longer cells are cut."""
_MAX_ELEMENTS = 50
"""Values with more elements are cut before they are converted to text, because a value may have
millions of elements."""


def result_table(rows: Any, types: Sequence[Any]) -> str:
    """Returns the first rows of a result's current page as an HTML table. No page is fetched.

    `types` has an item for each column: the type of the column, or `None` if this is a user-defined
    type and the result contains only its name.
    """
    columns = rows._columns
    if not columns:
        return "<p>The statement returns no rows.</p>"
    try:
        page = rows._tuples()
    except Error as error:
        return f"<p>The rows cannot be read: {escape(str(error))}</p>"
    shown = range(min(len(columns), _MAX_COLUMNS))
    hidden = len(columns) - len(shown)
    head = "".join(
        f'<th title="{escape(columns[i][3])}">{escape(columns[i][2])}</th>' for i in shown
    )
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(row[i], types[i])}</td>' for i in shown)}</tr>"
        for row in page[:_MAX_ROWS]
    )
    notes = [f"… and {hidden:,} more column{'s' * (hidden > 1)}"] if hidden else []
    notes += _notes_about_rows(rows, len(page))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{table}{''.join(f'<p>{note}</p>' for note in notes)}</div>"


def _notes_about_rows(rows: Any, count: int) -> Iterable[str]:
    is_first_page = False
    with suppress(Error):
        rows._check_first()
        is_first_page = True
    if not is_first_page:
        yield "Earlier pages were read before."
    hidden = max(0, count - _MAX_ROWS)
    more = f"… and {hidden:,} more row{'s' * (hidden > 1)}"
    if hidden and rows._may_have_more:
        yield f"{more} on this page, and further pages"
    elif hidden:
        yield more
    elif rows._may_have_more:
        yield "… and more: further pages may have rows"
    elif not count:
        yield "no rows"


def _cell(value: Any, cql_type: Any) -> str:
    if value is None:
        return "<i>null</i>"
    text, is_cut = value, False
    if not isinstance(value, str):
        # Only lists, bytes and NumPy arrays are cut. Sets and maps cannot be sliced: the attempt
        # raises an error, and the whole value is written.
        with suppress(TypeError, KeyError):
            is_cut = len(value) > _MAX_ELEMENTS and len(value[:_MAX_ELEMENTS]) == _MAX_ELEMENTS
        text = _written(value[:_MAX_ELEMENTS] if is_cut else value, cql_type)
    is_cut = is_cut or len(text) > _MAX_CHARACTERS
    return escape(text[:_MAX_CHARACTERS]) + ("…" if is_cut else "")


def _written(value: Any, cql_type: Any) -> str:
    try:
        text = literal(value, cql_type, _scalar)
    except Error:
        return repr(value)
    # In a table, dates and addresses need no quotes.
    return text[1:-1] if text.startswith("'") else text


def _scalar(value: Any, cql_type: Any) -> str:
    """Returns a value as a CQL literal, or its `repr` if CQL has no literal for the value."""
    try:
        return scalar(value, cql_type)
    except Error:
        return repr(value)
