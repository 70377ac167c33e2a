"""Stores MinHash buckets as datasketch does: blobs, buffered batches, concurrent selects."""

from __future__ import annotations

import hashlib
import pickle
import struct
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent
from cassandra.query import BatchStatement, BatchType, tuple_factory
from tests.accel.programs.running import attempt, connected, print_native

TABLE = "TABLE buckets (key blob, value blob, ts bigint, PRIMARY KEY (key, value))"


def bands_of(number: int) -> list[bytes]:
    """Returns the keys of the buckets of a hashed document."""
    digest = hashlib.sha256(struct.pack(">i", number)).digest()
    return [bytes([band]) + bytes(byte % 5 for byte in digest[band::8]) for band in range(4)]


def insert_buffered(session: Any, insert: Any, rows: list[tuple[bytes, bytes, int]]) -> None:
    """Sends one batch for each key, with the rows of the key. Waits for each batch."""
    by_key: dict[bytes, list[tuple[bytes, bytes, int]]] = {}
    for row in rows:
        by_key.setdefault(row[0], []).append(row)
    for group in by_key.values():
        batch = BatchStatement(BatchType.UNLOGGED, consistency_level=ConsistencyLevel.ONE)
        for row in group:
            batch.add(insert, row)
        session.execute(batch)


def main() -> None:
    with connected(TABLE) as session:
        session.row_factory = tuple_factory
        session.default_fetch_size = 50
        insert = session.prepare("INSERT INTO buckets (key, value, ts) VALUES (?, ?, ?)")
        select = session.prepare("SELECT value FROM buckets WHERE key = ?")
        select_many = session.prepare("SELECT key, value, ts FROM buckets WHERE key IN ?")
        delete = session.prepare("DELETE FROM buckets WHERE key = ? AND value = ?")
        rows = [
            (key, pickle.dumps(f"m{number}", 4), 2**40 + number)
            for number in range(60)
            for key in bands_of(number)
        ]
        insert_buffered(session, insert, rows)
        keys = sorted({key for key, *_ in rows})
        answers = execute_concurrent(session, [(select, (key,)) for key in keys], concurrency=20)
        for key, (ok, values) in zip(keys, answers, strict=True):
            print(ok, key, sorted(pickle.loads(value) for (value,) in values))
        print(sorted(session.execute(select_many, (keys[:6],))))
        gone = [(delete, (key, pickle.dumps("m7", 4))) for key in bands_of(7)]
        print([(ok, list(values)) for ok, values in execute_concurrent(session, gone)])
        print([list(session.execute(select, (key,))) for key in bands_of(7)])
        batch = BatchStatement()
        attempt(batch.add, insert, ("a text", b"", 1))
        attempt(batch.add, insert, (b"", b"", "5"))
        batch.add(insert.bind((b"k", memoryview(b"v"), 0)))
        batch.add("INSERT INTO buckets (key, value, ts) VALUES (%s, %s, %s)", (b"k", b"\x00'", -1))
        print(session.execute(batch).one(), sorted(session.execute(select_many, ([b"k"],))))
        print(len({key for (key,) in session.execute("SELECT DISTINCT key FROM buckets")}))
    print_native()


if __name__ == "__main__":
    main()
