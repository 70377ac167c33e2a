"""Sends requests through drivers with coroutines, by workers or by tasks. Imports no driver.

`call` takes bind values and returns an awaitable. `read` turns a result into a row, and `key` is
the index or name of the key in that row. Reads and writes have loops of their own, so that writes
do not pay for code that handles rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import Any

from bench.suites.requests.job import Pass

__all__ = ["Call", "Read", "run"]

Call = Callable[[Any], Awaitable[Any]]
Read = Callable[[Any], Any]


async def run(
    shape: str, requests: Pass, in_flight: int, call: Call, read: Read | None, key: Any
) -> int:
    """Sends all requests, by workers or by tasks. Returns the sum of the keys that were read."""
    if requests.latencies is not None:
        call = _timed(call, requests.latencies)
    if read is None:
        await (write_by_workers if shape == "workers" else write_by_tasks)(
            requests, in_flight, call
        )
        return 0
    if requests.seen is not None:
        read = _seen(read, requests.seen, key)
    reading = read_by_workers if shape == "workers" else read_by_tasks
    return await reading(requests, in_flight, call, read, key)


async def write_by_workers(requests: Pass, in_flight: int, call: Call) -> None:
    """Runs `in_flight` coroutines, each of which awaits one request after another."""
    remaining = iter(requests.rows)

    async def worker() -> None:
        for row in remaining:
            await call(row)

    await asyncio.gather(*(worker() for _ in range(in_flight)))


async def write_by_tasks(requests: Pass, in_flight: int, call: Call) -> None:
    """Makes a task for every request; a semaphore lets `in_flight` of them send at a time."""
    semaphore = asyncio.Semaphore(in_flight)

    async def task(row: Any) -> None:
        async with semaphore:
            await call(row)

    await asyncio.gather(*(task(row) for row in requests.rows))


async def read_by_workers(requests: Pass, in_flight: int, call: Call, read: Read, key: Any) -> int:
    """Sends reads as `write_by_workers` sends writes. Returns the sum of the keys read."""
    remaining = iter(requests.rows)

    async def worker() -> int:
        total = 0
        for row in remaining:
            total += read(await call(row))[key]
        return total

    return sum(await asyncio.gather(*(worker() for _ in range(in_flight))))


async def read_by_tasks(requests: Pass, in_flight: int, call: Call, read: Read, key: Any) -> int:
    """Sends reads as `write_by_tasks` sends writes. Returns the sum of the keys read."""
    semaphore = asyncio.Semaphore(in_flight)

    async def task(row: Any) -> Any:
        async with semaphore:
            return read(await call(row))[key]

    return sum(await asyncio.gather(*(task(row) for row in requests.rows)))


def _timed(call: Call, latencies: list[int]) -> Call:
    async def timed(row: Any) -> Any:
        begin = perf_counter_ns()
        result = await call(row)
        latencies.append(perf_counter_ns() - begin)
        return result

    return timed


def _seen(read: Read, seen: list[tuple[Any, Any]], key: Any) -> Read:
    value = 1 if key == 0 else "v"

    def looked_at(result: Any) -> Any:
        row = read(result)
        seen.append((row[key], row[value]))
        return row

    return looked_at
