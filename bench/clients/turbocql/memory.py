"""Loads or scans many rows as record batches, and records the resident size over time.

    python -m bench.clients.turbocql.memory DIRECTION ROWS CONTACT_POINT

Prints a `Course` as a line of JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import turbocql
from bench.harness.usage import resident_bytes
from bench.suites.memory.course import TABLE, Course
from bench.suites.requests import data

BATCH_ROWS = 65_536
EVERY_S = 0.02


class Watch:
    """Records the resident size of this process while a block runs."""

    def __init__(self) -> None:
        self.done = 0
        self.points: list[tuple[int, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.points.append((self.done, resident_bytes()))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.points.append((self.done, resident_bytes()))


def _generated(rows: int, watch: Watch) -> Iterator[Any]:
    """Yields record batches of (bigint, text, double, timestamp), each made on demand."""
    import numpy as np
    import pyarrow as pa

    first = data.milliseconds(data.EPOCH)
    for begin in range(0, rows, BATCH_ROWS):
        keys = np.arange(begin, min(begin + BATCH_ROWS, rows))
        yield pa.record_batch(
            {
                "k": keys,
                "name": [data.text(key, 0) for key in keys.tolist()],
                "ratio": keys / 7,
                "at": (keys * 1001 + first).astype("M8[ms]"),
            }
        )
        watch.done = int(keys[-1]) + 1


def _load(session: turbocql.Session, rows: int, watch: Watch) -> None:
    report = session.load(TABLE, _generated(rows, watch))
    if report.succeeded != rows:
        raise AssertionError(f"{report.succeeded} of {rows} rows were written")


def _scan(session: turbocql.Session, rows: int, watch: Watch) -> None:
    import numpy as np

    total = 0
    rows_read = session.execute(f"SELECT k, name, ratio, at FROM {TABLE}")
    for batch in rows_read.batches():
        numbers = batch.numbers(0)
        total += 0 if numbers is None else int(np.frombuffer(numbers[0], np.int64).sum())
        watch.done += batch.num_rows
    if watch.done != rows or total != rows * (rows - 1) // 2:
        raise AssertionError(f"{watch.done} rows were read, not {rows}, or other rows")


def main(direction: str, rows: int, contact_point: str) -> None:
    """Loads or scans in this process, and prints the `Course`."""
    # pyarrow is imported first, so that the memory of pyarrow and NumPy does not count.
    importlib.import_module("pyarrow")
    work = {"load": _load, "scan": _scan}[direction]
    with turbocql.connect(contact_point, consistency="LOCAL_ONE", page_size=5000) as session:
        before, watch = resident_bytes(), Watch()
        wall, cpu = time.perf_counter(), time.process_time()
        with watch:
            work(session, rows, watch)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps(asdict(Course(direction, rows, wall, cpu, before, watch.points))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
