"""Tests that the CQL that `turbocql describe` and DESCRIBE print creates the element again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.test_command_line import Line
from tests.support.tables import KEYSPACE

import turbocql
from turbocql import Session
from turbocql.cli._console import Console
from turbocql.cli._split import statements
from turbocql.testing import Cassandra

APP, OTHER = "describe_app", "describe_other"
ELEMENTS = """
CREATE TYPE <ks>.place (street text, number int);
CREATE TYPE <ks>."A.b ""c"" d" (x int);
CREATE FUNCTION <ks>.plus (s int, y int) CALLED ON NULL INPUT RETURNS int LANGUAGE java
    AS 'return s + y;';
CREATE FUNCTION <ks>.plus (s text) CALLED ON NULL INPUT RETURNS text LANGUAGE java
    AS 'return s + "; -- ";';
CREATE FUNCTION <ks>."Keep" (s int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return s;';
CREATE AGGREGATE <ks>.total (int) SFUNC plus STYPE int INITCOND 0;
CREATE AGGREGATE <ks>."Total" (int) SFUNC plus STYPE int FINALFUNC "Keep" INITCOND 0;
CREATE TABLE <ks>.items (k int PRIMARY KEY, v text, m map<text, int>, e vector<float, 2>);
CREATE TABLE <ks>."Items" (k int PRIMARY KEY, "V" text);
CREATE INDEX myindex ON <ks>.items (v);
CREATE INDEX "MyIndex" ON <ks>."Items" ("V");
CREATE INDEX by_keys ON <ks>.items (keys(m));
CREATE CUSTOM INDEX ann ON <ks>.items (e) USING 'StorageAttachedIndex'
    WITH OPTIONS = {'similarity_function': 'dot_product'};
CREATE MATERIALIZED VIEW <ks>.byv AS SELECT * FROM <ks>.items
    WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k);
CREATE MATERIALIZED VIEW <ks>."ByV" AS SELECT k, v FROM <ks>.items
    WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k) WITH comment = 'it''s; so';
CREATE TABLE <ks>.same (k int PRIMARY KEY, v int);
CREATE TYPE <ks>.same (a int);
CREATE FUNCTION <ks>.same (s int, y int) CALLED ON NULL INPUT RETURNS int LANGUAGE java
    AS 'return y;';
CREATE AGGREGATE <ks>.same (int) SFUNC same STYPE int;
CREATE TABLE <ks>.<other> (k int PRIMARY KEY);
CREATE TABLE <ks>."index" (k int PRIMARY KEY);
""".replace("<ks>", APP).replace("<other>", OTHER)


@pytest.fixture(scope="module")
def session(cassandra: Cassandra) -> Iterator[Session]:
    with turbocql.connect(cassandra.contact_points, timeout_s=60) as opened:
        for keyspace in (APP, OTHER):
            opened.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
            opened.execute(KEYSPACE.format(keyspace))
        for statement in ELEMENTS.strip().split(";\n"):
            opened.execute(statement)
        opened.execute(f"CREATE TABLE {OTHER}.only_here (k int PRIMARY KEY)")
        yield opened


@pytest.fixture
def describe(session: Session, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Returns a function that executes DESCRIBE in a shell and returns what the shell prints."""

    def run(argument: str, keyspace: str | None = None) -> str:
        class InUse(Console):
            """A shell whose current keyspace is `keyspace` and not the session's keyspace."""

            @property
            def keyspace(self) -> str | None:
                return keyspace

        capsys.readouterr()
        succeeded = InUse(session).run(f"DESCRIBE {argument}")
        printed = capsys.readouterr()
        assert succeeded == (printed.err == ""), printed.err
        return printed.out if succeeded else printed.err

    return run


def by_server(session: Session, argument: str) -> list[str]:
    """Returns the statements that the server itself returns for DESCRIBE."""
    rows = session.execute(f"DESCRIBE {argument}", rows="dict").all()
    return sorted(row["create_statement"] for row in rows)


def check_again(session: Session, cql: str, drop: str, argument: str) -> None:
    """Drops an element and executes `cql`, which creates it again.

    The server must describe the new element like the old one.
    """
    before = by_server(session, argument)
    session.execute(f"DROP {drop}")
    for statement in statements(cql):
        session.execute(statement)
    assert by_server(session, argument) == before


@pytest.mark.parametrize(
    ("argument", "name", "drop"),
    [
        ("INDEX myindex", "myindex", None),
        ("INDEX {app}.myindex", "{app}.myindex", None),
        ('INDEX "MyIndex"', '{app}."MyIndex"', None),
        ("index BY_KEYS", "by_keys", None),
        ("INDEX ann", "ann", None),
        ("MATERIALIZED VIEW byv", "byv", None),
        ('materialized  view {app}."ByV"', '"ByV"', None),
        ("TYPE place", "place", None),
        ('TYPE "A.b ""c"" d"', '{app}."A.b ""c"" d"', None),
        ('FUNCTION "Keep"', '"Keep"', 'AGGREGATE {app}."Total"'),
        ("AGGREGATE total", "{app}.TOTAL", None),
        ('AGGREGATE "Total"', '"Total"', None),
        ('TABLE "Items"', '"Items"', None),
        ('COLUMNFAMILY "index"', 'TABLE "index"', None),
    ],
)
def test_the_output_creates_the_element_again(
    session: Session, describe: Callable[..., str], argument: str, name: str, drop: str | None
) -> None:
    argument, name = argument.format(app=APP), name.format(app=APP)
    cql = describe(argument, APP)
    assert describe(name, APP) == cql
    words = argument.upper().split()
    kind = "MATERIALIZED VIEW" if words[0] == "MATERIALIZED" else words[0]
    kind = "TABLE" if kind == "COLUMNFAMILY" else kind
    element = argument.split(maxsplit=2 if kind == "MATERIALIZED VIEW" else 1)[-1]
    qualified = element if element.startswith(APP) else f"{APP}.{element}"
    dependent = [] if drop is None else statements(describe(drop.format(app=APP)))
    if drop is not None:
        session.execute(f"DROP {drop.format(app=APP)}")
    check_again(session, cql, f"{kind} {qualified}", f"{kind} {qualified}")
    for statement in dependent:
        session.execute(statement)


def test_a_table_with_its_indexes_and_views(session: Session, describe: Callable[..., str]) -> None:
    cql = describe("TABLE items", APP)
    assert describe(f"{APP}.items") == cql
    created = [statement.split("(")[0].split(" ON ")[0].strip() for statement in statements(cql)]
    assert sorted(created) == sorted(
        [
            f"CREATE TABLE {APP}.items",
            *("CREATE INDEX by_keys", "CREATE INDEX myindex", "CREATE CUSTOM INDEX ann"),
            f"CREATE MATERIALIZED VIEW {APP}.byv AS\n    SELECT *\n    FROM {APP}.items\n"
            "    WHERE k IS NOT NULL AND v IS NOT NULL\n    PRIMARY KEY",
            f'CREATE MATERIALIZED VIEW {APP}."ByV" AS\n    SELECT v, k\n    FROM {APP}.items\n'
            "    WHERE k IS NOT NULL AND v IS NOT NULL\n    PRIMARY KEY",
        ]
    )
    for view in ("byv", '"ByV"'):
        session.execute(f"DROP MATERIALIZED VIEW {APP}.{view}")
    before = by_server(session, f"TABLE {APP}.items")
    session.execute(f"DROP TABLE {APP}.items")
    for statement in statements(cql):
        session.execute(statement)
    views = [view for view in by_server(session, f"TABLE {APP}.items") if view not in before]
    assert len(views) == 2
    assert describe("TABLE items", APP) == cql


def test_overloaded_functions(session: Session, describe: Callable[..., str]) -> None:
    cql = describe("FUNCTION plus", APP)
    assert cql.count("CREATE FUNCTION") == 2
    session.execute(f"DROP FUNCTION {APP}.plus(text)")
    (text,) = [statement for statement in statements(cql) if "(s text)" in statement]
    session.execute(text)
    assert describe("FUNCTION plus", APP) == cql


def test_a_name_of_several_kinds(session: Session, describe: Callable[..., str]) -> None:
    cql = describe("same", APP)
    kinds = [statement.split()[1] for statement in statements(cql)]
    assert kinds == ["TYPE", "FUNCTION", "AGGREGATE", "TABLE"]
    for kind in ("TYPE", "FUNCTION", "AGGREGATE", "TABLE"):
        (alone,) = statements(describe(f"{kind} same", APP))
        assert alone in cql
        assert alone.startswith(f"CREATE {kind} {APP}.same")
    for element in ("AGGREGATE", "FUNCTION", "TYPE", "TABLE"):
        signature = {"AGGREGATE": "(int)", "FUNCTION": "(int, int)"}.get(element, "")
        session.execute(f"DROP {element} {APP}.same{signature}")
    for statement in statements(cql):
        session.execute(statement)
    assert describe("same", APP) == cql


def test_a_keyspace_has_precedence_over_a_table(describe: Callable[..., str]) -> None:
    keyspace = describe(OTHER, APP)
    assert keyspace.startswith(f"CREATE KEYSPACE {OTHER} ")
    assert f"-- There is also the table {APP}.{OTHER}: DESCRIBE {APP}.{OTHER}\n" in keyspace
    assert describe(f"TABLE {OTHER}", APP).startswith(f"CREATE TABLE {APP}.{OTHER} ")
    assert describe(f"{APP}.{OTHER}").startswith(f"CREATE TABLE {APP}.{OTHER} ")
    alone = describe(f"KEYSPACE {OTHER}", APP)
    assert "There is also" not in alone
    assert describe(OTHER) == alone
    assert describe("KEYSPACE", OTHER) == alone


@pytest.mark.parametrize(
    ("argument", "keyspace", "message"),
    [
        ("nope", None, "no keyspace 'nope'. A table or another element of a keyspace is described"),
        ("nope", None, "described by KEYSPACE.nope, or after USE KEYSPACE in the shell, or with"),
        ("INDEX nope", None, "the index nope needs a keyspace. A table or another element"),
        ("myindex", None, f"no keyspace 'myindex'; there is the index {APP}.myindex"),
        ("describe_ap", None, "near: describe_app"),
        ("nope", APP, f"type, function or aggregate 'nope' in keyspace {APP}"),
        ("only_here", APP, f"in keyspace {APP}; there is the table {OTHER}.only_here"),
        ("TABLE myindex", APP, f"in keyspace {APP}; there is the index {APP}.myindex"),
        ("INDEX items", APP, f"no index 'items' in keyspace {APP}; there is the table {APP}.items"),
        ("myindx", APP, "near: "),
        ("TYPE plac", APP, f"no type 'plac' in keyspace {APP}; near: place"),
        ("byV", APP, f"CREATE MATERIALIZED VIEW {APP}.byv"),
        ('"byV"', APP, "near: "),
        ("KEYSPACE nope", APP, "no keyspace 'nope'"),
        ("nowhere.t", APP, "no keyspace 'nowhere'"),
        ("a.b.c", APP, "expected KEYSPACE, NAME or KEYSPACE.NAME"),
        ("TABLE", APP, "expected DESCRIBE TABLE NAME"),
    ],
)
def test_names_that_do_not_exist(
    describe: Callable[..., str], argument: str, keyspace: str | None, message: str
) -> None:
    assert message in describe(argument, keyspace)


def test_the_command_line(cassandra: Cassandra, session: Session, tmp_path: Path) -> None:
    line = Line(cassandra, tmp_path)
    index = line.ok("describe", f"{APP}.myindex")
    assert index == f"CREATE INDEX myindex ON {APP}.items (v);\n"
    assert line.ok("describe", "--keyspace", APP, "myindex") == index
    assert line.ok("describe", f'{APP}."MyIndex"') == line.ok("describe", f"{APP}.MyIndex")
    assert f"there is the index {APP}.myindex" in line.fails(1, "describe", "myindex")
    check_again(session, index, f"INDEX {APP}.myindex", f"INDEX {APP}.myindex")
