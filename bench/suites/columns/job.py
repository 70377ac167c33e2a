"""What one process does for a case of columns: a scan, a page or a load. Imports no driver.

A scan reads all rows of a table into one object of the job's shape. A page is received once and
then decoded many times. A load writes data that is made before anything is timed.
"""

from __future__ import annotations

import datetime
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from bench.harness.environments import ROOT
from bench.harness.provenance import provenance
from bench.harness.usage import Measured
from bench.suites.requests import data
from bench.suites.requests.job import WARM_UP_KEYS, Job, expect

__all__ = ["ColumnClient", "add_packages_of", "arrow_data", "main", "to_pylists"]


def add_packages_of(environment: str) -> None:
    """Lets this process import packages of another environment that its own does not have."""
    sys.path += map(str, (ROOT / environment / "lib").glob("python3*/site-packages"))


class ColumnClient(ABC):
    """A connected driver with a job's statement prepared."""

    version: str
    note: str | None = None

    @abstractmethod
    def scan(self, limit: int | None = None) -> Any:
        """Returns all rows of the table, or the first `limit`, as one object of the job's shape."""

    @abstractmethod
    def page(self) -> Callable[[], Any]:
        """Receives one page. Returns a function that decodes it."""

    @abstractmethod
    def count(self, result: Any) -> int:
        """Returns the number of rows of a scan or of a decoded page."""

    @abstractmethod
    def rows(self, result: Any) -> Iterable[Iterable[Any]] | None:
        """Returns the result as rows of Python values, or None if the client cannot convert it."""

    def make(self, first: int, count: int) -> Any:
        """Returns the data for `load`. The call comes before anything is timed."""
        raise NotImplementedError("it loads no columns")

    def load(self, columns: Any) -> int:
        """Writes the data. Returns how many rows were written."""
        raise NotImplementedError("it loads no columns")

    @abstractmethod
    def close(self) -> None:
        """Closes the driver's connections."""


def to_pylists(columns: dict[str, Any]) -> Iterable[Iterable[Any]]:
    """Converts NumPy arrays to rows, with cells in the statement's order. Vectors stay arrays."""
    names = ("k", "v") if "v" in columns else ("id", "name", "ratio", "big", "active", "at")
    parts = [columns[name] for name in names]
    return zip(*(part if part.ndim == 2 else part.tolist() for part in parts), strict=True)


def arrow_data(job: Job, first: int, count: int) -> Any:
    """Returns a load's rows as a `pyarrow.Table`. In the shape `blobs`, its cells are encoded."""
    import numpy as np
    import pyarrow as pa

    keys = range(first, first + count)
    if job.shape == "blobs":
        columns = zip(*(data.cells(job.kind, key, job.salt) for key in keys), strict=True)
        arrays = [pa.array(column, pa.binary()) for column in columns]
        return pa.table(arrays, list(data.COLUMNS[job.kind]))
    if job.kind == "vector":
        pool = np.stack(data.vectors())
        values = pool[[data.number_of(key, job.salt) for key in keys]]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), data.DIMENSIONS)
        return pa.table({"k": np.arange(first, first + count, dtype=np.int32), "v": vectors})
    rows = zip(*(data.mixed(key, job.salt) for key in keys), strict=True)
    types = (pa.int64(), pa.string(), pa.float64(), pa.timestamp("ms", "UTC"))
    arrays = [pa.array(column, of) for column, of in zip(rows, types, strict=True)]
    return pa.table(arrays, list(data.COLUMNS["mixed"]))


def _check(job: Job, client: ColumnClient, result: Any, count: int) -> None:
    """Checks the number of rows, and the rows themselves if the client can return them."""
    expect(client.count(result) == count, f"{client.count(result)} rows, not {count}")
    rows = client.rows(result)
    if rows is None:
        return
    seen = set()
    for row in rows:
        key, *others = row
        seen.add(key)
        if job.kind == "vector":
            stored = data.vectors()[data.number_of(key, 0)]
            expect(list(others[0]) == stored.tolist(), f"row {key} is another vector")
        else:
            cells = (key, *others[:-1], _naive(others[-1]))
            expect(cells == data.scan_row(key), f"row {key} is {cells!r}")
    expect(len(seen) == count, f"{len(seen)} distinct rows, not {count}")


def _naive(at: datetime.datetime) -> datetime.datetime:
    return at if at.tzinfo is None else at.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def _take_scan(job: Job, client: ColumnClient) -> tuple[int, Measured]:
    count = data.SCANNED[job.scenario][1]
    if job.warm_up and job.warm_up < count:
        client.scan(job.warm_up)
    for _ in range(job.warm_up // count):
        client.scan()
    with Measured() as measured:
        result = client.scan()
    _check(job, client, result, count)
    return count, measured


def _take_page(job: Job, client: ColumnClient) -> tuple[int, Measured]:
    count = data.PAGE[job.scenario][1]
    decode = client.page()
    for _ in range(-(-job.warm_up // count)):
        result = decode()
    times = range(-(-job.requests // count))
    with Measured() as measured:
        for _ in times:
            result = decode()
    _check(job, client, result, count)
    return len(times) * count, measured


def _take_load(job: Job, client: ColumnClient) -> tuple[int, Measured]:
    if job.warm_up:
        client.load(client.make(WARM_UP_KEYS, job.warm_up))
    columns = client.make(0, job.requests)
    with Measured() as measured:
        written = client.load(columns)
    expect(written == job.requests, f"{written} rows were written, not {job.requests}")
    return written, measured


def main(connect: Callable[[Job], ColumnClient]) -> None:
    """Runs the job that is passed on the command line, and prints the sample."""
    job = Job(**json.loads(sys.argv[1]))
    take = _take_scan if job.scenario in data.SCANNED else _take_page
    if job.writes:
        take = _take_load
    client = connect(job)
    try:
        count, measured = take(job, client)
    finally:
        client.close()
    sample = {"scenario": job.scenario, "shape": job.shape, "in_flight": job.in_flight}
    sample |= {"requests": count, "cpu_s": measured.cpu_s, "wall_s": measured.wall_s}
    sample |= {"p50_us": None, "p99_us": None, "note": client.note}
    print(json.dumps({**provenance(job.client, client.version), **sample}))
