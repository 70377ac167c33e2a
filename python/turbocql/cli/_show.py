"""Formats values and rows for people: as tables, or as a line per column if a table is too wide."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from .._cql.literals import literal as _literal
from .._cql.literals import scalar as _write_scalar
from ..codec import CqlType
from ..errors import Error
from ..rows import Column
from ..types import Date, Duration, Time, Timestamp
from ._ends import escaped
from ._params import Types

__all__ = ["blocks", "literal", "print_rows", "terminal_width", "types_of"]

_UNBOUNDED_WIDTH = 1_000_000
_BLOCK_ROWS = 500
"""The number of rows whose column widths are computed together."""


def types_of(session: Any, columns: Sequence[Column]) -> list[CqlType | None]:
    """Returns the types of columns, or `None` for a type that the schema does not define."""
    udts = Types(session, {column.keyspace for column in columns})
    types: list[CqlType | None] = []
    for column in columns:
        try:
            types.append(CqlType(column.cql_type, udts=udts))
        except (ValueError, Error):
            types.append(None)
    return types


def literal(value: Any, cql_type: CqlType | None = None) -> str:
    """Returns a value as CQL. A text, time or inet has no quotes, unless it is inside another
    value.
    """
    if isinstance(value, str):
        return value
    text = _literal(value, cql_type, _scalar)
    return text[1:-1] if text.startswith("'") else text


def _scalar(value: Any, cql_type: CqlType | None) -> str:
    """Writes a value that is not a collection. Timestamps and dates are always written as text,
    also if a statement would need a number.
    """
    if isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ", timespec="milliseconds")
        return f"'{text.removesuffix('+00:00')}{'' if value.utcoffset() is None else 'Z'}'"
    if isinstance(value, (Date, Time, Timestamp)):
        return f"'{value}'"
    if isinstance(value, Duration):
        return str(value)
    try:
        return _write_scalar(value, cql_type)
    except Error:
        # Some values have no CQL literal, such as very long integers, but can be shown.
        return f"'{value}'" if isinstance(value, str) else str(value)


def terminal_width() -> int:
    """The width of the terminal; without a terminal, a width that no line reaches."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return _UNBOUNDED_WIDTH
    return max(20, shutil.get_terminal_size().columns)


def blocks(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    width: int,
    *,
    types: Sequence[CqlType | None] = (),
    expanded: bool = False,
) -> Iterator[tuple[str, int]]:
    """Yields the text of each block of 500 rows, with the number of its rows. `types` are the types
    of the columns.

    If the first block does not fit `width`, each row has one line per column, as with `expanded`.
    """
    titles = [escaped(name) for name in names]
    of_columns = types or [None] * len(titles)
    widths: list[int] | None = None
    rows_before = 0
    for block in _in_blocks(rows):
        cells = [list(map(_cell, row, of_columns)) for row in block]
        if not expanded:
            block_widths = _widths(titles, cells, width)
            if widths is None:
                widths = block_widths
                expanded = block_widths is None
            elif block_widths is not None:
                # Wider cells make columns wider, unless the table would exceed `width`.
                wider = list(map(max, widths, block_widths))
                widths = wider if sum(wider) <= width - 3 * len(wider) - 1 else widths
        if expanded or widths is None:
            text = _expanded(titles, cells, rows_before)
        else:
            text = _table(titles, cells, widths, has_head=rows_before == 0)
        rows_before += len(block)
        yield text, len(block)
    if not rows_before:
        widths = None if expanded else _widths(titles, [], width)
        if widths is not None and titles:
            yield _table(titles, [], widths, has_head=True), 0


def _in_blocks(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    block: list[Sequence[Any]] = []
    for row in rows:
        block.append(row)
        if len(block) == _BLOCK_ROWS:
            yield block
            block = []
    if block:
        yield block


class _Cell(NamedTuple):
    text: str
    is_number: bool = False
    is_unbreakable: bool = False
    """Whether the cell must stay on one line. It is true for numbers, times and UUIDs."""


def _cell(value: Any, cql_type: CqlType | None) -> _Cell:
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    long = (str, bytes, bytearray, memoryview, Mapping, set, frozenset, list, tuple)
    return _Cell(escaped(literal(value, cql_type)), is_number, not isinstance(value, long))


def _width_function() -> Callable[[str], int]:
    """The function that returns the width of a text on a terminal."""
    from rich.cells import cell_len

    return cell_len


def _widths(
    titles: Sequence[str], cells: Sequence[Sequence[_Cell]], width: int
) -> list[int] | None:
    """Returns the width of each column, or `None` if the table does not fit."""
    length = _width_function()
    widths = [length(title) for title in titles]
    for row in cells:
        widths = [
            max(column_width, length(cell.text))
            for column_width, cell in zip(widths, row, strict=True)
        ]
    room = width - 3 * len(titles) - 1
    if sum(widths) <= room:
        return widths
    least_widths = [
        min(column_width, max(length(title), 12))
        for column_width, title in zip(widths, titles, strict=True)
    ]
    for row in cells:
        unbreakable_widths = (length(cell.text) if cell.is_unbreakable else 0 for cell in row)
        least_widths = list(map(max, least_widths, unbreakable_widths))
    spare = room - sum(least_widths)
    if spare < 0:
        return None
    # The columns that need the least additional width get theirs first. So only the widest columns
    # stay narrower than their cells.
    order = sorted(range(len(widths)), key=lambda at: widths[at] - least_widths[at])
    fitted = list(least_widths)
    for nth, at in enumerate(order):
        added = min(widths[at] - least_widths[at], spare // (len(order) - nth))
        fitted[at] += added
        spare -= added
    return fitted


def _table(
    titles: Sequence[str],
    cells: Sequence[Sequence[_Cell]],
    widths: Sequence[int],
    *,
    has_head: bool,
) -> str:
    lines: list[str] = []
    if has_head:
        lines += _line(list(map(_Cell, titles)), widths)
        lines.append("-+-".join("-" * width for width in (*widths[:1], *widths[1:])))
        lines[-1] = f"-{lines[-1]}-"
    for row in cells:
        lines += _line(row, widths)
    return "\n".join(lines) + "\n"


def _line(row: Sequence[_Cell], widths: Sequence[int]) -> list[str]:
    """Returns the lines of a row: several if a cell is wider than its column."""
    length = _width_function()
    parts = [_folded(cell.text, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for nth in range(max(map(len, parts), default=0)):
        line_cells = []
        for part, cell, width in zip(parts, row, widths, strict=True):
            text = part[nth] if nth < len(part) else ""
            space = " " * (width - length(text))
            line_cells.append(space + text if cell.is_number else text + space)
        lines.append(f" {' | '.join(line_cells)}".rstrip() or " ")
    return lines


def _folded(text: str, width: int) -> list[str]:
    length = _width_function()
    if length(text) <= width:
        return [text]
    from rich.cells import chop_cells

    return chop_cells(text, width)


def _expanded(titles: Sequence[str], cells: Sequence[Sequence[_Cell]], before: int) -> str:
    length = _width_function()
    widest = max(map(length, titles), default=0)
    lines: list[str] = []
    for number, row in enumerate(cells, before + 1):
        lines.append(f"@ row {number}")
        for title, cell in zip(titles, row, strict=True):
            lines.append(f" {title}{' ' * (widest - length(title))} | {cell.text}")
        lines.append("")
    return "\n".join(lines) + "\n"


def print_rows(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    types: Sequence[CqlType | None] = (),
    expanded: bool = False,
    pager: bool = False,
) -> int | None:
    """Prints rows. With `pager`, rows with more lines than the screen go through the pager. Returns
    the number of rows, or `None` if the user quit the pager before the last row.
    """
    blocks_and_counts = blocks(names, rows, terminal_width(), types=types, expanded=expanded)
    count, is_complete = 0, False

    def text() -> Iterator[str]:
        nonlocal count, is_complete
        for block, number in blocks_and_counts:
            count += number
            yield block
        is_complete = True

    texts = text()
    is_shown = pager and sys.stdout.isatty() and sys.stdin.isatty()
    first = next(texts, "")
    if is_shown and first.count("\n") >= shutil.get_terminal_size().lines - 2:
        import itertools

        import click

        click.echo_via_pager(itertools.chain([first], texts))
        return count if is_complete else None
    sys.stdout.write(first)
    for block in texts:
        sys.stdout.write(block)
    sys.stdout.flush()
    return count
