"""Loads a file of embeddings into a real Cassandra, interrupts the load, and resumes it.

Makes a Parquet file of 100,000 embeddings, loads it with a progress bar, and interrupts the load
with SIGINT. Then resumes it from the checkpoint, compares the table with the file, and unloads the
table to Parquet.

Run it with `make demo-load`.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import turbocql
from turbocql.testing import Cassandra

ROWS, DIMENSIONS = 100_000, 128

SCHEMA = [
    """CREATE KEYSPACE demo
       WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}""",
    f"CREATE TABLE demo.documents (id int PRIMARY KEY, emb vector<float, {DIMENSIONS}>)",
]


def make(path: Path) -> None:
    """Writes the file, in row groups of 10,000 rows."""
    chosen = np.random.default_rng(7)
    fields = [("id", pa.int32()), ("emb", pa.list_(pa.float32(), DIMENSIONS))]
    with pq.ParquetWriter(path, pa.schema(fields)) as out:
        for first in range(0, ROWS, 10_000):
            numbers = chosen.standard_normal(10_000 * DIMENSIONS, dtype=np.float32)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), DIMENSIONS)
            keys = pa.array(np.arange(first, first + 10_000, dtype=np.int32))
            out.write_table(pa.table({"id": keys, "emb": vectors}))


def interrupt_at(session: turbocql.Session, requests: int) -> threading.Thread:
    """Starts and returns a thread that interrupts this process after `requests` more requests."""
    until = session.metrics().requests + requests

    def wait() -> None:
        while session.metrics().requests < until:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def main() -> None:
    """Makes the file, loads it, resumes the load, compares, and unloads."""
    with (
        tempfile.TemporaryDirectory() as made,
        Cassandra() as cluster,
        turbocql.connect(cluster.contact_points) as session,
    ):
        directory = Path(made)
        path, checkpoint = directory / "embeddings.parquet", directory / "checkpoint"
        for statement in SCHEMA:
            session.execute(statement)
        make(path)
        size = path.stat().st_size
        print(f"{path.name}: {ROWS:,} embeddings of {DIMENSIONS} floats, {size:,} bytes")

        interrupt_at(session, 40_000)
        try:
            session.load("demo.documents", path, checkpoint=checkpoint, progress=True)
        except KeyboardInterrupt:
            done = json.loads(checkpoint.read_bytes())["acknowledged"]
            rows = sum(end - first for first, end in done)
            print(f"interrupted: the checkpoint has {rows:,} rows in {len(done)} ranges")
        report = session.load("demo.documents", path, resume=checkpoint, progress=True)
        print(f"resumed: {report.succeeded:,} rows")

        compared = session.verify("demo.documents", path)
        print(f"compared: {compared.checked:,} rows, equal: {compared.equal}")
        assert compared.equal

        target = directory / "unloaded.parquet"
        unloaded = session.unload("demo.documents", target)
        found = pq.read_table(target).sort_by("id")
        assert found["emb"].combine_chunks() == pq.read_table(path)["emb"].combine_chunks()
        print(f"unloaded: {unloaded.rows:,} rows, {unloaded.bytes:,} bytes, the same vectors")


if __name__ == "__main__":
    main()
