"""A program that ends while a thread of pyarrow or duckdb still reads a scan.

    PYTHONPATH=python:. .venv-columns/bin/python -m tests.columns.early CONTACT_POINT CONSUMER

The libraries read ahead in threads of their own, for which pyarrow waits after the interpreter has
ended. So a thread that reads from turbocql must come back.
"""

from __future__ import annotations

import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset

import turbocql

ROWS = 20_000
TABLE = "early.readings"


def make(session: turbocql.Session) -> None:
    """Fills the table, unless it is there."""
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS early WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (id int PRIMARY KEY, name text)")
    session.load(TABLE, {"id": np.arange(ROWS, dtype=np.int32), "name": ["x" * 100] * ROWS})


def main() -> None:
    # The session is not closed: the program ends as programs do that do not close theirs.
    session = turbocql.connect(sys.argv[1])
    make(session)
    batches = session.scan(TABLE, page_size=100).batches(rows_per_batch=200)
    reader = pa.RecordBatchReader.from_stream(batches)
    if sys.argv[2] == "pyarrow":
        found = pyarrow.dataset.Scanner.from_batches(reader).to_batches()
    else:
        found = duckdb.connect().from_arrow(reader).to_arrow_reader(200)
    print(next(iter(found)).num_rows)


if __name__ == "__main__":
    main()
