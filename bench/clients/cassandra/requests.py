"""The client of cassandra-driver or scylla-driver, whichever is installed as `cassandra`."""

from __future__ import annotations

import itertools
import logging
import threading
from time import perf_counter_ns
from typing import Any

import cassandra
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import SimpleStatement, dict_factory, named_tuple_factory, tuple_factory

from bench.suites.requests import blocking, data
from bench.suites.requests.job import Client, Job, Pass, main

FACTORIES = {"named": named_tuple_factory, "dicts": dict_factory}


class Cassandra(Client):
    """Sends with callbacks, with `execute_concurrent_with_args`, or one at a time; also scans.

    Rows are tuples, unless the job asks for named tuples or dicts. Named tuples are the driver's
    default, but the driver makes a new class of them for every result.
    """

    version = cassandra.__version__

    def __init__(self, job: Job) -> None:
        # This level leaves out the warning that no data center is configured.
        logging.getLogger("cassandra").setLevel(logging.ERROR)
        self._job = job
        self.has_latencies = job.shape != "bulk"
        profile = ExecutionProfile(
            consistency_level=ConsistencyLevel.LOCAL_ONE,
            request_timeout=60,
            row_factory=FACTORIES.get(job.variant or job.shape, tuple_factory),
        )
        self._cluster = Cluster(
            [job.host], port=job.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}
        )
        self._session = self._cluster.connect()
        self._session.default_fetch_size = data.PAGE_SIZE
        self._prepared = self._session.prepare(job.statement)

    def run(self, requests: Pass) -> int:
        if self._job.shape == "callbacks":
            return self._callbacks(requests)
        if self._job.shape == "sync":
            execute, reads = self._session.execute, not self._job.writes
            return blocking.run(execute, self._prepared, requests, reads=reads)
        return self._concurrent(requests)

    def _callbacks(self, requests: Pass) -> int:
        """Runs `in_flight` chains of requests: the callback of each request sends the next one."""
        execute, prepared, in_flight = (
            self._session.execute_async,
            self._prepared,
            self._job.in_flight,
        )
        reads, latencies = not self._job.writes, requests.latencies
        remaining, chains_ended, ended = iter(requests.rows), itertools.count(1), threading.Event()
        keys: list[int] = []
        errors: list[BaseException] = []

        def send() -> None:
            row = next(remaining, None)
            if row is None:
                if next(chains_ended) == in_flight:
                    ended.set()
                return
            future = execute(prepared, row)
            if latencies is None:
                future.add_callbacks(answered, failed)
            else:
                future.add_callbacks(timed, failed, callback_args=(perf_counter_ns(),))

        def answered(rows: Any) -> None:
            if reads:
                keys.append(rows[0][0])
                if requests.seen is not None:
                    requests.seen.append(rows[0])
            send()

        def timed(rows: Any, begin: int) -> None:
            latencies.append(perf_counter_ns() - begin)  # type: ignore[union-attr]
            answered(rows)

        def failed(error: BaseException) -> None:
            errors.append(error)
            ended.set()

        for _ in range(in_flight):
            send()
        ended.wait()
        if errors:
            raise errors[0]
        return sum(keys)

    def _concurrent(self, requests: Pass) -> int:
        latencies = requests.latencies
        session = self._session if latencies is None else _Timed(self._session, latencies)
        results = execute_concurrent_with_args(
            session, self._prepared, requests.rows, concurrency=self._job.in_flight
        )
        if self._job.writes:
            return 0
        total = 0
        for _, result in results:
            row = result.one()
            total += row[0]
            if requests.seen is not None:
                requests.seen.append(row)
        return total

    def scan(self, limit: int | None = None) -> list[Any]:
        if limit is None:
            return list(self._session.execute(self._prepared))
        return list(self._session.execute(SimpleStatement(f"{self._job.statement} LIMIT {limit}")))

    def close(self) -> None:
        self._cluster.shutdown()


class _Timed:
    """Wraps a session to record latencies: `execute_concurrent_with_args` reports none."""

    def __init__(self, session: Any, latencies: list[int]) -> None:
        self.submit = session.submit
        self._execute, self._latencies = session.execute_async, latencies

    def execute_async(self, *arguments: Any, **options: Any) -> Any:
        begin, latencies = perf_counter_ns(), self._latencies
        future = self._execute(*arguments, **options)
        future.add_callback(lambda _: latencies.append(perf_counter_ns() - begin))
        return future


if __name__ == "__main__":
    main(Cassandra)
