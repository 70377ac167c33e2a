"""Loads, unloads and compares tables while nodes are killed, paused and started again."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import turbocql
from turbocql.bulk import Progress
from turbocql.testing import Cassandra

SEED = 20_261_123
# With these settings, a node keeps all writes that it has acknowledged even if it is killed.
CLUSTER = {"commitlog_sync": "batch", "commitlog_sync_period": "0ms"}
ROWS = 40_000
RATE = 8000


pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cassandra]:
    with Cassandra(nodes=3, heap_mb=512, config=CLUSTER) as started:
        yield started


@pytest.fixture(scope="module")
def session(cluster: Cassandra) -> Iterator[turbocql.Session]:
    with turbocql.connect(cluster.contact_points, timeout_s=10) as opened:
        yield opened


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the path of a Parquet file with the rows of `rows_of`."""
    target = tmp_path_factory.mktemp("faults") / "rows.parquet"
    pq.write_table(rows_of(ROWS), target, row_group_size=5000)
    return target


def rows_of(count: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "name": pa.array([f"name {n}" for n in range(count)]),
            "ratio": pa.array([n / 7 for n in range(count)]),
            "bucket": pa.array([n % 50 for n in range(count)], pa.int32()),
        }
    )


def table(session: Any, replicas: int, key: str = "k") -> str:
    """Creates a table whose rows have this many replicas. Returns the table's name with its
    keyspace.
    """
    space = f"faults_{replicas}"
    session.execute(
        f"CREATE KEYSPACE IF NOT EXISTS {space} WITH replication ="
        f" {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
    )
    session.execute(f"DROP TABLE IF EXISTS {space}.t")
    columns = f"k bigint, name text, ratio double, bucket int, PRIMARY KEY ({key})"
    session.execute(f"CREATE TABLE {space}.t ({columns})")
    return f"{space}.t"


def beside(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def check_rows(session: Any, where: str, path: Path) -> None:
    rows = session.scan(where, columns=["k", "name", "ratio", "bucket"], rows="tuple").all()
    columns = rows_of(ROWS).to_pydict()
    there = {row[0]: row for row in rows}
    assert len(rows) == len(there)
    expected = list(zip(*columns.values(), strict=True))
    wrong = [row for row in expected if there.get(row[0]) != row]
    assert not wrong, (len(wrong), wrong[:3])
    report = session.verify(where, path)
    assert (report.equal, report.checked) == (True, ROWS), report


def load_beside(session: Any, where: str, path: Path, fault: Callable[[], None]) -> list[Progress]:
    """Loads a file while `fault` runs, and asserts that all rows are written and acknowledged."""
    told: list[Progress] = []
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = Path(directory) / "checkpoint"
        thread = beside(fault)
        try:
            report = session.load(
                where, path, checkpoint=checkpoint, rate_limit=RATE, progress=told.append
            )
        finally:
            thread.join()
        assert (report.rows, report.succeeded) == (ROWS, ROWS), report
        assert json.loads(checkpoint.read_bytes())["acknowledged"] == [[0, ROWS]]
    check_rows(session, where, path)
    return told


def test_pages_of_a_scan_come_from_the_owning_nodes(session: Any, path: Path) -> None:
    keyspace, _, name = table(session, 1).partition(".")
    session.load(f"{keyspace}.{name}", path, columns=["k"])
    owners = {token: node for node in session.nodes for token in node.tokens}
    tokens = sorted(owners)
    for before, last in pairwise(tokens):
        split = turbocql.Split(keyspace, name, ((before, last),), None, ())
        rows = session.scan(split=split, page_size=50)
        owner, found = f"{owners[last].address}:{owners[last].port}", set()
        for _ in rows.pages():
            found.add(rows.coordinator)
        assert found == {owner}, (before, last)


def test_a_node_is_killed_and_started_during_a_load(
    cluster: Cassandra, session: Any, path: Path
) -> None:
    node = cluster.nodes[random.Random(SEED).randrange(1, 3)]

    def fault() -> None:
        time.sleep(1)
        node.kill()
        time.sleep(1)
        node.start()

    for replicas in (3, 1):
        load_beside(session, table(session, replicas), path, fault)
    # In this table, the rows are in fifty partitions, so most rows are sent in batches.
    told = load_beside(session, table(session, 1, "bucket, k"), path, fault)
    assert told[-1].batched > ROWS // 2, told[-1]


def test_a_node_is_paused_during_a_load(cluster: Cassandra, session: Any, path: Path) -> None:
    node = cluster.nodes[random.Random(SEED + 1).randrange(1, 3)]
    paused: list[float] = []

    def fault() -> None:
        time.sleep(2)
        paused.append(time.monotonic())
        node.pause()
        time.sleep(5)
        node.resume()
        paused.append(time.monotonic())

    # With one replica per row, the paused node has the only replica of a third of the rows.
    began = time.monotonic()
    told = load_beside(session, table(session, 1), path, fault)
    begin, end = (at - began for at in paused)
    before = [progress.window for progress in told if progress.elapsed_s < begin]
    during = [progress.window for progress in told if begin + 3 < progress.elapsed_s < end]
    after = [progress.window for progress in told if progress.elapsed_s > end]
    print(f"window before {before}, during {during}, after {after}", file=sys.stderr)
    # When a load notices that a node is paused, it makes its window of requests in flight smaller.
    # It notices this late, so `during` begins 3 s after the pause.
    assert min(during + after) <= 0.6 * max(before), (before, during, after)


def test_a_node_is_killed_and_started_during_an_unload(
    cluster: Cassandra, session: Any, path: Path
) -> None:
    for replicas in (3, 1):
        where = table(session, replicas)
        session.load(where, path)
        node = cluster.nodes[1 + replicas % 2]

        def fault(node: Any = node) -> None:
            time.sleep(0.2)
            node.kill()
            time.sleep(1)
            node.start()

        with tempfile.TemporaryDirectory() as directory:
            thread = beside(fault)
            try:
                # Small pages make the unload take longer.
                target = Path(directory) / "t.parquet"
                report = session.unload(where, target, page_size=20, concurrency=2)
            finally:
                thread.join()
            assert report.rows == ROWS
            found = pq.read_table(target).sort_by("k").select(["k", "name", "ratio", "bucket"])
            assert found.to_pydict() == rows_of(ROWS).to_pydict()


def test_a_load_that_stopped_is_resumed(cluster: Cassandra, session: Any, path: Path) -> None:
    """A node is down for longer than `retry_for_s`, so the load stops. A second load then writes
    the rest of the rows.
    """
    where, chosen = table(session, 1), random.Random(SEED + 2)
    node = cluster.nodes[chosen.randrange(1, 3)]
    options: Any = {"raise_failures": False, "retry_for_s": 1, "max_failures": 50}
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = Path(directory) / "checkpoint"
        given: Any = {"checkpoint": checkpoint}
        for _ in range(1):
            thread = beside(node.kill)
            report = session.load(where, path, rate_limit=2 * RATE, **given, **options)
            thread.join()
            node.start()
            time.sleep(1)
            done = json.loads(checkpoint.read_bytes())["acknowledged"]
            there = {row[0] for row in session.scan(where, columns=["k"], rows="tuple").all()}
            lost = [k for first, end in done for k in range(first, end) if k not in there]
            assert not lost, lost[:5]
            assert report.stopped, report
            given = {"resume": checkpoint}
        report = session.load(where, path, resume=checkpoint)
        assert report.succeeded == report.rows < ROWS
    check_rows(session, where, path)
