"""Uses cassandra-driver (or scylla-driver), without any code for turbocql.

Writes rows with embeddings and short rows, reads some back by key, and scans the short ones. Prints
a line for each part: `name: seconds of processor time per row, rows`.

Run it plain with `python plain_cassandra_driver.py HOST PORT`, or accelerated with
`python -m turbocql.accel plain_cassandra_driver.py HOST PORT`. `make demo-accelerate` does both.
"""

from __future__ import annotations

import datetime
import sys
import time
import uuid
from typing import Any

import numpy as np
from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args

ROWS, READ = 5_000, 2_000


def measured(name: str, count: int, call: Any, *arguments: Any, **options: Any) -> Any:
    """Calls `call`, prints its processor time per row, and returns its result."""
    before = time.process_time()
    result = call(*arguments, **options)
    print(f"{name}: {(time.process_time() - before) / count:.9f}, {count}", flush=True)
    return result


def main(host: str, port: str) -> None:
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

    def bind(rows: list[Any]) -> None:
        for row in rows:
            insert.bind(row)

    def read(keys: range) -> float:
        results = execute_concurrent_with_args(session, select, [(key,) for key in keys])
        return float(sum(rows.one().embedding[0] for _, rows in results))

    measured("bind rows with embeddings", ROWS, bind, docs)
    measured(
        "insert rows with embeddings", ROWS, execute_concurrent_with_args, session, insert, docs
    )
    short = [(doc[0], doc[2], doc[4], doc[5]) for doc in docs]
    measured("insert short rows", ROWS, execute_concurrent_with_args, session, heads, short)
    total = measured("select by key", READ, read, range(READ))
    session.default_fetch_size = 500
    rows = measured("scan short rows", ROWS, lambda: list(session.execute("SELECT * FROM heads")))
    cluster.shutdown()
    if len(rows) != ROWS or abs(total - sum(float(doc[6][0]) for doc in docs[:READ])) > 1e-3:
        raise SystemExit("not what was written")


if __name__ == "__main__":
    main(*sys.argv[1:])
