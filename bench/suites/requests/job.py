"""One process of the end-to-end benchmark: it warms up, measures, and checks the results.

The runner passes a `Job` as JSON on the command line and reads one line of JSON. Each driver has
its own `Client`, which sends rows and reads results. This module imports no driver.
"""

from __future__ import annotations

import datetime
import json
import statistics
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from bench.harness.provenance import provenance
from bench.harness.usage import Measured
from bench.suites.requests import data
from bench.suites.requests.scenario import Scenario

__all__ = ["WARM_UP_KEYS", "Client", "Job", "Pass", "VectorForm", "expect", "main"]

VectorForm: TypeAlias = Literal["array", "list", "bytes"]

# These are the lowest keys of the rows that are written to measure latencies and to warm up. They
# are above the keys that the runner reads back.
_LATENCY_KEYS, WARM_UP_KEYS = 1_000_000, 2_000_000


@dataclass(frozen=True)
class Job(Scenario):
    """One sample of one case."""

    client: str
    scenario: str
    shape: str
    in_flight: int
    contact_point: str
    requests: int
    warm_up: int
    latency_requests: int
    salt: int
    check: bool
    """Whether to check every row that is read. If so, the times are not used."""
    variant: str = ""
    """The form of vectors (`list` or `ndarray`) or of rows (`tuples` or `named`). If it is empty,
    the client's default form is used."""

    @property
    def host(self) -> str:
        return self.contact_point.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.contact_point.rpartition(":")[2])

    @property
    def statement(self) -> str:
        """The statement to prepare."""
        if self.scenario in data.SCANNED:
            return data.SCANNED[self.scenario][0]
        if self.scenario in data.PAGE:
            return data.PAGE[self.scenario][0]
        if self.scenario.startswith("load"):
            return data.insert(f"{self.kind}_loaded", self.kind)
        return (data.INSERT if self.writes else data.SELECT)[self.kind]

    def rows(self, first: int, count: int, vectors: VectorForm = "array") -> list[Any]:
        """Returns the bind values of `count` requests. No measured time includes this call."""
        if not self.writes:
            stored = data.STORED[self.kind]
            return [((first + i) * 7919 % stored,) for i in range(count)]
        keys = range(first, first + count)
        if self.kind == "text":
            return [(key, data.text(key, self.salt)) for key in keys]
        if self.kind == "mixed":
            return [data.mixed(key, self.salt) for key in keys]
        if self.variant == "list":
            vectors = "list"
        pools = {"array": data.vectors, "list": data.vector_lists, "bytes": data.vector_bytes}
        pool: list[Any] = pools[vectors]()
        return [(key, pool[data.number_of(key, self.salt)]) for key in keys]


@dataclass(frozen=True)
class Pass:
    """Requests that are sent together, and lists that collect their latencies and rows."""

    rows: Sequence[Any]
    latencies: list[int] | None = None
    """A list for the latency of each request, in nanoseconds. If it is None, latencies are not
    measured, because measuring costs time."""
    seen: list[tuple[Any, Any]] | None = None
    """Rows that were read. If None, rows are not kept."""


class Client(ABC):
    """A connected driver with a job's statement prepared."""

    version: str
    vectors: VectorForm = "array"
    """The form in which the driver takes vectors fastest. Drivers without support for vectors get
    encoded bytes."""
    has_latencies = True
    note: str | None = None

    @abstractmethod
    def run(self, requests: Pass) -> int:
        """Sends all requests. Returns the sum of the keys that were read."""

    @abstractmethod
    def scan(self, limit: int | None = None) -> list[Any]:
        """Returns a list of all rows of the table, or of the first `limit`, in the job's shape."""

    @abstractmethod
    def close(self) -> None:
        """Closes the driver's connections."""


def expect(holds: bool, message: str) -> None:
    """Raises `AssertionError` with the message unless `holds` is true."""
    if not holds:
        raise AssertionError(message)


def _take(job: Job, client: Client) -> dict[str, Any]:
    """Runs requests to warm up, then to measure processor time, then to measure latencies."""

    def run(first: int, count: int, latencies: list[int] | None = None) -> Measured:
        rows = job.rows(first, count, client.vectors)
        seen: list[tuple[Any, Any]] | None = [] if job.check and not job.writes else None
        requests = Pass(rows, latencies, seen)
        with Measured() as measured:
            total = client.run(requests)
        if not job.writes:
            expect(total == sum(row[0] for row in rows), "some requests had no row, or another's")
        if seen is not None:
            expect(len(seen) == count, f"{len(seen)} rows were read, not {count}")
            for row in seen:
                _expect_stored(job.kind, *row)
        return measured

    if job.warm_up:
        run(WARM_UP_KEYS, job.warm_up)
    measured = run(0, job.requests)
    latencies: list[int] = []
    if job.latency_requests and client.has_latencies:
        run(_LATENCY_KEYS, job.latency_requests, latencies)
        expect(len(latencies) == job.latency_requests, "a latency is missing")
    cuts = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else None
    return {
        "requests": job.requests,
        "wall_s": measured.wall_s,
        "cpu_s": measured.cpu_s,
        "p50_us": cuts[49] / 1000 if cuts else None,
        "p99_us": cuts[98] / 1000 if cuts else None,
    }


def _expect_stored(kind: str, key: int, value: Any) -> None:
    """Raises AssertionError unless `value` is the value that was stored for the key."""
    if kind == "text":
        expect(value == data.text(key, 0), f"row {key} is {value!r}")
        return
    number = data.number_of(key, 0)
    if isinstance(value, bytes):
        expect(value == data.vector_bytes()[number], f"row {key} has other bytes")
    else:
        expect(list(value) == data.vectors()[number].tolist(), f"row {key} is another vector")


def _take_scan(job: Job, client: Client) -> dict[str, Any]:
    if job.warm_up and job.warm_up < data.SCAN_ROWS:
        client.scan(job.warm_up)
    for _ in range(job.warm_up // data.SCAN_ROWS):
        client.scan()
    with Measured() as measured:
        rows = client.scan()
    by_id = {row[0]: row for row in map(_plain, rows)}
    expect(len(rows) == len(by_id) == data.SCAN_ROWS, f"{len(rows)} rows, {len(by_id)} distinct")
    for number in range(data.SCAN_ROWS):
        expect(by_id[number] == data.scan_row(number), f"row {number} is {by_id[number]!r}")
    shapes: dict[str, Callable[[Any], bool]] = {
        "tuples": lambda row: type(row) is tuple,
        "named": lambda row: isinstance(row, tuple) and row.name == row[1],  # type: ignore[attr-defined]
        "dicts": lambda row: isinstance(row, dict),
    }
    expect(shapes[job.shape](rows[0]), f"rows are {type(rows[0])}, not {job.shape}")
    return {
        "requests": len(rows),
        "wall_s": measured.wall_s,
        "cpu_s": measured.cpu_s,
        "p50_us": None,
        "p99_us": None,
    }


def _plain(row: Any) -> tuple[Any, ...]:
    """Returns a scanned row in the statement's column order, with a naive time in UTC."""
    if isinstance(row, dict):
        row = [row[name] for name in ("id", "name", "ratio", "big", "active", "at")]
    *others, at = row
    if at.tzinfo is not None:
        at = at.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return (*others, at)


def main(connect: Callable[[Job], Client]) -> None:
    """Runs the job that is passed on the command line, and prints the sample."""
    job = Job(**json.loads(sys.argv[1]))
    client = connect(job)
    try:
        figures = (_take_scan if job.scenario == "scan" else _take)(job, client)
    finally:
        client.close()
    sample = {"scenario": job.scenario, "shape": job.shape, "in_flight": job.in_flight, **figures}
    print(json.dumps({**provenance(job.client, client.version), **sample, "note": client.note}))
