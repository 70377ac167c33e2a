"""Tests of DESCRIBE with schemas that the tests' servers do not have."""

from __future__ import annotations

import pytest

from turbocql.cli._complete import completions
from turbocql.cli._describe import described, described_in_any_case, group_list, keyspace_list
from turbocql.cli._ends import CommandExit
from turbocql.schema import Function, Index, Keyspace, Schema, Table, TableColumn, View


def table(keyspace: str, name: str, **options: object) -> Table:
    key = TableColumn("k", "int", "partition_key")
    return Table(keyspace, name, None, {"k": key}, (key,), (), {}, **options)  # type: ignore[arg-type]


def view(keyspace: str, name: str, base: str, index: str | None) -> View:
    key = TableColumn("k", "int", "partition_key")
    return View(keyspace, name, None, {"k": key}, (key,), (), {}, base, "k > 0", True, index)


def keyspace(name: str, *tables: Table, views: tuple[View, ...] = ()) -> Keyspace:
    body = Function(name, "twice", ("n",), ("int",), "int", "java", "return n;", True)
    return Keyspace(
        name,
        {"class": "SimpleStrategy"},
        True,
        False,
        {element.name: element for element in tables},
        {element.name: element for element in views},
        {},
        {body.signature: body} if name == "app" else {},
        {},
    )


INDEX = Index("app", "items", "by_v", "COMPOSITES", "v")
APP = keyspace(
    "app",
    table("app", "items", indexes={"by_v": INDEX}, triggers={"Audit": "org.Trigger"}),
    views=(view("app", "by_v_index", "items", "by_v"), view("app", "own", "items", None)),
)
SCHEMA = Schema(
    None,  # type: ignore[arg-type]
    {
        "app": APP,
        "b.c": keyspace("b.c", table("b.c", "d.e")),
        **{f"ks{n}": keyspace(f"ks{n}", table(f"ks{n}", "many")) for n in range(7)},
        "system": keyspace("system"),
    },
)


def test_a_table_has_its_indexes_triggers_and_views() -> None:
    cql = described(SCHEMA, "app.items", None)
    assert [part.split(" ON ")[0].split(" (")[0] for part in cql.split("\n\n")] == [
        "CREATE TABLE app.items",
        "CREATE INDEX by_v",
        'CREATE TRIGGER "Audit"',
        "CREATE MATERIALIZED VIEW app.own AS\n    SELECT *\n    FROM app.items\n"
        "    WHERE k > 0\n    PRIMARY KEY",
    ]


def test_the_view_of_an_index_is_created_by_the_index() -> None:
    assert described(SCHEMA, "by_v_index", "app") == INDEX.as_cql()
    assert described(SCHEMA, "by_v_index", "app", "view") == INDEX.as_cql()


def test_names_with_dots() -> None:
    for name, in_use in (('"b.c"."d.e"', None), ('"d.e"', "b.c")):
        assert described(SCHEMA, name, in_use).startswith('CREATE TABLE "b.c"."d.e" (')
    with pytest.raises(CommandExit, match=r"expected KEYSPACE, NAME or KEYSPACE\.NAME"):
        described(SCHEMA, "b.c.d.e", None)


def test_folds_converts_unquoted_names_to_lower_case() -> None:
    assert described(SCHEMA, "APP.ITEMS", None, folds=True) == described(SCHEMA, "app.items", None)
    for name, folds in (("APP.ITEMS", False), ('"APP".items', True)):
        with pytest.raises(CommandExit, match="no keyspace 'APP'; near: app"):
            described(SCHEMA, name, None, folds=folds)


def test_a_name_that_does_not_exist_is_tried_in_lower_case() -> None:
    exact = described_in_any_case(SCHEMA, "app.items", None)
    assert described_in_any_case(SCHEMA, "APP.Items", None) == exact
    with pytest.raises(CommandExit, match="Nothing"):
        described_in_any_case(SCHEMA, "app.Nothing", None)
    with pytest.raises(CommandExit, match="Items"):
        described_in_any_case(SCHEMA, 'app."Items"', None)


def test_a_name_in_many_keyspaces() -> None:
    with pytest.raises(CommandExit) as caught:
        described(SCHEMA, "many", None)
    places = ", ".join(f"the table ks{number}.many" for number in range(5))
    assert str(caught.value) == f"no keyspace 'many'; there is {places}, 2 more"


def test_control_characters_are_escaped() -> None:
    for name in ('"\x1b[2J"', 'app."\x1b[2J"'):
        for in_use in (None, "app"):
            with pytest.raises(CommandExit) as caught:
                described(SCHEMA, name, in_use)
            assert str(caught.value).isprintable()


def test_lists_of_names() -> None:
    assert group_list(SCHEMA, "INDEXES", None) == "app: by_v"
    assert group_list(SCHEMA, "FUNCTIONS", "app") == "app: twice"
    assert group_list(SCHEMA, "TYPES", "app") == ""
    assert keyspace_list(SCHEMA).startswith("app: 1 table, 2 views, 1 function\n")
    with pytest.raises(CommandExit, match="no keyspace 'nope'"):
        group_list(SCHEMA, "TABLES", "nope")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("DESCRIBE INDEX by", "by_v"),
        ("desc index app.by", "by_v"),
        ("DESCRIBE tw", "twice"),
        ("\\d app.it", "items"),
        ("DESCRIBE MATERIALIZED VIEW o", "own"),
    ],
)
def test_names_are_completed(text: str, name: str) -> None:
    assert name in [word for word, _, _ in completions(text, SCHEMA, "app")]


def test_statements_are_not_completed_with_indexes() -> None:
    assert [word for word, _, _ in completions("SELECT * FROM by", SCHEMA, "app")] == ["by_v_index"]
