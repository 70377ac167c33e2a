"""Tests that `turbocql load --create` makes a table that fits the files, or leaves no table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import turbocql
from turbocql.errors import EncodeError

from .conftest import SPACE, Command

ONE = pa.array([1], pa.int32())
POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])
LINE = pa.struct([("a", POINT), ("b", POINT)])
_numbers = count()


class Made(NamedTuple):
    """The outcome of a load with `--create`."""

    code: int
    err: str
    types: dict[str, str] | None
    """The types of the columns; `None` if there is no table."""
    rows: list[Any]


Create = Callable[..., Made]


@pytest.fixture
def create(session: turbocql.Session, command: Command) -> Create:
    def made(path: Path | str, *more: str, space: str = SPACE) -> Made:
        name = f"made{next(_numbers)}"
        done = command("load", path, f"{space}.{name}", "--create", "--key", "id", *more)
        found = session.schema().keyspace(space).tables.get(name)
        if found is None:
            return Made(done.code, done.err, None, [])
        types = {it.name: str(it.cql_type) for it in found.columns.values()}
        rows = session.execute(f"SELECT * FROM {space}.{name}", rows="dict").all()
        return Made(done.code, done.err, types, sorted(rows, key=lambda row: row["id"]))

    return made


@pytest.fixture(scope="module")
def types(session: turbocql.Session) -> None:
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS other WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    for statement in (
        "{0}.point (x int, y int)",
        "{0}.line (a frozen<point>, b frozen<point>)",
        '{0}."Net" ("X" int, lines list<frozen<line>>)',
        "other.point (x int, y int)",
        "other.only (x int)",
    ):
        session.execute(f"CREATE TYPE IF NOT EXISTS {statement.format(SPACE)}")


def ipc(path: Path, data: Any) -> Path:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, data.schema) as writer:
        writer.write(data)
    return path


NUMBERS = {
    "low": ["-9223372036854775808", "9223372036854775807"],
    "large": ["12345678901234567890", "5"],
    "plus": ["+5", "-3"],
    "money": ["1234567890123456.78", "0.10"],
    "huge": ["1e400", "1"],
    "double": ["0.10", "1e22"],
    "signs": ["+.5", "-5.e1"],
}


def test_numbers_of_csv_equal_those_of_the_file(create: Create, tmp_path: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["id", *NUMBERS, "day"])
    for place, day in enumerate(["2020-02-30", "0000-00-00"]):
        writer.writerow([10**18 + place, *(it[place] for it in NUMBERS.values()), day])
    (tmp_path / "n.csv").write_text(text.getvalue())
    made = create(tmp_path / "n.csv")
    assert made.code == 0, made.err
    assert [row["id"] for row in made.rows] == [10**18, 10**18 + 1]
    for name, texts in NUMBERS.items():
        assert [Decimal(str(row[name])) for row in made.rows] == list(map(Decimal, texts)), name
    assert [row["day"] for row in made.rows] == ["2020-02-30", "0000-00-00"]


def test_numbers_of_json_equal_those_of_the_file(create: Create, write: Any) -> None:
    lines = (
        '{"id": 1, "a": 9223372036854775808, "b": 0.1, "c": [1234567890123456.78], "d": {"k": 0.5}}'
        '\n{"id": 2, "a": 1, "b": 9007199254740993, "c": [], "d": {"k": 9007199254740993}}\n'
    )
    made = create(write("n.jsonl", lines))
    assert made.code == 0, made.err
    assert [row["a"] for row in made.rows] == [2**63, 1]
    assert [row["b"] for row in made.rows] == [Decimal("0.1"), Decimal("9007199254740993")]
    assert made.rows[0]["c"] == [Decimal("1234567890123456.78")]
    assert [row["d"]["k"] for row in made.rows] == [Decimal("0.5"), Decimal("9007199254740993")]


def test_a_late_name_of_json_lines_is_a_column(create: Create, write: Any) -> None:
    lines = [f'{{"id": {number}}}\n' for number in range(10_010)]
    made = create(
        write("n.jsonl", "".join([*lines, '{"id": 20000, "late": 0.5}\n'])), "--no-batches"
    )
    assert made.code == 0, made.err
    assert made.rows[-1]["late"] == 0.5


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_types_are_derived_from_every_text_file(create: Create, tmp_path: Path, form: str) -> None:
    texts = ["id,v\n1,5\n", "id,v\n2,5.5\n"]
    if form == "jsonl":
        texts = ['{"id": 1, "v": 5}\n', '{"id": 2, "v": 5.5}\n']
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.{form}").write_text(text)
    made = create(tmp_path)
    assert [row["v"] for row in made.rows] == [5.0, 5.5], made.err


def test_csv_without_rows_needs_types(create: Create, write: Any) -> None:
    path = write("h.csv", "id,v")
    made = create(path)
    assert (made.code, made.types) == (2, None)
    assert "--type" in made.err
    made = create(path, "--type", "id=int", "--type", "v=list<text>")
    assert made.types == {"id": "int", "v": "list<text>"}, made.err


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_without_rows_have_types(create: Create, tmp_path: Path, form: str) -> None:
    data = pa.table(
        {"id": ONE, "t": ["a"], "l": [[1]], "v": pa.array([[1, 2]], pa.list_(pa.float32(), 2))}
    )
    path = tmp_path / f"e.{form}"
    if form == "parquet":
        pq.write_table(data.slice(0, 0), path)
    else:
        ipc(path, data.slice(0, 0))
    made = create(path)
    assert (made.code, made.rows) == (0, []), made.err
    assert made.types == {"id": "int", "l": "list<bigint>", "t": "text", "v": "vector<float, 2>"}


def test_types_that_loads_accept_are_created(create: Create, tmp_path: Path) -> None:
    columns = {
        "id": ONE,
        "view": pa.array([[1]], pa.list_view(pa.int64())),
        "runs": pc.run_end_encode(pa.array(["a"])),
        "nested": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pc.run_end_encode(ONE)),
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"])),
        "u64": pa.array([2**64 - 1], pa.uint64()),
        "texts": pa.array(["a"], pa.string_view()).dictionary_encode(),
    }
    made = create(ipc(tmp_path / "a.arrow", pa.record_batch(columns)))
    assert made.code == 0, made.err
    assert made.rows[0]["view"] == [1]
    assert (made.rows[0]["runs"], made.rows[0]["nested"]) == ("a", [1])
    assert made.rows[0]["u64"] == 2**64 - 1


def unknown() -> Any:
    return pa.field("x", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})


@pytest.mark.parametrize("nested", [False, True])
def test_unknown_extension_types_are_refused_before_creation(
    create: Create, tmp_path: Path, nested: bool
) -> None:
    field, values = unknown(), pa.array([b"x"])
    if nested:
        field, values = pa.field("x", pa.list_(unknown())), pa.array([[b"x"]])
    data = pa.table([ONE, values], pa.schema([("id", pa.int32()), field]))
    for more in ([], ["--type", "x=blob"]):
        made = create(ipc(tmp_path / "x.arrow", data), *more)
        assert made.code
        assert made.types is None
        assert 'column "x"' in made.err
        assert "geoarrow.wkb" in made.err
        assert "x.arrow" in made.err
    assert create(tmp_path / "x.arrow", "--columns", "id").rows == [{"id": 1}]


UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"]), ONE])
DENSE = pa.UnionArray.from_dense(
    pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array(["a"])]
)


@pytest.mark.parametrize(
    "values", [UNION, pa.StructArray.from_arrays([DENSE], ["u"])], ids=["sparse", "nested"]
)
@pytest.mark.parametrize("has_rows", [False, True])
def test_unions_are_refused_before_creation(
    create: Create,
    session: turbocql.Session,
    table: Any,
    tmp_path: Path,
    values: Any,
    has_rows: bool,
) -> None:
    batch = pa.record_batch({"id": ONE, "t": values})
    path = tmp_path / "u.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch.slice(0, 0))
        if has_rows:
            writer.write_batch(batch)
    made = create(path)
    assert made.code > 0
    assert made.types is None
    assert 'column "t"' in made.err
    assert "u.arrow" in made.err
    name = table("id int PRIMARY KEY, t text")
    for call in (session.load, session.verify):
        with pytest.raises(EncodeError, match=r'u\.arrow: column "t"'):
            call(name, path)
    plain = table("id int PRIMARY KEY")
    assert session.load(plain, path, columns=["id"]).succeeded == has_rows


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ([pa.nulls(1), ONE, pa.array([2**40])], "bigint"),
        ([ONE, pa.array([1.5])], "double"),
        ([pa.array([2**40]), pa.array([2**64 - 1], pa.uint64())], "varint"),
        (
            [pa.array([[]], pa.list_(pa.null())), pa.array([[1]], pa.list_(pa.int8()))],
            "list<tinyint>",
        ),
        ([pa.array([2**40]), pa.array([1.5])], None),
        ([pa.array(["a"]), ONE], None),
    ],
)
def test_types_are_derived_from_every_parquet_file(
    create: Create, tmp_path: Path, arrays: list[Any], expected: str | None
) -> None:
    for number, values in enumerate(arrays):
        data = pa.table({"id": pa.array([number], pa.int32()), "x": values})
        pq.write_table(data, tmp_path / f"{number}.parquet")
    made = create(tmp_path)
    if expected is None:
        assert made.code
        assert made.types is None
        assert 'column "x"' in made.err
        assert "1.parquet" in made.err
        return
    assert made.code == 0, made.err
    assert (made.types or {})["x"] == expected
    assert len(made.rows) == len(arrays)


@pytest.mark.parametrize(
    "more", [["--type", "x=int"], ["--ttl", "nothing"], ["--rename", "nothing=x"]], ids=str
)
def test_no_empty_table_is_left(create: Create, tmp_path: Path, more: list[str]) -> None:
    pq.write_table(pa.table({"id": ONE, "x": ["a"]}), tmp_path / "a.parquet")
    made = create(tmp_path, *more)
    assert made.code
    assert made.types is None
    assert "dropped again" in made.err


def test_an_existing_table_is_not_dropped(
    session: turbocql.Session, command: Command, table: Any, write: Any
) -> None:
    name = table("id int PRIMARY KEY, v int")
    done = command("load", write("a.csv", "id,v\n1,x\n"), name, "--create", "--key", "id")
    assert done.code == 4
    assert name.partition(".")[2] in session.schema().keyspace(SPACE).tables
    assert f"{name} exists already, and is loaded into as it is\n" in done.err
    done = command("load", write("a.csv", "id,v\n1,2\n"), name, "--create", "--key", "id,v")
    assert done.code == 0, done.err
    assert "is loaded into as it is: its key is another, that of --key id\n" in done.err


@pytest.mark.usefixtures("types")
@pytest.mark.parametrize(
    ("definition", "kind", "value"),
    [
        ("point", POINT, {"x": 1, "y": 2}),
        ("POINT", POINT, {"x": 1, "y": 2}),
        (f"{SPACE}.line", LINE, {"a": {"x": 1, "y": 2}, "b": None}),
        ("frozen<line>", LINE, {"a": {"x": 1, "y": 2}, "b": None}),
        ("list<line>", pa.list_(LINE), [{"a": {"x": 1, "y": 2}, "b": None}]),
        (
            '"Net"',
            pa.struct([("X", pa.int32()), ("lines", pa.list_(LINE))]),
            {"X": 1, "lines": None},
        ),
    ],
)
def test_user_defined_types(
    create: Create, tmp_path: Path, definition: str, kind: Any, value: Any
) -> None:
    path = tmp_path / "u.parquet"
    pq.write_table(pa.table({"id": ONE, "u": pa.array([value], kind)}), path)
    made = create(path, "--type", f"u={definition}")
    assert made.code == 0, made.err
    assert made.rows[0]["u"] is not None


@pytest.mark.usefixtures("types")
def test_types_of_other_keyspaces_are_refused(create: Create, tmp_path: Path) -> None:
    path = tmp_path / "u.parquet"
    pq.write_table(pa.table({"id": ONE, "u": pa.array([{"x": 1}])}), path)
    made = create(path, "--type", "u=other.only")
    assert made.code == 2
    assert made.types is None
    assert "another keyspace" in made.err
    assert "point" in create(path, "--type", "u=nothing").err


@pytest.mark.usefixtures("types")
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_of_unload_keep_their_types(
    create: Create, session: turbocql.Session, table: Any, tmp_path: Path, form: str
) -> None:
    name = table('id int PRIMARY KEY, l frozen<line>, n frozen<"Net">, p point')
    session.execute(
        f'INSERT INTO {name} (id, l, n, p) VALUES (1, {{a: {{x: 1}}}}, {{"X": 5}}, {{x: 7, y: 8}})'
    )
    session.unload(name, tmp_path / f"a.{form}")
    made = create(tmp_path / f"a.{form}")
    assert made.code == 0, made.err
    assert made.rows == session.execute(f"SELECT * FROM {name}", rows="dict").all()
    session.unload(name, tmp_path / f"p.{form}", columns=["id", "p"])
    assert create(tmp_path / f"p.{form}", space="other").code == 0


NAMES = [" id", "a,b", 'q"', "c=d", "\u00e9"]
QUOTED = {name: '"' + name.replace('"', '""') + '"' for name in NAMES}


def test_options_name_any_column(
    session: turbocql.Session, command: Command, tmp_path: Path, write: Any
) -> None:
    header = ",".join(QUOTED.values())
    path = write("n.csv", f"{header},rest\n1,2,3,4,5,6\n")
    name = f"{SPACE}.made{next(_numbers)}"
    done = command(
        *("load", path, name, "--create", "--key", " id", "--columns", f"{header},renamed"),
        *("--clustering", QUOTED["a,b"], "--type", f"{QUOTED['c=d']}=int"),
        *("--rename", "rest=renamed"),
    )
    assert done.code == 0, done.err
    columns = session.schema().keyspace(SPACE).tables[name.partition(".")[2]].columns
    assert set(columns) == {*NAMES, "renamed"}
    assert str(columns["c=d"].cql_type) == "int"
    bare = write("bare.csv", "1,2,3,4,5\n")
    options = ("--no-header", "--names", header)
    assert command("load", bare, name, *options).code == 0
    assert command("verify", bare, name, *options, "--columns", header).code == 0
    done = command("unload", name, tmp_path / "out.csv", "--columns", f"{header}")
    assert done.code == 0, done.err
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == "1,2,3,4,5"


def test_a_column_without_a_name(create: Create, write: Any) -> None:
    path = write("n.csv", "id,,v\n1,2,3\n")
    made = create(path)
    assert (made.code, made.types) == (2, None)
    assert "a column without a name" in made.err
    made = create(path, "--rename", '""=w')
    assert made.rows == [{"id": 1, "v": 3, "w": 2}], made.err


def test_a_bad_first_line_has_its_number(create: Create, write: Any) -> None:
    made = create(write("n.jsonl", '{\n "id": 1\n}\n'))
    assert (made.code, made.types) == (1, None)
    assert "n.jsonl: line 1: expected JSON, one object in each line" in made.err
    assert "jq -c ." in made.err
    made = create(write("n.jsonl", '{bad\n{"id": 1}\n'))
    assert (made.code, made.rows) == (4, [{"id": 1}])
    assert "n.jsonl: line 1: expected JSON" in made.err


def test_fixed_size_lists_of_no_elements(create: Create, tmp_path: Path) -> None:
    data = pa.record_batch({"id": ONE, "x": pa.array([[]], pa.list_(pa.int8(), 0))})
    made = create(ipc(tmp_path / "x.arrow", data))
    assert (made.code, made.types) == (2, None)
    assert 'column "x" has lists of the fixed size 0' in made.err
    assert create(tmp_path / "x.arrow", "--type", "x=list<tinyint>").code == 0
