"""Tests quotes, escapes and CQL literals in CSV."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turbocql
from turbocql._files import lines, quotes
from turbocql._files.source import open_source
from turbocql.errors import ConfigError, EncodeError

from .conftest import Command, Table

Write = Callable[[str, str | bytes], Path]
TYPES = {"id": "int", "t": "text"}


def read(path: Path, types: dict[str, str] = TYPES, **options: Any) -> list[Any]:
    """Returns the last cell of each row."""
    found = open_source(path, types=types, csv=options or None)
    name = found.names[-1]
    return [cell for _, batch in found.batches() for cell in batch.column(name).to_pylist()]


@pytest.fixture(params=["numpy", "without numpy"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "numpy":
        monkeypatch.setattr(quotes, "_numpy", lambda: None)


WRONG = ['"a"b', '"say \\"hi\\""', '"a,\\"b\\""', '""x', '"a"""b"c', '"a,"b', '"a" ', '"a\nb"c']


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("block", [60, 512 << 10])
@pytest.mark.parametrize("raw", WRONG)
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_text_after_a_closing_quote_is_an_error(
    write: Write, monkeypatch: pytest.MonkeyPatch, raw: str, suffix: str, block: int
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", block)
    rows = "".join(f'{number},"x ""y"" ,\n"\r\n' for number in range(30))
    text = f"id,t\r\n{rows}7,{raw}\r\n8,x\r\n".encode()
    path = write(f"e.{suffix}", gzip.compress(text) if suffix.endswith("gz") else text)
    with pytest.raises(EncodeError, match="after the closing quote") as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "line 62:" in str(caught.value)
    assert "escape" in str(caught.value)


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", "\t", "|"])
def test_valid_quotes_are_read(write: Write, end: str, delimiter: str, monkeypatch: Any) -> None:
    rng = random.Random(7)
    cells = ["", '"', 'a"b', '""', delimiter, "\n", "\r\n", f'"{delimiter}"', "\\", '\\"', "\u20ac"]
    cells += ["".join(rng.choices(f'ab"{delimiter}\n\\', k=9)) for _ in range(200)]
    text = f"id{delimiter}t{end}"
    for number, cell in enumerate(cells):
        doubled = cell.replace('"', '""')
        text += f'{number}{delimiter}"{doubled}"{end}'
        # In a cell that does not begin with a quote, a quote is an ordinary character.
        text += f'{number}{delimiter}5" {end}'
    path = write("r.csv", b"\xef\xbb\xbf" + text.encode())
    for block in (60, 61, 97, 1 << 20):
        monkeypatch.setattr(lines, "_BLOCK", block)
        found = read(path, delimiter=delimiter)
        assert found[0::2] == cells
        assert set(found[1::2]) == {'5" '}


def test_a_header_is_checked_and_may_end_the_file(write: Write) -> None:
    with pytest.raises(EncodeError, match="line 1"):
        read(write("h.csv", 'id,"t"x\n1,a\n'))
    assert read(write("h.csv", "id,t")) == []
    with pytest.raises(EncodeError, match="within quotes"):
        read(write("h.csv", 'id,t\n1,"a""'))


TEXTS = [
    *('a"b', 'a,"b"', 'say "hi"', "C:\\temp", "a\\,b", "x\ny", "\\", 'a\\"b', "x\\", '\r\n"\\'),
    *("plain", '"', '\\"', "\u20ac\\", "\\N"),
]


def as_cqlsh(text: str) -> str:
    """Returns a row as `COPY TO` of cqlsh writes it. cqlsh uses Python's csv module."""
    made = io.StringIO(newline="")
    csv.writer(made, doublequote=False, escapechar="\\", lineterminator="\n").writerow([1, text])
    return made.getvalue().removesuffix("\n")


def as_dsbulk(text: str) -> str:
    """Returns a row as dsbulk writes it, with escapes only in quoted cells."""
    if not any(it in text for it in ',"\n\r'):
        return f"1,{text}"
    doubled = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'1,"{doubled}"'


def as_others(text: str) -> str:
    """Returns a row in the form of tools that escape only quotes."""
    quoted = text.replace('"', '\\"')
    return f'1,"{quoted}"'


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("writer", [as_cqlsh, as_dsbulk])
@pytest.mark.parametrize("block", [60, 67, 512 << 10])
def test_escapes_are_read_as_they_were_written(
    write: Write, monkeypatch: pytest.MonkeyPatch, writer: Callable[[str], str], block: int
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", block)
    path = write("e.csv", "id,t\n" + "".join(f"{writer(text)}\n" for text in TEXTS * 5))
    assert read(path, escape="\\") == TEXTS * 5


def test_an_escape_character_that_is_not_escaped_stays(write: Write) -> None:
    texts = ['C:\\temp "x"', "a\\b", "\\\\server\\share"]
    path = write("o.csv", "id,t\n" + "".join(f"{as_others(text)}\n" for text in texts))
    assert read(path, escape="\\") == texts
    assert read(write("p.csv", "id,t\n1,C:\\temp\n2,\\N\n"), escape="\\", null="\\N") == [
        "C:\\temp",
        None,
    ]
    assert read(write("p.csv", 'id,t\n1,C:\\temp\n2,"C:\\dir"\n')) == ["C:\\temp", "C:\\dir"]


@pytest.mark.parametrize("escape", ["ab", ",", "\n", "", "\u20ac", 5])
def test_wrong_escape_characters_are_refused(escape: Any, write: Write) -> None:
    with pytest.raises(ConfigError, match="escape"):
        read(write("a.csv", "id,t\n"), escape=escape)


def test_a_bad_cell_of_a_file_with_escapes_has_its_line(write: Write) -> None:
    path = write("l.csv", 'id,t\n1,"a\\"\n,"\nx,b\n')
    with pytest.raises(EncodeError, match=r'line 4, column "id".*\'x\''):
        read(path, escape="\\")


def test_escapes_on_the_command_line(
    session: turbocql.Session, table: Table, command: Command, write: Write
) -> None:
    name = table("id int PRIMARY KEY, t text")
    path = write("c.csv", 'id,t\n1,"say \\"hi\\""\n2,a\\"b\n')
    refused = command("load", path, name)
    assert refused.code
    assert "--escape" in refused.err
    assert session.execute(f"SELECT * FROM {name}").all() == []
    assert command("load", path, name, "--escape", "\\").code == 0
    assert command("verify", path, name, "--escape", "\\").code == 0
    found = session.execute(f"SELECT id, t FROM {name}").all()
    assert sorted(map(tuple, found)) == [(1, 'say "hi"'), (2, 'a"b')]


PLACE = 'shop.place{x int, "Name" text, tags frozen<set<decimal>>}'
UUID = "9f1c5b9e-2a5c-4d5c-8d8f-0a1b2c3d4e5f"


@pytest.mark.parametrize(
    ("cql_type", "literal", "as_json"),
    [
        ("list<text>", "['a', 'b''c']", '["a", "b\'c"]'),
        ("set<text>", "{'a', ''}", '["a", ""]'),
        ("set<int>", "{}", "[]"),
        ("map<text, int>", "{'a': 1, 'b': null}", '{"a": 1, "b": null}'),
        ("map<int, frozen<set<int>>>", "{1: {2, 3}, 4: {}}", "[[1, [2, 3]], [4, []]]"),
        ("tuple<int, text>", "(1, 'a')", '[1, "a"]'),
        ("tuple<int, text>", "(1, None)", "[1, null]"),
        (PLACE, "{x: 1, Name: 'b', tags: {1.50}}", '{"x": 1, "Name": "b", "tags": [1.50]}'),
        (PLACE, '{x: , "Name": null}', "{}"),
        ("list<boolean>", "[True, False]", "[true, false]"),
        ("list<blob>", "[0x00ff]", '["0x00ff"]'),
        ("map<uuid, int>", f"{{{UUID}: 5}}", f'[["{UUID}", 5]]'),
        ("list<timestamp>", "['2020-01-01 00:00:00.000+0000']", '["2020-01-01T00:00:00Z"]'),
        ("list<date>", "[2020-01-01, '2020-01-02']", '["2020-01-01", "2020-01-02"]'),
        ("map<time, duration>", "{08:30:00.000000000: 1h30m}", '[["08:30:00", "1h30m"]]'),
        ("list<inet>", "['::1', 127.0.0.1]", '["::1", "127.0.0.1"]'),
        ("list<double>", "[NaN, 1.5, -Infinity, 'NaN']", '["NaN", 1.5, "-Infinity", "NaN"]'),
        ("list<bigint>", "[9223372036854775807, +5]", "[9223372036854775807, 5]"),
        ("list<decimal>", "[12345678901234567.80]", "[12345678901234567.80]"),
        ("vector<float, 2>", "[1.0, .5]", "[1.0, 0.5]"),
    ],
)
def test_cql_literals_equal_json(write: Write, cql_type: str, literal: str, as_json: str) -> None:
    def value(text: str) -> str:
        doubled = text.replace('"', '""')
        path = write("l.csv", f'id,t\n1,"{doubled}"\n')
        return repr(read(path, {"id": "int", "t": cql_type}))

    assert value(literal) == value(as_json)


@pytest.mark.parametrize(
    ("cql_type", "text", "example"),
    [
        ("list<text>", "['a'", '["a"]'),
        ("list<text>", "['a\\b']", '["a"]'),
        ("list<int>", "['a']", "[1]"),
        ("map<text, int>", "{'a'}", '{"a": 1}'),
        ("map<int, boolean>", "{1: 2}", "[[1, true]]"),
        ("tuple<int, text>", "(1, 'a', 2)", '[1, "a"]'),
        ("vector<float, 2>", "(1, 2)", "[0.5, 0.5]"),
        (PLACE, "{y: 1}", '{"x": 1, "Name": "a", "tags": [1]}'),
        ("set<uuid>", "{a}", f'["{UUID}"]'),
        ("list<text>", "x", '["a"]'),
        ("list<text>", "['a'] x", '["a"]'),
    ],
)
def test_errors_for_other_text_have_an_example(
    write: Write, cql_type: str, text: str, example: str
) -> None:
    path = write("l.csv", f'id,t\n1,"{text}"\n')
    with pytest.raises(EncodeError, match='line 2, column "t"') as caught:
        read(path, {"id": "int", "t": cql_type})
    if "JSON" in str(caught.value):
        assert example in str(caught.value)
        json.loads(example)
    else:
        assert "expected" in str(caught.value)
