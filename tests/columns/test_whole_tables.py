"""Tests loads of files into tables, comparisons of tables with files, and unloads to files."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import turbocql
from turbocql.bulk import Progress
from turbocql.errors import BulkError, ConfigError, EncodeError

from .support import refused

SEED = 20_261_123
SPACE = "whole_tables"
ROWS = 30_000


@pytest.fixture(scope="module", autouse=True)
def keyspace(session: turbocql.Session) -> None:
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.execute(f"DROP KEYSPACE IF EXISTS {SPACE}")
    session.execute(f"CREATE KEYSPACE {SPACE} WITH replication = {replication}")


def rows_of(count: int, salt: int = 0) -> pa.Table:
    """Returns rows whose cells depend on the row number. With another `salt`, the names and ratios
    differ.
    """
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "name": pa.array([f"name {n + salt}" for n in range(count)]),
            "ratio": pa.array([n / 7 + salt for n in range(count)]),
            "at": pa.array(
                [start + datetime.timedelta(seconds=n) for n in range(count)],
                pa.timestamp("ms", "UTC"),
            ),
        }
    )


def written(directory: Path, count: int = ROWS, name: str = "rows.parquet") -> Path:
    """Writes a Parquet file with 4,000 rows in each row group, and returns its path."""
    pq.write_table(rows_of(count), directory / name, row_group_size=4000)
    return directory / name


def table(session: Any, name: str = "t") -> str:
    """Creates a table for the rows of `rows_of`. Returns its name with the keyspace."""
    session.execute(f"DROP TABLE IF EXISTS {SPACE}.{name}")
    session.execute(
        f"CREATE TABLE {SPACE}.{name} (k bigint PRIMARY KEY, name text, ratio double, at timestamp)"
    )
    return f"{SPACE}.{name}"


def there(session: Any, where: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a table, in the order of their keys."""
    columns = ["k", "name", "ratio", "at"]
    found: list[tuple[Any, ...]] = session.scan(where, columns=columns, rows="tuple").all()
    return sorted(found)


def expected(count: int = ROWS) -> list[tuple[Any, ...]]:
    columns = rows_of(count).to_pydict()
    return list(zip(*columns.values(), strict=True))


def test_every_row_of_a_file_is_loaded(session: Any, tmp_path: Path) -> None:
    where, path = table(session), written(tmp_path)
    told: list[Progress] = []
    report = session.load(where, path, progress=told.append)
    assert (report.rows, report.succeeded, report.failures) == (ROWS, ROWS, [])
    assert there(session, where) == expected()
    last = told[-1]
    assert (last.rows, last.share, last.ended, last.failed) == (ROWS, 1.0, True, 0)
    assert last.bytes > 20 * ROWS
    # A load reads all files that match a pattern, and all files of a list.
    parts = [written(tmp_path, 1000, f"part-{number}.parquet") for number in range(3)]
    where = table(session)
    assert session.load(where, str(tmp_path / "part-*.parquet")).rows == 3000
    assert session.load(where, parts).rows == 3000
    assert there(session, where) == expected(1000)


def test_tables_are_compared(session: Any, tmp_path: Path) -> None:
    where, path = table(session), written(tmp_path, 5000)
    report = session.verify(where, path)
    assert (report.missing, report.equal, report.checked) == (5000, False, 5000)
    assert len(report.differences) == 1000
    session.load(where, path)
    assert session.verify(where, path).equal
    assert 300 < session.verify(where, path, sample=0.1, seed=3).checked < 700
    session.execute(f"UPDATE {where} SET name = 'other' WHERE k = 17")
    session.execute(f"DELETE FROM {where} WHERE k = 4000")
    session.execute(f"DELETE ratio FROM {where} WHERE k = 99")
    report = session.verify(where, path)
    assert (report.rows, report.missing, report.different) == (5000, 1, 2)
    found = {(it.row, it.column): (it.expected, it.found) for it in report.differences}
    assert found == {
        (17, "name"): ("name 17", "other"),
        (99, "ratio"): (99 / 7, None),
        (4000, None): (None, None),
    }
    session.execute(f"DROP TABLE IF EXISTS {SPACE}.s")
    session.execute(f"CREATE TABLE {SPACE}.s (p int, c int, s text static, PRIMARY KEY (p, c))")
    static = {"p": [1, 2], "c": [1, 1], "s": ["x", "y"]}
    session.load(f"{SPACE}.s", static)
    assert session.verify(f"{SPACE}.s", static).equal
    assert session.verify(f"{SPACE}.s", {"p": [1, 2], "s": ["x", "z"]}).different == 1
    twice = pa.concat_tables([rows_of(100), rows_of(50)])
    report = session.verify(where, twice)
    assert (report.duplicates, report.duplicate_rows[0]) == (50, (0, 100))


def test_collections_are_compared_as_values(session: Any, tmp_path: Path) -> None:
    session.execute(f"DROP TABLE IF EXISTS {SPACE}.c")
    session.execute(
        f"CREATE TABLE {SPACE}.c (k int PRIMARY KEY, s set<text>, m map<text, int>, l list<int>,"
        " f frozen<list<int>>)"
    )
    data = pa.table(
        {
            "k": pa.array([1, 2], pa.int32()),
            "s": pa.array([["b", "a", "c"], []]),
            "m": pa.array([[("y", 1), ("x", 2)], []], pa.map_(pa.string(), pa.int32())),
            "l": pa.array([[2, 1], []], pa.list_(pa.int32())),
            "f": pa.array([[1], []], pa.list_(pa.int32())),
        }
    )
    session.load(f"{SPACE}.c", data)
    report = session.verify(f"{SPACE}.c", data)
    assert report.equal, report
    session.execute(f"UPDATE {SPACE}.c SET l = [1, 2] WHERE k = 1")
    (difference,) = session.verify(f"{SPACE}.c", data).differences
    assert (difference.column, difference.found) == ("l", [1, 2])


def test_files_of_each_format_are_loaded_and_unloaded(session: Any, tmp_path: Path) -> None:
    where, path = table(session), written(tmp_path)
    session.load(where, path)
    for name in ("t.parquet", "t.csv", "t.csv.gz", "t.jsonl", "t.jsonl.gz", "t.arrow"):
        target = tmp_path / name
        report = session.unload(where, target)
        assert (report.rows, report.files) == (ROWS, (target,)), name
        assert report.bytes == target.stat().st_size
        other = table(session, "other")
        assert session.load(other, target).succeeded == ROWS, name
        assert there(session, other) == expected(), name
        refused(ConfigError, partial(session.unload, where, target))
        session.unload(where, target, overwrite=True, where="k = 3")
    several = tmp_path / "several"
    report = session.unload(where, several, format="parquet", files=3)
    assert 2 <= len(report.files) <= 3
    assert session.load(table(session, "other"), several).rows == ROWS
    assert not list(tmp_path.rglob("*.part"))


def test_odd_types_are_unloaded_and_loaded_in_each_format(session: Any, tmp_path: Path) -> None:
    session.execute(f'CREATE TYPE IF NOT EXISTS {SPACE}."In ner" ("X y" int, t text)')
    session.execute(
        f'CREATE TYPE IF NOT EXISTS {SPACE}.outer_one (i frozen<"In ner">, l frozen<list<double>>)'
    )
    columns = (
        '"K" text PRIMARY KEY, u frozen<outer_one>, m map<text, frozen<"In ner">>, d decimal,'
        " n varint, t timeuuid, b blob, a inet, w duration, s set<date>, x tuple<int, time>,"
        " e vector<float, 3>, f double"
    )
    for name in ("odd", "odd_copy"):
        session.execute(f"DROP TABLE IF EXISTS {SPACE}.{name}")
        session.execute(f"CREATE TABLE {SPACE}.{name} ({columns})")
    values = (
        "'k {0}', {{i: {{\"X y\": {0}, t: 'é\"'}}, l: [1.5, NaN]}}, {{'a': {{\"X y\": 1}}}},"
        " 1.2{0}, {0}00000000000000000000000, 50554d6e-29bb-11e5-b345-feff819cdc9f, 0x00ff,"
        " '::1', 1mo2d3ns, {{'2024-02-29'}}, (1, '01:02:03.000000004'), [1, 2, {0}], -0.0"
    )
    names = '"K", u, m, d, n, t, b, a, w, s, x, e, f'
    for number in range(20):
        cql = values.format(number)
        session.execute(f"INSERT INTO {SPACE}.odd ({names}) VALUES ({cql})")
    session.execute(f"INSERT INTO {SPACE}.odd (\"K\", n) VALUES ('nulls', 7)")
    before = sorted(map(repr, session.scan(f"{SPACE}.odd", rows="tuple").all()))
    for name in ("o.parquet", "o.arrow", "o.jsonl", "o.csv"):
        session.execute(f"TRUNCATE {SPACE}.odd_copy")
        session.unload(f"{SPACE}.odd", tmp_path / name)
        assert session.load(f"{SPACE}.odd_copy", tmp_path / name).succeeded == 21, name
        after = sorted(map(repr, session.scan(f"{SPACE}.odd_copy", rows="tuple").all()))
        assert after == before, (name, after[:2], before[:2])
        assert session.verify(f"{SPACE}.odd_copy", tmp_path / name).equal, name


def test_failed_unloads_leave_no_files(session: Any, tmp_path: Path) -> None:
    where = table(session)
    session.load(where, written(tmp_path, 5000))
    missing = tmp_path / "nowhere" / "deep" / "t.parquet"
    refused(OSError, partial(session.unload, where, missing))
    target = tmp_path / "small.csv"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        said = refused(OSError, partial(session.unload, where, target))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "small" in said, said
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]
    refused(OSError, partial(session.load, where, tmp_path / "rows.parquet", checkpoint=missing))
    refused(OSError, partial(session.load, where, tmp_path / "rows.parquet", rejects=missing))


def test_rejects_have_the_row_and_the_error(session: Any, tmp_path: Path) -> None:
    where = table(session)
    names = [f"n{n}" for n in range(5000)]
    names[77], names[4999] = "x" * 70_000, "y" * 70_000
    data = rows_of(5000).set_column(1, "name", pa.array(names))
    # A partition key has at most 65,535 bytes.
    session.execute(f"DROP TABLE IF EXISTS {SPACE}.named")
    session.execute(f"CREATE TABLE {SPACE}.named (name text PRIMARY KEY, k bigint)")
    pq.write_table(data.select(["k", "name"]), tmp_path / "bad.parquet", row_group_size=1000)
    rejects, checkpoint = tmp_path / "rejects.jsonl", tmp_path / "checkpoint"
    options: Any = {"rejects": rejects, "checkpoint": checkpoint, "raise_failures": False}
    report = session.load(f"{SPACE}.named", tmp_path / "bad.parquet", **options)
    assert (report.rows, report.succeeded, len(report.failures)) == (5000, 4998, 2)
    lines = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [line["row"] for line in lines] == [77, 4999]
    assert lines[0]["data"] == {"k": 77, "name": names[77]}
    assert "65535" in lines[0]["error"] or "65,535" in lines[0]["error"], lines[0]["error"][:200]
    # The resumed load writes only the rows that failed.
    again = session.load(
        f"{SPACE}.named", tmp_path / "bad.parquet", resume=checkpoint, raise_failures=False
    )
    assert (again.rows, again.succeeded, len(again.failures)) == (2, 0, 2)
    nulls = rows_of(3000).set_column(0, "k", pa.array([None, *range(2998), None], pa.int64()))
    pq.write_table(nulls, tmp_path / "nulls.parquet")
    report = session.load(where, tmp_path / "nulls.parquet", raise_failures=False)
    assert [failure.row for failure in report.failures] == [0, 2999]
    error = refused_bulk(partial(session.load, where, tmp_path / "nulls.parquet", max_errors=1))
    assert error.report.stopped
    many = nulls.set_column(
        0, "k", pa.array([None if n % 3 else n for n in range(3000)], pa.int64())
    )
    pq.write_table(many, tmp_path / "many.parquet", row_group_size=500)
    refused_bulk(partial(session.load, where, tmp_path / "many.parquet", max_errors=0.1))
    report = session.load(where, tmp_path / "many.parquet", max_errors=0.9, raise_failures=False)
    assert (report.rows, report.succeeded) == (3000, 1000)


def refused_bulk(call: Callable[[], object]) -> BulkError:
    try:
        call()
    except BulkError as error:
        return error
    raise AssertionError("no BulkError")


def test_damaged_and_foreign_checkpoints_are_refused(session: Any, tmp_path: Path) -> None:
    where, path = table(session), written(tmp_path, 3000)
    checkpoint = tmp_path / "checkpoint"
    session.load(where, path, checkpoint=checkpoint)
    whole = checkpoint.read_bytes()
    assert len(whole) < 5000
    assert session.load(where, path, resume=checkpoint).rows == 0
    refused(ConfigError, partial(session.load, where, path, checkpoint=checkpoint))
    for name in ("checkpoint", "resume", "rejects"):
        refused(ConfigError, partial(session.load, where, path, **{name: path}))
    refused(ConfigError, partial(session.load, where, path, resume=checkpoint, rejects=checkpoint))
    assert (path.stat().st_size, checkpoint.read_bytes()) > (1000, b"")
    assert pq.read_table(path).num_rows == 3000
    chosen = random.Random(SEED)
    for _ in range(20):
        place = chosen.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chosen.randrange(8)
        checkpoint.write_bytes(chosen.choice([bytes(damaged), whole[:place]]))
        refused(ConfigError, partial(session.load, where, path, resume=checkpoint))
    checkpoint.write_bytes(whole)
    other = written(tmp_path, 3001, "other.parquet")
    for wrong in (
        partial(session.load, where, other, resume=checkpoint),
        partial(session.load, where, [path, other], resume=checkpoint),
        partial(session.load, where, path, columns=["k", "name"], resume=checkpoint),
        partial(session.load, where, path, ttl=50, resume=checkpoint),
        partial(session.load, table(session, "u"), path, resume=checkpoint),
        partial(session.load, where, rows_of(3), checkpoint=checkpoint),
        partial(session.load, where, rows_of(3), rejects=tmp_path / "r"),
    ):
        refused(ConfigError, wrong)
    session.execute(f"DROP TABLE {where}")
    session.execute(
        f"CREATE TABLE {where} (k bigint PRIMARY KEY, name text, ratio float, at timestamp)"
    )
    # The load must fail for at least one of two reasons: `ratio` has another type in the new table,
    # and the checkpoint belongs to the old table.
    refused((ConfigError, EncodeError), partial(session.load, where, path, resume=checkpoint))
    refused(OSError, partial(session.load, where, path, resume=tmp_path / "nothing"))


def test_unreadable_files_are_an_error(session: Any, tmp_path: Path) -> None:
    where, path = table(session), written(tmp_path, 3000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    said = refused(Exception, partial(session.load, where, path))
    assert "rows.parquet" in said, said
    refused((OSError, ConfigError), partial(session.load, where, tmp_path / "none.parquet"))
    refused(ConfigError, partial(session.load, where, str(tmp_path / "none*.parquet")))
    (tmp_path / "rows.unknown").write_bytes(whole)
    refused(ConfigError, partial(session.load, where, tmp_path / "rows.unknown"))
    (tmp_path / "bad.csv").write_text("k,name\n1,a\nxyz,b\n")
    said = refused(Exception, partial(session.load, where, tmp_path / "bad.csv", max_errors=0))
    assert "stopped early because max_errors=0 was exceeded: 1 of 2 rows failed" in said, said
    assert there(session, where) == []
    # The columns of all files are checked before anything is sent.
    for name, text in (("a.csv", "k,name\n1,a\n"), ("b.csv", "k,nom\n2,b\n")):
        (tmp_path / "several").mkdir(exist_ok=True)
        (tmp_path / "several" / name).write_text(text)
    said = refused(EncodeError, partial(session.load, where, tmp_path / "several"))
    assert "b.csv has the column 'nom'" in said, said
    assert there(session, where) == []


def test_rows_that_cannot_be_read_are_rejected(session: Any, tmp_path: Path) -> None:
    count, bad = 150_000, [0, 7, 70_000, 149_999]
    lines = [
        f"{n},name {n},{'x' if n in bad else n / 8},2024-01-01T00:00:00Z" for n in range(count)
    ]
    (tmp_path / "bad.csv").write_text("\n".join(["k,name,ratio,at", *lines]) + "\n")
    objects = [{"k": n, "name": f"name {n}", "ratio": n / 8} for n in range(count)]
    texts = [json.dumps(it) for it in objects]
    texts[0] = '{"k": 0, "name": "name 0", "ratio": "half"}'
    texts[7] = '{"k": 7, "name": '
    texts[70_000] = "[70000]"
    texts[-1] = '{"k": 149999, "name": 5}'
    (tmp_path / "bad.jsonl").write_text("\n".join(texts))
    for name in ("bad.csv", "bad.jsonl"):
        where = table(session)
        rejects, checkpoint = tmp_path / f"{name}.rejects", tmp_path / f"{name}.checkpoint"
        options: Any = {"rejects": rejects, "raise_failures": False}
        seen: list[Progress] = []
        report = session.load(
            where, tmp_path / name, checkpoint=checkpoint, progress=seen.append, **options
        )
        assert (report.rows, report.succeeded, report.stopped) == (count, count - 4, False)
        assert [failure.row for failure in report.failures] == bad
        assert all(type(failure.error) is EncodeError for failure in report.failures)
        assert name in str(report.failures[2].error), report.failures[2].error
        assert (seen[-1].failed, seen[-1].rows) == (4, count - 4)
        told = [json.loads(line) for line in rejects.read_text().splitlines()]
        assert [line["row"] for line in told] == bad
        if name == "bad.csv":
            expected = {"k": "7", "name": "name 7", "ratio": "x", "at": "2024-01-01T00:00:00Z"}
            assert told[1]["data"] == expected
            assert 'line 9, column "ratio"' in told[1]["error"], told[1]["error"]
        else:
            assert told[0]["data"] == {"k": 0, "name": "name 0", "ratio": "half"}
            assert (told[1]["data"], told[2]["data"]) == (texts[7], "[70000]")
        keys = {row.k for row in session.execute(f"SELECT k FROM {where}")}
        assert keys == set(range(count)) - set(bad)
        # The checkpoint does not list the bad rows as acknowledged, so they fail again.
        again = session.load(where, tmp_path / name, resume=checkpoint, **options)
        assert (again.rows, again.succeeded, len(again.failures)) == (4, 0, 4)
        assert [json.loads(it) for it in rejects.read_text().splitlines()] == told
        error = refused_bulk(partial(session.load, where, tmp_path / name, max_errors=2))
        assert error.report is not None
        assert len(error.report.failures) >= 3
        assert error.report.stopped
        found = session.verify(where, tmp_path / name)
        assert (found.rows, found.checked, found.unfit) == (count, count - 4, 4)
        assert (found.missing, found.different) == (0, 0)
    worse = ["k,name", *(f"{n if n % 2 else 'no'},name" for n in range(5000))]
    (tmp_path / "worse.csv").write_text("\n".join(worse))
    refused_bulk(partial(session.load, where, tmp_path / "worse.csv"))
    refused_bulk(partial(session.load, where, tmp_path / "worse.csv", max_errors=0.3))
    report = session.load(
        where, tmp_path / "worse.csv", max_errors=0.6, rejects=rejects, raise_failures=False
    )
    assert (report.succeeded, len(report.failures)) == (2500, 2500)
    assert len(rejects.read_text().splitlines()) == 2500


def partitioned(session: Any, name: str = "parts") -> str:
    session.execute(f"DROP TABLE IF EXISTS {SPACE}.{name}")
    session.execute(
        f"CREATE TABLE {SPACE}.{name} (p int, q text, c text, d bigint, s text static, v double,"
        " PRIMARY KEY ((p, q), c, d))"
    )
    return f"{SPACE}.{name}"


def test_rows_of_a_partition_are_sent_together(session: Any, tmp_path: Path) -> None:
    count = 20_000
    rng = random.Random(SEED)
    keys = [(rng.randrange(40), rng.choice("ab")) for _ in range(count)]
    data = pa.table(
        {
            "c": [f"c{n % 7}" for n in range(count)],
            "v": [None if n % 11 == 0 else n / 3 for n in range(count)],
            "q": [q for _, q in keys],
            "d": range(count),
            "p": pa.array([p for p, _ in keys], pa.int32()),
        }
    )
    pq.write_table(data, tmp_path / "rows.parquet", row_group_size=5000)
    wanted = sorted(
        zip(*(data[name].to_pylist() for name in ("p", "q", "c", "d", "v")), strict=True)
    )
    for batches, most in (("auto", 16384), (True, 16384), (True, 300), (True, 1), (False, 16384)):
        where, seen = partitioned(session), list[Progress]()
        checkpoint = tmp_path / f"{batches} {most}"
        report = session.load(
            where,
            tmp_path / "rows.parquet",
            batches=batches,
            batch_bytes=most,
            checkpoint=checkpoint,
            ttl=5000,
            progress=seen.append,
        )
        assert (report.rows, report.succeeded) == (count, count)
        stored = session.execute(f"SELECT p, q, c, d, v, TTL(v) AS life FROM {where}").all()
        assert sorted((it.p, it.q, it.c, it.d, it.v) for it in stored) == wanted
        assert all((it.life is None) is (it.v is None) for it in stored)
        batched = seen[-1].batched
        if batches is False or most == 1:
            assert batched == 0
        else:
            # With "auto", the load stops using batches if it measures that single rows are faster.
            assert batched > (count // 2 if batches is True else 0), (batches, most, batched)
        assert seen[-1].bytes > count * 20
        again = session.load(where, tmp_path / "rows.parquet", resume=checkpoint, ttl=5000)
        assert again.rows == 0
        assert session.verify(where, tmp_path / "rows.parquet").equal
    for wrong in ({"batches": "always"}, {"batches": 1}, {"batch_bytes": 0}, {"batch_bytes": "4k"}):
        options: Any = wrong
        refused((ConfigError, TypeError), partial(session.load, where, data, **options))


def test_the_last_row_of_a_repeated_key_wins(session: Any, tmp_path: Path) -> None:
    where, count = partitioned(session), 4000
    data = pa.table(
        {
            "p": pa.array([0] * count, pa.int32()),
            "q": ["q"] * count,
            "c": [f"c{n % 10}" for n in range(count)],
            "d": [0] * count,
            "v": [float(count - n) for n in range(count)],
        }
    )
    session.load(where, data, batches=True, concurrency=1)
    stored = session.execute(f"SELECT c, v FROM {where}").all()
    assert {it.c: it.v for it in stored} == {f"c{n}": 10.0 - n for n in range(10)}


def test_one_bad_row_of_a_batch_fails_alone(session: Any, tmp_path: Path) -> None:
    where, count = partitioned(session), 1000
    texts = [f"c{n}" for n in range(count)]
    # A clustering key has at most 65,535 bytes.
    texts[500] = "x" * 70_000
    data = pa.table(
        {
            "p": pa.array([n % 3 for n in range(count)], pa.int32()),
            "q": ["q"] * count,
            "c": texts,
            "d": range(count),
            "s": [f"of {n % 3}" for n in range(count)],
        }
    )
    report = session.load(where, data, batches=True, batch_bytes=1 << 20, raise_failures=False)
    assert ([it.row for it in report.failures], report.succeeded) == ([500], count - 1)
    assert "65535" in str(report.failures[0].error), report.failures[0].error
    stored = session.execute(f"SELECT p, d, s FROM {where}").all()
    assert {it.d for it in stored} == set(range(count)) - {500}
    assert all(it.s == f"of {it.p}" for it in stored)


def test_a_rate_is_kept(session: Any, tmp_path: Path) -> None:
    where, path = table(session), written(tmp_path, 3000)
    began = time.monotonic()
    session.load(where, path, rate_limit=2000)
    assert time.monotonic() - began > 1.3
    began = time.monotonic()
    session.load(where, path, rate_limit="100 kB/s", columns=["k"])
    # A row has only the key. It takes twelve bytes: four bytes for the length and eight for the
    # value. So the 3,000 rows take 36 kB.
    assert time.monotonic() - began > 0.2
    for wrong in (0, -1, "fast", True, "5 parsecs"):
        refused(ConfigError, partial(session.load, where, path, rate_limit=wrong))


def test_callbacks_that_fail_end_a_load(session: Any, tmp_path: Path) -> None:
    where, path = table(session), written(tmp_path)

    def fail(progress: Progress) -> None:
        raise ZeroDivisionError("no progress")

    refused(ZeroDivisionError, partial(session.load, where, path, progress=fail))
    refused(TypeError, partial(session.load, where, path, progress=3))


def test_ctrl_c_leaves_a_checkpoint(session: Any, tmp_path: Path) -> None:
    where, path = table(session), written(tmp_path)
    checkpoint = tmp_path / "checkpoint"
    timer = threading.Timer(1.0, partial(os.kill, os.getpid(), signal.SIGINT))
    timer.start()
    refused(
        KeyboardInterrupt,
        partial(session.load, where, path, checkpoint=checkpoint, rate_limit=10_000),
    )
    done = json.loads(checkpoint.read_bytes())["acknowledged"]
    count = sum(end - first for first, end in done)
    assert 1000 < count < ROWS, done
    report = session.load(where, path, resume=checkpoint)
    assert (report.rows, report.succeeded) == (ROWS - count, ROWS - count)
    assert there(session, where) == expected()


LOADER = """
import sys, turbocql
point, where, path, checkpoint, begun = sys.argv[1:]
with turbocql.connect(point, timeout_s=60) as session:
    given = {"resume": checkpoint} if begun == "1" else {"checkpoint": checkpoint}
    report = session.load(where, path, rate_limit=12_000, **given)
    print(report.rows)
"""


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_killed_loads_are_completed(session: Any, point: str, tmp_path: Path, kills: int) -> None:
    """Kills the loading process at random times, and resumes the load. The table must have all
    acknowledged rows.
    """
    path = written(tmp_path)
    for number in range(kills):
        chosen = random.Random(SEED + number)
        where, checkpoint = table(session), tmp_path / f"checkpoint-{number}"
        arguments = [point, where, str(path), str(checkpoint)]
        while True:
            begun = "1" if checkpoint.exists() else "0"
            process = subprocess.Popen(
                [sys.executable, "-c", LOADER, *arguments, begun], stdout=subprocess.DEVNULL
            )
            try:
                process.wait(0.5 + chosen.random() * 2.5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            else:
                assert process.returncode == 0, f"seed {SEED + number}"
                break
            if checkpoint.exists():
                ranges = json.loads(checkpoint.read_bytes())["acknowledged"]
                keys = {row[0] for row in there(session, where)}
                lost = [k for first, end in ranges for k in range(first, end) if k not in keys]
                assert not lost, f"seed {SEED + number}: {lost[:5]} of {ranges}"
        assert there(session, where) == expected(), f"seed {SEED + number}"


def test_asynchronous_sessions_load_verify_and_unload(
    session: Any, point: str, tmp_path: Path
) -> None:
    where, path = table(session), written(tmp_path, 5000)

    async def run() -> None:
        async with turbocql.aio.connect(point, timeout_s=60) as other:
            told: list[Progress] = []
            report = await other.load(
                where, path, progress=told.append, checkpoint=tmp_path / "checkpoint"
            )
            assert (report.succeeded, told[-1].rows) == (5000, 5000)
            assert (await other.load(where, path, resume=tmp_path / "checkpoint")).rows == 0
            assert (await other.verify(where, path)).equal
            unloaded = await other.unload(where, tmp_path / "t.parquet")
            assert unloaded.rows == 5000
            assert pq.read_table(tmp_path / "t.parquet").num_rows == 5000
            task = asyncio.ensure_future(
                other.load(where, path, checkpoint=tmp_path / "second", rate_limit=1000)
            )
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        done = json.loads((tmp_path / "second").read_bytes())["acknowledged"]
        assert 0 < sum(end - first for first, end in done) < 5000

    asyncio.run(run())


def test_memory_is_bounded(session: Any, point: str, tmp_path: Path) -> None:
    """When a process loads a file of 150 MB, its memory grows by less than 110 MB."""
    session.execute(f"DROP TABLE IF EXISTS {SPACE}.wide")
    session.execute(f"CREATE TABLE {SPACE}.wide (k int PRIMARY KEY, v blob)")
    path = tmp_path / "wide.parquet"
    schema = pa.schema([("k", pa.int32()), ("v", pa.binary())])
    with pq.ParquetWriter(path, schema, compression="none") as out:
        for first in range(0, 15_000, 1000):
            keys = pa.array(range(first, first + 1000), pa.int32())
            values = pa.array([os.urandom(10_000) for _ in range(1000)], pa.binary())
            out.write_table(pa.table([keys, values], schema=schema))
    code = (
        "import sys, resource, turbocql, pyarrow.parquet\n"
        "session = turbocql.connect(sys.argv[1], timeout_s=60)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "report = session.load(sys.argv[2], sys.argv[3])\n"
        "assert report.succeeded == 15_000\n"
        "print((peak() - before) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, point, f"{SPACE}.wide", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 110, done.stdout
