"""A program that ends while a thread of pyarrow or duckdb still reads a scan.

    PYTHONPATH=python .venv-columns/bin/python tests/columns/programs/ending.py POINT CONSUMER

Both libraries read ahead in threads of their own, and these threads call turbocql. pyarrow waits
for its threads after the interpreter has ended. If such a thread called turbocql and the call did
not return, the program would never end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset

import turbocql

ROWS = 20_000
TABLE = "ending.readings"
WAITING = "pyarrow-waiting"
"""With this value of CONSUMER, a thread of pyarrow waits for the GIL when the program ends."""


def make(session: turbocql.Session) -> None:
    """Creates the table if it does not exist, and loads rows into it."""
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS ending WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (id int PRIMARY KEY, name text)")
    session.load(TABLE, {"id": np.arange(ROWS, dtype=np.int32), "name": ["x" * 100] * ROWS})


def read(session: turbocql.Session, consumer: str) -> Iterator[pa.RecordBatch]:
    """Returns the batches of a scan. A thread of the consumer reads them ahead."""
    rows_per_page, rows_per_batch = (ROWS, 2) if consumer == WAITING else (100, 200)
    batches = session.scan(TABLE, page_size=rows_per_page).batches(rows_per_batch=rows_per_batch)
    reader = pa.RecordBatchReader.from_stream(batches)
    if consumer == "duckdb":
        return iter(duckdb.connect().from_arrow(reader).to_arrow_reader(200))
    return iter(pyarrow.dataset.Scanner.from_batches(reader).to_batches())


def main() -> None:
    # Some programs forget to close their session. So this program does not close it either.
    session = turbocql.connect(sys.argv[1])
    make(session)
    found = read(session, sys.argv[2])
    if sys.argv[2] == WAITING:
        sys.setswitchinterval(1000)
    print(next(found).num_rows)
    if sys.argv[2] == WAITING:
        # This loop holds the GIL while a thread of pyarrow requests it. So the thread gets the GIL
        # only after the program has ended.
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.3:
            pass


if __name__ == "__main__":
    main()
