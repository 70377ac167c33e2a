"""Tests that a row that the server never accepts fails soon and with a reason.

No other row must fail.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import turbocql
from turbocql._transfer import target
from turbocql.bulk import Progress
from turbocql.errors import EncodeError, ServerError

from .conftest import SPACE, Command, Table

LIMIT_S = 20.0
"""A generous time limit for loads. It is far below 60 s, the default of `retry_for_s`."""


def vectors(count: int, faulty: dict[int, list[float]]) -> dict[str, Any]:
    made = np.random.default_rng(1).standard_normal((count, 4)).astype(np.float32)
    for row, vector in faulty.items():
        made[row] = vector
    return {"id": np.arange(count, dtype=np.int32), "e": made}


def indexed(session: turbocql.Session, table: Table, function: str) -> str:
    name = table("id int PRIMARY KEY, e vector<float, 4>")
    session.execute(
        f"CREATE CUSTOM INDEX ON {name} (e) USING 'StorageAttachedIndex'"
        f" WITH OPTIONS = {{'similarity_function': '{function}'}}"
    )
    return name


ODD = {
    3: [0.0] * 4,
    50: [float("nan"), 0, 0, 0],
    51: [float("inf"), 0, 0, 0],
    1900: [1e30] * 4,
    1999: [-0.0] * 4,
}


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        ("COSINE", [3, 50, 51, 1900, 1999]),
        ("dot_product", [50, 51, 1900]),
        ("EUCLIDEAN", [50, 51, 1900]),
    ],
)
def test_vectors_that_an_index_refuses(
    session: turbocql.Session, table: Table, function: str, refused: list[int]
) -> None:
    name = indexed(session, table, function)
    began = time.monotonic()
    report = session.load(name, vectors(2000, ODD), raise_failures=False)
    assert time.monotonic() - began < LIMIT_S
    assert [failure.row for failure in report.failures] == refused
    assert report.succeeded == 2000 - len(refused)
    index = f'"{name.split(".")[1]}_e_idx"'
    for failure in report.failures:
        assert isinstance(failure.error, EncodeError)
        assert f'column "e": expected a vector that the index {index} takes, got one' in str(
            failure.error
        )
    tried = session.load(name, vectors(2000, ODD), raise_failures=False, dry_run=True)
    assert [failure.row for failure in tried.failures] == refused
    if function == "COSINE":
        assert "one of zeros" in str(report.failures[0].error)


def test_vectors_without_an_index(session: turbocql.Session, table: Table) -> None:
    name = table("id int PRIMARY KEY, e vector<float, 4>")
    assert session.load(name, vectors(2000, ODD)).succeeded == 2000


def test_the_last_and_only_rows(session: turbocql.Session, table: Table) -> None:
    name = indexed(session, table, "cosine")
    began = time.monotonic()
    for count in (1, 3):
        data = vectors(count, dict.fromkeys(range(count), [0.0] * 4))
        assert len(session.load(name, data, raise_failures=False).failures) == count
    assert time.monotonic() - began < LIMIT_S


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("count", [1, 500])
def test_errors_without_a_known_cause(
    session: turbocql.Session,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    batches: bool,
) -> None:
    # In this test, the load does not know that an index exists. This simulates an index that is
    # created during the load.
    monkeypatch.setattr(target.Care, "has_vectors", False)
    name = table("id int, c int, e vector<float, 4>, PRIMARY KEY (id, c)")
    session.execute(f"CREATE CUSTOM INDEX ON {name} (e) USING 'StorageAttachedIndex'")
    data = vectors(count, dict.fromkeys(range(0, count, 50), [0.0] * 4))
    data = {"c": data["id"], "id": data["id"] // 25, "e": data["e"]}
    seen: list[Progress] = []
    began = time.monotonic()
    report = session.load(name, data, raise_failures=False, batches=batches, progress=seen.append)
    assert time.monotonic() - began < LIMIT_S
    assert [failure.row for failure in report.failures] == list(range(0, count, 50))
    assert report.succeeded == count - len(report.failures)
    assert seen[-1].retrying == 0
    assert seen[-1].retried >= 2 * len(report.failures)


def test_progress_counts_rows_that_are_retried(
    session: turbocql.Session, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target.Care, "has_vectors", False)
    name = indexed(session, table, "cosine")
    seen: list[Progress] = []
    data = vectors(4000, dict.fromkeys(range(0, 4000, 100), [0.0] * 4))
    session.load(
        name, data, raise_failures=False, rate_limit=2000, progress=seen.append, batches=False
    )
    trying = [progress for progress in seen if progress.retrying]
    assert trying
    assert trying[0].reason == "write failure"
    assert "tried again: write failure" in str(trying[0])


NULLS: list[tuple[str, Any, str]] = [
    ("list<int>", [1, None], "[1]"),
    ("set<int>", [None], "[0]"),
    ("map<text, int>", {"a": 1, "b": None}, "['b']"),
    ("map<int, frozen<list<int>>>", {7: [1, None]}, "[7][1]"),
    ("list<frozen<list<int>>>", [[1], [None]], "[1][0]"),
    ("frozen<map<text, int>>", {"a": None}, "['a']"),
    ("frozen<list<frozen<set<int>>>>", [[1], [None]], "[1][0]"),
    ("tuple<int, frozen<list<int>>>", (1, [None]), "[1][0]"),
    ("frozen<with_list>", {"l": [1, None], "n": 2}, ".l[1]"),
    ("with_frozen", {"l": [None], "n": None}, ".l[0]"),
    ("list<frozen<with_list>>", [{"l": None, "n": 1}, {"l": [None], "n": 1}], "[1].l[0]"),
    ("vector<frozen<list<int>>, 2>", [[1], [None]], "[1][0]"),
]


@pytest.fixture
def types(session: turbocql.Session) -> None:
    session.execute(f"CREATE TYPE IF NOT EXISTS {SPACE}.with_list (l list<int>, n int)")
    session.execute(f"CREATE TYPE IF NOT EXISTS {SPACE}.with_frozen (l frozen<list<int>>, n int)")


def arrow_type(cql_type: str) -> pa.DataType:
    numbers = pa.list_(pa.int32())
    return {
        "list<int>": numbers,
        "set<int>": numbers,
        "map<text, int>": pa.map_(pa.string(), pa.int32()),
        "map<int, frozen<list<int>>>": pa.map_(pa.int32(), numbers),
        "list<frozen<list<int>>>": pa.list_(numbers),
        "frozen<map<text, int>>": pa.map_(pa.string(), pa.int32()),
        "frozen<list<frozen<set<int>>>>": pa.list_(numbers),
        "tuple<int, frozen<list<int>>>": pa.struct([("0", pa.int32()), ("1", numbers)]),
        "frozen<with_list>": pa.struct([("l", numbers), ("n", pa.int32())]),
        "with_frozen": pa.struct([("l", numbers), ("n", pa.int32())]),
        "list<frozen<with_list>>": pa.list_(pa.struct([("l", numbers), ("n", pa.int32())])),
        "vector<frozen<list<int>>, 2>": pa.list_(numbers, 2),
    }[cql_type]


def as_arrow(cql_type: str, value: Any) -> pa.Array:
    if isinstance(value, dict) and "map" in cql_type:
        value = list(value.items())
    if isinstance(value, tuple):
        value = {str(place): part for place, part in enumerate(value)}
    return pa.array([value], arrow_type(cql_type))


def as_json(value: Any) -> Any:
    if isinstance(value, dict) and any(isinstance(key, int) for key in value):
        return [list(pair) for pair in value.items()]
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.usefixtures("types")
@pytest.mark.parametrize("form", ["objects", "arrow", "parquet", "csv", "jsonl"])
@pytest.mark.parametrize(("cql_type", "value", "path"), NULLS, ids=[it[0] for it in NULLS])
def test_nulls_within_collections(
    session: turbocql.Session,
    table: Table,
    tmp_path: Path,
    form: str,
    cql_type: str,
    value: Any,
    path: str,
) -> None:
    name = table(f"id int PRIMARY KEY, v {cql_type}")
    data: Any
    if form == "objects":
        data = {"id": [1], "v": [value]}
    elif form == "csv":
        data = tmp_path / "v.csv"
        cell = json.dumps(as_json(value)).replace('"', '""')
        data.write_text(f'id,v\n1,"{cell}"\n')
    elif form == "jsonl":
        data = tmp_path / "v.jsonl"
        data.write_text(json.dumps({"id": 1, "v": as_json(value)}) + "\n")
    else:
        made = pa.table({"id": pa.array([1], pa.int32()), "v": as_arrow(cql_type, value)})
        data = made if form == "arrow" else tmp_path / "v.parquet"
        if form == "parquet":
            pq.write_table(made, data)
    report = session.load(name, data, raise_failures=False)
    (failure,) = report.failures
    assert isinstance(failure.error, EncodeError)
    assert f'column "v"{path}: ' in str(failure.error)
    assert "null" in str(failure.error)
    assert session.execute(f"SELECT * FROM {name}").all() == []
    tried = session.load(name, data, raise_failures=False, dry_run=True)
    assert str(tried.failures[0].error) == str(failure.error)


@pytest.mark.usefixtures("types")
def test_nulls_that_servers_accept(session: turbocql.Session, table: Table) -> None:
    name = table(
        "id int PRIMARY KEY, f frozen<list<int>>, t tuple<int, int>, u frozen<with_list>,"
        " l list<int>"
    )
    data = {
        "id": [1],
        "f": [[1, None]],
        "t": [(1, None)],
        "u": [{"l": None, "n": None}],
        "l": [None],
    }
    assert session.load(name, data).succeeded == 1
    (row,) = session.execute(f"SELECT * FROM {name}").all()
    assert (row.f, tuple(row.t), row.l) == ([1, None], (1, None), None)


@pytest.mark.parametrize("values", [[1, None], [[None]]])
def test_single_statements_name_the_null(
    session: turbocql.Session, table: Table, values: list[Any]
) -> None:
    cql_type = "list<int>" if values[0] == 1 else "list<frozen<list<int>>>"
    name = table(f"id int PRIMARY KEY, v {cql_type}")
    with pytest.raises(ServerError, match=r'column "v"(\[0\])?\[\d\]: .*null'):
        session.execute(f"INSERT INTO {name} (id, v) VALUES (?, ?)", (1, values))
    insert = session.prepare(f"INSERT INTO {name} (id, v) VALUES (?, ?)")
    report = session.execute_many(insert, [(1, values), (2, [])], raise_failures=False)
    assert report.succeeded == 1
    assert 'column "v"[' in str(report.failures[0].error)


def test_empty_values_that_were_read(session: turbocql.Session, table: Table) -> None:
    one = table("k int PRIMARY KEY, v map<text, timestamp>")
    other = table("k int PRIMARY KEY, v map<text, timestamp>")
    session.execute(f"INSERT INTO {one} (k, v) VALUES (1, {{'apple': '2017-04-01', 'orange': ''}})")
    report = session.load(other, session.execute(f"SELECT * FROM {one}"), raise_failures=False)
    said = str(report.failures[0].error)
    assert "column \"v\"['orange']" in said
    assert "no bytes" in said


def test_healthy_rows_do_not_wait(session: turbocql.Session, table: Table) -> None:
    name = table("id int PRIMARY KEY, l list<int>")
    lists = [[1, None] if place % 20 == 0 else [1, 2] for place in range(4000)]
    data = pa.table(
        {"id": pa.array(range(4000), pa.int32()), "l": pa.array(lists, pa.list_(pa.int32()))}
    )
    began = time.monotonic()
    report = session.load(name, data, raise_failures=False)
    assert time.monotonic() - began < LIMIT_S
    assert (report.succeeded, len(report.failures)) == (3800, 200)


def test_the_command_line_shows_the_reason(
    session: turbocql.Session, table: Table, command: Command, tmp_path: Path
) -> None:
    name = indexed(session, table, "cosine")
    data = vectors(20, {7: [0.0] * 4})
    made = pa.table(
        {"id": data["id"], "e": pa.FixedSizeListArray.from_arrays(data["e"].ravel(), 4)}
    )
    pq.write_table(made, tmp_path / "v.parquet")
    done = command("load", tmp_path / "v.parquet", name, "--rejects", tmp_path / "no.jsonl")
    assert "19 of 20 rows loaded" in done.out
    place = f"{tmp_path}/v.parquet: row 7 (the first is 0)"
    assert f'the first, row 7: {place}, column "e": expected a vector that the index' in done.err
    assert json.loads((tmp_path / "no.jsonl").read_text())["row"] == 7
