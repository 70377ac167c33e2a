"""Stores features as feast's online store does: hashed entity keys, blobs, callbacks."""

from __future__ import annotations

import datetime
import hashlib
import struct
from functools import partial
from queue import Queue
from threading import Semaphore
from typing import Any

from cassandra.concurrent import execute_concurrent, execute_concurrent_with_args
from tests.accel.programs.running import attempt, connected, print_native

TABLE = (
    "TABLE driver_stats (entity_key text, feature_name text, value blob, event_ts timestamp,"
    " created_ts timestamp, PRIMARY KEY ((entity_key), feature_name))"
    " WITH CLUSTERING ORDER BY (feature_name ASC)"
)
FEATURES = ("acc_rate", "avg_trips", "conv_rate")
START = datetime.datetime(2026, 11, 23, 10, 30, 15, 123456, tzinfo=datetime.timezone.utc)


def key_of(entity: int) -> str:
    """Returns the hash of an entity's serialized key."""
    return hashlib.sha1(b"driver_id" + struct.pack("<q", entity)).hexdigest()


def rows_of(entity: int) -> list[tuple[Any, ...]]:
    at = START + datetime.timedelta(hours=entity)
    return [
        (name, bytearray(struct.pack("<f", entity / 7)) if name == "acc_rate" else bytes(entity),
         key_of(entity), at, at.replace(tzinfo=None))
        for name in FEATURES
    ]  # fmt: skip


def main() -> None:
    with connected(TABLE) as session:
        insert = session.prepare(
            "INSERT INTO driver_stats (feature_name, value, entity_key, event_ts, created_ts)"
            " VALUES (?, ?, ?, ?, ?)"
        )
        slots, failures = Semaphore(8), Queue[str]()

        def on_success(_: Any, entity: int) -> None:
            slots.release()

        def on_error(error: Exception, entity: int) -> None:
            failures.put(f"{entity}: {type(error).__name__}")
            slots.release()

        for entity in range(40):
            for row in rows_of(entity):
                slots.acquire()
                future = session.execute_async(insert, row)
                future.add_callbacks(
                    partial(on_success, entity=entity), partial(on_error, entity=entity)
                )
        for _ in range(8):
            slots.acquire()
        print(failures.qsize())
        select = session.prepare("SELECT * FROM driver_stats WHERE entity_key = ?")
        keys = [(key_of(entity),) for entity in range(42)]
        for ok, rows in execute_concurrent_with_args(session, select, keys, concurrency=10):
            print(ok, [(row.feature_name, row.value, row.event_ts, row.created_ts) for row in rows])
        mixed = [
            (select, keys[1]),
            (select, (b"bytes",)),
            (insert, ("a", "a text for a blob", "b", START, START)),
            (insert, (None, b"", "b", START, START)),
            ("SELECT value FROM driver_stats WHERE entity_key = %s", keys[2]),
            ("SELECT nothing FROM driver_stats", None),
        ]
        for ok, rows in execute_concurrent(session, mixed, raise_on_first_error=False):
            print(ok, list(rows) if ok else f"{type(rows).__name__}: {rows}")
        attempt(execute_concurrent, session, mixed)
        one = session.prepare("SELECT event_ts FROM driver_stats WHERE entity_key=? LIMIT 1")
        print(session.execute(one, keys[0]).one(), session.execute(one, keys[41]).one())
    print_native()


if __name__ == "__main__":
    main()
