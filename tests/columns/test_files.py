"""Writes, reads and damages files of Parquet, Arrow IPC, CSV and JSON lines.

These tests need no server.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import struct
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from turbocql._files import lines as line_readers
from turbocql._files.from_text import type_of
from turbocql._files.json_values import column_of
from turbocql._files.number_lists import numbers_of, texts_of
from turbocql._files.source import Source, open_source
from turbocql._files.writer import open_sink
from turbocql._transfer.load import Load
from turbocql.codec import CqlType
from turbocql.errors import ConfigError, EncodeError

SEED = 20_261_123
NAN, INFINITE = float("nan"), float("inf")
KEY, OTHER = b"\x9f\x1c" * 8, bytes(16)
PLACE = 'frozen<shop.place{x int, "Name" text, tags frozen<set<decimal>>}>'
VALUES: dict[str, list[Any]] = {
    "ascii": ["a", ""],
    "text": ["\u20ac\U0001f600", "", 'a"b', "a,b", "a\nb\r\n", "null", "NaN", " ", "\0", '"'],
    "tinyint": [-128, 127],
    "smallint": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "counter": [2**53 + 1],
    "varint": ["0", "-1", str(2**200), "9" * 5000],
    "float": [1.5, INFINITE, -0.0, NAN, 2.0**-149, 3.4028234663852886e38],
    "double": [0.1, -INFINITE, NAN, 5e-324, 1.7976931348623157e308, -0.0],
    "decimal": ["1.50", "-1E+30", "0E-8", "1" + "0" * 60, "1E+2147483647"],
    "boolean": [True, False],
    "blob": [b"\0\xff", b""],
    "uuid": [KEY, OTHER],
    "timeuuid": [uuid.UUID("d2177dd0-eaa2-11de-a572-001b779c76e3").bytes],
    "inet": ["127.0.0.1", "::1"],
    "date": [0, -719_162, 2_932_896, -(2**31), 2**31 - 1, -719_528, -719_529],
    "time": [0, 86_399_999_999_999, 1, -5, 2**63 - 1],
    "timestamp": [0, -1, 253_402_300_799_999, -(2**63), 2**63 - 1, -62_135_596_800_001],
    "duration": [(1, 2, 3), (-1, 0, -5), (0, 0, 0), (2**31 - 1, 2**31 - 1, 2**63 - 1), (1, -1, 0)],
    "list<int>": [[1, 2, 3], [], [None, 4]],
    "set<text>": [["a", ""], [None, "NaN"]],
    "map<text, double>": [[("a", 0.5), ("", NAN)], [], [("a", 1.0), ("a", None)]],
    "map<int, frozen<list<text>>>": [[(1, ["x", None]), (-5, None)], []],
    "frozen<map<uuid, frozen<map<text, time>>>>": [[(KEY, [("a", 5)])], []],
    "map<timestamp, date>": [[(2**62, 2**31 - 1)], [(0, None)]],
    "tuple<int, text>": [(1, "a"), (None, None), (5, None)],
    "tuple<frozen<tuple<blob, duration>>, varint>": [
        ((b"", (1, 0, 0)), "7"),
        (None, "-" + "8" * 5000),
    ],
    PLACE: [(1, "a", ["1.50"]), (None, "", None), (2, None, [])],
    "vector<float, 3>": [[0.5, 1.0, -2.0], [NAN, INFINITE, 0.1]],
    "vector<text, 2>": [["a", "\u20ac"], ["", ""]],
    "vector<vector<double, 2>, 2>": [[[1.0, 2.0], [3.0, 4.0]]],
    "list<frozen<tuple<boolean, inet, smallint>>>": [[(True, "::1", 3), None], []],
    "'org.example.Own'": [b"\1", b""],
}
COUNTED = {"n": "int", "t": "text"}
NAMES = {f"c {number}": cql_type for number, cql_type in enumerate(VALUES)}


def stored(cql_type: CqlType, values: list[Any]) -> Any:
    """Returns an Arrow array of values. The values have the same form as in `VALUES`."""
    while cql_type.kind == "frozen":
        cql_type = cql_type.subtypes[0]
    kind, parts = cql_type.kind, cql_type.subtypes
    of = type_of(cql_type)
    if kind in ("list", "set", "map"):
        offsets: list[int | None] = []
        flat: list[Any] = []
        for value in values:
            offsets.append(None if value is None else len(flat))
            flat += value or []
        ends = pa.array([*offsets, len(flat)], pa.int32())
        if kind != "map":
            return pa.ListArray.from_arrays(ends, stored(parts[0], flat))
        columns = [stored(part, [row[at] for row in flat]) for at, part in enumerate(parts)]
        return pa.MapArray.from_arrays(ends, *columns)
    if kind == "vector":
        size = cql_type.dimension or 0
        flat = [item for value in values for item in (value or [None] * size)]
        mask = pa.array([value is None for value in values])
        return pa.FixedSizeListArray.from_arrays(stored(parts[0], flat), size, mask=mask)
    if kind in ("tuple", "udt"):
        mask = pa.array([value is None for value in values], pa.bool_())
        columns = [
            stored(part, [None if value is None else value[at] for value in values])
            for at, part in enumerate(parts)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(of), mask=mask)
    if kind == "duration":
        names = ("months", "days", "nanoseconds")
        rows = [None if value is None else dict(zip(names, value, strict=True)) for value in values]
        return pa.array(rows, of)
    if kind in ("uuid", "timeuuid"):
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
    if kind in ("date", "time", "timestamp"):
        return pa.array(values, pa.int32() if kind == "date" else pa.int64()).cast(of)
    return pa.array(values, of)


def every(rows: int = 23) -> Any:
    """Returns a batch with a column for each type in `VALUES`. The columns have nulls."""
    columns, fields = [], []
    for name, text in NAMES.items():
        values = [None if n % 5 == 4 else VALUES[text][n % len(VALUES[text])] for n in range(rows)]
        column = stored(CqlType(text), values)
        columns.append(column)
        metadata = {"cql_type": str(CqlType(text))}
        fields.append(pa.field(name, column.type, metadata=metadata))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def same(left: Any, right: Any) -> bool:
    """Returns whether two arrays have the same type and equal cells.

    NaN equals NaN, and 0.0 does not equal -0.0.
    """
    return left.type == right.type and bare(left) == bare(right)


def bare(array: Any) -> list[Any]:
    """Returns the cells of an array in a comparable form.

    Dates and times become numbers, because Python's classes cannot hold all of them.
    """
    is_, of, valid = pa.types, array.type, array.is_valid().to_pylist()
    if isinstance(array, pa.ExtensionArray):
        return bare(array.storage)
    if is_.is_map(of) or is_.is_list(of):
        ends = array.offsets.to_pylist()
        if is_.is_map(of):
            flat = list(zip(bare(array.keys), bare(array.items), strict=True))
        else:
            flat = bare(array.values)
        return [flat[ends[n] : ends[n + 1]] if it else None for n, it in enumerate(valid)]
    if is_.is_fixed_size_list(of):
        rest = iter(bare(array.flatten()))
        return [
            [next(rest) for _ in range(of.list_size)] if is_valid else None for is_valid in valid
        ]
    if is_.is_struct(of):
        rows = zip(*(bare(column) for column in array.flatten()), strict=True)
        return [row if it else None for it, row in zip(valid, rows, strict=True)]
    if is_.is_date(of):
        return list(array.cast(pa.int32()).to_pylist())
    if is_.is_time(of) or is_.is_timestamp(of):
        return list(array.cast(pa.int64()).to_pylist())
    return list(map(repr, array.to_pylist())) if is_.is_floating(of) else list(array.to_pylist())


def expect(
    error: type[BaseException] | tuple[type[BaseException], ...],
    work: Callable[[], Any],
    *parts: str,
) -> None:
    try:
        work()
    except error as raised:
        text = str(raised)
        assert all(part in text for part in parts), (text, parts)
        return
    raise AssertionError(f"no {error}, {parts}")


def written(path: Path, batch: Any, parts: int = 1, **options: Any) -> Path:
    """Writes the rows of a batch to a file in at most `parts` slices. Returns the file's path."""
    with open_sink(path, schema=batch.schema, **options) as sink:
        step = -(-batch.num_rows // parts) or 1
        for begin in range(0, batch.num_rows, step):
            sink.write(batch.slice(begin, step))
    return path


def opened(path: Path, types: dict[str, str] = COUNTED) -> Any:
    """Returns a pair for each batch of a file: the number of its first row, and the batch."""
    return read(open_source(path, types=types))


def read(source: Source, skip: Callable[[int, int], bool] | None = None) -> Any:
    """Returns a pair for each batch of a source: the number of its first row, and the batch.

    If `skip` is None, also checks the row numbers.
    """
    found = list(source.batches(skip))
    if skip is None:
        expected = 0
        for first, batch in found:
            assert first == expected, (first, expected)
            expected += batch.num_rows
    return found


def numbers(source: Source, skip: Callable[[int, int], bool] | None = None) -> dict[int, int]:
    """Maps each row number to the value of column `n` in that row."""
    made: dict[int, int] = {}
    for first, batch in source.batches(skip):
        made.update(enumerate(batch.column("n").to_pylist(), first))
    return made


def counted(first: int, count: int) -> Any:
    values = range(first, first + count)
    return pa.record_batch({"n": pa.array(values, pa.int32()), "t": [f"row {n}" for n in values]})


def test_each_type_is_written_and_read_back(tmp_path: Path) -> None:
    batch = every()
    for name in ("a.parquet", "a.arrow", "a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.gz"):
        path = written(tmp_path / name, batch, 3)
        source = open_source(path, types=NAMES, rename={})
        assert source.names == list(NAMES)
        found = pa.Table.from_batches([it for _, it in read(source)]).combine_chunks()
        for column, cql_type in NAMES.items():
            got, expected = found.column(column).combine_chunks(), batch.column(column)
            got = got.chunk(0) if isinstance(got, pa.ChunkedArray) else got
            assert same(got, expected), (name, cql_type, bare(got), bare(expected))
        if name.endswith((".parquet", ".arrow")):
            assert [field.metadata for field in found.schema] == [
                field.metadata for field in batch.schema
            ]
        assert source.position()[0] == source.position()[1] == path.stat().st_size


def test_empty_and_single_columns(tmp_path: Path) -> None:
    for name in ("b.parquet", "b.arrow", "b.csv"):
        path = written(tmp_path / name, counted(0, 0))
        source = open_source(path, types=COUNTED)
        assert source.names == ["n", "t"], name
        assert not read(source), name
    only = pa.record_batch({"t": pa.array([None, "", "a", None, None])})
    for name in ("c.parquet", "c.arrow", "c.csv", "c.jsonl"):
        source = open_source(written(tmp_path / name, only), types={"t": "text"})
        assert read(source)[0][1].column("t").to_pylist() == [None, "", "a", None, None], name


def test_several_files(tmp_path: Path) -> None:
    for kind in ("parquet", "arrow", "csv", "jsonl"):
        place = tmp_path / f"many {kind}"
        batch = counted(0, 1000)
        sink = open_sink(f"{place}/", format=kind, schema=batch.schema, max_file_rows=300)
        sink.write(batch)
        assert not [name for name in os.listdir(place) if name.startswith("part")]
        assert [path.name[:10] for path in sink.close()] == [f"part-{n:05d}" for n in range(4)]
        whole = {n: n for n in range(1000)}
        suffix = os.listdir(place)[0].partition(".")[2]
        for paths in (place, f"{place}/*.{suffix}", f"{tmp_path}/**/part-*.{suffix}"):
            source = open_source(paths, types=COUNTED)
            assert len(source.files) == 4
            assert numbers(source) == whole == numbers(source)
        half = open_source(sorted(place.iterdir())[2:], types=COUNTED)
        assert numbers(half) == {n - 600: n for n in whole if n >= 600}
        again = partial(open_sink, place, format=kind, schema=batch.schema)
        expect(ConfigError, again, "already")
        with open_sink(place, format=kind, schema=batch.schema, overwrite=True, files=2) as sink:
            for begin in range(0, 1000, 100):
                sink.write(batch.slice(begin, 100))
        assert len(os.listdir(place)) == 2
        assert sorted(numbers(open_source(place, types=COUNTED)).values()) == list(range(1000))
        other = batch.rename_columns(["n", "x"])
        written(place / f"z.{suffix}", other)
        expect(EncodeError, partial(opened, place), "z.", "'x'")


def test_names_of_files(tmp_path: Path) -> None:
    expect(ConfigError, lambda: open_source(tmp_path / "none*.csv", types={}), "none*.csv")
    expect(ConfigError, lambda: open_source("", types={}), "a path must not be empty")
    expect(FileNotFoundError, lambda: open_source(tmp_path / "none.csv", types={}), "none.csv")
    url = "s3://bucket/none.csv"
    expect(ConfigError, lambda: open_source(url, types={}), "this machine only, got a URL: pass a")
    (tmp_path / "x.csv").touch()
    expect(ConfigError, lambda: open_source(tmp_path / "x.csv", types={}), "x.csv", "empty")
    (tmp_path / "x.txt").write_text("n\n1\n")
    expect(ConfigError, lambda: open_source(tmp_path / "x.txt", types={}), "x.txt", "format")
    assert numbers(open_source(tmp_path / "x.txt", format="csv", types=COUNTED)) == {0: 1}
    (tmp_path / "a[1].csv").write_text("n\n7\n")
    assert numbers(open_source(tmp_path / "a[1].csv", types=COUNTED)) == {0: 7}
    (tmp_path / "old").mkdir()
    expect(ConfigError, lambda: open_source(tmp_path / "old", types={}), "no files")
    renamed = open_source(tmp_path / "a[1].csv", types={"id": "tinyint"}, rename={"n": "id"})
    assert read(renamed)[0][1].column("n").type == pa.int8()


def test_skipped_blocks_do_not_change_row_numbers(tmp_path: Path) -> None:
    batch = counted(0, 200_000)
    for name in ("s.parquet", "s.arrow", "s.csv", "s.jsonl.gz"):
        path = written(tmp_path / name, batch, rows_per_group=30_000)
        source = open_source([path], types=COUNTED)
        asked: list[tuple[int, int]] = []

        def skip(first: int, count: int, asked: list[tuple[int, int]] = asked) -> bool:
            asked.append((first, count))
            return first < 100_000 and first + count <= 120_000

        found = numbers(source, skip)
        assert all(row == value for row, value in found.items())
        assert set(range(120_000, 200_000)) <= found.keys(), name
        assert 0 not in found, name
        first_asked, asked[:] = list(asked), []

        def asks(first: int, count: int, skip: Callable[[int, int], bool] = skip) -> bool:
            skip(first, count)
            return False

        numbers(source, asks)
        assert {first for first, _ in first_asked} <= {first for first, _ in asked}


def test_small_blocks(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    texts = [
        "".join(rng.choice('ab,"\n\r\u20ac') for _ in range(rng.randint(0, 40))) for _ in range(900)
    ]
    texts[500] = "x\n" * 9000
    batch = pa.record_batch({"n": pa.array(range(900), pa.int32()), "t": texts})
    readers: Any = line_readers
    block, rows = readers._BLOCK, readers.MAX_BATCH_ROWS
    try:
        for name in ("t.csv", "t.csv.gz", "t.jsonl", "t.jsonl.gz"):
            path = written(tmp_path / name, batch)
            for size in (100, 101, 333, 1000):
                readers._BLOCK, readers.MAX_BATCH_ROWS = size, 7
                found = read(open_source(path, types=COUNTED))
                assert len(found) > 3
                got = [cell for _, part in found for cell in part.column("t").to_pylist()]
                assert got == texts, (name, size)
    finally:
        readers._BLOCK, readers.MAX_BATCH_ROWS = block, rows
    wide = pa.record_batch({"t": ["y" * 100_000] * 1000})
    for name in ("w.parquet", "w.arrow"):
        source = open_source(written(tmp_path / name, wide), types=COUNTED)
        parts = [part.num_rows for _, part in read(source)]
        assert max(parts) < 400, (name, parts)
        assert sum(parts) == 1000, (name, parts)


def test_forms_of_values_in_text_files(tmp_path: Path) -> None:
    def column(cql_type: str, *cells: str) -> Any:
        path = tmp_path / "forms.csv"
        path.write_text("c\n" + "".join(f"{cell}\n" for cell in cells))
        return read(open_source(path, types={"c": cql_type}))[0][1].column("c")

    utc = pa.timestamp("ms", "UTC")
    day = 1_577_836_800_000
    got = column("timestamp", "2020-01-01", "2020-01-01 01:00", "2020-01-01T02:00:00+02:00")
    assert got.type == utc
    assert got.cast(pa.int64()).to_pylist() == [day, day + 3_600_000, day]
    finer = column("timestamp", "2020-01-01T00:00:00.000001Z", "2020-01-01")
    assert finer.type == pa.timestamp("us", "UTC")
    finest = column("timestamp", "2020-01-01T00:00:00.000000001")
    assert finest.type == pa.timestamp("ns", "UTC")
    got = column("timestamp", "+12345-01-01T00:00:00.5+01:00", "2020-01-01T00:00:00Z")
    assert got.cast(pa.int64()).to_pylist()[1] == day
    got = column("duration", "1y2mo3w4d5h6m7s8ms9us10ns", "-1d").to_pylist()
    assert got[0] == {"months": 14, "days": 25, "nanoseconds": 18_367_008_009_010}
    assert got[1] == {"months": 0, "days": -1, "nanoseconds": 0}
    assert (
        column("time", "10:30", "10:30:00.5").cast(pa.int64()).to_pylist()[1] == 37_800_500_000_000
    )
    assert column("boolean", "true", "False", "1").to_pylist() == [True, False, True]
    assert column("map<int, text>", '"{""1"": ""a""}"').to_pylist() == [[(1, "a")]]
    assert column("tuple<int, text>", '"[1]"').to_pylist() == [{"0": 1, "1": None}]
    path = tmp_path / "forms.jsonl"
    path.write_text('{"d": 1.10, "f": 1, "v": 123456789012345678901, "at": 5, "own": [1]}\n')
    types = {"d": "decimal", "f": "float", "v": "varint", "at": "timestamp"}
    batch = read(open_source(path, types=types))[0][1]
    assert batch.column("d").to_pylist() == ["1.10"]
    assert batch.column("f").to_pylist() == [1.0]
    assert batch.column("v").to_pylist() == ["123456789012345678901"]
    assert batch.column("own").to_pylist() == ["[1]"]
    path = tmp_path / "forms.csv"
    path.write_text("1|NULL|\n2|x|5\n")
    options = {"delimiter": "|", "header": False, "null": "NULL", "names": ["n", "t", "ttl"]}
    batch = read(open_source(path, types=COUNTED, csv=options))[0][1]
    assert batch.column("t").to_pylist() == [None, "x"]


def test_the_block_of_a_long_row_grows_to_the_largest_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_readers, "_BLOCK", 1_000)
    monkeypatch.setattr(line_readers, "_MAX_BLOCK", 5_000)
    path = tmp_path / "long.csv"
    path.write_text(f"n,t\n1,{'x' * 4_000}\n")
    batch = read(open_source(path, types=COUNTED))[0][1]
    assert batch.column("t").to_pylist() == ["x" * 4_000]
    path.write_text(f"n,t\n1,{'x' * 12_000}\n")
    expect(EncodeError, lambda: read(open_source(path, types=COUNTED)), "a row is longer than")


def test_the_line_of_a_bad_cell_is_right_after_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mark.csv"
    path.write_text('\ufeff"a\nb",1\nc,x\n')
    options = {"header": False, "names": ["t", "n"]}
    expect(EncodeError, lambda: read(open_source(path, types=COUNTED, csv=options)), "line 3")


BAD_CELLS = {
    "int": ["x", "1.5", "2147483648", "0x10", "1e3"],
    "tinyint": ["128"],
    "float": ["1e40", "x"],
    "double": ["1e400", "1,5"],
    "boolean": ["yes"],
    "blob": ["ff", "0xf", "0xgg", "0x00 00"],
    "uuid": ["9f1c", "9f1c5b9e-2a5c-4d5c-8d8f-0a1b2c3d4e5g"],
    "date": ["2020-02-30", "today", "+9999999-01-01"],
    "time": ["25:00:00", "x"],
    "timestamp": ["2020-13-01", "x", "2020-01-01T00:00:00.0000000001Z", "20200101"],
    "duration": ["", "1x", "1mo-2d", "99999999999mo"],
    "list<int>": ["[1", "{}", "[1.5]", "[300000000000]", '["a"]'],
    "map<text, int>": ["[]x", '{"a": 1, "a": 2}', '[["a"]]', "[[null, 1]]"],
    "vector<float, 2>": ["[1]", "[1, 2, 3]", "[1e40, 0]"],
    PLACE: ['{"y": 1}', "[1]", "1"],
    "tuple<int, text>": ["[1, 2]", '["a"]', '[1, "a", 2]'],
}


WHOLE = ["0", "-1", "127", "-128", "1.0", "32768", "2147483647", str(2**63 - 1), str(2**63)]
FRACTIONS = ["1.5", "-0.0", "-7", "1e5", "1E-3", "1e-50", "0.1", "3.4028235e38", "1e39"]
FRACTIONS += ["01", ".5", "1.", "null", "NaN", '"1"']


def test_lists_of_numbers(tmp_path: Path) -> None:
    """Arrow and the JSON decoder convert the same texts to the same lists."""
    rng, quick = random.Random(7), 0
    for _ in range(4000):
        kind = rng.choice(["float", "double", "tinyint", "smallint", "int", "bigint"])
        outer = rng.choice(["list<{}>", "set<{}>", "vector<{}, 3>", "frozen<list<{}>>"])
        numbers = FRACTIONS if kind in ("float", "double") else WHOLE
        numbers = numbers[: rng.choice([3, 8, len(numbers)])]
        cells: list[str | None] = []
        for _ in range(rng.randint(1, 4)):
            count = 3 if "vector" in outer and rng.random() < 0.9 else rng.randint(0, 4)
            space = rng.choice(["", " ", "\n"])
            inner = f"{space},{space}".join(rng.choice(numbers) for _ in range(count))
            cells.append(None if rng.random() < 0.05 else f"[{space}{inner}{space}]")
        cql_type = CqlType(outer.format(kind))
        found = numbers_of(cql_type, pa.array(cells, pa.string()))
        if found is None:
            continue
        quick += 1
        found.validate(full=True)
        objects = [None if cell is None else json.loads(cell) for cell in cells]
        expected = column_of(cql_type, objects)
        assert found.type == expected.type, (found.type, expected.type)
        assert found.equals(expected), (cells, found, expected)
    assert quick > 1000, quick
    for kind, width in (("float", 32), ("double", 64)):
        bits = [rng.getrandbits(width) for _ in range(30_000)]
        values = [number for number in map(partial(from_bits, kind), bits) if math.isfinite(number)]
        values = values[: len(values) // 3 * 3]
        flat = pa.array(values, pa.float32() if kind == "float" else pa.float64())
        array = pa.FixedSizeListArray.from_arrays(flat, 3)
        texts = texts_of(array)
        # If a number is converted to text and back, it has the same bits as before.
        assert numbers_of(CqlType(f"vector<{kind}, 3>"), texts).equals(array)
        for odd in (-0.0, math.inf, -math.inf, math.nan):
            assert texts_of(pa.array([[1.5, odd]], pa.list_(flat.type))) is None
    texts = texts_of(pa.array([[1], None, [], [-2, 3]], pa.list_(pa.int32())))
    assert texts.to_pylist() == ["[1]", None, "[]", "[-2,3]"]


def from_bits(kind: str, bits: int) -> float:
    form, size = ("<f", 4) if kind == "float" else ("<d", 8)
    number: float = struct.unpack(form, bits.to_bytes(size, "little"))[0]
    return number


def test_bad_cells_are_named(tmp_path: Path) -> None:
    for cql_type, cells in BAD_CELLS.items():
        for cell in cells:
            path, quoted = tmp_path / "bad.csv", cell.replace('"', '""')
            path.write_text(f'c,k\n,"a\nb"\n\n"{quoted}",5\n,\n')
            work = partial(opened, path, {"c": cql_type})
            expect(EncodeError, work, f"{path}: line 5", 'column "c"')
    lines = {
        "int": ["1.5", "true", '"x"', "2147483648", "[1]"],
        "text": ["5", "[]", '"\\ud800"'],
        "double": ["1e400", "true"],
        "boolean": ["1"],
        "timestamp": ["1.5"],
        "map<text, int>": ['{"a": 1, "a": 2}', "[1]"],
    }
    for cql_type, cells in lines.items():
        for cell in cells:
            path = tmp_path / "bad.jsonl"
            path.write_text(f'{{"c": null}}\n\n{{"c": {cell}}}\n{{}}\n')
            work = partial(opened, path, {"c": cql_type})
            expect(EncodeError, work, f"{path}: line 3")
    for line in ('{"c": 1', '{"c": 1}, {"c": 2}', "5", '{"c": 1, "c": 2}', "\ud800"):
        path.write_bytes(b'{"c": 1}\n{"c": 1}\n' + line.encode("utf-8", "surrogatepass") + b"\n")
        expect(EncodeError, partial(opened, path, {"c": "int"}), f"{path}: line 3")
    path.write_text('{"c": 1}\n' * 1_000_000 + '{"d": 1}\n')
    last = f"{path}: line 1000001"
    expect(EncodeError, partial(opened, path, {"c": "int"}), last, "'d'")
    assert len(read(open_source(path, types={"c": "int"}, names=["c", "d"]))) > 3
    path.write_text('[{"c": 1}]')
    expect(EncodeError, lambda: open_source(path, types={}), "array")
    for rows in (b"1,2,3", b"1", b'1,"2', b'1,"2\n3,4\n', b"1,\xff", b'1,"'):
        path = tmp_path / "bad.csv"
        path.write_bytes(b"c,k\n1,x\n2,y\n" + rows)
        expect(EncodeError, partial(opened, path, {"k": "text"}), str(path))
    path.write_bytes(b"c,c\n1,2\n")
    expect(EncodeError, lambda: open_source(path, types={}), str(path), "'c'")
    expect(ConfigError, lambda: read(open_source(path, types={}, csv={"x": 1})), "'x'")
    path.write_text("c\n1\n")
    expect(ConfigError, partial(opened, path, {"c": "frozen<p>"}), '"c"')


def test_damaged_files(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    batch = counted(0, 5000)
    whole = list(range(5000))
    for name in ("d.parquet", "d.arrow", "d.csv.gz", "d.jsonl.gz"):
        path = written(tmp_path / name, batch, rows_per_group=700)
        good = path.read_bytes()
        cuts = [1, 7, len(good) // 2, len(good) - 9, len(good) - 1]
        for cut in cuts:
            path.write_bytes(good[:cut])
            expect((EncodeError, OSError), partial(opened, path), name)
        footer = len(good)
        if name == "d.parquet":
            footer -= 8 + int.from_bytes(good[-8:-4], "little")
        for _ in range(150):
            changed, place = bytearray(good), rng.randrange(len(good))
            changed[place] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            try:
                found = [it.to_pydict() for _, it in opened(path)]
                found = [cell for part in found for cell in part.get("n", ())]
                text = name
            except (EncodeError, OSError, ConfigError) as error:
                found, text = whole, str(error)
            # Arrow IPC files and Parquet's footer have no checksum, so damage may stay unnoticed.
            assert found == whole or name == "d.arrow" or place >= footer, name
            assert name in text, text
    stream = tmp_path / "stream.arrows"
    with open(stream, "wb") as file, pa.ipc.new_stream(file, batch.schema) as out:
        for begin in range(0, 5000, 1000):
            out.write_batch(batch.slice(begin, 1000))
    assert list(numbers(open_source(stream, types=COUNTED))) == whole
    good = stream.read_bytes()
    for cut in (len(good) - 8, len(good) - 4, len(good) - 100):
        stream.write_bytes(good[:cut])
        expect((EncodeError, OSError), lambda: read(open_source(stream, types=COUNTED)), "stream")


def test_existing_and_failing_targets(tmp_path: Path) -> None:
    batch = counted(0, 10)
    for kind in ("parquet", "arrow", "csv", "jsonl"):
        place = tmp_path / f"to {kind}"
        place.mkdir()
        path = written(place / f"a.{kind}", batch)
        before = path.read_bytes()
        expect(ConfigError, partial(written, path, batch), "already", str(path))
        sink = open_sink(path, schema=batch.schema, overwrite=True)
        sink.write(batch)
        assert path.read_bytes() == before
        sink.abort()
        assert os.listdir(place) == [path.name]
        late = open_sink(place / f"b.{kind}", schema=batch.schema)
        late.write(batch)
        written(place / f"b.{kind}", batch)
        expect(ConfigError, late.close, "already")
        assert len(os.listdir(place)) == 2
        try:
            with open_sink(place / f"c.{kind}", schema=batch.schema) as sink:
                sink.write(batch)
                raise KeyError
        except KeyError:
            pass
        other = open_sink(place / f"d.{kind}", schema=batch.schema)
        renamed = batch.rename_columns(["n", "x"])
        expect(EncodeError, partial(other.write, renamed), "schema")
        assert len(os.listdir(place)) == 2, os.listdir(place)
        missing = place / "none" / f"a.{kind}"
        expect(FileNotFoundError, partial(written, missing, batch), "No such directory", "none")


def test_full_disks(tmp_path: Path) -> None:
    for kind in ("parquet", "arrow", "csv", "jsonl", "csv.gz"):
        place = tmp_path / f"full {kind}"
        place.mkdir()
        child = os.fork()
        if not child:
            code = 1
            try:
                import signal

                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
                try:
                    noise = pa.array([os.urandom(1000) for _ in range(500)])
                    batch = pa.record_batch({"b": noise})
                    written(place / f"a.{kind}", batch, 5)
                except OSError as error:
                    code = 0 if str(place) in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, kind
        assert not os.listdir(place), kind


def test_misspelt_formats_and_compressions(tmp_path: Path) -> None:
    batch = counted(0, 10)
    parquet = partial(open_sink, tmp_path / "a.parquet", schema=batch.schema, compression="ztsd")
    expect(ConfigError, parquet, "got 'ztsd'; did you mean 'zstd'?")
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"PK")
    expect(ConfigError, partial(open_source, path, types={}), "one of parquet, csv, jsonl, arrow")


def test_headers_without_columns_of_the_table(tmp_path: Path) -> None:
    table = [("id", "partition_key", "int"), ("t", "regular", "text")]
    for text, hint in (
        ("id;t\n1;a\n", ". If ';' is the delimiter, pass csv={'delimiter': ';'}"),
        ("id\tt\n1\ta\n", ". If '\\t' is the delimiter, pass csv={'delimiter': '\\t'}"),
        ("1,a\n2,b\n", ". If the file has no header, pass csv={'header': False, 'names': [...]}"),
        ("ID,T\n1,a\n", "did you mean 'id'? It has 'id', 't'. Pass rename= or columns="),
        ("id,x\n1,a\n", "has no column 'x'; it has 'id', 't'. Pass rename= or columns="),
    ):
        path = tmp_path / "h.csv"
        path.write_text(text)
        load = Load("k.t", None, {}, shows_values=True)
        columns = load.open(path, table, [])
        assert columns is not None
        with pytest.raises(EncodeError) as caught:
            load.match(columns.names, table)
        assert str(caught.value).endswith(hint)
