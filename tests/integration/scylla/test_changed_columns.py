"""Tests accelerated drivers with 100 reads of a table in flight, while the table gets columns."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from tests.accel.environments import PROGRAMS, ROOT, SAFE, python_of

import turbocql
from turbocql.testing import Cassandra, Scylla

from .arrivals import executes

PROGRAM = PROGRAMS / "changing.py"
ROWS = 50


def make_table(points: list[str], replication: str) -> str:
    """Creates a keyspace with the table that `PROGRAM` reads. Returns the keyspace's name."""
    keyspace = f"changing_{uuid4().hex[:12]}"
    with turbocql.connect(points) as session:
        session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
        session.execute(f"CREATE TABLE {keyspace}.changing (id int PRIMARY KEY, a text)")
        session.execute_many(
            f"INSERT INTO {keyspace}.changing (id, a) VALUES (?, ?)",
            [(number, str(number)) for number in range(ROWS)],
        )
    return keyspace


@contextmanager
def reading(
    driver: str, point: str, version: int, keyspace: str
) -> Iterator[Callable[[], dict[str, Any]]]:
    """Runs `PROGRAM`, which reads the table with an accelerated driver.

    `PROGRAM` makes 400 reads, prints a report of this round, and begins the next round. Yields a
    function that waits for the next report and returns it.
    """
    host, _, port = point.rpartition(":")
    python = python_of(driver)
    process = subprocess.Popen(
        [
            *(python, "-W", "ignore", "-m", "turbocql.accel"),
            *(str(PROGRAM), host, port, str(version), keyspace),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def next_round() -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the program has ended"
        found: dict[str, Any] = json.loads(line)
        assert found["wrong"] == 0
        return found

    try:
        yield next_round
        process.stdin.write("end\n")
        process.stdin.close()
        process.stdout.read()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def until(
    next_round: Callable[[], dict[str, Any]], condition: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Returns the report of the first round that meets a condition. Fails after 200 rounds."""
    for _ in range(200):
        found = next_round()
        if condition(found):
            return found
    raise AssertionError(f"it has not come true: {found}")


def has_fields(expected: list[str], found: dict[str, Any]) -> bool:
    return bool(found["fields"] == [expected])


def add_columns(next_round: Callable[[], dict[str, Any]], points: list[str], keyspace: str) -> None:
    """Adds columns, and waits until the named tuples that `PROGRAM` reads have them."""
    expected = ["id", "a"]
    until(next_round, partial(has_fields, expected))
    with turbocql.connect(points) as session:
        for name in ("b", "c"):
            session.execute(f"ALTER TABLE {keyspace}.changing ADD {name} int")
            expected = [*expected, name]
            until(next_round, partial(has_fields, expected))


def assert_native(seams: dict[str, Any]) -> None:
    """Asserts that turbocql encoded all bodies, bound all values, and decoded almost all rows.

    `seams` has the accelerator's counts for each function of the driver that it replaces. The
    driver's own function decodes the first rows after a change of columns.
    """
    if SAFE:
        return
    native, fallback, _, reasons = seams["protocol.ExecuteMessage.send_body"]
    assert (native > 1000, fallback) == (True, 0), reasons
    assert seams["query.BoundStatement.bind"][1] == 0
    (rows,) = [count for name, count in seams.items() if "recv_results_rows" in name and any(count)]
    assert rows[0] > 1000
    # After a change of columns, several responses with the new columns may arrive before turbocql
    # has learned the columns from the first one. The driver's own function decodes them all.
    assert rows[1] + rows[2] < 400, rows


@pytest.mark.parametrize("driver", ["scylla-driver", "scylla-driver-previous"])
def test_columns_change_under_metadata_ids(cluster: Cassandra, scylla: Scylla, driver: str) -> None:
    keyspace = make_table(
        cluster.contact_points, "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}"
    )
    point = cluster.contact_points[0]
    with reading(driver, point, 4, keyspace) as next_round:
        add_columns(next_round, cluster.contact_points, keyspace)
        if driver == "scylla-driver":
            old = until(next_round, lambda found: found["id"] is not None)["id"]
            scylla.renew_metadata_ids()
            new = until(next_round, lambda found: found["id"] not in (None, old))["id"]
            scylla.reset()
            last = until(next_round, lambda found: bool(executes(scylla)))
            sent = {request.metadata_id for request in executes(scylla) if request.node != 2}
            # Requests contain the new id. As before, they also ask the server for results without
            # metadata.
            assert bytes.fromhex(new) in sent
            assert any(request.skips_metadata for request in executes(scylla))
        else:
            last = next_round()
        assert last["fields"] == [["id", "a", "b", "c"]]
    assert_native(last["seams"])


@pytest.mark.parametrize("driver", ["scylla-driver", "cassandra-driver"])
def test_columns_change_in_version_5(cassandra: Cassandra, driver: str) -> None:
    keyspace = make_table(
        cassandra.contact_points, "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    point = cassandra.contact_points[0]
    with reading(driver, point, 5, keyspace) as next_round:
        first = next_round()["id"]
        assert first is not None
        add_columns(next_round, cassandra.contact_points, keyspace)
        last = until(next_round, lambda found: found["id"] != first)
    assert_native(last["seams"])
