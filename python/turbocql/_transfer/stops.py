"""Finds out why a load stops early, and writes the reason into its report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from ..bulk import BulkReport
from ..errors import CodecError

if TYPE_CHECKING:
    from .._core import Piece

__all__ = [
    "FIRST_BLOCK_ROWS",
    "MAX_FAILURES",
    "first_block",
    "first_block_reason",
    "have_one_error",
    "with_stop_reason",
]

FIRST_BLOCK_ROWS = 1000
"""The number of rows of a load's first block. The load stops if each row of the block fails with
the same error."""

_MAX_BLOCK_PIECES = 16
"""The largest number of pieces of a first block. A piece holds a few MiB of a file."""

MAX_FAILURES = 2**31 - 1
"""The largest `max_failures`. With it, failed rows do not stop a load."""

_PLACE = re.compile(r"\A(?:.*?: )?(?:line|row) [0-9]+(?: \(the first is 0\))?(?:, |: )", re.DOTALL)
"""Matches the file and the line or row at the beginning of a message."""
_VALUES = re.compile(
    r"""
    ;\ (?:got|the\ value\ is)\ .*?(?=;\ statement:\ |\Z)
    | (?<!\w) (?: ["\'].{59}\.\.\. | "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
    | (?:(?:line|row)\s)? [-+]?[0-9][\w.:+,-]*
    """,
    re.DOTALL | re.VERBOSE,
)
"""Matches the parts of a message that differ from row to row. In messages, a long value is cut off,
and ends with `...`."""


def _kind(error: Exception) -> tuple[object, ...]:
    """The parts of an error that are equal for rows with the same fault."""
    path = error.path if isinstance(error, CodecError) else ""
    # `locate_failures` adds a place to the first 1,000 errors of a load, and a value to the first
    # 10. So the messages of equal faults may differ in place and value. This function removes both.
    text = _PLACE.sub("", str(error))
    column = re.match(r'column "(?:[^"]|"")*"', text)
    message = _VALUES.sub("", text)
    return type(error), re.sub(r"\[.*", "", path), column and column[0], message


def have_one_error(errors: Iterable[Exception]) -> bool:
    """Whether there are errors, and all are the same except for the values in their messages."""
    first = None
    for error in errors:
        kind = _kind(error)
        if first is not None and kind != first:
            return False
        first = kind
    return first is not None


def first_block(pieces: Iterator[Piece]) -> tuple[list[Piece], Iterator[Piece]]:
    """Returns the pieces of the first block, and an iterator over all pieces.

    Returns no pieces for the block if no rows follow it, or if the block is too long to be kept.
    """
    block: list[Piece] = []
    rows = 0
    for piece in islice(pieces, _MAX_BLOCK_PIECES):
        block.append(piece)
        rows += len(piece)
        if rows >= FIRST_BLOCK_ROWS:
            break
    following = list(islice(pieces, 1))
    is_block = rows >= FIRST_BLOCK_ROWS and bool(following)
    return block if is_block else [], chain(block, following, pieces)


def first_block_reason(rows: int) -> str:
    """The reason for a stop after a block of rows that have all failed with the same error."""
    return f"each of the first {rows:,} rows failed with the same error"


def with_stop_reason(
    report: BulkReport, limit: str, untried: str | None = None, reason: str | None = None
) -> BulkReport:
    """Adds the reason for the stop to the report of a load that has stopped early.

    `limit` is the option that limits the number of failures, such as `max_failures=1000`. Unless
    `reason` is passed, the reason is that this limit was exceeded. `untried` says in words how many
    rows were not tried, such as `5 rows were`.
    """
    if not report.stopped:
        return report
    if reason is None:
        reason = f"{limit} was exceeded"
        if len(report.failures) > 1 and have_one_error(row.error for row in report.failures):
            reason += ", always with the same error"
    if untried is not None:
        reason += f"; {untried} not tried"
    return replace(report, stop_reason=reason)
