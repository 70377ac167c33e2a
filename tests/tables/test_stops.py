"""Tests why a load stops early: too many failed rows, or a first block whose rows all fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.conftest import Command, Table

import turbocql
from turbocql import BulkReport
from turbocql.errors import BulkError, ConfigError
from turbocql.testing import Cassandra

ROWS = 3000
Write = Callable[[str, str], Path]


def microseconds(directory: Path, *, fitting: int = 0) -> Path:
    """Writes a file with a time in each row.

    Only the first `fitting` times can be stored in a column of type timestamp, because the others
    have microseconds.
    """
    times = np.arange(ROWS) * 1000 + 1
    times[:fitting] -= 1
    ids = pa.array(range(ROWS), pa.int32())
    path = directory / f"times{fitting}.parquet"
    pq.write_table(pa.table({"id": ids, "at": pa.array(times, pa.timestamp("us"))}), path)
    return path


def loaded(session: turbocql.Session, table: str, data: Any, **options: Any) -> BulkReport:
    """Loads data twice, first with `raise_failures` and then without it.

    Checks that both loads stop early, and that the error of the first load names the reason.
    Returns the report of the second load.
    """
    with pytest.raises(BulkError) as caught:
        session.load(table, data, **options)
    report = session.load(table, data, raise_failures=False, **options)
    assert (caught.value.report.stopped, report.stopped) == (True, True)
    assert report.stop_reason is not None
    assert f"stopped early because {caught.value.report.stop_reason}: " in str(caught.value)
    return report


def test_the_limit_and_the_rows_that_were_not_tried(
    session: turbocql.Session, table: Table, tmp_path: Path
) -> None:
    name = table("id int PRIMARY KEY, at timestamp")
    report = loaded(session, name, microseconds(tmp_path, fitting=2))
    assert (report.succeeded, len(report.failures)) == (2, 1001)
    assert report.stop_reason == (
        "max_failures=1000 was exceeded, always with the same error; 1,997 rows were not tried"
    )
    report = loaded(session, name, microseconds(tmp_path, fitting=2), max_errors=5, limit=1000)
    assert report.stop_reason == (
        "max_errors=5 was exceeded, always with the same error; 992 rows were not tried"
    )
    arrays = {"id": np.arange(20, dtype=np.int32), "at": pq.read_table(tmp_path / "times2.parquet")}
    arrays["at"] = arrays["at"]["at"][:20]
    report = loaded(session, name, arrays, max_failures=0)
    assert report.stop_reason == "max_failures=0 was exceeded; 17 rows were not tried"
    # Only the first ten errors name the value. All 15 errors still count as the same error.
    report = loaded(session, name, arrays, max_failures=14)
    assert report.stop_reason == (
        "max_failures=14 was exceeded, always with the same error; 3 rows were not tried"
    )


def test_a_share_of_the_rows(session: turbocql.Session, table: Table, write: Write) -> None:
    rows = "".join(f"{n},{'x' if n % 2 else n}\n" for n in range(ROWS))
    path = write("half.csv", f"id,n\n{rows}")
    report = loaded(session, table("id int PRIMARY KEY, n int"), path, max_errors=0.1)
    assert report.stop_reason is not None
    assert report.stop_reason.startswith("max_errors=0.1 was exceeded, always with the same error")


@pytest.mark.parametrize("max_errors", [1000, 2500, 0.999])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_first_block_that_fails_as_a_whole(
    session: turbocql.Session, table: Table, tmp_path: Path, max_errors: float, dry_run: bool
) -> None:
    name = table("id int PRIMARY KEY, at timestamp")
    rejects = tmp_path / "rejects.jsonl"
    options: dict[str, Any] = {"max_errors": max_errors, "dry_run": dry_run, "rejects": rejects}
    report = loaded(session, name, microseconds(tmp_path), **options)
    assert (report.rows, report.succeeded, len(report.failures)) == (1000, 0, 1000)
    assert report.stop_reason == (
        "each of the first 1,000 rows failed with the same error; 2,000 rows were not tried"
    )
    assert len(rejects.read_text().splitlines()) == 1000
    for row in (0, 999):
        text = str(report.failures[row].error)
        place = f'{tmp_path}/times0.parquet: row {row} (the first is 0), column "at": '
        assert text.startswith(f"{place}expected timestamp, got a finer time")
        assert ("; the value is 1970-01-01" in text) is (row == 0)
    # A load does not stop if a row of the first block fits, or if the data ends with this block.
    report = session.load(
        name, microseconds(tmp_path, fitting=1), raise_failures=False, max_errors=2999
    )
    assert (report.succeeded, len(report.failures), report.stop_reason) == (1, 2999, None)
    report = session.load(
        name, microseconds(tmp_path), raise_failures=False, max_errors=1000, limit=1000
    )
    assert (report.rows, len(report.failures), report.stopped) == (1000, 1000, False)


def test_a_first_block_with_different_errors_does_not_stop_the_load(
    session: turbocql.Session, table: Table, write: Write
) -> None:
    name = table("id int PRIMARY KEY, n int, d date")
    cells = ("x,2024-01-01", "1,never")
    path = write("bad.csv", "id,n,d\n" + "".join(f"{n},{cells[n % 2]}\n" for n in range(ROWS)))
    report = session.load(name, path, raise_failures=False, max_errors=ROWS)
    assert (len(report.failures), report.stopped, report.stop_reason) == (ROWS, False, None)


def test_text_of_which_no_row_can_be_read(
    session: turbocql.Session, table: Table, tmp_path: Path
) -> None:
    """A load counts failed rows while it reads a block of text, because a block may have many rows.

    So it can stop before the end of the block.
    """
    name = table("id int PRIMARY KEY, at timestamp")
    for number in (1, 2):
        lines = "".join(f"{n},x{n}\n" for n in range(2000))
        (tmp_path / f"part{number}.csv").write_text(f"id,at\n{lines}")
    data = str(tmp_path / "part*.csv")
    for options in ({}, {"dry_run": True}):
        report = loaded(session, name, data, max_errors=3500, **options)
        assert (report.succeeded, len(report.failures)) == (0, 1000)
        assert report.stop_reason is not None
        assert report.stop_reason.startswith("each of the first 1,000 rows failed with the same ")
        report = loaded(session, name, data, max_errors=500, **options)
        assert len(report.failures) == 501
        assert report.stop_reason == "max_errors=500 was exceeded, always with the same error"
    report = session.load(name, data, raise_failures=False, max_errors=1000, limit=1000)
    assert (len(report.failures), report.stopped) == (1000, False)
    compared = session.verify(name, data)
    assert (compared.rows, compared.unfit) == (4000, 4000)


def test_errors_in_different_lines_count_as_the_same(
    session: turbocql.Session, table: Table, write: Write
) -> None:
    """Errors that differ only in the named line or row count as the same error.

    The first ten errors name a line, and the other errors name a row.
    """
    name = table("id int PRIMARY KEY, ip inet")
    path = write("addresses.csv", "id,ip\n" + "".join(f"{n},1.2.{n}\n" for n in range(ROWS)))
    report = loaded(session, name, path, max_errors=20)
    assert report.stop_reason is not None
    assert report.stop_reason.startswith("max_errors=20 was exceeded, always with the same error")
    report = loaded(session, name, path, max_errors=2000)
    assert (report.succeeded, len(report.failures)) == (0, 1000)
    assert [str(report.failures[row].error).partition(",")[0] for row in (3, 500)] == [
        f"{path}: line 5",
        f"{path}: row 501",
    ]


def test_errors_with_shortened_values_count_as_the_same(
    session: turbocql.Session, table: Table, write: Write
) -> None:
    lines = (f"{'x' * (n % 50 + 1)}{n},{'y' * 90}\n" for n in range(ROWS))
    path = write("no_json.jsonl", '{"id": 1}\n' + "".join(lines))
    report = session.load(
        table("id int PRIMARY KEY"), path, raise_failures=False, max_errors=100, columns=["id"]
    )
    assert report.stop_reason is not None
    assert report.stop_reason.startswith("max_errors=100 was exceeded, always with the same error")


def test_the_asynchronous_api(cassandra: Cassandra, table: Table, tmp_path: Path) -> None:
    asyncio.run(asynchronous_loads(cassandra, table("id int PRIMARY KEY, at timestamp"), tmp_path))


async def asynchronous_loads(cassandra: Cassandra, name: str, tmp_path: Path) -> None:
    async with turbocql.aio.connect(cassandra.contact_points) as session:
        for max_errors, reason in (
            (2500, "each of the first 1,000 rows failed"),
            (9, "max_errors"),
        ):
            with pytest.raises(BulkError, match=f"stopped early because {reason}"):
                await session.load(name, microseconds(tmp_path), max_errors=max_errors)
        report = await session.execute_many(
            f"INSERT INTO {name} (id) VALUES (?)",
            [("x",)] * 50,
            max_failures=3,
            raise_failures=False,
        )
        assert report.stop_reason == "max_failures=3 was exceeded, always with the same error"
        compared = await session.verify(name, microseconds(tmp_path), limit=7, truncate_time=True)
        assert (compared.rows, compared.missing) == (7, 7)


def test_verify_compares_the_first_rows(
    session: turbocql.Session, table: Table, tmp_path: Path
) -> None:
    name, path = table("id int PRIMARY KEY, at timestamp"), microseconds(tmp_path)
    session.load(name, path, limit=10, truncate_time=True)
    report = session.verify(name, path, limit=10, truncate_time=True)
    assert (report.rows, report.checked, report.equal) == (10, 10, True)
    assert session.verify(name, path, limit=12, truncate_time=True).missing == 2
    assert session.verify(name, path, limit=0).rows == 0
    for limit in (-1, 1.5, "x"):
        with pytest.raises(ConfigError, match="limit must be an int from 0"):
            session.verify(name, path, limit=limit)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="limit is for loads of files"):
        session.verify(name, {"id": [1]}, limit=1)


def test_the_command_line(
    session: turbocql.Session, table: Table, tmp_path: Path, command: Command
) -> None:
    name, path = table("id int PRIMARY KEY, at timestamp"), microseconds(tmp_path, fitting=2)
    ended = command("load", path, name)
    assert ended.code == 1
    failed, reason, first, *others = ended.err.splitlines()[-3:]
    assert (failed, others) == ("1,001 rows failed", [])
    assert reason == (
        "stopped because --max-errors 1000 was exceeded, always with the same error; 1,997 rows"
        " were not tried"
    )
    place = f'{path}: row 2 (the first is 0), column "at"'
    assert first.startswith(f"the first, row 2: {place}: expected timestamp, got a finer time")
    assert "which load drops with --truncate-time" in first
    ended = command("load", microseconds(tmp_path), name, "--max-errors", "2500")
    assert "stopped because each of the first 1,000 rows failed with the same error" in ended.err
    assert command("load", path, name, "--limit", "5", "--truncate-time").code == 0
    assert "equal" in command("verify", path, name, "--limit", "5", "--truncate-time").out
    assert command("verify", path, name, "--truncate-time").code == 5


def test_the_first_block_of_lists_and_vectors(
    session: turbocql.Session, table: Table, tmp_path: Path
) -> None:
    """For lists with a write time, and for vectors, a load encodes the first block twice."""
    name = table("id int PRIMARY KEY, l list<int>, v vector<float, 2>")
    ids = list(range(1500))
    columns = {
        "id": pa.array(ids, pa.int32()),
        "l": pa.array([[n, n] for n in ids], pa.list_(pa.int32())),
    }
    columns["v"] = pa.array([[n + 1.0, 0.5] for n in ids], pa.list_(pa.float32(), 2))
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table(columns), path)
    for _ in range(2):
        report = session.load(name, path, max_errors=1200, timestamp=1_700_000_000_000_000)
        assert (report.rows, report.succeeded) == (1500, 1500)
    assert session.verify(name, path).equal


@pytest.mark.parametrize("elements", [400, 5000])
@pytest.mark.parametrize("failing", [900, 1000])
def test_a_first_block_that_takes_long_to_encode(
    session: turbocql.Session, table: Table, tmp_path: Path, failing: int, elements: int
) -> None:
    # Encoding a row takes so long that the block is encoded in several parts. Rows of 5,000
    # elements are also read in several parts.
    rows = 1100
    values = np.zeros((rows, elements), np.int64)
    values[:failing, -1] = 1  # a microsecond, which a timestamp of CQL does not have
    times = pa.array(values.ravel(), pa.timestamp("us"))
    lists = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * elements, times)
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int32()), "v": lists}), path)
    name = table("id int PRIMARY KEY, v list<timestamp>")
    report = session.load(name, path, max_errors=1050, raise_failures=False)
    assert len(report.failures) == failing
    if failing == 1000:
        assert report.stop_reason == (
            "each of the first 1,000 rows failed with the same error; 100 rows were not tried"
        )
    else:
        assert (report.stopped, report.succeeded) == (False, rows - failing)
