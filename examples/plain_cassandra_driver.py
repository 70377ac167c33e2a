"""Uses cassandra-driver (or scylla-driver), without any code for turbocql.

Ingests a Parquet file of embeddings. Writes short rows, and rows with embeddings. Reads some rows
with embeddings back by key, and scans the short rows. Prints a line for each part: `name: seconds
of processor time per row, number of rows`.

Run it plain with `python plain_cassandra_driver.py HOST PORT FILE`, or accelerated with
`python -m turbocql.accel plain_cassandra_driver.py HOST PORT FILE`. The program makes FILE if it
does not exist. `make demo-accelerate` runs it both ways.
"""

from __future__ import annotations

import datetime
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args

ROWS, READ = 5_000, 2_000


def measured(name: str, count: int, call: Any, *arguments: Any, **options: Any) -> Any:
    """Calls `call`, prints its processor time per row, and returns its result."""
    before = time.process_time()
    result = call(*arguments, **options)
    print(f"{name}: {(time.process_time() - before) / count:.9f}, {count}", flush=True)
    return result


def write_file(file: str, embeddings: Any) -> None:
    """Writes a Parquet file with the columns `id` and `embedding`."""
    columns = {
        "id": pa.array(range(len(embeddings)), pa.int32()),
        "embedding": pa.FixedSizeListArray.from_arrays(embeddings.ravel(), embeddings.shape[1]),
    }
    pq.write_table(pa.table(columns), file)


def rows_of(file: str) -> Iterator[tuple[Any, Any]]:
    """Reads the file batch by batch. Yields pairs of an id and an embedding, which is an array."""
    for batch in pq.ParquetFile(file).iter_batches(batch_size=1_000):
        embeddings = batch.column("embedding").flatten().to_numpy().reshape(batch.num_rows, -1)
        yield from zip(batch.column("id").to_pylist(), embeddings, strict=True)


def main(host: str, port: str, file: str) -> None:
    """Creates the tables, runs and measures all parts, and checks the rows that were read."""
    cluster = Cluster([host], port=int(port))
    session = cluster.connect()
    session.execute("DROP KEYSPACE IF EXISTS plain")
    session.execute(
        "CREATE KEYSPACE plain WITH replication ="
        " {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
    )
    session.set_keyspace("plain")
    session.execute(
        "CREATE TABLE docs (id int PRIMARY KEY, key uuid, title text, tags list<text>,"
        " at timestamp, score double, embedding vector<float, 768>)"
    )
    session.execute(
        "CREATE TABLE heads (id int PRIMARY KEY, title text, at timestamp, score double)"
    )
    session.execute("CREATE TABLE ingested (id int PRIMARY KEY, embedding vector<float, 768>)")
    generator = np.random.default_rng(1)
    now = datetime.datetime(2026, 1, 1)
    docs = [
        (
            i,
            uuid.UUID(int=i),
            f"title {i}",
            ["one", "two", f"tag {i % 9}"],
            now + datetime.timedelta(seconds=i),
            i / 7,
            generator.random(768, dtype="f4"),
        )
        for i in range(ROWS)
    ]
    insert = session.prepare(
        "INSERT INTO docs (id, key, title, tags, at, score, embedding) VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    heads = session.prepare("INSERT INTO heads (id, title, at, score) VALUES (?, ?, ?, ?)")
    select = session.prepare("SELECT id, title, embedding FROM docs WHERE id = ?")

    ingest = session.prepare("INSERT INTO ingested (id, embedding) VALUES (?, ?)")
    if not Path(file).exists():
        write_file(file, np.stack([doc[-1] for doc in docs]))

    def bind(rows: list[Any]) -> None:
        for row in rows:
            insert.bind(row)

    def read(keys: range) -> float:
        results = execute_concurrent_with_args(session, select, [(key,) for key in keys])
        return float(sum(rows.one().embedding[0] for _, rows in results))

    def ingest_file() -> None:
        execute_concurrent_with_args(session, ingest, rows_of(file))

    measured("ingest embeddings from Parquet", ROWS, ingest_file)
    measured("bind rows with embeddings", ROWS, bind, docs)
    measured(
        "insert rows with embeddings", ROWS, execute_concurrent_with_args, session, insert, docs
    )
    short = [(doc[0], doc[2], doc[4], doc[5]) for doc in docs]
    measured("insert short rows", ROWS, execute_concurrent_with_args, session, heads, short)
    total = measured("select by key", READ, read, range(READ))
    session.default_fetch_size = 500
    ingested = session.execute("SELECT count(*) FROM ingested").one()[0]
    rows = measured("scan short rows", ROWS, lambda: list(session.execute("SELECT * FROM heads")))
    cluster.shutdown()
    written = sum(float(doc[-1][0]) for doc in docs[:READ])
    if (ingested, len(rows)) != (ROWS, ROWS) or abs(total - written) > 1e-3:
        raise SystemExit("not what was written")


if __name__ == "__main__":
    main(*sys.argv[1:])
