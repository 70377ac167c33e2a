"""The tables of the whole-table benchmark, their rows, and the files with the rows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["SHAPES", "TOOLS", "Shape", "generated", "make"]

TOOLS: dict[str, str] = {
    "turbocql-csv": "turbocql, CSV",
    "turbocql-apart": "turbocql, CSV, without batches",
    "turbocql-parquet": "turbocql, Parquet",
    "parse": "floor: reading the CSV file alone",
    "ready": "floor: the same rows from Arrow in memory",
    "cqlsh": "cqlsh COPY",
    "dsbulk": "dsbulk",
}
"""The title of each tool that is measured."""


@dataclass(frozen=True)
class Shape:
    """A table, and the tools that load and unload it."""

    title: str
    columns: str
    types: dict[str, str]
    key: str
    """The column that the suite scans to count the rows."""
    share: float
    """The table gets this share of the requested number of rows. The share is small for a table
    with large rows."""
    loads: Sequence[str]
    unloads: Sequence[str]


_ALL = ("turbocql-csv", "turbocql-parquet", "parse", "ready", "cqlsh", "dsbulk")
_OUT = ("turbocql-csv", "turbocql-parquet", "cqlsh", "dsbulk")
SHAPES: dict[str, Shape] = {
    "mixed": Shape(
        "(bigint, text, double, timestamp)",
        "k bigint PRIMARY KEY, name text, ratio double, at timestamp",
        {"k": "bigint", "name": "text", "ratio": "double", "at": "timestamp"},
        "k",
        1.0,
        _ALL,
        _OUT,
    ),
    "vectors": Shape(
        "(int, vector<float, 768>)",
        "k int PRIMARY KEY, embedding vector<float, 768>",
        {"k": "int", "embedding": "vector<float, 768>"},
        "k",
        0.1,
        # dsbulk does not support vectors.
        tuple(tool for tool in _ALL if tool != "dsbulk"),
        tuple(tool for tool in _OUT if tool != "dsbulk"),
    ),
    "partitions": Shape(
        "(int, timestamp, double), 100 partitions in turns",
        "sensor int, at timestamp, value double, PRIMARY KEY (sensor, at)",
        {"sensor": "int", "at": "timestamp", "value": "double"},
        "sensor",
        1.0,
        ("turbocql-csv", "turbocql-apart", "parse", "cqlsh", "dsbulk"),
        (),
    ),
}


def generated(shape: str, count: int) -> Any:
    """Returns the first `count` rows of a table as a `pyarrow.Table`."""
    import numpy as np
    import pyarrow as pa

    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    seconds = np.arange(count, dtype=np.int64) * 1000 + int(start.timestamp() * 1000)
    at = pa.array(seconds, pa.int64()).cast(pa.timestamp("ms", "UTC"))
    if shape == "vectors":
        numbers = np.random.default_rng(1).integers(-4096, 4096, count * 768) / np.float32(4096)
        flat = pa.array(numbers.astype(np.float32))
        embedding = pa.FixedSizeListArray.from_arrays(flat, 768)
        return pa.table({"k": pa.array(range(count), pa.int32()), "embedding": embedding})
    if shape == "partitions":
        sensor = pa.array(np.arange(count, dtype=np.int32) % 100)
        return pa.table({"sensor": sensor, "at": at, "value": np.arange(count) / 7})
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "name": [f"name {number}" for number in range(count)],
            "ratio": [number / 7 for number in range(count)],
            "at": at,
        }
    )


def make(shape: str, directory: str, count: int) -> None:
    """Writes the Parquet file and the CSV file that the tools load."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet

    table = generated(shape, count)
    where = Path(directory) / shape
    group = 100_000 if shape != "vectors" else 10_000
    pyarrow.parquet.write_table(table, f"{where}.parquet", row_group_size=group)
    if shape == "vectors":
        with open(f"{where}.csv", "w", encoding="utf-8") as out:
            out.write("k,embedding\n")
            for batch in table.to_batches(max_chunksize=1000):
                rows = zip(batch["k"].to_pylist(), batch["embedding"].to_pylist(), strict=True)
                out.writelines(f'{k},"{values}"\n' for k, values in rows)
        return
    position = table.schema.get_field_index("at")
    # cqlsh reads this format. From other formats, it silently drops the time of day.
    texts = pc.strftime(table["at"].cast(pa.timestamp("s")), "%Y-%m-%d %H:%M:%S+0000")
    options = pyarrow.csv.WriteOptions(quoting_style="none")
    table = table.set_column(position, "at", texts)
    pyarrow.csv.write_csv(table, f"{where}.csv", write_options=options)
