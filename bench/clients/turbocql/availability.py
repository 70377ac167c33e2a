"""The availability program with turbocql: coroutines, with the default settings."""

from __future__ import annotations

from typing import Any

import turbocql
from bench.suites.availability.cases import Load
from bench.suites.availability.load import AwaitedDriver, main


class Turbocql(AwaitedDriver):
    """Sends with the asyncio session."""

    version = turbocql.__version__
    note = "asyncio"
    connection_errors = (
        turbocql.errors.ConnectionLost,
        turbocql.errors.ConnectError,
        turbocql.errors.NoHostAvailable,
    )

    async def open(self, load: Load) -> None:
        speculation = None
        if load.speculation_s is not None:
            speculation = turbocql.ConstantSpeculation(delay_s=load.speculation_s, max_attempts=1)
        self._session = await turbocql.aio.connect(
            load.contact_points,
            consistency="QUORUM",
            timeout_s=load.timeout_s,
            speculation=speculation,
        )
        self._insert = await self._session.prepare(load.insert)
        self._select = await self._session.prepare(load.select)
        if speculation is not None:
            # Only the INSERT needs this option: turbocql treats a SELECT as idempotent.
            self._insert = self._insert.with_options(idempotent=True)

    async def write(self, row: tuple[int, str]) -> None:
        await self._session.execute(self._insert, row)

    async def read(self, key: int) -> Any:
        row = (await self._session.execute(self._select, (key,))).one()
        return None if row is None else row.v

    async def close(self) -> None:
        await self._session.close()


if __name__ == "__main__":
    main(Turbocql())
