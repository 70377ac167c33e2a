"""scylladb-rs-driver: ScyllaDB's own Python driver over its Rust driver.

Vectors are passed and returned as lists of floats. By default rows are dicts, which are fastest. If
the job asks for another form, a row factory in Python makes the rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

from scylla.enums import Consistency  # type: ignore[import-not-found]
from scylla.execution_profile import ExecutionProfile  # type: ignore[import-not-found]
from scylla.results import RowFactory  # type: ignore[import-not-found]
from scylla.session_builder import SessionBuilder  # type: ignore[import-not-found]

from bench.suites.requests import awaiting, blocking, data
from bench.suites.requests.job import Client, Job, Pass, main


class Scanned(NamedTuple):
    """A row of the scan."""

    id: Any
    name: Any
    ratio: Any
    big: Any
    active: Any
    at: Any


class _Tuples(RowFactory):  # type: ignore[misc]
    def build(self, column_iterator: Iterable[Any]) -> tuple[Any, ...]:
        return tuple([column.value for column in column_iterator])


class _Named(RowFactory):  # type: ignore[misc]
    def build(self, column_iterator: Iterable[Any]) -> Scanned:
        return Scanned(*[column.value for column in column_iterator])


_FACTORIES = {"tuples": _Tuples(), "named": _Named(), "dicts": None}


class _Result:
    """A result with the method `one`, which `blocking.run` calls."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def one(self) -> Any:
        row = _first(self._result)
        return row and tuple(row.values())


def _first(result: Any) -> Any:
    return next(result.iter_current_page())


class ScyllaDbRs(Client):
    """Sends requests from coroutines, tasks and a blocking loop, and scans."""

    version = version("scylladb-rs-driver")
    vectors = "list"

    def __init__(self, job: Job) -> None:
        self._job = job
        if job.shape == "bulk":
            self.note = "by workers"
        elif not job.writes and job.scenario != "scan":
            self.note = "rows are dicts"
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        profile = ExecutionProfile(consistency=Consistency.LocalOne)
        builder = SessionBuilder().contact_points([(self._job.host, self._job.port)])
        self._session = await builder.execution_profile(profile).connect()
        prepared = await self._session.prepare(self._job.statement)
        self._prepared = prepared.with_page_size(data.PAGE_SIZE)

    def run(self, requests: Pass) -> int:
        job, execute = self._job, self._session.execute
        if job.shape == "sync":

            def wait(prepared: Any, row: Any) -> _Result:
                return _Result(execute(prepared, row).result())

            return blocking.run(wait, self._prepared, requests, reads=not job.writes)
        call = partial(execute, self._prepared)
        read = None if job.writes else _first
        shape = "workers" if job.shape == "bulk" else job.shape
        return self._loop.run_until_complete(
            awaiting.run(shape, requests, job.in_flight, call, read, "k")
        )

    def scan(self, limit: int | None = None) -> list[Any]:
        statement = self._prepared if limit is None else f"{self._job.statement} LIMIT {limit}"
        return self._loop.run_until_complete(self._scan(statement))

    async def _scan(self, statement: Any) -> list[Any]:
        result = await self._session.execute(statement, factory=_FACTORIES[self._job.shape])
        rows: list[Any] = await result.all()
        return rows

    def close(self) -> None:
        # The driver has no call that closes a session.
        del self._session, self._prepared
        self._loop.close()


if __name__ == "__main__":
    main(ScyllaDbRs)
