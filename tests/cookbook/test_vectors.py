"""Tests the recipe for vector search."""

from __future__ import annotations

import turbocql

from .support import Program, is_shown_on


def test_vectors(program: Program, session: turbocql.Session) -> None:
    printed = program("vectors.py")
    assert is_shown_on("vectors.md", printed), printed
    nearest = [line.split(maxsplit=2) for line in printed.splitlines()]
    assert [language for language, _, _ in nearest] == ["en", "en", "de", "de"]
    assert nearest[0][2].startswith("A partition key")
    assert nearest[2][2].startswith("Ein partition key")
    assert session.execute("SELECT count(*) FROM passages").scalar() == 6
    lengths = [len(row.embedding) for row in session.execute("SELECT embedding FROM passages")]
    assert lengths == [256] * 6
