"""Tests of results in notebooks: the HTML table of the first rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from ipaddress import ip_address
from typing import Any

import numpy as np
import pytest
from tests.support.apis import Api
from tests.support.proxy import Tap

import turbocql
from turbocql import Session
from turbocql.testing import Cassandra

MARKUP = "<script>alert('1')</script> & \"x\""
COLUMN = "<b>\"&'"


class Table(HTMLParser):
    """Parses the HTML of a result and collects its texts. It refuses tags that are not expected."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.heads: list[str] = []
        self.titles: list[str | None] = []
        self.rows: list[list[str]] = []
        self.notes: list[str] = []
        self._target: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "table", "thead", "tbody", "tr", "th", "td", "p", "i"), tag
        assert [name for name, _ in attrs] == (["title"] if tag == "th" else [])
        if tag == "tr":
            self.rows.append([])
        elif tag == "th":
            self.titles.append(attrs[0][1])
            self._start(self.heads)
        elif tag == "td":
            self._start(self.rows[-1])
        elif tag == "p":
            self._start(self.notes)

    def _start(self, target: list[str]) -> None:
        self._target = target
        target.append("")

    def handle_data(self, data: str) -> None:
        self._target[-1] += data


def table(rows: Any) -> Table:
    read = Table(rows.rows._repr_html_() if hasattr(rows, "rows") else rows._repr_html_())
    del read.rows[:1]  # the row of the heads
    return read


@pytest.fixture(scope="module")
def keyspace(cassandra: Cassandra, cassandra_keyspace: str) -> Iterator[str]:
    quoted = turbocql.quote_identifier(COLUMN)
    with turbocql.connect(cassandra.contact_points, keyspace=cassandra_keyspace) as session:
        session.execute("CREATE TYPE IF NOT EXISTS size (width int, height int)")
        session.execute(
            f"CREATE TABLE shown (k int, n int, {quoted} text, a inet, f float, b blob,"
            " v vector<float, 2000>, m map<text, int>, s frozen<size>, PRIMARY KEY (k, n))"
        )
        yield cassandra_keyspace


@pytest.fixture
def filled(keyspace: str, cassandra_session: Session) -> str:
    cassandra_session.execute_many(
        "INSERT INTO shown (k, n) VALUES (1, ?)", [(n,) for n in range(25)]
    )
    return keyspace


async def test_rows(api: Api, points: list[str], filled: str) -> None:
    async with api.connect(points, keyspace=filled) as client:
        for options in ({}, {"rows": "dict"}, {"row": dict}):
            rows = await client.execute("SELECT n FROM shown WHERE k = 1 AND n < 3", **options)
            read = table(rows)
            assert (read.heads, read.titles) == (["n"], ["int"])
            assert (read.rows, read.notes) == ([["0"], ["1"], ["2"]], [])
        rows = await client.execute("SELECT n FROM shown WHERE k = 1")
        read = table(rows)
        assert read.rows == [[str(n)] for n in range(10)]
        assert read.notes == ["… and 15 more rows"]
        assert len(await rows.all()) == 25, "the table has read nothing away"
        assert table(await client.execute("SELECT n FROM shown WHERE k = 2")).notes == ["no rows"]
        one_more = await client.execute("SELECT n FROM shown WHERE k = 1 LIMIT 11")
        assert table(one_more).notes == ["… and 1 more row"]


async def test_further_pages_are_not_fetched(api: Api, cassandra: Cassandra, filled: str) -> None:
    with Tap(cassandra.contact_points[0]) as tap:
        async with api.connect(tap.contact_point, keyspace=filled) as client:
            select = "SELECT n FROM shown WHERE k = 1"
            rows = await client.execute(select, page_size=12)
            small = await client.execute(select, page_size=4)
            before = tap.count("QUERY") + tap.count("EXECUTE")
            for _ in range(3):
                assert table(rows).notes == ["… and 2 more rows on this page, and further pages"]
                assert table(small).notes == ["… and more: further pages may have rows"]
            assert tap.count("QUERY") + tap.count("EXECUTE") == before
            # After an iteration, the result keeps only its last page, so the table has no rows of
            # earlier pages.
            assert len(await small.all()) == 25
            read = table(small)
            assert read.notes[0] == "Earlier pages were read before."
            assert read.rows[-1:] in ([["24"]], [])


async def test_a_scan_has_further_pages(api: Api, points: list[str], filled: str) -> None:
    async with api.connect(points, keyspace=filled) as client:
        rows = await client.scan("shown", columns=["k", "n"])
        read = table(rows)
        assert any("further pages" in note for note in read.notes)
        assert len(await rows.all()) == 25


def test_values(keyspace: str, cassandra_session: Session) -> None:
    session = cassandra_session
    session.execute(
        f"INSERT INTO shown (k, n, {turbocql.quote_identifier(COLUMN)}, a, f, b, v, m, s)"
        " VALUES (1, 1, ?, ?, 0.1, ?, ?, ?, ?)",
        (
            MARKUP,
            ip_address("::1"),
            bytes(5000),
            np.arange(2000, dtype=np.float32),
            {MARKUP: 1},
            {"width": 3},
        ),
    )
    session.execute("INSERT INTO shown (k, n) VALUES (1, 2)")
    rows = session.execute("SELECT * FROM shown")
    text = rows._repr_html_()
    assert "<script" not in text
    read = table(rows)
    cells = dict(zip(read.heads, read.rows[0], strict=True))
    assert cells[COLUMN] == MARKUP
    assert (cells["a"], cells["f"]) == ("::1", "0.1")
    assert cells["m"] == "{'" + MARKUP.replace("'", "''") + "': 1}"
    assert cells["s"] == "{width: 3, height: null}"
    assert re.fullmatch("0x(00){50}…", cells["b"])
    assert cells["v"].startswith("[0.0, 1.0, 2.0")
    assert cells["v"].endswith("…")
    assert len(cells["v"]) == 201
    assert dict(zip(read.heads, read.rows[1], strict=True))["v"] == "null"
    assert "vector<float, 2000>" in read.titles
    long = session.execute(f"SELECT {turbocql.quote_identifier(COLUMN)} FROM shown LIMIT 1")
    assert table(long).rows == [[MARKUP]]
    names = ", ".join(f"n AS n{i}" for i in range(60))
    read = table(session.execute(f"SELECT {names} FROM shown LIMIT 1"))
    assert len(read.heads) == len(read.rows[0]) == 50
    assert read.notes == ["… and 10 more columns"]


def test_statements_without_rows(keyspace: str, cassandra_session: Session) -> None:
    done = cassandra_session.execute("INSERT INTO shown (k, n) VALUES (1, 1)")
    assert table(done).notes == ["The statement returns no rows."]
    refused = cassandra_session.execute("INSERT INTO shown (k, n) VALUES (1, 1) IF NOT EXISTS")
    read = table(refused)
    assert dict(zip(read.heads, read.rows[0], strict=True))["[applied]"] == "false"
