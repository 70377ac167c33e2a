"""INSERT (int, text) by turbocql: `with_turbocql.py KIND IN_FLIGHT CONTACT_POINT`."""

from __future__ import annotations

import asyncio
import sys

from measure import INSERT, ROWS, Measured, report, value

import turbocql


async def workers(contact_point: str, in_flight: int) -> Measured:
    """So many coroutines, each awaiting one request after another."""
    async with turbocql.aio.connect(contact_point) as session:
        prepared = await session.prepare(INSERT)
        left = iter(range(ROWS))

        async def worker() -> None:
            for i in left:
                await session.execute(prepared, (i, value(i)))

        with Measured() as measured:
            await asyncio.gather(*(worker() for _ in range(in_flight)))
    return measured


def execute_many(contact_point: str, in_flight: int) -> Measured:
    """All rows by one `execute_many`."""
    with turbocql.connect(contact_point) as session:
        prepared = session.prepare(INSERT)
        rows = ((i, value(i)) for i in range(ROWS))
        with Measured() as measured:
            session.execute_many(prepared, rows, concurrency=in_flight)
    return measured


def main() -> None:
    """Measures once and reports."""
    kind, in_flight, contact_point = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if kind == "asyncio":
        measured = asyncio.run(workers(contact_point, in_flight))
    else:
        measured = execute_many(contact_point, in_flight)
    report(f"turbocql {kind}", turbocql.__version__, in_flight, measured)


if __name__ == "__main__":
    main()
