"""Tests that reports of progress count acknowledged rows, including those of earlier runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import turbocql
from turbocql._transfer.monitor import shown_progress
from turbocql.bulk import Progress
from turbocql.errors import ConfigError
from turbocql.testing import Cassandra

from .conftest import Command, Table

ROWS = 9_000


def data(count: int = ROWS) -> pa.Table:
    texts = [f"a text of row {place}" for place in range(count)]
    return pa.table({"id": pa.array(range(count), pa.int32()), "t": texts})


def written(directory: Path, form: str) -> Path:
    path = directory / f"rows.{form}"
    if form == "parquet":
        pq.write_table(data(), path, row_group_size=5000)
    elif form == "csv":
        csv.write_csv(data(), path)
    elif form == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, data().schema) as out:
            out.write_table(data(), max_chunksize=2000)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in data().to_pylist()))
    return path


GIVEN: dict[str, Callable[[], Any]] = {
    "table": data,
    "arrays": lambda: {"id": np.arange(ROWS, dtype=np.int32), "t": data()["t"].to_numpy()},
    "lists": lambda: data().to_pydict(),
    "pandas": lambda: data().to_pandas(),
    "polars": lambda: polars.DataFrame(data()),
    "list of tables": lambda: [data().slice(0, 5000), data().slice(5000)],
}


def check(seen: list[Progress]) -> None:
    """Asserts that `share` and `left_s` of the progress reports are approximately right.

    `share` must be the share of rows that servers have acknowledged. `left_s` must be the time that
    the remaining rows take at the average rate so far.
    """
    assert len(seen) >= 3
    told = [now for now in seen if now.rows and now.share is not None]
    # Some files do not store their number of rows. For them, the share is unknown until the load
    # has read some rows.
    assert all(now.rows == 0 for now in seen if now.share is None)
    assert [now.share for now in told] == sorted(now.share or 0.0 for now in told)
    for now in told:
        assert now.share == pytest.approx(now.rows / ROWS, abs=0.15), now
        if not now.ended:
            rest = (ROWS - now.rows) * now.elapsed_s / now.rows
            assert now.left_s == pytest.approx(rest, rel=0.3, abs=0.3), now
    assert (seen[-1].rows, seen[-1].share, seen[-1].left_s) == (ROWS, 1.0, 0.0)


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow", "jsonl"])
def test_files(session: turbocql.Session, table: Table, tmp_path: Path, form: str) -> None:
    name, seen = table("id int PRIMARY KEY, t text"), list[Progress]()
    session.load(name, written(tmp_path, form), rate_limit=4500, progress=seen.append)
    check(seen)


@pytest.mark.parametrize("kind", GIVEN)
def test_data_in_memory(session: turbocql.Session, table: Table, kind: str) -> None:
    name, seen = table("id int PRIMARY KEY, t text"), list[Progress]()
    session.load(name, GIVEN[kind](), rate_limit=4500, progress=seen.append)
    check(seen)


def test_streams_have_no_share(session: turbocql.Session, table: Table) -> None:
    name, seen = table("id int PRIMARY KEY, t text"), list[Progress]()
    stream = pa.RecordBatchReader.from_batches(data().schema, data().to_batches(1000))
    session.load(name, stream, progress=seen.append)
    assert all(now.share is None for now in seen[:-1])
    assert seen[-1].rows == ROWS


def test_limits(session: turbocql.Session, table: Table, tmp_path: Path) -> None:
    name, seen = table("id int PRIMARY KEY, t text"), list[Progress]()
    path = written(tmp_path, "csv")
    session.load(name, path, limit=3000, rate_limit=2000, progress=seen.append)
    assert seen[-1].rows == 3000
    told = [now for now in seen if now.rows]
    assert all(now.share == pytest.approx(now.rows / 3000, abs=0.01) for now in told)


KILLED = """
import sys, turbocql
session = turbocql.connect(sys.argv[1])
session.load(sys.argv[2], sys.argv[3], checkpoint=sys.argv[4], rate_limit=4000,
             progress=lambda now: now.rows > 4000 and __import__("os").kill(
                 __import__("os").getpid(), 9))
"""


@pytest.fixture
def begun(cassandra: Cassandra, table: Table, tmp_path: Path) -> tuple[str, Path, Path]:
    """Returns the table, file and checkpoint of a load that was killed."""
    name, path = table("id int PRIMARY KEY, t text"), written(tmp_path, "csv")
    checkpoint = tmp_path / "checkpoint"
    line = [sys.executable, "-c", KILLED, cassandra.contact_points[0], name, path, checkpoint]
    assert subprocess.run([*map(str, line)], timeout=60).returncode == -9
    return name, path, checkpoint


def test_a_resumed_load_counts_earlier_rows(
    session: turbocql.Session, begun: tuple[str, Path, Path]
) -> None:
    name, path, checkpoint = begun
    seen: list[Progress] = []
    report = session.load(
        name,
        path,
        checkpoint=checkpoint,
        resume="auto",
        rate_limit=3000,
        progress=seen.append,
    )
    assert report.earlier_rows > 2500
    assert report.earlier_rows + report.succeeded == ROWS
    assert report.rows == report.succeeded
    for now in seen:
        if now.rows and not now.ended:
            done = now.earlier_rows + now.rows
            assert now.share == pytest.approx(done / ROWS, abs=0.15)
            # The rate counts only the rows of this run.
            rest = (ROWS - done) * now.elapsed_s / now.rows
            assert now.left_s == pytest.approx(rest, rel=0.4, abs=0.4)


def test_the_command_line_shows_earlier_rows(
    begun: tuple[str, Path, Path], command: Command
) -> None:
    name, path, checkpoint = begun
    line = ["load", path, name, "--checkpoint", checkpoint, "--resume-if-there"]
    done = command(*line)
    assert done.code == 0, done.err
    last = done.out.splitlines()[-1]
    assert last.startswith("9,000 rows: ")
    before, now = last.split(": ")[1].split(" in ")[0].replace(",", "").split(" before ")
    assert int(before) + int(now.split()[0]) == ROWS
    again = command(*line)
    assert "9,000 rows: 9,000 before, 0 now" in again.out


def test_resume_auto_resumes_if_the_checkpoint_exists(
    session: turbocql.Session, table: Table, tmp_path: Path, command: Command
) -> None:
    name, path = table("id int PRIMARY KEY, t text"), written(tmp_path, "parquet")
    checkpoint = tmp_path / "c"
    report = session.load(name, path, checkpoint=checkpoint, resume="auto")
    assert (report.succeeded, report.earlier_rows) == (ROWS, 0)
    report = session.load(name, path, checkpoint=checkpoint, resume="auto")
    assert (report.succeeded, report.earlier_rows) == (0, ROWS)
    with pytest.raises(ConfigError, match="needs checkpoint="):
        session.load(name, path, resume="auto")
    done = command("load", path, name, "--resume-if-there")
    assert done.code == 2
    assert "--checkpoint" in done.err


def test_the_message_of_an_interrupt_says_how_to_resume(
    cassandra: Cassandra, table: Table, tmp_path: Path
) -> None:
    name, path = table("id int PRIMARY KEY, t text"), written(tmp_path, "csv")
    program = KILLED.replace("9))", "2))").replace("from os", "from os")
    line = [sys.executable, "-c", program, cassandra.contact_points[0], name, path, tmp_path / "c"]
    done = subprocess.run([*map(str, line)], timeout=60, capture_output=True, text=True)
    assert "KeyboardInterrupt" in done.stderr
    if sys.version_info >= (3, 11):
        assert f"resume={str(tmp_path / 'c')!r}" in done.stderr


def test_bars(capsys: pytest.CaptureFixture[str]) -> None:
    show = shown_progress()
    given: dict[str, Any] = {
        **{"failed": 0, "bytes": 10, "rows_per_s": 5.0, "elapsed_s": 1.0, "left_s": None},
        **{"window": 4, "in_flight": 1, "retried": 0, "batched": 0, "earlier_rows": 0},
    }
    show(Progress(rows=791, share=None, ended=False, **given))
    shown = capsys.readouterr().err
    assert "791 rows" in shown
    assert "| ," not in shown
    assert "%" not in shown
    show(Progress(rows=900, share=0.5, ended=True, **given))
    assert " 50%" in capsys.readouterr().err


def test_the_number_of_rows_of_frames_is_known() -> None:
    from turbocql._columns.pieces import columns_of

    frames = [data().to_pandas(), polars.DataFrame(data()), data(), data().to_batches()[0]]
    assert [columns.rows for frame in frames if (columns := columns_of(frame)) is not None] == [
        ROWS
    ] * 4
    assert isinstance(frames[0], pandas.DataFrame)


def test_an_exception_of_the_callback_ends_the_load(
    session: turbocql.Session, table: Table
) -> None:
    name = table("id int PRIMARY KEY, t text")

    def fail(now: Progress) -> None:
        if now.rows:
            raise ValueError("enough")

    # The load reads these few rows as one block, and nothing after it. So the exception cannot stop
    # the load's reading: it must stop the sending of rows that were read.
    small = data().slice(0, 400)
    with pytest.raises(ValueError, match="enough"):
        session.load(name, small, rate_limit=50, progress=fail)
    assert len(session.execute(f"SELECT id FROM {name}").all()) < 200
