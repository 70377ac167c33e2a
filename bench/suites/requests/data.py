"""The rows of the end-to-end benchmark: every client writes and reads the same. Names no driver."""

from __future__ import annotations

import datetime
import struct
from functools import lru_cache
from typing import Any

__all__ = [
    "COLUMNS",
    "DIMENSIONS",
    "EPOCH",
    "INSERT",
    "PAGE",
    "PAGE_SIZE",
    "SCAN",
    "SCANNED",
    "SCAN_ROWS",
    "SELECT",
    "STORED",
    "VECTOR_PAGE_SIZE",
    "cells",
    "insert",
    "milliseconds",
    "mixed",
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
VECTOR_PAGE_SIZE = 1000
"""Rows per page where a row is a vector: about 3 MB."""
SCANNED = {
    "scan": (SCAN, SCAN_ROWS, PAGE_SIZE),
    "scan_vector": ("SELECT k, v FROM bench.vector_scanned", 20_000, VECTOR_PAGE_SIZE),
}
"""A scan's statement, how many rows it gives, and rows per page."""
PAGE = {
    "page": (f"{SCAN} LIMIT {PAGE_SIZE}", PAGE_SIZE),
    "page_vector": (
        f"SELECT k, v FROM bench.vector_stored LIMIT {VECTOR_PAGE_SIZE}",
        VECTOR_PAGE_SIZE,
    ),
}
"""The statement whose result is one page, and how many rows it has."""
COLUMNS = {"text": ("k", "v"), "vector": ("k", "v"), "mixed": ("k", "name", "ratio", "at")}
"""The columns of the tables of each kind; the first is the key."""
EPOCH = datetime.datetime(2024, 1, 1)
_VECTORS = 512


def insert(table: str, kind: str) -> str:
    """What writes a row of a kind to a table."""
    columns = COLUMNS[kind]
    markers = ", ".join("?" for _ in columns)
    return f"INSERT INTO bench.{table} ({', '.join(columns)}) VALUES ({markers})"


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


def mixed(key: int, salt: int) -> tuple[int, str, float, datetime.datetime]:
    """A row of bigint, text, double and timestamp; the time means UTC."""
    at = EPOCH + datetime.timedelta(milliseconds=key * 1001)
    return key, text(key, salt), key / 7, at


def milliseconds(time: datetime.datetime) -> int:
    """Since 1970, of a time that means UTC."""
    since = time - datetime.datetime(1970, 1, 1)
    return since // datetime.timedelta(milliseconds=1)


def cells(kind: str, key: int, salt: int) -> tuple[bytes, ...]:
    """A row as the protocol has it."""
    if kind == "text":
        return struct.pack(">i", key), text(key, salt).encode()
    if kind == "vector":
        return struct.pack(">i", key), vector_bytes()[number_of(key, salt)]
    _, name, ratio, at = mixed(key, salt)
    return (
        struct.pack(">q", key),
        name.encode(),
        struct.pack(">d", ratio),
        struct.pack(">q", milliseconds(at)),
    )
