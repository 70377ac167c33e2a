"""The rows of the end-to-end benchmark: every client writes and reads the same. Names no driver."""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Any

__all__ = [
    "DIMENSIONS",
    "EPOCH",
    "INSERT",
    "PAGE_SIZE",
    "SCAN",
    "SCAN_ROWS",
    "SELECT",
    "STORED",
    "number_of",
    "scan_row",
    "text",
    "vector_bytes",
    "vector_lists",
    "vectors",
]

DIMENSIONS = 768
PAGE_SIZE = 5000
SCAN_ROWS = 100_000
STORED = {"text": 10_000, "vector": 2_000}
"""Rows in the tables that are only read from."""
INSERT = {
    "text": "INSERT INTO bench.text_written (k, v) VALUES (?, ?)",
    "vector": "INSERT INTO bench.vector_written (k, v) VALUES (?, ?)",
}
SELECT = {
    "text": "SELECT k, v FROM bench.text_stored WHERE k = ?",
    "vector": "SELECT k, v FROM bench.vector_stored WHERE k = ?",
}
SCAN = "SELECT id, name, ratio, big, active, at FROM bench.scanned"
EPOCH = datetime.datetime(2024, 1, 1)
_VECTORS = 512


def text(key: int, salt: int) -> str:
    """The text of a row; the salt differs between samples, so that no row passes for another's."""
    return f"value {key} {salt}"


def number_of(key: int, salt: int) -> int:
    """Which of the vectors a row has."""
    return (key * 31 + salt) % _VECTORS


@lru_cache(maxsize=1)
def vectors() -> list[Any]:
    """Distinct float32 arrays, the same in every process."""
    import numpy as np

    generator = np.random.default_rng(768)
    return [generator.random(DIMENSIONS, dtype=np.float32) for _ in range(_VECTORS)]


@lru_cache(maxsize=1)
def vector_lists() -> list[list[float]]:
    """The same as lists of floats."""
    return [vector.tolist() for vector in vectors()]


@lru_cache(maxsize=1)
def vector_bytes() -> list[bytes]:
    """The same as the protocol has them, for clients that do not know vectors."""
    return [vector.astype(">f4").tobytes() for vector in vectors()]


def scan_row(number: int) -> tuple[int, str, float, int, bool, datetime.datetime]:
    """A row of the table that is scanned; the time has no time zone and means UTC."""
    return (
        number,
        f"name of row {number}",
        number / 7,
        number << 33,
        number % 2 == 1,
        EPOCH + datetime.timedelta(milliseconds=number * 1001),
    )
