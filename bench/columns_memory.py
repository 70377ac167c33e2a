"""Resident memory while many rows are loaded from record batches, and read back as record batches.

    .venv/bin/python bench/columns_memory.py [--rows N] [--contact-point HOST:PORT] [--keep]

The rows are generated batch by batch, and each batch that is read is dropped, so that no memory
depends on the number of rows. Each direction is a process of its own in `.venv-columns`, which has
pyarrow. It notes its resident size every 20 ms. Memory is flat when the second half of the run
needs at most 16 MiB more than the first half; the first 5 % of the rows are left out. Rows that
are kept would need some 60 bytes each: with fewer than 1,000,000 rows the verdict says little.

Without a contact point, an embedded Cassandra is started. Samples go to
`build/bench/columns_memory.jsonl`; with `--keep` the table stays. The exit status is 1 if memory
grew.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# turbocql is installed in its own environment only; its module fits interpreters of one version.
sys.path.append(str(Path(__file__).parents[1] / "python"))

from clients import data
from timing import provenance

import turbocql
from turbocql.testing import Cassandra

__all__ = ["Course", "main"]

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-columns" / "bin" / "python"
SAMPLES = ROOT / "build" / "bench" / "columns_memory.jsonl"
ROWS = 5_000_000
BATCH_ROWS = 65_536
EVERY_S = 0.02
MOST_GROWTH = 16 << 20
LEFT_OUT = 0.05
KEYSPACE, TABLE = "bench_memory", "bench_memory.rows"
TIMEOUT_S = 3600


@dataclass(frozen=True)
class Course:
    """The resident size over one direction, in bytes."""

    direction: str
    rows: int
    wall_s: float
    cpu_s: float
    before: int
    """Connected, before the first row."""
    points: list[tuple[int, int]]
    """How many rows were done, and the resident size then."""

    def _peak(self, begin: float, end: float) -> int:
        chosen = [size for rows, size in self.points if begin <= rows / self.rows <= end]
        return max(chosen, default=0)

    @property
    def peak(self) -> int:
        return self._peak(0, 1)

    @property
    def growth(self) -> int:
        """How much more the second half needs than the first."""
        return self._peak(0.5, 1) - self._peak(LEFT_OUT, 0.5)

    @property
    def is_flat(self) -> bool:
        return self.growth <= MOST_GROWTH

    def lines(self) -> Iterator[str]:
        """The course in twelve points, and the verdict."""
        yield (
            f"{self.direction}: {self.rows:,} rows in {self.wall_s:.1f} s,"
            f" {self.cpu_s / self.rows * 1e6:.2f} us of CPU a row"
        )
        for part in range(12):
            size = self._peak(part / 12, (part + 1) / 12)
            yield f"  to {(part + 1) / 12:4.0%} of the rows: {size / 2**20:8.1f} MiB at most"
        verdict = "flat" if self.is_flat else "NOT FLAT"
        yield (
            f"  before: {self.before / 2**20:.1f} MiB, peak {self.peak / 2**20:.1f} MiB, second"
            f" half against first: {self.growth / 2**20:+.1f} MiB: {verdict}"
        )


class Watch:
    """Notes the resident size of this process while a block runs."""

    def __init__(self) -> None:
        self.done = 0
        self.points: list[tuple[int, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.points.append((self.done, _resident()))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.points.append((self.done, _resident()))


def _resident() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmRSS")


def _generated(rows: int, watch: Watch) -> Iterator[Any]:
    """Record batches of (bigint, text, double, timestamp), each made when it is wanted."""
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
    found = session.execute(f"SELECT k, name, ratio, at FROM {TABLE}")
    for batch in found.batches():
        numbers = batch.numbers(0)
        total += 0 if numbers is None else int(np.frombuffer(numbers[0], np.int64).sum())
        watch.done += batch.num_rows
    if watch.done != rows or total != rows * (rows - 1) // 2:
        raise AssertionError(f"{watch.done} rows were read, not {rows}, or other rows")


def _child(direction: str, rows: int, contact_point: str) -> None:
    """One direction in this process; prints its course."""
    # Its own memory, and NumPy's, is not that of the rows.
    importlib.import_module("pyarrow")
    work = {"load": _load, "scan": _scan}[direction]
    with turbocql.connect(contact_point, consistency="LOCAL_ONE", page_size=5000) as session:
        before, watch = _resident(), Watch()
        wall, cpu = time.perf_counter(), time.process_time()
        with watch:
            work(session, rows, watch)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps(asdict(Course(direction, rows, wall, cpu, before, watch.points))))


def _course(direction: str, rows: int, contact_point: str) -> Course:
    ended = subprocess.run(
        [
            *(str(PYTHON), str(Path(__file__)), "--direction", direction),
            *("--rows", str(rows), "--contact-point", contact_point),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
    )
    return Course(**json.loads(ended.stdout.splitlines()[-1]))


def main(rows: int, contact_point: str | None, *, keep: bool) -> int:
    """Both directions; the exit status."""
    if not PYTHON.exists():
        raise SystemExit("make .venv-columns/.installed first: pyarrow is needed")
    courses = []
    with nullcontext() if contact_point else Cassandra(heap_mb=1024) as cluster:
        if cluster is not None:
            contact_point = cluster.contact_points[0]
        with turbocql.connect(contact_point, timeout_s=60) as session:
            _make_table(session)
            try:
                for direction in ("load", "scan"):
                    course = _course(direction, rows, str(contact_point))
                    print("\n".join(course.lines()), flush=True)
                    courses.append(course)
            finally:
                if not keep:
                    session.execute(f"DROP KEYSPACE {KEYSPACE}")
    SAMPLES.parent.mkdir(parents=True, exist_ok=True)
    about = {"suite": "columns_memory", **provenance("turbocql", turbocql.__version__)}
    with SAMPLES.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps({**about, **asdict(course)}) + "\n" for course in courses)
    return 0 if all(course.is_flat for course in courses) else 1


def _make_table(session: turbocql.Session) -> None:
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(
        f"CREATE TABLE {TABLE} (k bigint PRIMARY KEY, name text, ratio double, at timestamp)"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="memory of loads and of scans, as columns")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"default: {ROWS:,}")
    parser.add_argument("--contact-point", help="a server that runs already")
    parser.add_argument("--keep", action="store_true", help="leave the table in the server")
    parser.add_argument("--direction", choices=("load", "scan"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.direction:
        _child(asked.direction, asked.rows, asked.contact_point)
        sys.exit()
    sys.exit(main(asked.rows, asked.contact_point, keep=asked.keep))
