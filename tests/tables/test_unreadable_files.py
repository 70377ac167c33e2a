"""Tests that errors of files name the file, the line or row, the column and what to do.

These tests need no server.
"""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nanoarrow as na
import nanoarrow.ipc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from turbocql._files.reader import Selection
from turbocql._files.source import open_source
from turbocql._files.writer import open_sink
from turbocql.errors import ConfigError, EncodeError

Write = Callable[[str, str | bytes], Path]
TYPES = {
    **{"id": "bigint", "t": "text", "a": "ascii", "ti": "tinyint", "i": "int", "d": "double"},
    **{"f": "float", "vi": "varint", "de": "decimal", "bo": "boolean", "dt": "date", "tm": "time"},
    **{"ts": "timestamp", "du": "duration", "l": "list<int>", "tp": "tuple<int, text>"},
}
WORDS_OF_LIBRARIES = (
    *("Arrow", "Python", "codec", "json", "scalar", "C type", "C long", "line 1 column", "(char"),
)
"""Words in messages of pyarrow and Python. Errors about text files must not contain these words."""


def read(path: Path, selection: Selection = Selection(), **options: Any) -> list[Any]:  # noqa: B008
    source = open_source(path, types=TYPES, selection=selection, **options)
    return [row for _, batch in source.batches() for row in batch.to_pylist()]


def refusal(path: Path, **options: Any) -> str:
    """Reads a file, which must raise an error. Returns the message without the path before it."""
    with pytest.raises((EncodeError, ConfigError)) as raised:
        read(path, **options)
    text = str(raised.value)
    assert text.startswith(str(path)), text
    return text.removeprefix(f"{path}: ")


WITHOUT_POINT = (
    ': write it without a point, in pandas after astype("Int64"), or make the column a double'
)
CELLS_OF_CSV = {
    ("ti", "300"): "a whole number from -128 to 127 for tinyint",
    ("i", "5.0"): "a whole number from -2147483648 to 2147483647 for int",
    ("d", "1e400"): "a number from -1.8e308 to 1.8e308 for double",
    ("d", "x"): "a number from -1.8e308 to 1.8e308 for double",
    ("f", "1e39"): "a number from -3.4e38 to 3.4e38 for float",
    ("bo", "yes"): "true or false",
    ("dt", "2020-02-30"): "a date as YYYY-MM-DD: day is out of range for month",
    ("dt", "99999999-01-01"): "a date from -5877641-06-23 to +5881580-07-11",
    ("tm", "25:00"): "a time as HH:MM:SS.nnnnnnnnn: hour must be in 0..23",
    ("tm", "99999999999999999999ns"): "a time as HH:MM:SS.nnnnnnnnn",
    ("ts", "2020-13-01"): "a timestamp as YYYY-MM-DDTHH:MM:SS.mmmZ: month must be in 1..12",
    ("ts", "999999999-01-01"): "a timestamp from the year -292275054 to +292278993",
    ("du", "{bad"): "a duration such as 1mo2d3ns",
    ("du", "99999999999mo"): "a duration such as 1mo2d3ns",
    ("tp", "[1, 2, 3]"): "an array of at most 2 values, or an object with the fields 0, 1",
    ("l", "[1"): "JSON such as [1] for list<int>",
    ("a", "\u00e9"): "ASCII characters",
    ("de", "1,5"): "a decimal number",
    ("vi", "x"): "an integer",
}


@pytest.mark.parametrize(("column", "text"), CELLS_OF_CSV)
def test_cells_of_csv(write: Write, column: str, text: str) -> None:
    said = refusal(write("a.csv", f'id,{column}\n1,\n2,"{text}"\n'))
    assert said.startswith(f'line 3, column "{column}": expected {CELLS_OF_CSV[column, text]}')
    advice = WITHOUT_POINT if text == "5.0" else ""
    assert said.endswith(f"; got {text!r}{advice}")
    assert not [word for word in WORDS_OF_LIBRARIES if word in said.partition(" for list")[0]]


CELLS_OF_JSON = {
    ("i", "5.0"): "a whole number for int, got a number with a point or an exponent; got 5.0",
    ("i", "9" * 5000): "a whole number from -2147483648 to 2147483647 for int",
    ("ti", "300"): "a whole number from -128 to 127 for tinyint; got 300",
    ("d", "1e400"): "a number from -1.8e308 to 1.8e308 for double; got '1e400'",
    ("d", "1" + "0" * 400): "a number from -1.8e308 to 1.8e308 for double",
    ("ts", "99999999999999999999"): "milliseconds since 1970 of 64 bits, or a timestamp as text",
    ("du", '{"months": 99999999999, "days": 0, "nanoseconds": 0}'): "months as a whole number of",
    ("t", '"\\ud800"'): "Unicode text, got one with half of a surrogate pair",
    ("a", '"\\ud800"'): "Unicode text, got one with half of a surrogate pair",
    ("t", "5"): "text, got a number; got 5",
    ("bo", '"yes"'): "true or false",
}


@pytest.mark.parametrize(("column", "text"), CELLS_OF_JSON, ids=lambda text: text[:20])
def test_cells_of_json(write: Write, column: str, text: str) -> None:
    said = refusal(
        write("a.jsonl", f'{{"id": 1}}\n\n{{"id": 2, "{column}": {text}}}\n'), names=["id", column]
    )
    assert said.startswith(f'line 3, column "{column}": expected {CELLS_OF_JSON[column, text]}')
    assert not [word for word in WORDS_OF_LIBRARIES if word in said]


LINES_OF_JSON = {
    "{": "'{', which has no end in this line: write each object in one line, as jq -c . does",
    '{"id": 1,': "which has no end in this line: write each object in one line",
    "{bad": "got '{bad': expecting property name enclosed in double quotes at character 2",
    '{"id": 1}, {"id": 2}': """got ', {"id": 2}' after the object""",
    "5": "got 5",
    "[1]": "got [1]",
    '{"id": 1, "id": 2}': "an object has two values for 'id'",
    '{"id": ' + "[" * 50_000: "it is nested too deeply",
    b'{"t": "\xf6"}': "expected UTF-8, got the byte 0xf6 at byte 8: convert the file to UTF-8",
}


@pytest.mark.parametrize("line", LINES_OF_JSON, ids=lambda text: repr(text)[:20])
def test_lines_of_json(write: Write, line: str | bytes) -> None:
    content = line if isinstance(line, bytes) else line.encode()
    said = refusal(write("a.jsonl", b'\n{"id": 0}\n' + content + b"\n"))
    assert said.startswith("line 3: expected "), said
    assert LINES_OF_JSON[line] in said
    assert not [word for word in WORDS_OF_LIBRARIES if word in said]


def test_arrays_of_json(write: Write) -> None:
    for content in ('[{"id": 1}]', '\n\n[\n{"id": 1}]\n'):
        said = refusal(write("a.json", content))
        line = 1 + len(content) - len(content.lstrip())
        assert said.startswith(f"line {line}: expected an object in each line, got an array: write")
        assert "jq -c '.[]'" in said


def test_names_of_json_with_half_a_pair_of_surrogates(write: Write) -> None:
    path = write("a.jsonl", '{"id": 1, "\\ud800": 5}\n')
    assert (
        refusal(path)
        == "the name '\\ud800' has half of a surrogate pair, which UTF-8 cannot encode"
    )
    assert read(path, Selection(lambda name: name == "id")) == [{"id": 1}]


CSV = {
    "id,t\n1,a\n2,b,c\n": (
        "line 3: expected 2 cells, got 3: '2,b,c'. A cell with a delimiter in it is written in"
        " quotes"
    ),
    'id,t\n1,"a\nb"\n2\n': (
        "line 4: expected 2 cells, got 1: '2'. A delimiter other than a comma is an option,"
        ' csv={"delimiter": ";"}'
    ),
    "\n\n": "expected the names of the columns in the first line, got blank lines only",
    "id,\u00e9\n".encode("latin-1"): (
        "a name of a column: expected UTF-8, got the byte 0xe9 at byte 1: convert the file to UTF-8"
    ),
    "id,t\n1,\u00e9\n".encode("latin-1"): 'line 2, column "t": expected UTF-8: convert the file',
}


@pytest.mark.parametrize("content", CSV, ids=lambda text: repr(text)[:20])
def test_lines_of_csv(write: Write, content: str | bytes) -> None:
    assert refusal(write("a.csv", content)).startswith(CSV[content])


def test_a_row_of_a_later_block_has_its_line(write: Write) -> None:
    rows = "".join(f"{number},{'x' * 50}\n" for number in range(40_000))
    said = refusal(write("a.csv", f"id,t\n{rows}7,a,b\n"))
    assert said.startswith("line 40002: expected 2 cells, got 3: '7,a,b'")


OTHER_FORMATS = {
    "UTF-16": ("id,t\n1,a\n".encode("utf-16"), "iconv -f UTF-16"),
    "UTF-16LE": ("id,t\n1,a\n".encode("utf-16-le"), "iconv -f UTF-16LE"),
    "UTF-32": ("id,t\n1,a\n".encode("utf-32"), "iconv -f UTF-32"),
    "Parquet": (b"PAR1" + bytes(20), 'pass format="parquet"'),
    "IPC": (b"ARROW1\0\0", 'pass format="arrow"'),
    "ZIP": (b"PK\x03\x04" + bytes(20), "a ZIP archive, such as a workbook of Excel"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(20), "decompress it first"),
    "bzip2": (bz2.compress(b"id\n1\n"), "decompress it first"),
}


@pytest.mark.parametrize("name", OTHER_FORMATS)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "csv.gz"])
def test_text_files_of_other_formats(write: Write, name: str, suffix: str) -> None:
    content, expected = OTHER_FORMATS[name]
    content = gzip.compress(content) if suffix == "csv.gz" else content
    said = refusal(write(f"a.{suffix}", content))
    assert said.startswith(f"expected {'JSON lines' if suffix == 'jsonl' else 'CSV'}")
    assert expected in said


def test_damaged_compression(write: Write) -> None:
    good = gzip.compress(os.urandom(50_000).hex().encode())
    for content in (good[:-50], good[:-8] + bytes(8), good[:100]):
        said = refusal(write("a.csv.gz", content))
        assert said.startswith("the compressed data was cut off, or is damaged"), said


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv.zst", "decompress the file first"),
        ("a.csv.bz2", "decompress the file first"),
        ("a.xlsx", "pass format=, one of parquet, csv, jsonl, arrow"),
    ],
)
def test_suffixes(write: Write, name: str, expected: str) -> None:
    assert expected in refusal(write(name, "id\n1\n"))


def test_files_that_are_not_regular(tmp_path: Path) -> None:
    pipe = tmp_path / "a.csv"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"a\.csv is no regular file"):
        read(pipe)
    with pytest.raises(ConfigError, match=r"a\.csv is no regular file"):
        open_sink(pipe, schema=pa.schema([("id", pa.int64())]), overwrite=True)
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("path", "error"), [("a\0b.csv", ConfigError), (b"a.csv", TypeError), (5, TypeError)]
)
def test_invalid_paths_are_refused(path: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="path"):
        open_sink(path, schema=pa.schema([("id", pa.int64())]))


@pytest.mark.parametrize("csv", [5, {"names": 5}, {"names": "id"}, {"names": [5]}])
def test_invalid_options_of_csv_are_refused(write: Write, csv: Any) -> None:
    with pytest.raises(ConfigError, match=r"^(csv|names) must be a "):
        read(write("a.csv", "1\n"), csv=csv)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError) as raised,
        open_sink(tmp_path / "no" / "a.csv", schema=pa.schema([("id", pa.int64())])) as sink,
    ):
        sink.write(pa.record_batch({"id": [1]}))
    assert raised.value.filename == str(tmp_path / "no")


def only(*names: str) -> Selection:
    return Selection(lambda name: name in names)


def test_a_damaged_column_of_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [os.urandom(8).hex() for _ in range(2000)]
    data = pa.table({"id": range(2000), "t": texts, "d": [number / 8 for number in range(2000)]})
    pq.write_table(data, path, row_group_size=500, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(2).column(1)
    begin = (chunk.dictionary_page_offset or chunk.data_page_offset) + 60
    content[begin : begin + 20] = os.urandom(20)
    path.write_bytes(content)
    said = refusal(path)
    assert said.startswith('column "t", rows 1000 to 1499 (the first row is 0): cannot be read: ')
    rows = read(path, only("id", "d"))
    assert rows == data.select(["id", "d"]).to_pylist()
    path.write_bytes(content[:1000])
    assert refusal(path).startswith("expected a Parquet file, complete and undamaged: ")


def invalid_date() -> Any:
    return pa.Array.from_buffers(pa.date64(), 2, [None, pa.py_buffer(struct.pack("<qq", 0, 5))])


def invalid_decimal() -> Any:
    cells = (5).to_bytes(16, "little") + (10**6).to_bytes(16, "little")
    return pa.Array.from_buffers(pa.decimal128(3, 0), 2, [None, pa.py_buffer(cells)])


@pytest.mark.parametrize("values", [invalid_date, invalid_decimal])
def test_invalid_values_of_arrow_name_their_column(
    tmp_path: Path, values: Callable[[], Any]
) -> None:
    path = tmp_path / "a.arrow"
    good = pa.record_batch({"id": [1, 2, 3], "t": pa.nulls(3, values().type)})
    bad = pa.record_batch({"id": [4, 5], "t": values()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, bad.schema) as writer:
        writer.write_batch(good)
        writer.write_batch(bad)
    said = refusal(path)
    assert said.startswith('column "t", row 4 (the first is 0): expected valid data of Arrow: ')
    assert [row["id"] for row in read(path, only("id"))] == [1, 2, 3, 4, 5]


def test_types_that_pyarrow_lacks_name_their_column(tmp_path: Path) -> None:
    path = tmp_path / "a.arrows"
    kind = na.c_schema(na.struct({"id": na.int64(), "t": na.interval_months()}))
    children = [na.c_array([1, 2], na.int64()), na.c_array([1, 2], na.interval_months())]
    batch = na.c_array_from_buffers(kind, 2, [None], children=children)
    with nanoarrow.ipc.StreamWriter.from_path(str(path)) as writer:
        writer.write_stream(na.c_array_stream(batch))
    assert refusal(path).startswith('column "t" has a type that pyarrow does not read')
    assert read(path, only("id")) == [{"id": 1}, {"id": 2}]


def test_unwanted_columns_of_text_files_do_not_matter(write: Write) -> None:
    for name, content in {
        "a.csv": b"id,i,x\n1,no,\xff\n",
        "a.jsonl": b'{"id": 1, "i": "no", "x": "\\ud800", "\\ud800": 5}\n',
    }.items():
        ((row),) = read(write(name, content), only("id"))
        assert row["id"] == 1


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_write_times_and_ttls_of_a_column(write: Write, form: str) -> None:
    cells = ["100", '"2020-01-01T00:00:00Z"', '"2020-01-01T00:00:00.000001Z"', '"abc"', "7"]
    text = "id,w\n" + "".join(f"1,{cell}\n" for cell in cells)
    if form == "jsonl":
        text = "".join(f'{{"id": 1, "w": {cell}}}\n' for cell in cells)
    path = write(f"a.{form}", text)
    refused: dict[int, str] = {}
    source = open_source(path, types=TYPES, selection=Selection(write_time="w"))
    ((_, batch),) = source.batches(
        on_unreadable=lambda row, error, raw: refused.update({row: str(error)})
    )
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    assert batch.column("w").cast(pa.int64()).to_pylist() == [
        *(100, 1000 * round(moment.timestamp() * 1000)),
        *(1000 * round(moment.timestamp() * 1000) + 1, None, 7),
    ]
    line = 5 if form == "csv" else 4
    assert list(refused) == [3]
    assert f'line {line}, column "w": expected a write time as whole microseconds' in refused[3]
    refused.clear()
    source = open_source(path, types=TYPES, selection=Selection(ttl="w"))
    list(source.batches(on_unreadable=lambda row, error, raw: refused.update({row: str(error)})))
    assert sorted(refused) == [1, 2, 3]


def test_values_that_have_no_type_in_common_fail_alone(write: Write) -> None:
    refused: list[int] = []
    path = write("a.csv", "id,w\n1,2020-01-01T00:00:00.000000001Z\n2,9223372036854775807\n3,\n")
    source = open_source(path, types=TYPES, selection=Selection(write_time="w"))
    list(source.batches(on_unreadable=lambda row, error, raw: refused.append(row)))
    assert refused == [0, 1]


@pytest.mark.parametrize("text", ["id,t\n1,a\n", "id,t;" * 100, "1,a\n" * 1_000_000])
def test_a_text_in_place_of_a_path(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_source(text, types=TYPES)
    assert str(caught.value) == (
        f"a str is the path of a file, and there is no file for this one of {len(text):,}"
        " characters: to load a text, write it to a file first, or pass a DataFrame"
    )
