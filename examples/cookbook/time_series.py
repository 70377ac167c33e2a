"""Stores readings of sensors in a partition for each day, and reads them back over several days."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator
from datetime import date, datetime, timedelta, timezone

import turbocql
import turbocql.aio

TABLE = """
    CREATE TABLE IF NOT EXISTS readings (
        sensor text,
        day date,
        at timestamp,
        value double,
        PRIMARY KEY ((sensor, day), at)
    ) WITH default_time_to_live = 7776000
      AND compaction = {'class': 'TimeWindowCompactionStrategy',
                        'compaction_window_unit': 'DAYS', 'compaction_window_size': 1}"""
INSERT = "INSERT INTO readings (sensor, day, at, value) VALUES (?, ?, ?, ?)"
INSERT_TTL = f"{INSERT} USING TTL ?"
SELECT = "SELECT at, value FROM readings WHERE sensor = ? AND day = ? AND at >= ? AND at < ?"

Reading = tuple[datetime, float]


def day_of(at: datetime) -> date:
    """Returns the bucket of an instant: its day in UTC, not in this program's time zone."""
    return at.astimezone(timezone.utc).date()


def days(begin: datetime, end: datetime) -> Iterator[date]:
    """Yields the buckets of the readings at `begin` or later, and before `end`."""
    day = day_of(begin)
    while day <= day_of(end - timedelta(milliseconds=1)):
        yield day
        day += timedelta(days=1)


async def read(
    session: turbocql.aio.AsyncSession, sensor: str, begin: datetime, end: datetime, ahead: int = 4
) -> AsyncIterator[Reading]:
    """Yields readings in the order of time. Up to `ahead` buckets are read at the same time."""

    async def bucket(day: date) -> list[Reading]:
        rows = await session.execute(SELECT, (sensor, day, begin, end), rows="tuple")
        return await rows.all()

    reads: deque[asyncio.Task[list[Reading]]] = deque()
    try:
        for day in days(begin, end):
            reads.append(asyncio.create_task(bucket(day)))
            if len(reads) == ahead:
                for reading in await reads.popleft():
                    yield reading
        while reads:
            for reading in await reads.popleft():
                yield reading
    finally:
        for unread in reads:
            unread.cancel()


async def main() -> None:
    begin = datetime(2026, 3, 1, 18, tzinfo=timezone.utc)
    instants = [begin + timedelta(minutes=10 * number) for number in range(6 * 24 * 6)]
    rows = (("roof", day_of(at), at, math.sin(at.timestamp())) for at in instants)
    async with turbocql.aio.connect(config=turbocql.Config.from_env()) as session:
        await session.execute(TABLE)
        report = await session.execute_many(INSERT, rows, idempotent=True)
        print(report.succeeded, "readings")
        # A reading that expires after an hour, whatever TTL the table has.
        await session.execute(INSERT_TTL, ("cellar", day_of(begin), begin, 0.5, 3600))

        first, last = instants[100], instants[700]
        found = [reading async for reading in read(session, "roof", first, last)]
        print(len(found), "read from", len(list(days(first, last))), "buckets")
        print("from", found[0][0], "to", found[-1][0])
        print("in order" if found == sorted(found) else "not in order")


asyncio.run(main())
