"""Tests static columns when several rows are sent in one request."""

from __future__ import annotations

from pathlib import Path

import turbocql

from .conftest import Table


def test_a_static_list_is_written_once(
    session: turbocql.Session, table: Table, tmp_path: Path
) -> None:
    name = table("k int, c int, l list<text> static, PRIMARY KEY (k, c)")
    session.execute(f"INSERT INTO {name} (k, l) VALUES (1, ['a', 'b'])")
    for place in range(5):
        session.execute(f"INSERT INTO {name} (k, c) VALUES (1, {place})")
    session.unload(name, tmp_path / "t.csv")
    session.execute(f"TRUNCATE {name}")
    assert session.load(name, tmp_path / "t.csv").succeeded == 5
    (row,) = session.execute(f"SELECT DISTINCT k, l FROM {name}").all()
    assert row.l == ["a", "b"]
