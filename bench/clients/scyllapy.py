"""scyllapy: asyncio over the ScyllaDB Rust driver.

Vectors are sent as bytes; scyllapy cannot read vectors. A row is a dict, or an object made from a
dict.
"""

from __future__ import annotations

import asyncio
import datetime
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import scyllapy  # type: ignore[import-not-found]

from bench.suites.requests import awaiting
from bench.suites.requests.job import Client, Job, Pass, main


class Scanned(NamedTuple):
    """A row of the scan."""

    id: int
    name: str
    ratio: float
    big: int
    active: bool
    at: datetime.datetime


class Scyllapy(Client):
    """Sends requests from coroutines and tasks, and scans."""

    version = version("scyllapy")
    vectors = "bytes"

    def __init__(self, job: Job) -> None:
        self._job = job
        if job.scenario == "scan":
            self.note = "all rows in one page, because scyllapy's paged results await each row"
        elif job.kind == "vector":
            self.note = "ready bytes"
        elif not job.writes:
            self.note = "rows are dicts"
        if job.shape == "bulk":
            self.note = ", ".join(filter(None, (self.note, "by workers")))
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        profile = scyllapy.ExecutionProfile(consistency=scyllapy.Consistency.LOCAL_ONE)
        self._session = scyllapy.Scylla(
            [self._job.contact_point], default_execution_profile=profile
        )
        await self._session.startup()
        self._prepared = await self._session.prepare(self._job.statement)

    def run(self, requests: Pass) -> int:
        job = self._job
        call = partial(self._session.execute, self._prepared)
        read = None if job.writes else lambda result: result.first()
        shape = "workers" if job.shape == "bulk" else job.shape
        return self._loop.run_until_complete(
            awaiting.run(shape, requests, job.in_flight, call, read, "k")
        )

    def scan(self, limit: int | None = None) -> list[Any]:
        return self._loop.run_until_complete(self._scan(limit))

    async def _scan(self, limit: int | None) -> list[Any]:
        statement = self._prepared if limit is None else f"{self._job.statement} LIMIT {limit}"
        result = await self._session.execute(statement)
        if self._job.shape == "named":
            return list(result.all(as_class=Scanned))
        if self._job.shape == "dicts":
            return list(result.all())
        raise NotImplementedError("its rows are dicts, or made from dicts")

    def close(self) -> None:
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _close(self) -> None:
        # scyllapy's methods need a running event loop when they are called, not only when awaited.
        await self._session.shutdown()


if __name__ == "__main__":
    main(Scyllapy)
