"""The rows of the end-to-end benchmark, the same for every client. Imports no driver."""

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
"""Maps the kind of row to the number of rows in the table that is only read."""
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
"""How many rows a page has if each row has a vector. Such a page has about 3 MB."""
SCANNED = {
    "scan": (SCAN, SCAN_ROWS, PAGE_SIZE),
    "scan_vector": ("SELECT k, v FROM bench.vector_scanned", 20_000, VECTOR_PAGE_SIZE),
}
"""Maps each scan to its statement, its number of rows, and its rows per page."""
PAGE = {
    "page": (f"{SCAN} LIMIT {PAGE_SIZE}", PAGE_SIZE),
    "page_vector": (
        f"SELECT k, v FROM bench.vector_stored LIMIT {VECTOR_PAGE_SIZE}",
        VECTOR_PAGE_SIZE,
    ),
}
"""Maps each case of a page to its statement and the number of rows in the page."""
COLUMNS = {"text": ("k", "v"), "vector": ("k", "v"), "mixed": ("k", "name", "ratio", "at")}
"""The columns of the tables of each kind; the first column is the key."""
EPOCH = datetime.datetime(2024, 1, 1)
_VECTORS = 512


def insert(table: str, kind: str) -> str:
    """Returns the statement that inserts a row of a kind into a table."""
    columns = COLUMNS[kind]
    markers = ", ".join("?" for _ in columns)
    return f"INSERT INTO bench.{table} ({', '.join(columns)}) VALUES ({markers})"


def text(key: int, salt: int) -> str:
    """Returns a row's text. Each sample has its own salt, so rows of another sample are noticed."""
    return f"value {key} {salt}"


def number_of(key: int, salt: int) -> int:
    """Returns the index in `vectors()` of a row's vector."""
    return (key * 31 + salt) % _VECTORS


@lru_cache(maxsize=1)
def vectors() -> list[Any]:
    """Returns distinct float32 arrays, the same in every process."""
    import numpy as np

    generator = np.random.default_rng(768)
    return [generator.random(DIMENSIONS, dtype=np.float32) for _ in range(_VECTORS)]


@lru_cache(maxsize=1)
def vector_lists() -> list[list[float]]:
    """Returns `vectors()` as lists of floats."""
    return [vector.tolist() for vector in vectors()]


@lru_cache(maxsize=1)
def vector_bytes() -> list[bytes]:
    """Returns `vectors()` as the protocol encodes them, for clients without vector support."""
    return [vector.astype(">f4").tobytes() for vector in vectors()]


def scan_row(number: int) -> tuple[int, str, float, int, bool, datetime.datetime]:
    """Returns a row of the scanned table. Its time is naive, in UTC."""
    return (
        number,
        f"name of row {number}",
        number / 7,
        number << 33,
        number % 2 == 1,
        EPOCH + datetime.timedelta(milliseconds=number * 1001),
    )


def mixed(key: int, salt: int) -> tuple[int, str, float, datetime.datetime]:
    """Returns a row of bigint, text, double and timestamp. Its time is naive, in UTC."""
    at = EPOCH + datetime.timedelta(milliseconds=key * 1001)
    return key, text(key, salt), key / 7, at


def milliseconds(time: datetime.datetime) -> int:
    """Returns the milliseconds since 1970 of a naive time in UTC."""
    since = time - datetime.datetime(1970, 1, 1)
    return since // datetime.timedelta(milliseconds=1)


def cells(kind: str, key: int, salt: int) -> tuple[bytes, ...]:
    """Returns the cells of a row as the protocol encodes them."""
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
