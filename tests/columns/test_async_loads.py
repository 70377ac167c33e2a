"""Tests loads of columns by asynchronous sessions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import turbocql
from turbocql.errors import BulkError, EncodeError

from .support import table

pytestmark = pytest.mark.usefixtures("loaded")


def test_programs_end_with_their_own_exit_code(session: Any, point: str) -> None:
    where = table(session, "s text")
    program = f"""
import asyncio, sys, time, turbocql
def batches():
    yield {{"k": [1]}}
    while True:
        time.sleep(0.001)
def late():
    time.sleep(30)
    yield {{"k": [1]}}
async def main():
    session = await turbocql.aio.connect({point!r})
    loads = [asyncio.create_task(session.load({where!r}, it())) for it in (batches, late)]
    await asyncio.sleep(0.4)
asyncio.run(main())
kept = [[i] for i in range(300_000)]
sys.exit(5)
"""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == 5, (done.returncode, done.stderr[-500:])
    assert time.monotonic() - begun < 20


def test_loads_of_an_asynchronous_session(session: Any, point: str) -> None:
    where = table(session, "a int")

    async def load() -> None:
        async with turbocql.aio.connect(point) as other:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            def slow() -> Iterator[Any]:
                for k in range(6):
                    time.sleep(0.1)
                    yield pa.record_batch({"k": pa.array([k], pa.int32())})

            ticking = asyncio.create_task(tick())
            schema = pa.schema([("k", pa.int32())])
            for data in (slow(), pa.RecordBatchReader.from_batches(schema, slow())):
                ticks = 0
                assert (await other.load(where, data)).succeeded == 6
                # The task `tick` has run often enough, so the event loop was never blocked for
                # long.
                assert ticks > 20

            async def later() -> AsyncIterator[Any]:
                for k in range(4):
                    await asyncio.sleep(0.01)
                    yield {"k": [k]}

            assert (await other.load(where, later())).succeeded == 4
            rows = await other.execute(f"SELECT k, a FROM {where}", page_size=2)
            assert (await other.load(where, rows)).succeeded == 6
            rows = await other.execute(f"SELECT k, a FROM {where}", page_size=2)
            assert (await other.load(where, rows.batches(rows_per_batch=3))).succeeded == 6
            insert = f"INSERT INTO {where} (k, a) VALUES (?, ?)"
            report = await other.execute_many(insert, columns={"k": [1, 2], "a": [3, None]})
            assert report.succeeded == 2
            for wrong in ({"x": [1]}, {"k": ["a"]}, {"k": [None]}, {"k": np.arange(2)}):
                try:
                    await other.load(where, wrong)
                except (EncodeError, BulkError):
                    continue
                raise AssertionError(wrong)
            large = pa.table({"k": pa.array(np.arange(30_000, dtype="i4"))})
            assert (await other.load(where, large)).succeeded == 30_000
            loads = [other.load(where, {"k": np.arange(1000, dtype="i4")}) for _ in range(8)]
            assert [one.succeeded for one in await asyncio.gather(*loads)] == [1000] * 8

            def failing() -> Iterator[Any]:
                yield {"k": [1]}
                raise ValueError("no more")

            try:
                await other.load(where, failing())
            except BulkError as error:
                assert "no more" in str(error)  # noqa: PT017
            endless = ({"k": [k]} for k in iter(int, 1))
            task = asyncio.create_task(other.load(where, endless))
            await asyncio.sleep(0.3)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            else:
                raise AssertionError("no cancellation")
            ticking.cancel()
            # A load takes no further data from its source while the maximum number of requests is
            # in flight.
            taken = 0

            def many() -> Iterator[Any]:
                nonlocal taken
                while taken < 30_000:
                    taken += 1
                    yield {"k": [taken]}

            task = asyncio.create_task(other.load(where, many(), concurrency=1))
            await asyncio.sleep(0.5)
            counted = await other.execute(f"SELECT count(*) FROM {where}", rows="tuple")
            sent, running = (await counted.all())[0][0], taken
            assert running < sent + 3000, (running, sent)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

            class Stopping:
                def __arrow_c_stream__(self, requested_schema: object = None) -> object:
                    raise StopIteration

            try:
                await other.load(where, Stopping())
            except RuntimeError:
                pass
            else:
                raise AssertionError("no RuntimeError")

    asyncio.run(load())
