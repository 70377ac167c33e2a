"""Tests that errors of failed rows name the file, the line or row, the column and the value."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import turbocql
from turbocql.errors import EncodeError, RangeError

from .conftest import Command, Table

Write = Callable[[str, str | bytes], Path]
COLUMNS = "id bigint PRIMARY KEY, ip inet, vi varint, tu timeuuid, de decimal, t text, l list<int>"
TIME = "9f1c5b9e-2a5c-4d5c-8d8f-0a1b2c3d4e5f"
CELLS = {
    "ip": ("1.2.3", "expected inet, got a text that is no IP address; the value is '1.2.3'"),
    "tu": (
        TIME,
        "expected timeuuid, got a UUID whose version is not 1; "
        f"turbocql.uuid_from_time(datetime) makes one; the value is {TIME}",
    ),
    "de": ("1e99999999999", "got an exponent beyond 32 bits; the value is '1e99999999999'"),
}


@pytest.fixture
def failures(session: turbocql.Session, table: Table) -> Callable[..., list[str]]:
    """Returns a function that loads data into a new table and returns the errors of its rows."""

    def load(data: Any, **options: Any) -> list[str]:
        report = session.load(table(COLUMNS), data, raise_failures=False, **options)
        return [str(failure.error) for failure in report.failures]

    return load


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("column", CELLS)
def test_values_of_text_files(
    failures: Any, write: Write, tmp_path: Path, column: str, dry_run: bool
) -> None:
    cell, reason = CELLS[column]
    path = write("a.csv", f'id,t,{column}\n1,"a\nb",\n2,,{cell}\n')
    (said,) = failures(path, dry_run=dry_run, rejects=tmp_path / "rejects")
    assert said.startswith(f'{path}: line 4, column "{column}": ')
    assert reason in said
    assert json.loads((tmp_path / "rejects").read_text())["error"].endswith(said)
    path = write("a.jsonl", f'{{"id": 1, "{column}": null}}\n\n{{"id": 2, "{column}": "{cell}"}}\n')
    (said,) = failures(path, dry_run=dry_run)
    assert said.startswith(f'{path}: line 3, column "{column}": ')
    assert reason in said


def test_null_keys(failures: Any, write: Write, tmp_path: Path) -> None:
    reason = 'column "id": a column of the primary key needs a value, got null'
    for name, text, line in (
        ("a.csv", "id,t\n1,a\n,b\n", "line 3"),
        ("a.jsonl", '{"id": 1}\n{"id": null}\n', "line 2"),
    ):
        path = write(name, text)
        (said,) = failures(path)
        assert said.startswith(f"{path}: {line}, {reason}")
    pq.write_table(pa.table({"id": pa.array([1, None], pa.int64())}), tmp_path / "a.parquet")
    (said,) = failures(tmp_path / "a.parquet")
    assert said.startswith(f"{tmp_path}/a.parquet: row 1 (the first is 0), {reason}")


def test_rows_of_several_files(failures: Any, tmp_path: Path) -> None:
    for number in range(3):
        texts = pa.array(["5", f"no {number}", "7"])
        data = pa.table({"id": [1, 2, 3], "number": texts, "l": [[1], [2], [number]]})
        pq.write_table(data, tmp_path / f"{number}.parquet")
    said = failures(tmp_path, rename={"number": "vi"}, columns=["id", "vi"])
    assert len(said) == 3
    for number, text in enumerate(said):
        assert text.startswith(
            f'{tmp_path}/{number}.parquet: row 1 (the first is 0), column "vi": '
        )
        assert f"; the value is 'no {number}'; statement: " in text


@pytest.mark.parametrize(
    "made",
    [
        pa.table,
        pa.record_batch,
        pd.DataFrame,
        pl.DataFrame,
        lambda columns: {name: np.array(cells) for name, cells in columns.items()},
    ],
    ids=["table", "batch", "pandas", "polars", "dict"],
)
def test_values_of_columns_in_memory(failures: Any, made: Callable[[Any], Any]) -> None:
    data = made({"id": [1, 2, 3], "number": ["5", "1,5", "7"]})
    (said,) = failures(data, rename={"number": "vi"})
    assert said.startswith('column "vi": expected varint, got a text that is no finite number')
    assert "; the value is '1,5'; statement: INSERT" in said


def test_rows_that_the_server_refuses(failures: Any, write: Write) -> None:
    path = write("a.csv", "id,t,seconds\n1,a,60\n2,b,-5\n")
    (said,) = failures(path, ttl="seconds")
    assert said.startswith(f"{path}: line 3: ")
    assert "TTL" in said


def test_later_failures_have_rows_instead_of_lines(failures: Any, write: Write) -> None:
    path = write("a.csv", "id,ip\n" + "".join(f"{number},x\n" for number in range(30)))
    said = failures(path)
    assert said[9].startswith(f'{path}: line 11, column "ip"')
    assert said[10].startswith(f'{path}: row 11, column "ip"')


def test_types_of_all_files_are_compared_before_any_row_is_sent(
    session: turbocql.Session, table: Table, tmp_path: Path
) -> None:
    name = table(COLUMNS)
    good, bad = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"id": [1], "t": ["a"]}), good)
    pq.write_table(pa.table({"id": [2], "t": [5]}), bad)
    for call in (session.load, session.verify, lambda *it: session.load(*it, dry_run=True)):
        with pytest.raises(EncodeError) as raised:
            call(name, [good, bad])
        assert str(raised.value).startswith(f'{bad}: column "t": expected text, got Arrow\'s int64')
    assert session.execute(f"SELECT * FROM {name}").all() == []
    assert session.load(name, [good, bad], columns=["id"]).succeeded == 2


SETTINGS = {"ttl": "int", "timestamp": "bigint"}


@pytest.mark.parametrize("setting", SETTINGS)
def test_columns_of_settings_have_their_own_names(
    session: turbocql.Session, table: Table, failures: Any, write: Write, setting: str
) -> None:
    option: Any = {setting: "valid"}
    path = write("a.csv", "id,t,valid\n1,a,100\n2,b,abc\n3,c,\n")
    (said,) = failures(path, **option)
    assert said.startswith(f'{path}: line 3, column "valid": expected a w')
    assert said.endswith("; got 'abc'")
    path = write("a.jsonl", '{"id": 1, "valid": 100}\n{"id": 2, "valid": 1.5}\n')
    (said,) = failures(path, **option)
    assert said.startswith(f'{path}: line 2, column "valid": expected a w')
    (said,) = failures({"id": np.array([1, 2]), "valid": [100, "a"]}, **option)
    assert said.startswith(f'column "valid": expected {SETTINGS[setting]}')
    name = table(COLUMNS)
    data = pa.table({"id": [1], "valid": ["abc"]})
    for dry_run in (False, True):
        with pytest.raises(EncodeError, match=r'^column "valid": expected ') as raised:
            session.load(name, data, dry_run=dry_run, **option)
        assert raised.value.path == 'column "valid"'
    assert session.execute(f"SELECT * FROM {name}").all() == []


def test_times_to_live_beyond_their_range(failures: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2], "valid": [60, 2**40]}), path)
    (said,) = failures(path, ttl="valid")
    assert said.startswith(f'{path}: row 1 (the first is 0), column "valid": expected int')
    assert f"; the value is {2**40}" in said


def test_asynchronous_loads_name_the_rows_too(
    session: turbocql.Session, table: Table, cassandra: Any, write: Write
) -> None:
    name, path = table(COLUMNS), write("a.csv", "id,ip\n1,x\n")

    async def load() -> None:
        async with turbocql.aio.connect(cassandra.contact_points) as other:
            report = await other.load(name, path, raise_failures=False)
            assert str(report.failures[0].error).startswith(f'{path}: line 2, column "ip"')
            with pytest.raises(EncodeError, match=r'^column "valid"'):
                await other.load(name, pa.table({"id": [1], "valid": ["a"]}), ttl="valid")

    asyncio.run(load())


def test_errors_keep_their_class(session: turbocql.Session, table: Table, write: Write) -> None:
    path = write("a.csv", "id,de\n1,1e99999999999\n")
    report = session.load(table(COLUMNS), path, raise_failures=False)
    assert type(report.failures[0].error) is RangeError


SECRETS = {
    "cell.csv": "id,vi\n1,secret\n",
    "late.csv": "id,ip\n1,secret\n",
    "cells.csv": "id,t\n1,a,secret\n",
    "quote.csv": 'id,t\n1,"a"secret\n',
    "time.csv": "id,valid\n1,secret\n",
    "cell.jsonl": '{"id": 1, "vi": "secret"}\n',
    "late.jsonl": '{"id": 1, "ip": "secret"}\n',
    "line.jsonl": '{"id": 1}\n{secret\n',
    "first.jsonl": '{"id": 1, secret}\n',
}


@pytest.mark.parametrize("name", SECRETS)
def test_values_are_not_in_errors_if_not_wanted(
    table: Table, cassandra: Any, write: Write, name: str
) -> None:
    path = write(name, SECRETS[name])
    options: Any = {"timestamp": "valid"} if name == "time.csv" else {}
    with turbocql.connect(cassandra.contact_points, values_in_errors=False) as hiding:
        try:
            report = hiding.load(table(COLUMNS), path, raise_failures=False, **options)
            error: BaseException = report.failures[0].error
        except EncodeError as raised:
            error = raised
    said = "".join(traceback.format_exception(error))
    assert f"{path}: " in said
    assert "secret" not in said
    data = {"id": np.array([1]), "vi": np.array(["secret"])}
    with turbocql.connect(cassandra.contact_points, values_in_errors=False) as hiding:
        report = hiding.load(table(COLUMNS), data, raise_failures=False)
    assert "secret" not in str(report.failures[0].error)


def test_verify_lists_rows_that_a_load_would_refuse(
    session: turbocql.Session, table: Table, command: Command, write: Write
) -> None:
    name = table(COLUMNS)
    path = write("a.csv", "id,ip,vi\n1,1.2.3,5\n2,,x\n3,,7\n")
    session.load(name, path, raise_failures=False)
    report = session.verify(name, path)
    assert (report.unfit, report.equal) == (2, False)
    first, second = report.failures
    assert (first.row, second.row) == (0, 1)
    assert str(first.error).startswith(f'{path}: line 2, column "ip": expected inet')
    assert str(second.error) == f"{path}: line 3, column \"vi\": expected an integer; got 'x'"
    done = command("verify", path, name)
    assert done.code == 5
    assert f'row 1 is not loadable: {path}: line 3, column "vi"' in done.out


def test_the_command_line_names_its_options(command: Command, table: Table, write: Write) -> None:
    name = table("id int PRIMARY KEY, at timestamp")
    path = write("a.csv", "id,at\n1,2020-01-01T00:00:00.000001Z\n")
    done = command("load", path, name)
    assert done.code == 4
    assert f"{path}: line 2, column" in done.err
    assert "drops with --truncate-time" in done.err
    done = command("load", write("b.csv", "id,at\n1\n"), name)
    assert done.code == 1
    assert done.err.startswith(f"error: {path.parent}/b.csv: line 2: expected 2 cells, got 1")
    assert "--delimiter ';'" in done.err
    done = command("load", write("c.csv", "id,x\n1,2\n"), name)
    assert "Pass --rename or --columns" in done.err
