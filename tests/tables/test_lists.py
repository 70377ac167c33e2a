"""Tests that a row that is loaded twice does not get the elements of its lists twice.

If a list that is not frozen is written again with the same write time, the server appends to it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import turbocql
import turbocql.aio
from turbocql._engines.parts import writing
from turbocql._transfer.target import JobTime
from turbocql.errors import ConfigError
from turbocql.testing import Cassandra

from .conftest import Command, Table

STAMP = 1_700_000_000_000_000


def rows(*lists: list[int], first: int = 0) -> pa.Table:
    ids = pa.array(range(first, first + len(lists)), pa.int32())
    return pa.table({"id": ids, "l": pa.array(lists, pa.list_(pa.int32()))})


def there(session: turbocql.Session, name: str) -> dict[int, Any]:
    return {row.id: row.l for row in session.execute(f"SELECT id, l FROM {name}")}


def test_loads_with_the_same_write_time(session: turbocql.Session, table: Table) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    for _ in range(3):
        assert session.load(name, rows([1, 2], [3]), timestamp=STAMP).succeeded == 2
        assert there(session, name) == {0: [1, 2], 1: [3]}
    written = session.execute(f"SELECT WRITETIME(l) AS at FROM {name} WHERE id = 0").one()
    assert written is not None
    assert written.at == [STAMP, STAMP]


def test_loads_of_other_elements_with_the_same_write_time(
    session: turbocql.Session, table: Table
) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    session.load(name, rows([1, 2]), timestamp=STAMP)
    session.load(name, rows([3]), timestamp=STAMP)
    assert there(session, name) == {0: [3]}
    # The two lists have equal write times, so either of them may win. But the table must not
    # contain elements of both.
    session.load(name, rows([4, 5]), timestamp=STAMP)
    assert there(session, name)[0] in ([3], [4, 5])


def test_an_older_write_time_changes_nothing_and_a_later_replaces(
    session: turbocql.Session, table: Table
) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    session.load(name, rows([1, 2]), timestamp=STAMP)
    session.load(name, rows([7]), timestamp=STAMP - 1)
    assert there(session, name) == {0: [1, 2]}
    session.load(name, rows([1, 2]), timestamp=STAMP + 1)
    session.load(name, rows([8]), timestamp=STAMP)
    assert there(session, name) == {0: [1, 2]}
    session.load(name, rows([9]), timestamp=STAMP + 2)
    assert there(session, name) == {0: [9]}


def test_write_times_of_a_column(session: turbocql.Session, table: Table) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    times = pa.array([STAMP, None, STAMP + 5], pa.int64())
    data = rows([1], [2], [3]).append_column("at", times)
    for _ in range(2):
        session.load(name, data, timestamp="at")
        assert there(session, name) == {0: [1], 1: [2], 2: [3]}


@pytest.mark.parametrize("stamp", [None, STAMP])
@pytest.mark.parametrize("batches", [True, False])
def test_a_key_twice_in_the_data(
    session: turbocql.Session, table: Table, stamp: int | None, batches: bool
) -> None:
    name = table("id int, c int, l list<int>, PRIMARY KEY (id, c)")
    count = 60
    lists = [[place, place + 1] for place in range(count)]
    data = pa.table(
        {
            "id": pa.array([1] * count, pa.int32()),
            "c": pa.array([place % 3 for place in range(count)], pa.int32()),
            "l": pa.array(lists, pa.list_(pa.int32())),
        }
    )
    assert session.load(name, data, timestamp=stamp, batches=batches).succeeded == count
    for row in session.execute(f"SELECT c, l FROM {name}"):
        assert row.l in lists
        assert row.l[0] % 3 == row.c


def test_static_lists_and_a_write_time(session: turbocql.Session, table: Table) -> None:
    name = table("id int, c int, l list<text> static, v list<int>, PRIMARY KEY (id, c)")
    data = pa.table(
        {
            "id": pa.array([1, 1, 1, 2], pa.int32()),
            "c": pa.array([1, 2, 3, 1], pa.int32()),
            "l": [["a", "b"]] * 3 + [["c"]],
            "v": pa.array([[1], [2, 2], [3], [4]], pa.list_(pa.int32())),
        }
    )
    for _ in range(2):
        assert session.load(name, data, timestamp=STAMP).succeeded == 4
        found = {(r.id, r.c): (r.l, r.v) for r in session.execute(f"SELECT * FROM {name}")}
        assert found == {
            (1, 1): (["a", "b"], [1]),
            (1, 2): (["a", "b"], [2, 2]),
            (1, 3): (["a", "b"], [3]),
            (2, 1): (["c"], [4]),
        }


def test_static_lists_of_rows_that_disagree(session: turbocql.Session, table: Table) -> None:
    name = table("k int, c int, l list<int> static, m set<int> static, PRIMARY KEY (k, c)")
    count = 200
    data = pa.table(
        {
            "k": pa.array([1] * count, pa.int32()),
            "c": pa.array(range(count), pa.int32()),
            "l": pa.array([[place // 50] * 2 for place in range(count)], pa.list_(pa.int32())),
            "m": pa.array([[place // 50] for place in range(count)], pa.list_(pa.int32())),
        }
    )
    for batches in (True, False):
        assert session.load(name, data, batches=batches).succeeded == count
        (row,) = session.execute(f"SELECT DISTINCT k, l, m FROM {name}").all()
        assert row.l in [[0, 0], [1, 1], [2, 2], [3, 3]]
        assert row.m in [{0}, {1}, {2}, {3}]


def test_asynchronous_loads(cassandra: Cassandra, session: turbocql.Session, table: Table) -> None:
    name = table("id int PRIMARY KEY, l list<int>")

    async def twice() -> None:
        async with turbocql.aio.connect(cassandra.contact_points) as opened:
            for _ in range(2):
                assert (await opened.load(name, rows([1, 2]), timestamp=STAMP)).succeeded == 1

    asyncio.run(twice())
    assert there(session, name) == {0: [1, 2]}


def test_the_command_line(
    session: turbocql.Session, table: Table, command: Command, tmp_path: Path
) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    pq.write_table(rows([1, 2], [3]), tmp_path / "l.parquet")
    for _ in range(2):
        done = command("load", tmp_path / "l.parquet", name, "--timestamp", STAMP)
        assert done.code == 0, done.err
    assert there(session, name) == {0: [1, 2], 1: [3]}


def test_tasks_that_run_again(
    session: turbocql.Session, table: Table, cassandra: Cassandra
) -> None:
    name = table("id int PRIMARY KEY, l list<int>, v int")
    sink = writing(name, f"cql://{cassandra.contact_points[0]}", {}).begun()
    assert isinstance(sink.options["timestamp"], JobTime)
    for _ in range(3):
        assert sink.load([rows([1, 2], [3])]).succeeded == 2
        assert there(session, name) == {0: [1, 2], 1: [3]}
    # A single task may write the same key twice. Either write may win.
    sink.load([pa.concat_tables([rows([5]), rows([6, 6])])])
    assert there(session, name)[0] in ([5], [6, 6])
    # A task that writes no list uses the write time of the job unchanged.
    ids = pa.array([7], pa.int32())
    sink.load([pa.table({"id": ids, "v": ids})])
    row = session.execute(f"SELECT WRITETIME(v) AS at FROM {name} WHERE id = 7").one()
    assert row is not None
    assert row.at == sink.options["timestamp"]
    # The write of a later job wins.
    later = writing(name, f"cql://{cassandra.contact_points[0]}", {}).begun()
    later.load([rows([9])])
    assert there(session, name)[0] == [9]


RESUMED = """
import sys, turbocql
session = turbocql.connect(sys.argv[1])
session.load(sys.argv[2], sys.argv[3], checkpoint=sys.argv[4], timestamp=int(sys.argv[5]),
             rate_limit=3000, progress=lambda now: now.rows > 1500 and __import__("os").kill(
                 __import__("os").getpid(), 9))
"""


def test_a_killed_load_is_resumed(
    session: turbocql.Session, table: Table, cassandra: Cassandra, tmp_path: Path
) -> None:
    name, count = table("id int PRIMARY KEY, l list<int>"), 6000
    pq.write_table(rows(*([place, 0] for place in range(count))), tmp_path / "l.parquet")
    checkpoint = tmp_path / "checkpoint"
    arguments = [cassandra.contact_points[0], name, tmp_path / "l.parquet", checkpoint, STAMP]
    line = [sys.executable, "-c", textwrap.dedent(RESUMED), *map(str, arguments)]
    assert subprocess.run(line, timeout=60).returncode == -9
    report = session.load(name, tmp_path / "l.parquet", resume=checkpoint, timestamp=STAMP)
    assert 0 < report.earlier_rows < count
    assert report.earlier_rows + report.succeeded == count
    found = there(session, name)
    assert found == {place: [place, 0] for place in range(count)}


def test_a_server_that_refuses_writetime_of_lists(
    session: turbocql.Session, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turbocql._transfer import target

    name = table("id int PRIMARY KEY, l list<int>, v int, f frozen<list<int>>")
    # Some servers refuse WRITETIME of a list, but this server does not. So the test makes the load
    # send an invalid query, which the server refuses.
    monkeypatch.setattr(
        target.Care,
        "list_read_statements",
        lambda *_: [f"SELECT WRITETIME(id) FROM {name} WHERE id = ?"],
    )
    with pytest.raises(
        ConfigError, match=r'column "l" is a list that is not frozen.*columns='
    ) as e:
        session.load(name, rows([1]), timestamp=STAMP)
    assert "a frozen list" in str(e.value)
    assert "Cassandra from 5.0" in str(e.value)
    assert there(session, name) == {}


def test_nulls_and_empty_lists(session: turbocql.Session, table: Table) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    for _ in range(2):
        session.load(name, rows([1, 2], []), timestamp=STAMP)
        assert there(session, name) == {0: [1, 2], 1: None}
    empty = pa.table({"id": rows([1])["id"], "l": pa.array([None], pa.list_(pa.int32()))})
    session.load(name, empty, timestamp=STAMP)
    assert there(session, name) == {0: [1, 2], 1: None}
    session.load(name, empty, timestamp=STAMP + 1, nulls="null")
    assert there(session, name) == {0: None, 1: None}


def test_other_collections_with_a_write_time_need_no_reads(
    session: turbocql.Session, table: Table
) -> None:
    name = table("id int PRIMARY KEY, s set<int>, m map<text, int>, f frozen<list<int>>")
    data = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "s": pa.array([[1, 2]], pa.list_(pa.int32())),
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            "f": pa.array([[1, 1]], pa.list_(pa.int32())),
        }
    )
    for _ in range(2):
        session.load(name, data, timestamp=STAMP)
        (row,) = session.execute(f"SELECT * FROM {name}").all()
        assert (row.s, row.m, row.f) == ({1, 2}, {"a": 1}, [1, 1])


def test_later_changes_by_other_clients_are_kept(session: turbocql.Session, table: Table) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    session.load(name, rows([1, 2], [3], [4]), timestamp=STAMP)
    session.execute(f"UPDATE {name} SET l = l + [9] WHERE id = 0")
    session.execute(f"UPDATE {name} SET l[0] = 8 WHERE id = 0")
    session.execute(f"DELETE l FROM {name} WHERE id = 1")
    session.execute(f"UPDATE {name} SET l = [7] WHERE id = 2")
    session.load(name, rows([1, 2], [3], [4]), timestamp=STAMP)
    assert there(session, name) == {0: [8, 2, 9], 1: None, 2: [7]}


def test_a_resumed_load_has_the_same_write_time(
    session: turbocql.Session, table: Table, tmp_path: Path
) -> None:
    name, checkpoint = table("id int PRIMARY KEY, l list<int>"), tmp_path / "checkpoint"
    pq.write_table(rows([1], [2]), tmp_path / "l.parquet")
    session.load(name, tmp_path / "l.parquet", checkpoint=checkpoint, timestamp=STAMP)
    for other in (None, STAMP + 1):
        with pytest.raises(ConfigError, match="its timestamp is"):
            session.load(name, tmp_path / "l.parquet", resume=checkpoint, timestamp=other)
    session.load(name, tmp_path / "l.parquet", resume=checkpoint, timestamp=STAMP)


def test_a_null_deletes_a_list_with_the_same_write_time(
    session: turbocql.Session, table: Table
) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    session.load(name, rows([1, 2]), timestamp=STAMP)
    empty = pa.table({"id": rows([1])["id"], "l": pa.array([None], pa.list_(pa.int32()))})
    session.load(name, empty, timestamp=STAMP, nulls="null")
    assert there(session, name) == {0: None}


def test_a_list_with_the_highest_write_time_cannot_be_replaced(
    session: turbocql.Session, table: Table
) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    last = 2**63 - 1
    session.load(name, rows([1]), timestamp=last)
    report = session.load(name, rows([2]), timestamp=last, raise_failures=False)
    assert 'column "l": expected a write time that is left' in str(report.failures[0].error)
    assert there(session, name) == {0: [1]}
