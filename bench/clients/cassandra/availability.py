"""The availability program with cassandra-driver and scylla-driver, with callbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import cassandra
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.policies import ConstantSpeculativeExecutionPolicy

from bench.suites.availability.cases import Load
from bench.suites.availability.load import CallbackDriver, main


class Cassandra(CallbackDriver):
    """Sends with `execute_async`; the driver's own thread calls the callbacks."""

    version = cassandra.__version__
    note = "callbacks"
    connection_errors = (ConnectionException, NoHostAvailable)

    def open(self, load: Load) -> None:
        # This level leaves out the warnings about the node that fails.
        logging.getLogger("cassandra").setLevel(logging.CRITICAL)
        speculation = None
        if load.speculation_s is not None:
            speculation = ConstantSpeculativeExecutionPolicy(load.speculation_s, 1)
        profile = ExecutionProfile(
            consistency_level=ConsistencyLevel.QUORUM,
            request_timeout=load.timeout_s,
            speculative_execution_policy=speculation,
        )
        self._cluster = Cluster(
            load.hosts, port=load.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}
        )
        self._session = self._cluster.connect()
        self._insert = self._session.prepare(load.insert)
        self._select = self._session.prepare(load.select)
        for prepared in (self._insert, self._select):
            prepared.is_idempotent = speculation is not None

    def write(
        self, row: tuple[int, str], answered: Callable[[], None], failed: Callable[[Any], None]
    ) -> None:
        future = self._session.execute_async(self._insert, row)
        future.add_callbacks(lambda _: answered(), failed)

    def read(
        self, key: int, answered: Callable[[Any], None], failed: Callable[[Any], None]
    ) -> None:
        future = self._session.execute_async(self._select, (key,))
        future.add_callbacks(lambda rows: answered(rows[0].v), failed)

    def close(self) -> None:
        self._cluster.shutdown()


if __name__ == "__main__":
    main(Cassandra())
