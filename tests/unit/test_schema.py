"""Tests how a schema is built from rows, its CREATE statements, and when it is read completely."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any
from uuid import UUID

import pytest

from turbocql import errors
from turbocql._cql import create as cql
from turbocql._cql.names import quoted, split_qualified, written_type
from turbocql._schema.read import Answer, SchemaReading, make_schema
from turbocql.schema import Aggregate, Function, Index, Keyspace, Schema, Table, UserType

VERSIONS = [UUID(int=number) for number in range(100)]
GONE = errors.InvalidQuery("unconfigured table")


def column(table: str, name: str, kind: str = "regular", **more: Any) -> dict[str, Any]:
    row = {"keyspace_name": "ks", "table_name": table, "column_name": name, "kind": kind}
    return {**row, "type": "int", "position": -1, "clustering_order": "none", **more}


def answers(version: UUID = VERSIONS[1], **tables: Answer) -> dict[str, Answer]:
    """Maps the tables that describe a schema to a server's answers for a small schema.

    `tables` replaces some of these answers.
    """
    small: dict[str, Answer] = {
        "version": [{"schema_version": version}],
        "keyspaces": [{"keyspace_name": "ks", "replication": {"class": "Simple"}}],
        "tables": [{"keyspace_name": "ks", "table_name": "t", "flags": {"compound"}}],
        "columns": [column("t", "k", "partition_key", position=0), column("t", "v")],
    }
    others = [
        "views",
        "indexes",
        "triggers",
        "types",
        "functions",
        "aggregates",
        "column_masks",
        "scylla",
    ]
    others += ["virtual_keyspaces", "virtual_tables", "virtual_columns"]
    return {**small, **dict.fromkeys(others, GONE), **tables}


def keyspace(**tables: Answer) -> Keyspace:
    return make_schema({**answers(), **tables}).keyspace("ks")


def user_type(name: str, **fields: str) -> UserType:
    return UserType("ks", name, tuple(fields), tuple(fields.values()))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plain_1", "plain_1"),
        ("Mixed", '"Mixed"'),
        ("1st", '"1st"'),
        ("_x", '"_x"'),
        ("select", '"select"'),
        ("materialized", '"materialized"'),
        ("type", "type"),
        ("a b", '"a b"'),
        ('it"s', '"it""s"'),
        ("é", '"é"'),
        ("", '""'),
    ],
)
def test_names(name: str, written: str) -> None:
    assert quoted(name) == written


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("ks.t", ("ks", "t")),
        ("Ks.T", ("ks", "t")),
        ('"Ks"."a.""b"', ("Ks", 'a."b')),
        ("t", None),
        ("a.b.c", None),
        (".t", None),
        ('a."b', None),
        ('a.""', None),
        ("a. b", None),
    ],
)
def test_names_with_a_keyspace(written: str, parts: tuple[str, str] | None) -> None:
    assert split_qualified(written) == parts


def test_servers_without_some_tables_and_columns() -> None:
    made = keyspace()
    assert made.durable_writes
    assert made.tables["t"].options == {}
    assert made.tables["t"].id is None
    assert not any((made.types, made.views, made.functions, made.aggregates))
    assert made.statements() == [
        "CREATE KEYSPACE ks WITH replication = {'class': 'Simple'} AND durable_writes = true;",
        "CREATE TABLE ks.t (\n    k int,\n    v int,\n    PRIMARY KEY (k)\n);",
    ]


@pytest.mark.parametrize("table", ["version", "keyspaces", "tables", "columns"])
def test_servers_without_a_required_table(table: str) -> None:
    with pytest.raises(errors.InvalidQuery, match="unconfigured"):
        make_schema({**answers(), table: GONE})


def test_a_server_without_a_version() -> None:
    nothing: list[Answer] = [[], [{}], [{"schema_version": None}]]
    for rows in nothing:
        with pytest.raises(errors.RequestError, match="does not say which version"):
            make_schema({**answers(), "version": rows})


@pytest.mark.parametrize(
    "tables",
    [
        {"tables": [{"keyspace_name": "ks", "tableOname": "t"}]},
        {"keyspaces": [{"keyspace_name": 7}, {"keyspace_name": "ks"}]},
        {"types": [{"keyspace_name": "ks", "type_name": "u", "field_names": 1, "field_types": 2}]},
        {"version": [{"schema_version": VERSIONS[1]}], "indexes": [{"keyspace_name": "ks"}]},
    ],
)
def test_rows_of_another_form(tables: dict[str, Any]) -> None:
    """A faulty server can send rows with missing columns or wrong types."""
    reading = SchemaReading(None, refresh=False)
    with pytest.raises(errors.UnreadableAnswer, match="schema tables have another form"):
        reading.take(list(answers(**tables).values()))


def test_virtual_keyspaces() -> None:
    where = {"keyspace_name": "system_views"}
    schema = make_schema(
        answers(
            virtual_keyspaces=[where],
            virtual_tables=[{**where, "table_name": "clients", "comment": "it's"}],
            virtual_columns=[{**column("clients", "address", "partition_key"), **where}],
        )
    )
    assert list(schema.keyspaces) == ["ks", "system_views"]
    assert schema.keyspaces["system_views"].virtual
    assert not schema.keyspaces["ks"].virtual
    clients = schema.table("system_views.clients")
    assert not clients.compact_storage
    assert clients.as_cql() == (
        "CREATE TABLE system_views.clients (\n    address int,\n    PRIMARY KEY (address)\n)"
        " WITH comment = 'it''s';"
    )


def test_the_order_of_columns() -> None:
    table = keyspace(
        columns=[
            column("t", "z", "static", type="text"),
            column("t", "c1", "clustering", position=0, clustering_order="DESC"),
            column("t", "a"),
            column("t", "p1", "partition_key", position=0),
            column("t", "c0", "clustering", position=1, clustering_order="asc"),
            column("t", "p0", "partition_key", position=1),
        ]
    ).tables["t"]
    assert list(table.columns) == ["p1", "p0", "c1", "c0", "z", "a"]
    assert [one.name for one in table.primary_key] == ["p1", "p0", "c1", "c0"]
    assert table.columns["a"].clustering_order is None
    assert table.as_cql() == (
        "CREATE TABLE ks.t (\n    p1 int,\n    p0 int,\n    c1 int,\n    c0 int,\n"
        "    z text static,\n    a int,\n    PRIMARY KEY ((p1, p0), c1, c0)\n"
        ") WITH CLUSTERING ORDER BY (c1 DESC, c0 ASC);"
    )


def test_keys_in_another_order_are_another_table() -> None:
    keys = [column("t", name, "partition_key", position=at) for at, name in enumerate("ab")]
    turned = [column("t", name, "partition_key", position=at) for at, name in enumerate("ba")]
    assert keyspace(columns=keys) == keyspace(columns=list(reversed(keys)))
    assert keyspace(columns=keys) != keyspace(columns=turned)


def test_options() -> None:
    row = {
        "comment": "it's\n\u00e9",
        "default_time_to_live": 0,
        "bloom_filter_fp_chance": 0.00001,
        "cdc": None,
        "incremental_backups": False,
        "caching": {"keys": "ALL"},
        "extensions": {"a": b"\1"},
        "read_repair_chance": 0.0,
        "new_in_some_year": "x",
    }
    base = {"keyspace_name": "ks", "table_name": "t", "flags": {"compound"}}
    older = keyspace(tables=[{**base, **row}]).tables["t"]
    assert "cdc" not in older.options
    assert older.options["extensions"] == {"a": b"\1"}
    settings = older.as_cql().partition(" WITH ")[2]
    assert settings.split("\n    AND ") == [
        "bloom_filter_fp_chance = 1e-05",
        "caching = {'keys': 'ALL'}",
        "comment = 'it''s\n\u00e9'",
        "default_time_to_live = 0",
        "incremental_backups = false",
        "new_in_some_year = 'x'",
        "read_repair_chance = 0.0;",
    ]
    newer = keyspace(tables=[{**base, **row, "read_repair": "NONE"}]).tables["t"]
    assert newer.options["read_repair_chance"] == 0.0
    assert "read_repair_chance" not in newer.as_cql()
    assert "read_repair = 'NONE'" in newer.as_cql()


@pytest.mark.parametrize(
    ("flags", "seen"),
    [
        ({"compound"}, ["p", "column1", "n", "value"]),
        ({"compound", "counter"}, ["p", "column1", "n", "value"]),
        (set(), ["p", "n"]),
        ({"counter"}, ["p", "n"]),
        ({"dense"}, ["p", "column1", "n"]),
        ({"dense", "compound"}, ["p", "column1", "n"]),
    ],
)
def test_compact_storage(flags: set[str], seen: list[str]) -> None:
    table = keyspace(
        tables=[{"keyspace_name": "ks", "table_name": "t", "flags": flags}],
        columns=[
            column("t", "p", "partition_key", position=0),
            column("t", "column1", "clustering", position=0, clustering_order="asc"),
            column("t", "n", "static"),
            column("t", "value", type="empty"),
        ],
    ).tables["t"]
    assert list(table.columns) == seen
    assert table.compact_storage == (len(seen) < 4)
    assert ("COMPACT STORAGE" in table.as_cql()) == table.compact_storage
    assert table.is_counter == ("counter" in flags)


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("int", "-5", "-5"),
        ("text", "it's", "'it''s'"),
        ("inet", "1.2.3.4", "'1.2.3.4'"),
        ("timestamp", "2024-02-29T12:34:56.789Z", "'2024-02-29T12:34:56.789Z'"),
        ("uuid", "5a1c395e-b41f-11e5-9f22-ba0be0483c18", "5a1c395e-b41f-11e5-9f22-ba0be0483c18"),
        ("boolean", "true", "true"),
        ("duration", "1h", "1h"),
        ("blob", "00ff", "0x00ff"),
        ("list<int>", "00000000", "0x00000000"),
        ("int", None, "null"),
    ],
)
def test_masks(kind: str, value: str | None, written: str) -> None:
    row = {
        **{"keyspace_name": "ks", "table_name": "t", "column_name": "v"},
        **{"function_keyspace": "Ks", "function_name": "hide"},
        "function_argument_types": [kind],
        "function_argument_values": [value or ""],
        "function_argument_nulls": [value is None],
    }
    table = keyspace(column_masks=[row]).tables["t"]
    assert table.columns["k"].mask is None
    assert table.columns["v"].mask == f'"Ks".hide({written})'
    assert f'v int MASKED WITH "Ks".hide({written}),' in table.as_cql()


@pytest.mark.parametrize(
    ("target", "written"),
    [
        ("v", "v"),
        ("V", '"V"'),
        ('"it""s"', '"it""s"'),
        ('"select"', '"select"'),
        ("keys(m)", "keys(m)"),
        ('entries("M")', 'entries("M")'),
        ("full(select)", 'full("select")'),
        ('"keys(m)"', '"keys(m)"'),
        ('{"pk":["p","Q"],"ck":["c"]}', '(p, "Q"), c'),
    ],
)
def test_targets_of_indexes(target: str, written: str) -> None:
    index = Index("ks", "T", "By_it", "COMPOSITES", target)
    assert index.as_cql() == f'CREATE INDEX "By_it" ON ks."T" ({written});'


def test_indexes_of_a_class_and_triggers() -> None:
    where = {"keyspace_name": "ks", "table_name": "t"}
    options = {"target": "v", "class_name": "sai", "case_sensitive": "false"}
    made = keyspace(
        indexes=[{**where, "index_name": "i", "kind": "CUSTOM", "options": options}],
        triggers=[{**where, "trigger_name": "Fires", "options": {"class": "org.Fires"}}],
    )
    index = made.tables["t"].indexes["i"]
    assert (index.target, index.class_name) == ("v", "sai")
    assert index.options == {"case_sensitive": "false"}
    assert made.tables["t"].triggers == {"Fires": "org.Fires"}
    assert made.statements()[2:] == [
        "CREATE CUSTOM INDEX i ON ks.t (v) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'};",
        "CREATE TRIGGER \"Fires\" ON ks.t USING 'org.Fires';",
    ]
    assert list(options) == ["target", "class_name", "case_sensitive"]


def test_views() -> None:
    row = {
        **{"keyspace_name": "ks", "view_name": "By_v", "base_table_name": "t"},
        **{"include_all_columns": False, "where_clause": '"V" IS NOT NULL AND k > 5'},
        **{"base_table_id": UUID(int=1), "comment": "c", "default_time_to_live": 0},
    }
    columns = [
        column("By_v", "V", "partition_key", position=0),
        column("By_v", "k", "clustering", position=0, clustering_order="desc"),
        column("t", "k", "partition_key", position=0),
    ]
    statement = (
        'CREATE MATERIALIZED VIEW ks."By_v" AS\n    SELECT "V", k\n    FROM ks.t\n'
        '    WHERE "V" IS NOT NULL AND k > 5\n    PRIMARY KEY ("V", k)'
        " WITH CLUSTERING ORDER BY (k DESC)\n    AND comment = 'c';"
    )
    made = keyspace(views=[row], columns=columns)
    assert made.views["By_v"].options == {"comment": "c", "default_time_to_live": 0}
    assert made.views["By_v"].as_cql() == statement
    assert made.statements()[-1] == statement
    everything = keyspace(views=[{**row, "include_all_columns": True}], columns=columns)
    assert everything.views["By_v"].as_cql() == statement.replace('"V", k\n', "*\n", 1)


def test_views_of_indexes_have_no_statement_of_their_own() -> None:
    index = {"keyspace_name": "ks", "table_name": "t", "index_name": "i", "options": {}}
    view = {"keyspace_name": "ks", "base_table_name": "t", "where_clause": "v IS NOT NULL"}
    views = [{**view, "view_name": name} for name in ("i_index", "j_index")]
    made = keyspace(indexes=[index], views=views, scylla=[{"keyspace_name": "ks"}])
    assert {name: view.index for name, view in made.views.items()} == {
        "i_index": "i",
        "j_index": None,
    }
    assert ["VIEW ks.j_index" in one for one in made.statements()] == [False, False, False, True]
    # In Cassandra, an index has no view. So the view `i_index` is an ordinary view in spite of its
    # name.
    made = keyspace(indexes=[index], views=views)
    assert [view.index for view in made.views.values()] == [None, None]
    assert ["VIEW ks.i_index" in one for one in made.statements()][3] is True
    assert len(made.statements()) == 5


@pytest.mark.parametrize(
    ("cql_type", "written"),
    [
        ("int", "int"),
        ("frozen<int>", 'frozen<"int">'),
        ("frozen<list<int>>", "frozen<list<int>>"),
        ("map<text, frozen<ttl>>", 'map<text, frozen<"ttl">>'),
        ("list<frozen<text>>", 'list<frozen<"text">>'),
        ("json", '"json"'),
        ("tuple<int, enum>", 'tuple<int, "enum">'),
        ('frozen<"int">', 'frozen<"int">'),
        ("vector<float, 3>", "vector<float, 3>"),
        ("frozen<point>", "frozen<point>"),
        ("'a.b.C(text=>count)'", "'a.b.C(text=>count)'"),
    ],
)
def test_names_of_types_that_need_quotes(cql_type: str, written: str) -> None:
    assert written_type(cql_type) == written


def test_names_of_types_and_functions_in_quotes() -> None:
    assert user_type("int", ttl="frozen<text>").as_cql() == (
        'CREATE TYPE ks."int" (\n    ttl frozen<"text">\n);'
    )
    assert user_type("key", a="int").as_cql().startswith("CREATE TYPE ks.key (")
    aggregate = Aggregate("ks", "text", ("frozen<int>",), "ttl", "json", "int", "count", None)
    assert aggregate.as_cql() == (
        'CREATE AGGREGATE ks."text"("int")\n    SFUNC "ttl"\n    STYPE "json"\n'
        '    FINALFUNC "count";'
    )


def test_types_come_after_the_types_of_their_fields() -> None:
    types = [
        user_type("a", x="frozen<list<frozen<z>>>", y='frozen<map<text, frozen<"Q ""q">>>'),
        user_type("b", x="int", a="text"),
        user_type('Q "q', x="frozen<tuple<int, frozen<z>>>"),
        user_type("z", x="'org.a.UserType(a)'", y="vector<frozen<b>, 2>"),
    ]
    ordered = cql.by_dependency({one.name: one for one in types})
    assert [one.name for one in ordered] == ["b", "z", 'Q "q', "a"]
    assert types[2].as_cql() == (
        'CREATE TYPE ks."Q ""q" (\n    x frozen<tuple<int, frozen<z>>>\n);'
    )
    # No server has types that use each other in a cycle. But if an answer has such types, it must
    # not cause an endless loop.
    circle = [user_type("a", x="frozen<b>"), user_type("b", x="frozen<a>")]
    assert len(cql.by_dependency({one.name: one for one in circle})) == 2


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("return x;", "$$return x;$$"),
        ("it's", "$$it's$$"),
        ("it's $$", "'it''s $$'"),
        ("ends $", "'ends $'"),
        ("$ begins", "'$ begins'"),
    ],
)
def test_functions(body: str, written: str) -> None:
    made = Function(
        *("ks", "F", ("x", "Yy"), ("int", "frozen<tuple<int, text>>")),
        *("list<frozen<t>>", "java", body, False),
    )
    assert made.signature == "F(int, frozen<tuple<int, text>>)"
    assert made.as_cql() == (
        'CREATE FUNCTION ks."F"(x int, "Yy" tuple<int, text>)\n    RETURNS NULL ON NULL INPUT\n'
        f"    RETURNS list<frozen<t>>\n    LANGUAGE java\n    AS {written};"
    )
    called = dataclasses.replace(made, called_on_null_input=True)
    assert "\n    CALLED ON NULL INPUT\n" in called.as_cql()


def test_aggregates() -> None:
    made = Aggregate("ks", "a", ("int", "text"), "Step", "frozen<t>", "frozen<t>")
    assert made.signature == "a(int, text)"
    assert made.as_cql() == 'CREATE AGGREGATE ks.a(int, text)\n    SFUNC "Step"\n    STYPE t;'
    more = dataclasses.replace(made, final_function="end", initial_condition="{1: 'a'}")
    assert more.as_cql().endswith("STYPE t\n    FINALFUNC end\n    INITCOND {1: 'a'};")


def test_overloaded_functions_are_created_before_tables() -> None:
    base = {"keyspace_name": "ks", "function_name": "f", "argument_names": ["x"], "body": ""}
    more = {"return_type": "int", "language": "java", "called_on_null_input": True}
    rows = [{**base, **more, "argument_types": [kind]} for kind in ("text", "int")]
    made = keyspace(functions=rows)
    assert list(made.functions) == ["f(int)", "f(text)"]
    assert [one.split("(")[0] for one in made.statements()[1:]] == [
        *["CREATE FUNCTION ks.f"] * 2,
        "CREATE TABLE ks.t ",
    ]


def test_plain_data() -> None:
    schema = make_schema(answers())
    for again in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema), copy.copy(schema)):
        assert isinstance(again, Schema)
        assert again == schema
        assert again.version == schema.version
        with pytest.raises(TypeError):
            again.keyspaces["ks"].tables["t"].columns["k"] = None  # type: ignore[index]
    table = schema.table("ks.t")
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.name = "other"  # type: ignore[misc]
    assert dataclasses.replace(table, id=UUID(int=7)) == table
    assert dataclasses.replace(table, name="other") != table
    assert make_schema(answers(VERSIONS[2])) == schema


def test_passed_mappings_are_copied() -> None:
    given = {"keys": "ALL"}
    options: dict[str, Any] = {"caching": given}
    table = dataclasses.replace(make_schema(answers()).table("ks.t"), options=options)
    given["keys"] = "NONE"
    options["comment"] = "later"
    assert table.options == {"caching": {"keys": "ALL"}}


def test_reprs() -> None:
    schema = make_schema(answers())
    assert repr(schema) == f"<Schema {VERSIONS[1]} of ks>"
    assert repr(schema.keyspace("ks")) == "<Keyspace ks: 1 tables>"
    assert repr(schema.table("ks.t")) == "<Table ks.t (k, v)>"
    assert repr(schema.table("ks.t").columns["v"]).startswith("TableColumn(name='v', cql_type=")


def test_errors_for_missing_tables() -> None:
    schema = make_schema(answers())
    assert isinstance(schema.table("KS.t"), Table)
    for given, message in (
        ("kss.t", "no keyspace 'kss'; near: ks"),
        ("other.t", "no keyspace 'other'"),
        ('"KS".t', "no keyspace 'KS'; near: ks"),
        ('ks."T"', "no table 'T' in keyspace ks; near: t"),
        ("ks.other", "no table 'other' in keyspace ks"),
    ):
        with pytest.raises(KeyError) as caught:
            schema.table(given)
        assert caught.value.args == (message,)
    with pytest.raises(KeyError, match=r"no column 'K' in ks\.t; near: k"):
        schema.table("ks.t").column("K")
    assert schema.table("ks.t").column("k").name == "k"
    with pytest.raises(ValueError, match=r"expected a name like keyspace\.table, got 't'"):
        schema.table("t")


def read(reading: SchemaReading, *given: dict[str, Answer]) -> Schema:
    """Passes one set of answers to a reading in each round of queries, and returns the schema."""
    for one in given:
        wanted = len(reading.queries)
        reading.take(list(one.values())[:wanted])
    assert reading.queries == []
    return reading.result()


def test_a_reading_ends_after_two_equal_rounds() -> None:
    one, two = answers(), answers(VERSIONS[2], tables=[])
    same_rows = answers(VERSIONS[2])
    assert read(SchemaReading(None, False), one, one) == make_schema(one)
    assert read(SchemaReading(None, False), one, two, two) == make_schema(two)
    assert read(SchemaReading(None, False), two, one, two, one, one) == make_schema(one)
    # A reading is complete only if two successive rounds have the same version and rows.
    made = read(SchemaReading(None, False), one, same_rows, same_rows)
    assert made.version == VERSIONS[2]
    assert read(SchemaReading(None, False), one, answers(tables=[]), one, one) == make_schema(one)


def test_a_reading_returns_the_old_schema_if_its_version_is_the_same() -> None:
    known, new = make_schema(answers()), answers(VERSIONS[2], tables=[])
    reading = SchemaReading(known, False)
    assert reading.queries == ["SELECT schema_version FROM system.local"]
    assert read(reading, answers()) is known
    assert read(SchemaReading(known, False), new, new, new) == make_schema(new)
    refreshing = SchemaReading(known, True)
    assert len(refreshing.queries) == len(answers())
    assert read(refreshing, answers(), answers()) is not known


def test_a_schema_that_changes_in_every_round() -> None:
    reading = SchemaReading(None, False)
    for version in VERSIONS[:19]:
        reading.take(list(answers(version).values()))
    with pytest.raises(errors.RequestError, match="read 20 times and never twice the same"):
        reading.take(list(answers(VERSIONS[19]).values()))


def test_the_queries_of_a_reading() -> None:
    queries = SchemaReading(None, False).queries
    assert len(queries) == len(answers())
    assert queries[0] == "SELECT schema_version FROM system.local"
    for query, name in zip(queries[1:], list(answers())[1:], strict=True):
        place = (
            name.replace("virtual_", "virtual_schema.") if "virtual" in name else f"schema.{name}"
        )
        if name == "scylla":
            assert query == "SELECT keyspace_name FROM system_schema.scylla_tables LIMIT 1"
        else:
            assert query == f"SELECT * FROM system_{place}"
