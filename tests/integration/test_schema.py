"""Tests of `session.schema()` against what a real server accepts, describes and changes."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.support.apis import Api
from tests.support.nodes import paused
from tests.support.proxy import Tap
from tests.support.tables import KEYSPACE

import turbocql
from turbocql import errors
from turbocql.schema import Keyspace, Schema
from turbocql.testing import Cassandra

COMPOSITE = (
    "'org.apache.cassandra.db.marshal.DynamicCompositeType"
    "(a=>org.apache.cassandra.db.marshal.IntegerType)'"
)

# Some of these types use other types whose names come later in alphabetical order. So the order of
# `Keyspace.statements` must follow the dependencies.
ELABORATE = """
CREATE KEYSPACE <ks> WITH durable_writes = false AND
    replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1};
CREATE TYPE <ks>.z_point (x int, y frozen<list<text>>);
CREATE TYPE <ks>."Odd ""name" ("Select" frozen<z_point>, "from" frozen<list<int>>, "é" text);
CREATE TYPE <ks>.a_first (b frozen<"Odd ""name">, t tuple<int, text>, v vector<float, 3>);
CREATE TYPE <ks>."table" (f frozen<map<text, frozen<set<frozen<a_first>>>>>);
CREATE FUNCTION <ks>.plus (s int, y int) CALLED ON NULL INPUT RETURNS int LANGUAGE java
    AS 'return s + y;';
CREATE FUNCTION <ks>."Keep" (s tuple<int, text>, "Value" text) RETURNS NULL ON NULL INPUT
    RETURNS tuple<int, text> LANGUAGE java AS $$return s;$$;
CREATE FUNCTION <ks>.shown (s int) CALLED ON NULL INPUT RETURNS text LANGUAGE java
    AS 'return "it''s $$";';
CREATE FUNCTION <ks>.shown () CALLED ON NULL INPUT RETURNS text LANGUAGE java
    AS 'return null; //$';
CREATE FUNCTION <ks>.shown (l list<frozen<tuple<int, int>>>, m map<text, frozen<set<int>>>,
        u "Odd ""name", v vector<float, 2>)
    RETURNS NULL ON NULL INPUT RETURNS map<int, frozen<list<int>>> LANGUAGE java
    AS 'return null;';
CREATE FUNCTION <ks>.hidden (s text, n int) CALLED ON NULL INPUT RETURNS text LANGUAGE java
    AS 'return "";';
CREATE TYPE <ks>."ttl" (count int, "json" text);
CREATE TYPE <ks>."writetime" (cast text);
CREATE TYPE <ks>."enum" (a int);
CREATE TYPE <ks>."distinct" ("int" frozen<"ttl">, e frozen<list<frozen<"enum">>>);
CREATE TYPE <ks>.key (a int);
CREATE FUNCTION <ks>."int" (s int, y int) CALLED ON NULL INPUT RETURNS int LANGUAGE java
    AS 'return s + y;';
CREATE FUNCTION <ks>."ttl" (s "ttl") CALLED ON NULL INPUT RETURNS "ttl" LANGUAGE java
    AS 'return s;';
CREATE AGGREGATE <ks>."uuid" (int) SFUNC "int" STYPE int INITCOND 0;
CREATE AGGREGATE <ks>.total (int) SFUNC plus STYPE int FINALFUNC shown INITCOND 5;
CREATE AGGREGATE <ks>.total (text) SFUNC "Keep" STYPE tuple<int, text> INITCOND (5, 'a');
CREATE AGGREGATE <ks>."Total" (int) SFUNC plus STYPE int;
CREATE TABLE <ks>."Wide" (
    p int, "Q q" text, c timeuuid, "order" int, s text static, "St" frozen<set<int>> static,
    l list<int>, fl frozen<list<int>>, st set<text>, m map<text, int>, fm frozen<map<text, int>>,
    nested map<int, frozen<map<int, frozen<"table">>>>, u z_point, fu frozen<a_first>,
    tp tuple<int, frozen<list<int>>>, v vector<float, 3>, vv vector<frozen<list<text>>, 2>,
    d duration, ti tinyint, sm smallint, bi bigint, vi varint, fp float, db double, de decimal,
    bo boolean, "as" ascii, bl blob, i inet, dt date, tm time, ts timestamp, uu uuid,
    custom <composite>, "it""s" int, "UPPER" int, "_under" int, dropped int,
    PRIMARY KEY ((p, "Q q"), c, "order")
) WITH CLUSTERING ORDER BY (c DESC, "order" ASC)
    AND comment = 'it''s; a "comment"
of lines' AND default_time_to_live = 100 AND gc_grace_seconds = 5 AND cdc = false
    AND compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '160'}
    AND compression = {'enabled': false} AND bloom_filter_fp_chance = 0.00009
    AND caching = {'keys': 'NONE', 'rows_per_partition': '10'} AND crc_check_chance = 0.5
    AND speculative_retry = 'MIN(99p,50ms)' AND additional_write_policy = '90p'
    AND read_repair = 'NONE' AND incremental_backups = false AND allow_auto_snapshot = false
    AND min_index_interval = 64 AND memtable_flush_period_in_ms = 1000;
ALTER TABLE <ks>."Wide" DROP dropped;
CREATE INDEX by_keys ON <ks>."Wide" (keys(m));
CREATE INDEX by_values ON <ks>."Wide" (values(m));
CREATE INDEX "By_entries" ON <ks>."Wide" (entries(m));
CREATE INDEX by_full ON <ks>."Wide" (full(fm));
CREATE INDEX by_element ON <ks>."Wide" (st);
CREATE INDEX by_quoted ON <ks>."Wide" ("it""s");
CREATE INDEX by_upper ON <ks>."Wide" ("UPPER");
CREATE INDEX by_part ON <ks>."Wide" ("order");
CREATE INDEX sai_ascii ON <ks>."Wide" ("as") USING 'sai'
    WITH OPTIONS = {'case_sensitive': 'false', 'normalize': 'true'};
CREATE INDEX sai_list ON <ks>."Wide" (values(l)) USING 'sai';
CREATE INDEX sai_full ON <ks>."Wide" (full(fl)) USING 'sai';
CREATE CUSTOM INDEX "Sai_vector" ON <ks>."Wide" (v) USING 'StorageAttachedIndex'
    WITH OPTIONS = {'similarity_function': 'dot_product'};
CREATE TABLE <ks>.counts (p int, "C" text, n counter, PRIMARY KEY (p, "C"))
    WITH caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'};
CREATE TABLE <ks>.masked (k int PRIMARY KEY, a text MASKED WITH DEFAULT,
    b text MASKED WITH mask_inner(1, null, '#'), c text MASKED WITH <ks>.hidden(5),
    d blob MASKED WITH mask_hash('SHA-256'), e inet MASKED WITH mask_replace('1.2.3.4'),
    f timestamp MASKED WITH mask_replace('2024-02-29T12:34:56.789Z'),
    g double MASKED WITH mask_replace(-1.5), h blob MASKED WITH mask_replace(0x00ff),
    i uuid MASKED WITH mask_replace(5a1c395e-b41f-11e5-9f22-ba0be0483c18),
    j boolean MASKED WITH mask_replace(true), l date MASKED WITH mask_replace('2024-02-29'),
    m time MASKED WITH mask_replace('08:12:54.123456789'), n timeuuid MASKED WITH mask_null());
CREATE TABLE <ks>.old_static (p int PRIMARY KEY, n int, "V" text) WITH COMPACT STORAGE;
CREATE TABLE <ks>.old_value (p int, c int, n int, PRIMARY KEY (p, c)) WITH COMPACT STORAGE
    AND CLUSTERING ORDER BY (c DESC);
CREATE TABLE <ks>.old_keys (p int, c int, d int, PRIMARY KEY (p, c, d)) WITH COMPACT STORAGE;
CREATE TABLE <ks>.old_counts (p int PRIMARY KEY, n counter) WITH COMPACT STORAGE;
CREATE TABLE <ks>.base (p int, c int, v text, "W w" text, PRIMARY KEY (p, c));
CREATE TABLE <ks>.odd_types (k int PRIMARY KEY, a frozen<"ttl">, b "distinct",
    c map<text, frozen<"writetime">>, d frozen<key>);
CREATE INDEX some_of ON <ks>.base ("W w");
CREATE MATERIALIZED VIEW <ks>.some_of_index AS SELECT * FROM <ks>.base
    WHERE p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, p);
CREATE MATERIALIZED VIEW <ks>."All" AS SELECT * FROM <ks>.base
    WHERE p IS NOT NULL AND c > 5 AND "W w" IS NOT NULL PRIMARY KEY (("W w", c), p)
    WITH comment = 'it''s' AND gc_grace_seconds = 7;
CREATE MATERIALIZED VIEW <ks>.some AS SELECT p, c, v FROM <ks>.base
    WHERE p IN (1, 2) AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, p, c)
    WITH CLUSTERING ORDER BY (p DESC, c ASC);
"""


def statements(keyspace: str) -> list[str]:
    # Every semicolon at the end of a line ends a statement.
    text = ELABORATE.replace("<ks>", keyspace).replace("<composite>", COMPOSITE)
    return [one for one in text.strip().split(";\n") if one]


@pytest.fixture(scope="module")
def node() -> Iterator[Cassandra]:
    """A node with dynamic data masking, whose schema only this module changes."""
    with Cassandra(heap_mb=640, config={"dynamic_data_masking_enabled": True}) as cluster:
        yield cluster


@pytest.fixture
def here(node: Cassandra) -> list[str]:
    return node.contact_points


@pytest.fixture(scope="module")
def made(node: Cassandra) -> str:
    """Creates a keyspace with every kind of object, and returns the keyspace's name.

    All tests of this module share the keyspace, because creating it is slow.
    """
    name = "elaborate"
    with turbocql.connect(node.contact_points, timeout_s=120) as session:
        for statement in statements(name):
            session.execute(statement)
    return name


async def test_the_schema_has_the_created_objects(api: Api, here: list[str], made: str) -> None:
    async with api.connect(here) as client:
        check_elaborate((await client.schema()).keyspace(made))


def test_the_statements_of_a_schema_create_the_same_objects(here: list[str], made: str) -> None:
    with turbocql.connect(here, timeout_s=120, rows="dict") as session:

        def described() -> list[str]:
            """Returns the CREATE statements of the keyspace that the server's DESCRIBE returns."""
            rows = session.execute(f"DESCRIBE KEYSPACE {made}").all()
            return sorted(row["create_statement"] for row in rows)

        before, by_server = session.schema().keyspace(made), described()
        session.execute(f"DROP KEYSPACE {made}")
        assert made not in session.schema().keyspaces
        for statement in before.statements():
            session.execute(statement)
        after = session.schema().keyspace(made)
        assert after == before
        assert after.as_cql() == before.as_cql()
        assert described() == by_server
        assert after.tables["base"].id != before.tables["base"].id
        assert pickle.loads(pickle.dumps(after)) == before


def check_elaborate(keyspace: Keyspace) -> None:
    """Asserts that the schema has what the statements of `ELABORATE` created.

    Other tests compare two schemas that turbocql has read. If turbocql did not read some kind of
    object, both schemas would lack it, and the comparison would not fail.
    """
    assert keyspace.durable_writes is False
    assert keyspace.virtual is False
    assert keyspace.replication["datacenter1"] == "1"
    assert list(keyspace.types) == [
        *('Odd "name', "a_first", "distinct", "enum", "key", "table", "ttl", "writetime", "z_point")
    ]
    assert keyspace.types["distinct"].field_names == ("int", "e")
    assert '"distinct"' in keyspace.tables["odd_types"].as_cql()
    assert keyspace.types['Odd "name'].fields == {
        "Select": "frozen<z_point>",
        "from": "frozen<list<int>>",
        "é": "text",
    }
    assert len(keyspace.functions) == 8
    assert keyspace.functions["Keep(frozen<tuple<int, text>>, text)"].argument_names == (
        "s",
        "Value",
    )
    assert keyspace.functions["shown(int)"].body == 'return "it\'s $$";'
    assert keyspace.functions["shown()"].called_on_null_input
    assert keyspace.functions["shown()"].language == "java"
    total = keyspace.aggregates["total(int)"]
    assert (total.state_function, total.state_type) == ("plus", "int")
    assert (total.final_function, total.initial_condition) == ("shown", "5")
    assert total.return_type == "text"
    assert list(keyspace.aggregates) == ["Total(int)", "total(int)", "total(text)", "uuid(int)"]

    wide = keyspace.tables["Wide"]
    assert isinstance(wide.id, UUID)
    assert [(c.name, c.cql_type) for c in wide.partition_key] == [("p", "int"), ("Q q", "text")]
    assert [(c.name, c.clustering_order) for c in wide.clustering_key] == [
        ("c", "desc"),
        ("order", "asc"),
    ]
    assert list(wide.columns)[:6] == ["p", "Q q", "c", "order", "St", "s"]
    assert [c.name for c in wide.static_columns] == ["St", "s"]
    assert "dropped" not in wide.columns
    kinds = {column.name: column.cql_type for column in wide.columns.values()}
    assert kinds["custom"] == COMPOSITE
    assert kinds["nested"] == 'map<int, frozen<map<int, frozen<"table">>>>'
    assert kinds["vv"] == "vector<frozen<list<text>>, 2>"
    assert len(kinds) == 37
    assert wide.options["comment"] == 'it\'s; a "comment"\nof lines'
    assert wide.options["default_time_to_live"] == 100
    assert wide.options["bloom_filter_fp_chance"] == 0.00009
    assert wide.options["compression"] == {"enabled": "false"}
    assert wide.options["speculative_retry"] == "MIN(99p,50ms)"
    assert wide.options["incremental_backups"] is False
    assert len(wide.indexes) == 12
    assert wide.indexes["by_quoted"].class_name is None
    assert wide.indexes["by_keys"].target == "keys(m)"
    assert wide.indexes["sai_ascii"].class_name == "sai"
    assert wide.indexes["sai_ascii"].options == {"case_sensitive": "false", "normalize": "true"}
    assert keyspace.tables["counts"].is_counter
    assert not wide.is_counter

    masks = {column.name: column.mask for column in keyspace.tables["masked"].columns.values()}
    assert masks["k"] is None
    assert masks["a"] == "system.mask_default()"
    assert masks["b"] == "system.mask_inner(1, null, '#')"
    assert masks["c"] == f"{keyspace.name}.hidden(5)"
    assert masks["h"] == "system.mask_replace(0x00ff)"
    assert None not in [mask for name, mask in masks.items() if name != "k"]

    old = [table for table in keyspace.tables.values() if table.compact_storage]
    assert {table.name: [*table.columns] for table in old} == {
        "old_counts": ["p", "n"],
        "old_keys": ["p", "c", "d"],
        "old_static": ["p", "V", "n"],
        "old_value": ["p", "c", "n"],
    }
    assert keyspace.tables["old_static"].columns["n"].kind == "regular"

    assert list(keyspace.views) == ["All", "some", "some_of_index"]
    assert [view.index for view in keyspace.views.values()] == [None, None, None]
    assert list(keyspace.tables["base"].indexes) == ["some_of"]
    everything, some = keyspace.views["All"], keyspace.views["some"]
    assert everything.include_all_columns
    assert not some.include_all_columns
    assert everything.base_table == some.base_table == "base"
    assert [column.name for column in everything.partition_key] == ["W w", "c"]
    assert [column.clustering_order for column in some.clustering_key] == ["desc", "asc"]
    assert some.where_clause == "p IN (1, 2) AND c IS NOT NULL AND v IS NOT NULL"


async def test_changes_are_noticed(
    api_and_loop: Api, here: list[str], unique_keyspace: str
) -> None:
    name = f"{unique_keyspace}.t"
    async with api_and_loop.connect(here) as client, api_and_loop.connect(here) as other:
        await other.execute(KEYSPACE.format(unique_keyspace))
        first = await client.schema()
        assert first.keyspaces[unique_keyspace].tables == {}
        assert await client.schema() is first
        refreshed = await client.schema(refresh=True)
        assert refreshed is not first
        assert (refreshed, refreshed.version) == (first, first.version)

        await other.execute(f"CREATE TABLE {name} (k int PRIMARY KEY, v text)")
        made = await client.schema()
        assert made.version != first.version
        assert list(made.table(name).columns) == ["k", "v"]
        await other.execute(f"ALTER TABLE {name} ADD w int")
        assert list((await client.schema()).table(name).columns) == ["k", "v", "w"]
        await other.execute(f"CREATE INDEX by_v ON {name} (v)")
        assert list((await client.schema()).table(name).indexes) == ["by_v"]
        await other.execute(f"ALTER TABLE {name} WITH comment = 'changed'")
        assert (await client.schema()).table(name).options["comment"] == "changed"
        await other.execute(f"DROP TABLE {name}")
        assert (await client.schema()).keyspaces[unique_keyspace].tables == {}
        # `made` is a schema that was read before these changes. The changes have not affected it.
        assert list(made.table(name).columns) == ["k", "v"]
        await other.execute(f"DROP KEYSPACE {unique_keyspace}")
        with pytest.raises(KeyError, match=f"no keyspace '{unique_keyspace}'"):
            (await client.schema()).table(name)


async def test_an_unchanged_schema_costs_one_query(api: Api, here: list[str]) -> None:
    with Tap(here[0]) as tap:
        async with api.connect(tap.contact_point, rows="tuple", page_size=1) as client:
            known = await client.schema()
            before = tap.count("QUERY")
            assert await client.schema() is known
            assert tap.count("QUERY") == before + 1
            assert tap.count("QUERY", "SELECT schema_version FROM system.local") > 0


async def test_the_keyspaces_of_the_system(api_and_loop: Api, here: list[str]) -> None:
    async with api_and_loop.connect(here) as client:
        schema = await client.schema()
    assert isinstance(schema, Schema)
    assert isinstance(schema.version, UUID)
    assert {"system", "system_schema", "system_views"} <= set(schema.keyspaces)
    local = schema.table("system.local")
    assert [column.name for column in local.partition_key] == ["key"]
    assert local.columns["tokens"].cql_type == "set<text>"
    views = schema.keyspace("system_views")
    assert views.virtual
    assert not schema.keyspace("system").virtual
    assert views.table("clients").columns["port"].kind == "clustering"
    assert views.table("clients").options["comment"] == "currently connected clients"
    assert all(table.partition_key for one in schema.keyspaces.values() for table in _tables(one))
    assert all(one.statements() for one in schema.keyspaces.values())


def _tables(keyspace: Keyspace) -> list[Any]:
    return [*keyspace.tables.values(), *keyspace.views.values()]


async def test_no_schema_is_half_read(api: Api, here: list[str], unique_keyspace: str) -> None:
    """A schema that is read while tables and views are created has none of them in part."""
    async with api.connect(here) as client, api.connect(here) as other:
        await other.execute(KEYSPACE.format(unique_keyspace))
        done, seen = asyncio.Event(), []

        async def look() -> None:
            while not done.is_set():
                keyspace = (await client.schema()).keyspace(unique_keyspace)
                seen.append(keyspace)
                for table in keyspace.tables.values():
                    assert [*table.columns][:3] == ["p", "c", "v"]
                    assert ("w" in table.columns) == (table.options["comment"] == "with w")
                for view in keyspace.views.values():
                    assert [*view.columns] == ["v", "p", "c"]
                    assert view.base_table in keyspace.tables
                await asyncio.sleep(0.02)

        async def change() -> None:
            for number in range(3):
                name = f"{unique_keyspace}.t{number}"
                await other.execute(
                    f"CREATE TABLE {name} (p int, c int, v text, PRIMARY KEY (p, c))"
                )
                await other.execute(
                    f"CREATE MATERIALIZED VIEW {name}_by_v AS SELECT p, c, v FROM {name} WHERE"
                    " p IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, p, c)"
                )
                await asyncio.sleep(0.1)
                await other.execute(f"DROP MATERIALIZED VIEW {name}_by_v")
                await other.execute(f"DROP TABLE {name}")
                await other.execute(
                    f"CREATE TABLE {name} (p int, c int, v text, w int, PRIMARY KEY (p, c))"
                    " WITH comment = 'with w'"
                )
                await asyncio.sleep(0.1)

        looking = [asyncio.ensure_future(look()) for _ in range(3)]
        try:
            await change()
        finally:
            done.set()
            await asyncio.gather(*looking)
        assert len({keyspace.as_cql() for keyspace in seen}) > 2
        assert len((await client.schema()).keyspace(unique_keyspace).tables) == 3
        await other.execute(f"DROP KEYSPACE {unique_keyspace}")


async def test_a_reading_that_fails(api: Api, node: Cassandra) -> None:
    async with api.connect(node.contact_points, timeout_s=0.5) as client:
        with paused(node.nodes[0]), pytest.raises(errors.RequestTimeout):
            await client.schema()
        assert await client.idle()
        assert "system" in (await client.schema(refresh=True)).keyspaces
    with pytest.raises(errors.ClosedError):
        await client.schema()


async def test_using_a_keyspace(api_and_loop: Api, here: list[str], unique_keyspace: str) -> None:
    mixed = f"Mixed_{unique_keyspace}"
    async with api_and_loop.connect(here) as client:
        for name, value in ((unique_keyspace, 1), (mixed, 2)):
            await client.execute(KEYSPACE.format(f'"{name}"'))
            await client.execute(f'CREATE TABLE "{name}".t (k int PRIMARY KEY)')
            await client.execute(f'INSERT INTO "{name}".t (k) VALUES ({value})')
        assert client.session.keyspace is None
        await client.use_keyspace(unique_keyspace)
        assert client.session.keyspace == unique_keyspace
        assert (await client.execute("SELECT k FROM t")).one() == (1,)
        await client.use_keyspace(mixed)
        assert client.session.keyspace == mixed
        assert (await client.execute("SELECT k FROM t")).one() == (2,)

        with pytest.raises(errors.InvalidQuery, match="nowhere"):
            await client.use_keyspace("nowhere")
        with pytest.raises(errors.InvalidQuery):
            await client.use_keyspace(mixed.lower())
        nonsense: list[Any] = ["", 'a"; DROP', "a b", "x" * 49, "é", None, b"a"]
        for name in nonsense:
            with pytest.raises(errors.ConfigError, match="keyspace must be"):
                await client.use_keyspace(name)
        assert client.session.keyspace == mixed
        assert (await client.execute("SELECT k FROM t")).one() == (2,)
        for name in (unique_keyspace, mixed):
            await client.execute(f'DROP KEYSPACE "{name}"')
