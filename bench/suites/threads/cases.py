"""The values that threads encode, decode and bind, and the rows that they read."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from uuid import UUID

__all__ = ["CASES", "COLUMNS", "LIST", "MAP", "THREADS", "row"]

CASES = (
    "encode: list<int> of 100",
    "encode: 10 scalars",
    "decode: map<text, int> of 100",
    "decode: 10 scalars",
    "bind: 10 mixed",
    "rows: 100x10 to tuples",
)
THREADS = (1, 2)
"""The numbers of threads."""

LIST = ("list<int>", list(range(1000, 1100)))
MAP = ("map<text, int>", {f"key {number}": number * 1000 for number in range(100)})
COLUMNS = [
    ("id", "int"),
    ("owner", "bigint"),
    ("name", "text"),
    ("note", "text"),
    ("price", "double"),
    ("weight", "float"),
    ("there", "boolean"),
    ("data", "blob"),
    ("key", "uuid"),
    ("changed", "timestamp"),
]


def row(number: int) -> tuple[Any, ...]:
    """Returns the values of a row. Each call makes new objects."""
    return (
        number + 100_000,
        number + 2**40,
        f"name {number}",
        f"a longer text, as notes have it, with the number {number}",
        number / 7,
        number / 4,
        number % 2 == 0,
        bytes([number % 256]) * 20,
        UUID(int=number + 2**100),
        datetime(2026, 1, 1, 0, 0, number % 60, tzinfo=timezone.utc),
    )
