"""Values and rows as text for people: tables, and one line per column where a table is too wide."""

from __future__ import annotations

import datetime
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from ._ends import plain

__all__ = ["blocks", "literal", "printed", "terminal_width"]

_BLOCK = 500
"""So many rows are laid out together."""


def literal(value: Any, *, inner: bool = False) -> str:
    """A value as CQL writes it; texts within others in quotes."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'" if inner else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).replace("inf", "Infinity").replace("nan", "NaN")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "0x" + bytes(value).hex()
    if isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ", timespec="milliseconds")
        text = text.removesuffix("+00:00") + ("Z" if value.utcoffset() is not None else "")
        return f"'{text}'" if inner else text
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        items = (f"{literal(k, inner=True)}: {literal(v, inner=True)}" for k, v in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(literal(it, inner=True) for it in value)) + "}"
    if hasattr(value, "_asdict"):
        items = (f"{name}: {literal(it, inner=True)}" for name, it in value._asdict().items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(literal(it, inner=True) for it in value) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(literal(it, inner=True) for it in value) + "]"
    text = str(value)
    is_plain = not inner or isinstance(value, int) or type(value).__name__ in ("UUID", "Duration")
    return text if is_plain else f"'{text}'"


def terminal_width() -> int:
    """The width of the terminal."""
    return max(20, shutil.get_terminal_size().columns)


def blocks(
    names: Sequence[str], rows: Iterable[Sequence[Any]], width: int, *, expanded: bool = False
) -> Iterator[tuple[str, int]]:
    """Rows as text, a few hundred at a time, each with their number.

    A table that is wider than `width` becomes one line per column, as with `expanded`.
    """
    titles = [plain(name) for name in names]
    widths: list[int] | None = None
    done = 0
    for block in _in_blocks(rows):
        cells = [[_cell(value) for value in row] for row in block]
        if not expanded:
            found = _widths(titles, cells, width)
            if widths is None:
                widths = found
                expanded = found is None
            elif found is not None:
                # Later rows may be wider, where there is room.
                wider = list(map(max, widths, found))
                widths = wider if sum(wider) <= width - 3 * len(wider) - 1 else widths
        if expanded or widths is None:
            text = _expanded(titles, cells, done)
        else:
            text = _table(titles, cells, widths, has_head=done == 0)
        done += len(block)
        yield text, len(block)
    if not done:
        widths = None if expanded else _widths(titles, [], width)
        if widths is not None and titles:
            yield _table(titles, [], widths, has_head=True), 0


def _in_blocks(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    block: list[Sequence[Any]] = []
    for row in rows:
        block.append(row)
        if len(block) == _BLOCK:
            yield block
            block = []
    if block:
        yield block


def _cell(value: Any) -> tuple[str, bool]:
    """The text of a value, and whether it is a number."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return plain(literal(value)), is_number


def _length() -> Callable[[str], int]:
    """The function that tells the width of a text on a terminal."""
    from rich.cells import cell_len

    return cell_len


def _widths(
    titles: Sequence[str], cells: Sequence[Sequence[tuple[str, bool]]], width: int
) -> list[int] | None:
    """The width of each column; `None` if the table does not fit."""
    length = _length()
    widths = [length(title) for title in titles]
    for row in cells:
        widths = [max(one, length(text)) for one, (text, _) in zip(widths, row, strict=True)]
    room = width - 3 * len(titles) - 1
    if sum(widths) <= room:
        return widths
    least = [min(one, max(length(title), 12)) for one, title in zip(widths, titles, strict=True)]
    spare = room - sum(least)
    if spare < 0:
        return None
    # The widest columns lose most.
    order = sorted(range(len(widths)), key=lambda at: widths[at] - least[at])
    made = list(least)
    for nth, at in enumerate(order):
        more = min(widths[at] - least[at], spare // (len(order) - nth))
        made[at] += more
        spare -= more
    return made


def _table(
    titles: Sequence[str],
    cells: Sequence[Sequence[tuple[str, bool]]],
    widths: Sequence[int],
    *,
    has_head: bool,
) -> str:
    lines: list[str] = []
    if has_head:
        lines += _line([(title, False) for title in titles], widths)
        lines.append("-+-".join("-" * width for width in (*widths[:1], *widths[1:])))
        lines[-1] = f"-{lines[-1]}-"
    for row in cells:
        lines += _line(row, widths)
    return "\n".join(lines) + "\n"


def _line(row: Sequence[tuple[str, bool]], widths: Sequence[int]) -> list[str]:
    """A row, of several lines where cells are longer than their columns."""
    length = _length()
    parts = [_folded(text, width) for (text, _), width in zip(row, widths, strict=True)]
    lines = []
    for nth in range(max(map(len, parts), default=0)):
        made = []
        for part, (_, is_number), width in zip(parts, row, widths, strict=True):
            text = part[nth] if nth < len(part) else ""
            space = " " * (width - length(text))
            made.append(space + text if is_number else text + space)
        lines.append(f" {' | '.join(made)}".rstrip() or " ")
    return lines


def _folded(text: str, width: int) -> list[str]:
    length = _length()
    if length(text) <= width:
        return [text]
    from rich.cells import chop_cells

    return chop_cells(text, width)


def _expanded(
    titles: Sequence[str], cells: Sequence[Sequence[tuple[str, bool]]], before: int
) -> str:
    length = _length()
    widest = max(map(length, titles), default=0)
    lines: list[str] = []
    for number, row in enumerate(cells, before + 1):
        lines.append(f"@ row {number}")
        for title, (text, _) in zip(titles, row, strict=True):
            lines.append(f" {title}{' ' * (widest - length(title))} | {text}")
        lines.append("")
    return "\n".join(lines) + "\n"


def printed(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    expanded: bool = False,
    pager: bool = False,
) -> int:
    """Prints rows, through the pager if they are more than the screen has lines. Returns how many
    there were.
    """
    found = blocks(names, rows, terminal_width(), expanded=expanded)
    count = 0

    def text() -> Iterator[str]:
        nonlocal count
        for block, number in found:
            count += number
            yield block

    made = text()
    is_shown = pager and sys.stdout.isatty() and sys.stdin.isatty()
    first = next(made, "")
    if is_shown and first.count("\n") >= shutil.get_terminal_size().lines - 2:
        import itertools

        import click

        click.echo_via_pager(itertools.chain([first], made))
        return count
    sys.stdout.write(first)
    for block in made:
        sys.stdout.write(block)
    sys.stdout.flush()
    return count
