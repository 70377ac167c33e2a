"""acsylla: asyncio over the C++ driver.

acsylla does not support vectors: they are sent and returned as bytes. Values are bound as a list,
which is the fastest of acsylla's ways to bind.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

import acsylla  # type: ignore[import-not-found]

from bench.suites.requests import awaiting, data
from bench.suites.requests.job import Client, Job, Pass, main


class Acsylla(Client):
    """Sends requests from coroutines and tasks, and scans."""

    version = version("acsylla")
    vectors = "bytes"

    def __init__(self, job: Job) -> None:
        self._job = job
        if job.kind == "vector":
            self.note = "ready bytes" if job.writes else "bytes, not decoded"
        if job.shape == "bulk":
            self.note = ", ".join(filter(None, (self.note, "by workers")))
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        cluster = acsylla.create_cluster(
            [self._job.host],
            port=self._job.port,
            consistency=acsylla.Consistency.LOCAL_ONE,
            # This level leaves out the warning that the server is not ScyllaDB.
            log_level="error",
        )
        self._session = await cluster.create_session()
        self._prepared = await self._session.create_prepared(self._job.statement)

    def run(self, requests: Pass) -> int:
        job, execute, bind = self._job, self._session.execute, self._prepared.bind
        lists = [list(row) for row in requests.rows]
        requests = Pass(lists, requests.latencies, requests.seen)
        shape = "workers" if job.shape == "bulk" else job.shape
        return self._loop.run_until_complete(
            awaiting.run(
                shape,
                requests,
                job.in_flight,
                lambda row: execute(bind(row)),
                None if job.writes else lambda result: result.first().as_tuple(),
                0,
            )
        )

    def scan(self, limit: int | None = None) -> list[Any]:
        return self._loop.run_until_complete(self._scan(limit))

    async def _scan(self, limit: int | None) -> list[Any]:
        rows: list[Any] = []
        statement = self._prepared.bind(page_size=data.PAGE_SIZE)
        while True:
            result = await self._session.execute(statement)
            if self._job.shape == "tuples":
                rows += [row.as_tuple() for row in result]
            elif self._job.shape == "dicts":
                rows += [row.as_dict() for row in result]
            else:
                rows += [row.as_named_tuple() for row in result]
            if not result.has_more_pages() or (limit is not None and len(rows) >= limit):
                return rows
            statement.set_page_state(result.page_state())

    def close(self) -> None:
        self._loop.run_until_complete(self._session.close())
        self._loop.close()


if __name__ == "__main__":
    main(Acsylla)
