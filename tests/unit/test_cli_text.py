"""Tests the command line's functions for text: statements, values, tables and completion."""

from __future__ import annotations

import datetime
import math
import os
import types
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turbocql
from turbocql.cli import _connect
from turbocql.cli._app import root, run
from turbocql.cli._complete import completions
from turbocql.cli._connect import connected_by
from turbocql.cli._console import is_command
from turbocql.cli._create import create_table, describe_existing
from turbocql.cli._ends import escaped
from turbocql.cli._params import name_of, names_of, pairs_of, values_of
from turbocql.cli._show import blocks, literal
from turbocql.cli._split import ends_with_semicolon, statements
from turbocql.codec import CqlType
from turbocql.errors import ConnectError
from turbocql.schema import Table, TableColumn
from turbocql.testing.__main__ import _how_to_connect
from turbocql.types import Duration, Time, Timestamp


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  ;; ", []),
        ("-- nothing\n/* at all; */ // here", []),
        ("SELECT 1", ["SELECT 1"]),
        ("a; b;c", ["a", "b", "c"]),
        ("SELECT ';' FROM \"a;b\"; x", ["SELECT ';' FROM \"a;b\"", "x"]),
        ("a 'it''s; b'; c", ["a 'it''s; b'", "c"]),
        ("CREATE FUNCTION f() AS $$ a; b; $$; c", ["CREATE FUNCTION f() AS $$ a; b; $$", "c"]),
        ("-- one;\na -- two;\n; b", ["a", "b"]),
        ("a -- b;\n c -- d", ["a -- b;\n c"]),
        ("a /* b */; // c", ["a"]),
        (
            "BEGIN UNLOGGED BATCH INSERT a; UPDATE b; APPLY BATCH; c",
            ["BEGIN UNLOGGED BATCH INSERT a; UPDATE b; APPLY BATCH", "c"],
        ),
        ("a 'never ends; b", ["a 'never ends; b"]),
        ("a /* never; ends", ["a /* never; ends"]),
    ],
)
def test_statements_are_split_at_semicolons(text: str, expected: list[str]) -> None:
    assert statements(text) == expected


@given(st.text(alphabet="ab;'\"$-/* \nBEGIN"))
def test_any_text_can_be_split(text: str) -> None:
    for statement in statements(text):
        assert statement in text
        assert statement.strip()
    ends_with_semicolon(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';'", False),
        ("SELECT 'a;", False),
        ("a; b", False),
        ("a; -- done", True),
        ("BEGIN BATCH a;", False),
        ("BEGIN BATCH a; APPLY BATCH;", True),
    ],
)
def test_a_final_semicolon_is_recognized(text: str, expected: bool) -> None:
    assert ends_with_semicolon(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("describe t", True), ("\\d", True), ("EXIT;", True), ("select 1", False), ("", False)],
)
def test_commands_are_distinguished_from_statements(text: str, expected: bool) -> None:
    assert is_command(text) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        ("it's", "it's"),
        (["it's", None], "['it''s', null]"),
        (True, "true"),
        (b"\x01\xff", "0x01ff"),
        (1.5, "1.5"),
        (math.inf, "Infinity"),
        ([math.nan, -math.inf], "[NaN, -Infinity]"),
        ({"b": 1, "a": [2]}, "{'b': 1, 'a': [2]}"),
        ({2, 1}, "{1, 2}"),
        (("a", 1), "('a', 1)"),
        (Decimal("1.10"), "1.10"),
        (Duration(1, 2, 3), str(Duration(1, 2, 3))),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([UUID(int=1)], "[00000000-0000-0000-0000-000000000001]"),
        ([datetime.date(2024, 1, 2)], "['2024-01-02']"),
        (
            datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.timezone.utc),
            "2024-01-02 03:00:00.000Z",
        ),
    ],
)
def test_values_are_shown_as_cql(value: object, expected: str) -> None:
    assert literal(value) == expected


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert escaped("a\x1b[31mb\x07\r\n\u202ec") == "a\\x1b[31mb\\x07\\r\\n\\u202ec"
    ((text, count),) = blocks(["\x1b[2Jk"], [("\x1b]0;owned\x07",)], 80)
    assert count == 1
    assert all(char.isprintable() or char == "\n" for char in text)


def shown(names: list[str], rows: list[tuple[Any, ...]], width: int) -> str:
    return "".join(text for text, _ in blocks(names, rows, width))


def test_tables_fit_their_terminal() -> None:
    rows: list[tuple[Any, ...]] = [(1, "one"), (22, "日本語"), (None, None)]
    assert shown(["k", "name"], rows, 80).splitlines() == [
        " k    | name",
        "------+--------",
        "    1 | one",
        "   22 | 日本語",
        " null | null",
    ]
    for width in (20, 40, 60, 79):
        text = shown(["k", "name", "note"], [(1, "x" * 50, "y" * 200)], width)
        from rich.cells import cell_len

        if text.startswith("@"):
            assert "note | " + "y" * 200 in text
        else:
            assert max(map(cell_len, text.splitlines())) <= width
    many = [(n, n * n) for n in range(2000)]
    text = shown(["n", "square"], many, 80)
    assert len(text.splitlines()) == 2002
    wide = shown([f"column_{n}" for n in range(30)], [tuple(range(30))], 80)
    assert wide.startswith("@ row 1\n")
    assert shown(["k"], [], 80).splitlines() == [" k", "---"]


class Statement:
    def __init__(self, **markers: str) -> None:
        self.markers = [("k", "t", name, cql_type) for name, cql_type in markers.items()]


@pytest.mark.parametrize(
    ("cql_type", "text", "expected"),
    [
        ("int", "-7", -7),
        ("text", "", ""),
        ("text", "'; DROP TABLE t; --", "'; DROP TABLE t; --"),
        ("boolean", "TRUE", True),
        ("blob", "0x00ff", b"\0\xff"),
        ("double", "1e3", 1000.0),
        ("decimal", "1.10", Decimal("1.10")),
        ("uuid", "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        ("date", "2024-01-02", datetime.date(2024, 1, 2)),
        (
            "timestamp",
            "2024-01-02T03:04:05Z",
            datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        ),
        (
            "timestamp",
            "1000",
            Timestamp(1000),
        ),
        ("time", "08:12:54.123456789", Time.of(8, 12, 54, 123_456_789)),
        ("time", "23:59", Time.of(23, 59)),
        ("duration", "1y2mo3d4h", Duration(14, 3, 4 * 3600 * 10**9)),
        ("duration", "-5ms", Duration(0, 0, -5_000_000)),
        ("duration", "-PT5M", Duration(0, 0, -300 * 10**9)),
        ("list<int>", "[1, 2]", [1, 2]),
        ("vector<float, 2>", "[1, 2.5]", [1.0, 2.5]),
        ("map<text, int>", '{"a": 1}', {"a": 1}),
        ("set<uuid>", '["00000000-0000-0000-0000-000000000001"]', {UUID(int=1)}),
        ("frozen<tuple<int, text>>", '[1, "a"]', (1, "a")),
        ("frozen<list<decimal>>", "[0.1]", [Decimal("0.1")]),
        ("list<boolean>", "[true, false]", [True, False]),
    ],
)
def test_parameters_are_converted_to_the_type_of_their_marker(
    cql_type: str, text: str, expected: object
) -> None:
    statement: Any = Statement(v=cql_type)
    assert values_of(statement, pairs_of([f"v={text}"]), {}) == {"v": expected}


@pytest.mark.parametrize(
    ("cql_type", "text"),
    [
        *[("int", "1.5"), ("int", ""), ("boolean", "yes"), ("blob", "ff"), ("uuid", "1")],
        *[("date", "yesterday"), ("list<int>", "1"), ("list<int>", "[1"), ("duration", "1x")],
        *[("map<text, int>", "[1]"), ("list<int>", '["a"]'), ("decimal", "x"), ("inet", "x")],
        *[("list<int>", "[[1]]"), ("frozen<tuple<int>>", "[1, 2]"), ("time", "25:00")],
        *[("timestamp", "2024-01-02T03:04:05.6789Z"), ("time", "1:2"), ("time", "1")],
    ],
)
def test_parameters_that_their_type_cannot_represent_are_refused(cql_type: str, text: str) -> None:
    statement: Any = Statement(v=cql_type)
    with pytest.raises(click.UsageError, match="--param v="):
        values_of(statement, pairs_of([f"v={text}"]), {})


def test_the_error_for_a_timestamp_finer_than_milliseconds() -> None:
    statement: Any = Statement(v="timestamp")
    with pytest.raises(click.UsageError, match=r"--param v=.*in whole milliseconds"):
        values_of(statement, pairs_of(["v=300000-01-01T00:00:00.0001Z"]), {})


def test_parameters_must_match_the_markers() -> None:
    statement: Any = Statement(a="int", b="text")
    assert values_of(statement, pairs_of(["b", "a=1"]), {}) == {"a": 1, "b": None}
    for wrong in (["a=1"], ["a=1", "b=x", "c=1"]):
        with pytest.raises(click.UsageError):
            values_of(statement, pairs_of(wrong), {})
    for twice in (["a=1", "a=2"], ["=1"]):
        with pytest.raises(click.UsageError):
            pairs_of(twice)


def keyspace(**tables: list[str]) -> Any:
    made = {
        name: types.SimpleNamespace(columns=dict.fromkeys(columns), indexes={})
        for name, columns in tables.items()
    }
    return types.SimpleNamespace(tables=made, views={}, types={}, functions={}, aggregates={})


SCHEMA: Any = types.SimpleNamespace(
    keyspaces={
        "app": keyspace(users=["id", "name"], orders=["id"]),
        "Odd": keyspace(**{"My table": ["A b"]}),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sel", "select"),
        ("SEL", "SELECT"),
        ("DESC", "DESCRIBE"),
        ("USE a", "app"),
        ("USE ", '"Odd"'),
        ("SELECT * FROM us", "users"),
        ("SELECT * FROM app.or", "orders"),
        ('SELECT * FROM "Odd".', '"My table"'),
        ("SELECT * FROM users WHERE na", "name"),
        ("INSERT INTO app.users (i", "id"),
        ("UPDATE users SET n", "name"),
        ('SELECT * FROM "Odd"."My table" WHERE ', '"A b"'),
        ("CREATE TABLE t (k tim", "timestamp"),
        ("SELECT * FROM app.users; SELECT * FROM orders WHERE i", "id"),
        ("\\d us", "users"),
    ],
)
def test_names_and_words_are_completed(text: str, expected: str) -> None:
    found = {word: length for word, length, _ in completions(text, SCHEMA, "app")}
    assert expected in found
    assert text[len(text) - found[expected] :].lower() == expected[: found[expected]].lower()


def test_nothing_is_completed_in_a_text_or_before_the_schema_is_known() -> None:
    assert list(completions("SELECT * FROM t WHERE name = 'us", SCHEMA, "app")) == []
    assert list(completions("SELECT * FROM us", None, "app")) == []
    assert {word for word, _, _ in completions("SEL", None, None)} == {"SELECT"}


@pytest.mark.parametrize(
    ("cql_type", "expected"),
    [
        ("'com.example.Shape'", "'com.example.Shape'"),
        ("'com.example.It''s'", "'com.example.It''s'"),
        ("list<'com.example.Shape'>", "list<'com.example.Shape'>"),
        ("map<text, list<int>>", "map<text, frozen<list<int>>>"),
        ("timeuuid", "timeuuid"),
    ],
)
def test_a_new_table_has_the_types_of_its_data(cql_type: str, expected: str) -> None:
    types = {"k": CqlType("int"), "v": CqlType(cql_type)}
    statement = create_table("app.t", None, types, ["k"], [])
    assert f'"v" {expected},' in statement or f"v {expected}," in statement


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("laod", "no command 'laod'; did you mean load?"),
        ("xyz", "no command 'xyz'; there are query, shell, load, "),
        ("help", "help is an option: turbocql --help"),
    ],
)
def test_an_unknown_command(name: str, message: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        root.main([name], "turbocql", standalone_mode=False, obj={"debug": False})
    assert caught.value.format_message().startswith(message)


def test_the_help_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert capsys.readouterr().out.startswith("Usage: turbocql [OPTIONS]")


def test_names_in_a_url_are_not_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["query", "SELECT 1", "--url", "cql://127.0.0.1?timeout=3"]) == 2
    assert "is unknown; did you mean timeout_s?" in capsys.readouterr().err


def test_an_unknown_parameter() -> None:
    prepared: Any = types.SimpleNamespace(markers=[("k", "t", "key", "int")])
    with pytest.raises(
        click.UsageError,
        match=r"no parameter 'kye'; did you mean key\? It has key: --param key=VALUE",
    ):
        values_of(prepared, {"kye": "1"}, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, []),
        ("", []),
        ("id", ["id"]),
        (" id", [" id"]),
        ("a,b", ["a", "b"]),
        (" a , b ", ["a", "b"]),
        ("first name, last name", ["first name", "last name"]),
        ('" id","a,b", c', [" id", "a,b", "c"]),
        ('"a""b"', ['a"b']),
        ('a"b', ['a"b']),
        ('a"b,c', ['a"b', "c"]),
        ('""', [""]),
    ],
)
def test_lists_of_names_may_have_quotes(text: str | None, expected: list[str]) -> None:
    assert names_of(text) == expected


@pytest.mark.parametrize("text", ['"a', "a,,b", ",", " ", "a,", '"a"b', '"a"b,c'])
def test_malformed_lists_of_names_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="in quotes, as in CSV"):
        names_of(text)


@given(st.lists(st.text(), min_size=1))
def test_any_name_can_be_written_in_quotes(names: list[str]) -> None:
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    assert names_of(",".join(quoted)) == names
    assert [name_of(text) for text in quoted] == names
    assert pairs_of([f"{quoted[0]}=a=b"]) == {names[0]: "a=b"}


@pytest.fixture
def no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the settings that name a server, and makes each attempt to connect fail."""
    for name in [name for name in os.environ if name.startswith("TURBOCQL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def refuse(config: object) -> None:
        raise ConnectError("connecting: no contact point could be reached")

    monkeypatch.setattr(_connect, "connected", refuse)


NOT_NAMED = (
    "no server was named: pass --url HOST:PORT, or set TURBOCQL_URL; the command turbocql testing"
)


@pytest.mark.usefixtures("no_server")
def test_the_error_if_no_setting_names_a_server() -> None:
    with pytest.raises(ConnectError, match=f"could be reached; {NOT_NAMED}"):
        connected_by()


@pytest.mark.usefixtures("no_server")
def test_the_error_if_a_setting_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectError, match=r"could be reached$"):
        connected_by(url="127.0.0.1:9042")
    monkeypatch.setenv("TURBOCQL_CONTACT_POINTS", "127.0.0.1")
    with pytest.raises(ConnectError, match=r"could be reached$"):
        connected_by()


@pytest.mark.parametrize(
    ("keys", "end"),
    [
        ((["a", "b"], ["c"]), "is loaded into as it is"),
        ((["a"], ["b", "c"]), "as it is: its key is another, that of --key a,b --clustering c"),
        ((["a"], []), "as it is: its key is another, that of --key a,b --clustering c"),
    ],
)
def test_the_note_for_a_table_that_exists(keys: tuple[list[str], list[str]], end: str) -> None:
    a, b, c = (TableColumn(name, "int", "regular") for name in "abc")
    table = Table("app", "t", None, {"a": a, "b": b, "c": c}, (a, b), (c,), {})
    note = describe_existing("app.t", table, keys)
    assert note.startswith("app.t exists already, and is loaded into as it is")
    assert note.endswith(end)


CLUSTER = {"contact_points": ["127.0.5.1:9042"], "user": None, "ca_certificate": None, "nodes": []}


def test_how_to_connect_to_a_cassandra_that_was_started() -> None:
    cluster: Any = types.SimpleNamespace(**CLUSTER)
    lines = _how_to_connect(cluster).splitlines()
    assert 'session = turbocql.connect("127.0.5.1:9042")' in lines
    assert "turbocql shell --url cql://127.0.5.1:9042" in lines
    assert "export TURBOCQL_URL=cql://127.0.5.1:9042  # for all commands" in lines


def test_how_to_connect_with_a_password() -> None:
    cluster: Any = types.SimpleNamespace(**{**CLUSTER, "user": "ann", "password": "p@s"})
    lines = _how_to_connect(cluster).splitlines()
    assert 'session = turbocql.connect("127.0.5.1:9042", user="ann", password="p@s")' in lines
    assert "export TURBOCQL_URL=cql://ann:p%40s@127.0.5.1:9042  # for all commands" in lines


def test_how_to_connect_with_certificates(tmp_path: Path) -> None:
    files = {"ca": "/c/ca.pem", "certificate": "/c/client.pem", "key": "/c/client.key"}
    names = ("ca_certificate", "client_certificate", "client_key")
    paths = {name: Path(path) for name, path in zip(names, files.values(), strict=True)}
    cluster: Any = types.SimpleNamespace(**{**CLUSTER, "user": "ann", "password": "p", **paths})
    shown = _how_to_connect(cluster)
    ours = 'tls=turbocql.Tls(ca="/c/ca.pem", certificate="/c/client.pem", key="/c/client.key")'
    assert ours in shown
    file = tmp_path / "testing.toml"
    file.write_text(shown[shown.index("[testing]") : shown.index("Ctrl-C")], encoding="utf-8")
    config = turbocql.Config.from_toml(file, "testing")
    ca, certificate, key = files.values()
    assert config.tls == turbocql.Tls(ca=ca, certificate=certificate, key=key)
    assert (config.contact_points, config.user) == (("127.0.5.1:9042",), "ann")
