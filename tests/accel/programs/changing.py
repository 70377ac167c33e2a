"""Reads a table with 100 requests in flight, while another process adds columns to it.

    python changing.py HOST PORT VERSION KEYSPACE

It reads in rounds of 400 requests. After each round, it prints a line of JSON with the fields of
the named tuples, the number of rows with wrong values, and the statement's result metadata id. If
turbocql is imported, the line also has the call counts of some seams (functions of the driver that
the accelerator replaces). When a line arrives on its standard input, it finishes the round, and
then exits.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args

ROWS = 50


def main() -> None:
    host, port, version, keyspace = sys.argv[1:]
    is_over = threading.Event()
    threading.Thread(target=end_by_a_line, args=(is_over,), daemon=True).start()
    cluster = Cluster([host], port=int(port), protocol_version=int(version))
    session = cluster.connect(keyspace)
    select = session.prepare("SELECT * FROM changing WHERE id = ?")
    numbers = [(number % ROWS,) for number in range(400)]
    while not is_over.is_set():
        done = execute_concurrent_with_args(session, select, numbers, concurrency=100)
        fields, wrong = set(), 0
        for (number,), result in zip(numbers, done, strict=True):
            row = result.result_or_exc.one()
            fields.add(row._fields)
            added = tuple(None for _ in row._fields[2:])
            wrong += tuple(row) != (number, str(number), *added)
        metadata_id = getattr(select, "result_metadata_id", None)
        line = {"fields": sorted(fields), "wrong": wrong, "id": metadata_id and metadata_id.hex()}
        print(json.dumps({**line, "seams": seams()}), flush=True)
    cluster.shutdown()


def end_by_a_line(is_over: threading.Event) -> None:
    sys.stdin.readline()
    is_over.set()


def seams() -> dict[str, Any]:
    """Returns call counts and fallback reasons of the seams in three parts of the accelerator."""
    if "turbocql" not in sys.modules:
        return {}
    from turbocql import accel

    return {
        seam.name: [seam.native, seam.fallback, seam.learned, list(seam.reasons)]
        for seam in accel.status().seams
        if seam.part in ("bodies", "rows", "bind") and seam.patched and not seam.is_idle
    }


if __name__ == "__main__":
    main()
