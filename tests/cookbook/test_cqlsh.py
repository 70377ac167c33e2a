"""Tests the recipe for files of cqlsh and dsbulk."""

from __future__ import annotations

import datetime
from pathlib import Path

import turbocql

from .support import Program, is_shown_on


def test_a_file_of_cqlsh(program: Program, session: turbocql.Session, tmp_path: Path) -> None:
    printed = program("from_cqlsh.py")
    assert is_shown_on("cqlsh-dsbulk.md", printed), printed
    ada, emilie = sorted(session.execute("SELECT * FROM people"), key=lambda row: row.id)
    assert ada.name == 'Ada "Countess" Lovelace, London'
    assert (ada.is_member, emilie.is_member) == (True, False)
    utc = datetime.timezone.utc
    assert ada.joined == datetime.datetime(2026, 2, 28, 23, 30, tzinfo=utc)
    assert emilie.joined == datetime.datetime(2026, 3, 1, 5, 0, 0, 250_000, tzinfo=utc)
    assert ada.scores == [3, 1, 2]
    assert ada.phones == {"home": "+44 20 7946 0000"}
    assert tuple(ada.home) == ("12 St James's Square", "London")
    assert emilie.born is None
    assert emilie.languages is None
    assert not (tmp_path / "people.rejects.jsonl").read_bytes()
