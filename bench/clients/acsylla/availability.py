"""The availability program with acsylla: asyncio over the C++ driver."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import acsylla  # type: ignore[import-not-found]
from acsylla import errors

from bench.suites.availability.cases import Load
from bench.suites.availability.load import AwaitedDriver, main


class Acsylla(AwaitedDriver):
    """Sends with acsylla's coroutines."""

    version = version("acsylla")
    note = "asyncio"
    connection_errors = (
        errors.CassErrorLibNoHostsAvailable,
        errors.CassErrorLibUnableToConnect,
        errors.CassErrorLibWriteError,
    )
    # The C++ driver also reports this error for a request whose connection was closed.
    timeouts = (errors.CassErrorLibRequestTimedOut,)

    async def open(self, load: Load) -> None:
        speculation = None
        if load.speculation_s is not None:
            speculation = acsylla.SpeculativeExecutionPolicy(round(load.speculation_s * 1000), 1)
        self._speculates = speculation is not None
        cluster = acsylla.create_cluster(
            load.hosts,
            port=load.port,
            consistency=acsylla.Consistency.QUORUM,
            request_timeout=load.timeout_s,
            speculative_execution_policy=speculation,
            # This level hides warnings that a node is lost, and that the server is not ScyllaDB.
            log_level="critical",
        )
        self._session = await cluster.create_session()
        self._insert = await self._session.create_prepared(load.insert)
        self._select = await self._session.create_prepared(load.select)

    async def write(self, row: tuple[int, str]) -> None:
        await self._session.execute(self._bound(self._insert, row))

    async def read(self, key: int) -> Any:
        result = await self._session.execute(self._bound(self._select, (key,)))
        return result.first().as_tuple()[0]

    def _bound(self, prepared: Any, values: tuple[Any, ...]) -> Any:
        statement = prepared.bind(list(values))
        statement.set_is_idempotent(self._speculates)
        return statement

    async def close(self) -> None:
        await self._session.close()


if __name__ == "__main__":
    main(Acsylla())
