"""Tests that each row that a task of Spark, Ray or Dask writes has its own write time.

Each retry of a row also has its own write time. If two rows with the same key, or two attempts, had
the same write time, the server would merge their lists.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.support.changing_proxy import BATCH, ERROR, EXECUTE, Answer, ChangingProxy

import turbocql
from turbocql import workers
from turbocql._engines.parts import writing
from turbocql.testing import Cassandra

WRITE_TIMEOUT = 0x1100


def timeout() -> bytes:
    """Returns the body of an ERROR for a write timeout."""

    def text(value: str) -> bytes:
        return struct.pack(">H", len(value)) + value.encode()

    told = struct.pack(">i", WRITE_TIMEOUT) + text("late") + struct.pack(">Hii", 1, 0, 1)
    return told + text("SIMPLE")


@pytest.mark.parametrize("batches", [True, False])
def test_rows_and_retries_have_different_write_times(
    cassandra: Cassandra, keyspace: str, batches: bool
) -> None:
    marks = [struct.pack(">i", 4_242_000 + place) for place in range(5)]
    left = dict.fromkeys(marks, 2)

    def change(answer: Answer) -> bytes:
        if answer.request_opcode in (EXECUTE, BATCH):
            for mark in marks:
                if mark in answer.request_body and left[mark]:
                    left[mark] -= 1
                    return answer.with_body(timeout(), opcode=ERROR).frame()
        return answer.frame()

    point = cassandra.contact_points[0]
    with (
        turbocql.connect(point, keyspace=keyspace) as session,
        ChangingProxy(point, change) as proxy,
    ):
        session.execute("DROP TABLE IF EXISTS again")
        session.execute("CREATE TABLE again (k int, c int, v int, l list<int>, PRIMARY KEY (k, c))")
        options: dict[str, Any] = {"batches": batches}
        sink = writing(f"{keyspace}.again", f"cql://{proxy.contact_point}", options).begun()
        count = 40
        # Each primary key is repeated in four consecutive rows, with a different list in each row.
        data = {
            "k": [1] * count,
            "c": [place // 4 for place in range(count)],
            "v": [4_242_000 + place // 8 if place % 8 == 0 else 0 for place in range(count)],
            "l": [[place, place] for place in range(count)],
        }
        # With idle_s=0, the worker's session is closed after this block.
        with workers.session(sink.settings, idle_s=0):
            assert sink.load([data]).succeeded == count
        assert not any(left.values())
        rows = session.execute("SELECT c, l FROM again").all()
        assert len(rows) == count // 4
        for row in rows:
            assert row.l in [[place, place] for place in range(4 * row.c, 4 * row.c + 4)]
