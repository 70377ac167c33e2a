"""The tables that the workload ("the load") writes, and the expected content of each row."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "ASIDE_TABLE",
    "CHAINS",
    "COUNTERS",
    "KEYSPACE",
    "TABLES",
    "WIDE",
    "WIDE_ROWS",
    "aside",
    "check_row",
    "note_of",
    "value_of",
]

KEYSPACE = (
    "CREATE KEYSPACE IF NOT EXISTS {} "
    "WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 3}}"
)
TABLES = (
    "writes (id bigint PRIMARY KEY, value bigint, note text)",
    "counters (key bigint PRIMARY KEY, n counter)",
    "claims (key bigint PRIMARY KEY, winner bigint)",
    "chains (key bigint PRIMARY KEY, version int, winners map<int, bigint>)",
    "wide (part int, place int, value bigint, PRIMARY KEY (part, place))",
)
ASIDE_TABLE = "aside (id bigint PRIMARY KEY, value bigint)"
COUNTERS = 64
CHAINS = 48
WIDE = 4
"""The number of partitions of `wide`. Their rows never change."""
WIDE_ROWS = 997
"""The number of rows in each partition of `wide`. It is a prime, so the last page is never full."""

_LONG = 7
"""Rows whose id is divisible by this number have a long note."""


def aside(keyspace: str) -> str:
    """Returns the name of the keyspace that is dropped and created again."""
    return f"{keyspace}_aside"


def value_of(number: int) -> int:
    """Returns the value of the row with this id."""
    return number * 2_654_435_761 % 2**31


def note_of(number: int) -> str:
    """Returns the note of the row with this id: a few bytes, or some kilobytes."""
    return f"{number}." * (200 if number % _LONG == 0 else 1)


def check_row(number: int, value: object, note: object) -> str | None:
    """Returns a message if a row of `writes` is wrong, and `None` if it is right."""
    if value != value_of(number):
        return f"row {number} has the value {value!r}, expected {value_of(number)}"
    if note != note_of(number):
        return f"row {number} has the note {str(note)[:60]!r}, expected {note_of(number)[:60]!r}"
    return None


def wide_fault(part: int, rows: Sequence[Sequence[object]]) -> str | None:
    """Returns a message if the rows of a partition of `wide` are wrong, and `None` otherwise."""
    if len(rows) != WIDE_ROWS:
        return f"a scan of partition {part} gave {len(rows)} rows, expected {WIDE_ROWS}"
    for place, row in enumerate(rows):
        if tuple(row) != (place, value_of(place)):
            return f"row {place} of partition {part} is {row!r}, expected {value_of(place)}"
    return None
