"""The clients of turbocql: the asyncio session and the blocking session."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import turbocql
from bench.suites.requests import awaiting, blocking, data
from bench.suites.requests.job import Client, Job, Pass, main

SETTINGS: dict[str, Any] = {"consistency": "LOCAL_ONE", "page_size": data.PAGE_SIZE}
ROWS: dict[str, Any] = {"tuples": "tuple", "named": "named", "dicts": "dict"}


class Awaited(Client):
    """Sends requests from coroutines and tasks, with the asyncio session."""

    version = turbocql.__version__

    def __init__(self, job: Job) -> None:
        self._job = job
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        vectors: Any = "numpy" if self._job.client.endswith("numpy") else "list"
        self.session = await turbocql.aio.connect(
            self._job.contact_point, rows="tuple", vectors=vectors, **SETTINGS
        )
        self._prepared = await self.session.prepare(self._job.statement)

    def run(self, requests: Pass) -> int:
        job = self._job
        call = partial(self.session.execute, self._prepared)
        read = None if job.writes else turbocql.AsyncRows.one
        return self._loop.run_until_complete(
            awaiting.run(job.shape, requests, job.in_flight, call, read, 0)
        )

    def scan(self, limit: int | None = None) -> list[Any]:
        raise NotImplementedError("scans are the blocking session's, as the other drivers' are")

    def close(self) -> None:
        self._loop.run_until_complete(self.session.close())
        self._loop.close()


class Blocking(Client):
    """Sends one request at a time or by `execute_many`, and scans, with the blocking session."""

    version = turbocql.__version__

    def __init__(self, job: Job) -> None:
        self._job = job
        self.session = turbocql.connect(
            job.contact_point, rows=ROWS.get(job.shape, "tuple"), **SETTINGS
        )
        self._prepared = self.session.prepare(job.statement)
        self.has_latencies = job.shape == "sync"

    def run(self, requests: Pass) -> int:
        if self._job.shape == "bulk":
            concurrency = self._job.in_flight
            self.session.execute_many(self._prepared, requests.rows, concurrency=concurrency)
            return 0
        execute, reads = self.session.execute, not self._job.writes
        return blocking.run(execute, self._prepared, requests, reads=reads)

    def scan(self, limit: int | None = None) -> list[Any]:
        if limit is None:
            return self.session.execute(self._prepared).all()
        return self.session.execute(f"{self._job.statement} LIMIT {limit}").all()

    def close(self) -> None:
        self.session.close()


def connect(job: Job) -> Awaited | Blocking:
    """Returns the client for the job's shape."""
    return Awaited(job) if job.shape in ("workers", "tasks") else Blocking(job)


if __name__ == "__main__":
    main(connect)
