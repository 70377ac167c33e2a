"""Tests of splits and scans. A scan reads a table by token ranges, and returns each row once."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
import random
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from tests.support.apis import Api

import turbocql
from turbocql._transfer.scan import ESTIMATES, Weights
from turbocql.testing import Cassandra

FIRST, LAST = -(2**63), 2**63 - 1
ROWS = 5000


@pytest.fixture(scope="module")
def table(cassandra: Cassandra) -> str:
    """Creates a table with quoted names, two partition key columns and a static column.

    Also creates an empty table.
    """
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS scans WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(
            'CREATE TABLE IF NOT EXISTS scans."Mixed" (b int, "A" text, c int, s int static,'
            ' kind text, "V" list<int>, PRIMARY KEY ((b, "A"), c))'
        )
        session.execute("CREATE TABLE IF NOT EXISTS scans.empty (k int PRIMARY KEY, v text)")
        session.execute_many(
            'INSERT INTO scans."Mixed" (b, "A", c, s, kind, "V") VALUES (?, ?, ?, ?, ?, ?)',
            ((n // 5, f"a{n // 5}", n % 5, n // 5, "xy"[n % 2], [n]) for n in range(ROWS)),
        )
    return 'scans."Mixed"'


def expected() -> list[tuple[Any, ...]]:
    return [(n // 5, f"a{n // 5}", n % 5, n // 5, "xy"[n % 2], [n]) for n in range(ROWS)]


async def test_every_row_once_in_the_order_of_the_columns(
    api_and_loop: Api, points: list[str], table: str
) -> None:
    async with api_and_loop.connect(points, rows="tuple") as session:
        rows = await session.scan(table)
        names = [column.name for column in rows.columns]
        assert names == ["b", "A", "c", "s", "V", "kind"]
        found = sorted((b, a, c, s, kind, v) for b, a, c, s, v, kind in await rows.all())
        assert found == sorted(expected())


async def test_pages_of_any_size_and_ranges_at_a_time(
    api: Api, points: list[str], table: str
) -> None:
    async with api.connect(points, rows="tuple") as session:
        for page_size, concurrency in ((1000, 1), (7, 16), (100_000, 200)):
            rows = await session.scan(
                table, columns=["b", "c"], page_size=page_size, concurrency=concurrency
            )
            found = sorted(await rows.all())
            assert found == [(n // 5, n % 5) for n in range(ROWS)]


async def test_conditions(api: Api, points: list[str], table: str) -> None:
    async with api.connect(points) as session:
        rows = await session.scan(
            table, columns=["kind", "c"], where="kind = ? AND c > ?", values=("x", 2), rows="dict"
        )
        found = await rows.all()
        assert found[0].keys() == {"kind", "c"}
        assert len(found) == sum(n % 2 == 0 and n % 5 > 2 for n in range(ROWS))
        empty = await session.scan("scans.empty")
        assert (await empty.all(), [column.name for column in empty.columns]) == ([], ["k", "v"])


async def test_misuse(api: Api, points: list[str], table: str) -> None:
    async with api.connect(points, keyspace="scans") as session:
        (split,) = await session.splits(table, 1)
        refused: list[tuple[type[Exception], str, Any]] = [
            (
                turbocql.errors.ConfigError,
                "there is no table scans.nowhere",
                lambda: session.scan("nowhere"),
            ),
            (
                turbocql.errors.ConfigError,
                "no column 'v'",
                lambda: session.scan(table, columns=["v"]),
            ),
            (TypeError, "a list of names", lambda: session.scan(table, columns="kind")),
            (turbocql.errors.ConfigError, "at least one", lambda: session.scan(table, columns=[])),
            (TypeError, "a table, or a split", lambda: session.scan()),
            (TypeError, "no option 'limit'", lambda: session.scan(table, limit=3)),
            (TypeError, "those of where", lambda: session.scan(table, values=(1,))),
            (
                turbocql.errors.ConfigError,
                "not of scans.empty",
                lambda: session.scan("empty", split=split),
            ),
            (
                turbocql.errors.ConfigError,
                "no ranges",
                lambda: session.scan(split=dataclasses.replace(split, ranges=())),
            ),
            (TypeError, "session.splits", lambda: session.scan(table, split=(1, 2))),
            (
                turbocql.errors.ConfigError,
                "concurrency",
                lambda: session.scan(table, concurrency=0),
            ),
            (
                turbocql.errors.ConfigError,
                "retry_for_s",
                lambda: session.scan(table, retry_for_s=-1),
            ),
            (turbocql.errors.ConfigError, "n must be", lambda: session.splits(table, 0)),
            (turbocql.errors.ConfigError, "no table", lambda: session.splits("nowhere", 3)),
            (turbocql.errors.CqlSyntaxError, "kind", lambda: session.scan(table, where="kind ===")),
            (
                turbocql.errors.EncodeError,
                "kind",
                lambda: session.scan(table, where="kind = ?", values=(1,)),
            ),
        ]
        for error, words, call in refused:
            with pytest.raises(error, match=words):
                await call()


def keys_of(points: list[str], split: turbocql.Split) -> list[tuple[int, int]]:
    """Returns the keys of the rows of a split. The test runs this function in another process."""
    with turbocql.connect(points, rows="tuple") as session:
        return session.scan(split=split, columns=["b", "c"]).all()


async def test_splits_cover_the_table(api: Api, points: list[str], table: str) -> None:
    async with api.connect(points, rows="tuple") as session:
        for n in (1, 3, 50):
            splits = pickle.loads(pickle.dumps(await session.splits(table, n)))
            assert len(splits) == n
            assert all(split.replicas for split in splits)
            found: list[Any] = []
            for split in splits:
                found += await (await session.scan(split=split, columns=["b", "c"])).all()
            assert sorted(found) == [(n // 5, n % 5) for n in range(ROWS)]


def test_splits_in_other_processes(points: list[str], table: str) -> None:
    import multiprocessing

    with turbocql.connect(points) as session:
        splits = session.splits(table, 4)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        found = [key for keys in pool.map(keys_of, [points] * 4, splits) for key in keys]
    assert sorted(found) == [(n // 5, n % 5) for n in range(ROWS)]


def estimates(ends: list[int], sizes: list[int]) -> list[tuple[str, str, int, int]]:
    """Returns size estimates of token ranges, like a node.

    `ends` has the last token of each range. The first range begins after the last of these tokens,
    so it includes both ends of the ring.
    """
    before = [ends[-1], *ends[:-1]]
    return [(str(a), str(b), size, 1) for a, b, size in zip(before, ends, sizes, strict=True)]


def weight_between(told: list[tuple[str, str, int, int]], before: int, last: int) -> float:
    """Returns the estimated size of the data between two tokens.

    It assumes that the data of each range is spread evenly over the range.
    """
    found = 0.0
    for begin_, end_, count, size in told:
        begin, end = int(begin_), int(end_)
        parts = [(begin, end)] if begin < end else [(begin, LAST), (FIRST, end)]
        width = sum(b - a for a, b in parts)
        for a, b in parts:
            found += count * size * max(0, min(b, last) - max(a, before)) / width
    return found


@pytest.mark.parametrize("seed", range(20))
def test_splits_have_similar_sizes_if_ranges_differ(seed: int) -> None:
    chosen = random.Random(seed)
    ends = sorted({chosen.randrange(FIRST + 1, LAST) for _ in range(chosen.choice([3, 48, 500]))})
    sizes = [int(chosen.lognormvariate(10, 3)) for _ in ends]
    told = estimates(ends, sizes)
    n = chosen.choice([2, 7, 40])
    cuts = Weights(told).cuts(n)
    assert (cuts[0], cuts[-1], len(cuts)) == (FIRST, LAST, n + 1)
    parts = [weight_between(told, *range_) for range_ in pairwise(cuts)]
    mean = sum(sizes) / n
    assert max(parts) <= 1.2 * mean, seed
    assert min(parts) >= 0.8 * mean, seed


@pytest.mark.parametrize(
    "told",
    [
        [],
        [("5", "5", 10, 10)],
        [("0", "100", 0, 0)],
        [("0", "100", -3, 7), (str(FIRST), str(LAST), 2**62, 2**40)],
        [("0", "10", 5, 5), ("3", "8", 5, 5), ("8", "3", 9, 9)],
        [(str(LAST), str(FIRST), 4, 4)],
    ],
)
def test_odd_estimates_still_split_the_whole_ring(told: list[tuple[str, str, int, int]]) -> None:
    cuts = Weights(told).cuts(9)
    assert (cuts[0], cuts[-1]) == (FIRST, LAST)
    assert all(before < last for before, last in pairwise(cuts))
    assert len(cuts) == 10


def test_splits_use_the_size_estimates_of_the_nodes() -> None:
    # The node estimates sizes every second instead of every five minutes.
    options = ["-Dcassandra.size_recorder_interval=1"]
    with (
        Cassandra(heap_mb=512, jvm_options=options, config={"num_tokens": 16}) as node,
        turbocql.connect(node.contact_points) as session,
    ):
        session.execute(
            "CREATE KEYSPACE sized WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(
            "CREATE TABLE sized.t (k int PRIMARY KEY, v blob)"
            " WITH memtable_flush_period_in_ms = 500 AND compression = {'enabled': false}"
        )
        # Some ranges of the ring have many rows, and the other ranges have few. A node estimates
        # the number of partitions for each single range. Its estimate of the mean partition size is
        # the same for all ranges.
        insert = session.prepare("INSERT INTO sized.t (k, v) VALUES (?, ?)")
        border = session.nodes[0].tokens[7]

        def is_dense(key: int) -> bool:
            token = insert.bind((key, b"")).token
            assert token is not None
            return token > border

        keys = [key for key in range(16_000) if key % 16 == 0 or is_dense(key)]
        session.execute_many(insert, ((key, bytes(200)) for key in keys))
        deadline = time.monotonic() + 60
        while True:
            # A flush may not have changed all estimates yet, so the test waits for large enough
            # sums.
            estimates = session.execute(ESTIMATES, ("sized", "t")).all()
            partitions = sum(estimate.partitions_count for estimate in estimates)
            splits = session.splits("sized.t", 4)
            sizes = [split.size_bytes for split in splits]
            if partitions > 0.9 * len(keys) and sum(filter(None, sizes)) > 150 * len(keys):
                break
            assert time.monotonic() < deadline, estimates
            time.sleep(1)
        read = [len(session.scan(split=split, columns=["k"]).all()) for split in splits]
        assert sum(read) == len(keys)
        mean = len(keys) / 4
        assert max(read) <= 1.2 * mean, read
        assert min(read) >= 0.8 * mean, read


def test_leaving_a_scan_early_leaves_nothing_behind(points: list[str], table: str) -> None:
    with turbocql.connect(points) as session:
        for _ in range(20):
            next(iter(session.scan(table, page_size=5)))
        deadline = time.monotonic() + 10
        while session.in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.in_flight == 0


async def test_abandoned_scans(points: list[str], table: str, loop: Any) -> None:
    session = await turbocql.aio.connect(points)
    for pause in (0.0, 0.001, 0.01):
        task = asyncio.ensure_future(session.scan(table))
        await asyncio.sleep(pause)
        task.cancel()
        await asyncio.wait([task])
    assert len(await (await session.scan(table)).all()) == ROWS
    await session.close()
