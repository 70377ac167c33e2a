"""Generates the rows that the engines (Dask, DuckDB, Ray and Spark) write and read.

It also computes sums over the rows. The tests compare tables by these sums.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

COUNT = 1_000_000
DIMENSIONS = 8
TABLE = (
    "CREATE TABLE {} (part int, id bigint, bucket int, name text, ratio double, at timestamp,"
    f" emb vector<float, {DIMENSIONS}>, PRIMARY KEY (part, id))"
)
PER_PARTITION = 200
COLUMNS = ["part", "id", "bucket", "name", "ratio", "at", "emb"]


class Sums(NamedTuple):
    """Sums over rows. The sums do not depend on the order of the rows."""

    rows: int
    ids: int
    checksum: int
    """A checksum of all cells of all rows, modulo 2**64."""

    def __add__(self, other: Any) -> Sums:
        return Sums(self.rows + other[0], self.ids + other[1], (self.checksum + other[2]) % 2**64)


NOTHING = Sums(0, 0, 0)


def rows_of(ids: Any) -> dict[str, Any]:
    """Returns the rows with these ids as NumPy columns."""
    ids = np.asarray(ids, np.int64)
    return {
        "part": (ids // PER_PARTITION).astype(np.int32),
        "id": ids,
        "bucket": (ids % 1000).astype(np.int32),
        "name": np.array([f"row {one}" for one in ids.tolist()], object),
        "ratio": ids / 7,
        "at": (ids * 1000).astype("M8[ms]"),
        "emb": (ids[:, None] % 97 + np.arange(DIMENSIONS)).astype(np.float32),
    }


def table_of(ids: Any) -> pa.Table:
    """Returns the rows with these ids as an Arrow table."""
    columns = rows_of(ids)
    numbers = pa.array(columns.pop("emb").ravel())
    emb = pa.FixedSizeListArray.from_arrays(numbers, DIMENSIONS)
    at = pa.array(columns.pop("at"), pa.timestamp("ms", "UTC"))
    made = {name: pa.array(column) for name, column in columns.items()}
    return pa.table({**made, "at": at, "emb": emb})


def sums_of(columns: dict[str, Any]) -> Sums:
    """Returns the sums over rows that are given as NumPy columns."""
    ids = np.asarray(columns["id"], np.int64)
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.asarray(columns["part"], np.int64).astype(np.uint64) * np.uint64(7)
    mixed ^= np.asarray(columns["bucket"], np.int64).astype(np.uint64) * np.uint64(31)
    mixed += np.asarray(columns["ratio"], np.float64).view(np.uint64)
    mixed ^= _times(columns["at"]).view(np.uint64) * np.uint64(131)
    emb = np.stack(columns["emb"]) if len(ids) else np.zeros((0, DIMENSIONS))
    weights = np.arange(1, DIMENSIONS + 1)
    mixed += (emb.astype(np.float64) @ weights).astype(np.uint64) * np.uint64(0x100000001B3)
    crcs = [zlib.crc32(name.encode()) for name in columns["name"]]
    mixed ^= np.array(crcs, np.uint64) * np.uint64(0x85EBCA6B)
    # This mixes the hash of each row once more. Without it, the sum could stay the same if two rows
    # exchanged their cells.
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return Sums(len(ids), int(ids.sum()), int(mixed.sum(dtype=np.uint64)))


def _times(column: Any) -> Any:
    """Returns times as a NumPy array without a time zone.

    For times with a time zone, pandas gives an array of objects.
    """
    values = np.asarray(column)
    if values.dtype == object:
        values = np.array([one.tz_localize(None) for one in values], "M8[ms]")
    return values.astype("M8[ms]")


def sums_of_arrow(table: Any) -> Sums:
    """Returns the sums over the rows of an Arrow table or record batch."""
    columns = {name: table.column(name) for name in COLUMNS}
    emb = columns["emb"]
    chunks = emb.chunks if isinstance(emb, pa.ChunkedArray) else [emb]
    made = {
        name: column.to_pylist() if name == "name" else column.to_numpy(zero_copy_only=False)
        for name, column in columns.items()
        if name != "emb"
    }
    flat = [_numbers(chunk) for chunk in chunks]
    made["emb"] = np.concatenate(flat) if flat else np.zeros((0, DIMENSIONS))
    return sums_of(made)


def _numbers(chunk: Any) -> Any:
    chunk = getattr(chunk, "storage", chunk)
    return chunk.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), DIMENSIONS)


def sums_as_texts(table: Any) -> dict[str, list[Any]]:
    """Returns the sums over the rows of `table`, as columns with one row.

    `ids` and `checksum` are texts. A checksum may exceed Spark's type `long`, and Arrow cannot add
    checksums modulo 2**64, so `total_of_texts` adds the texts.
    """
    sums = sums_of_arrow(table)
    return {"count": [sums.rows], "ids": [str(sums.ids)], "checksum": [str(sums.checksum)]}


def total_of_texts(rows: Iterable[Any]) -> Sums:
    """Adds up rows of sums that `sums_as_texts` made."""
    return total((row["count"], int(row["ids"]), int(row["checksum"])) for row in rows)


def expected(count: int = COUNT) -> Sums:
    """Returns the sums of the first `count` generated rows."""
    return total(
        sums_of(rows_of(np.arange(at, min(at + 100_000, count)))) for at in range(0, count, 100_000)
    )


def total(parts: Iterable[Any]) -> Sums:
    """Returns the total of several sums."""
    made = NOTHING
    for part in parts:
        made += part
    return made
