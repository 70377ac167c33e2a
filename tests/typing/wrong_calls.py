"""Calls that type checkers refuse. This file is checked like program.py, and is never run.

Each line with a mistake has a comment that suppresses the type checker's error. If the checker
finds no mistake in this line, it reports that the comment is unnecessary.
"""

from __future__ import annotations

import turbocql
import turbocql.aio
from turbocql import Batch, Config, ExecutionProfile, Query, Session
from turbocql.aio import AsyncSession

SELECT = "SELECT id FROM users"


def misspelt_names(session: Session) -> None:
    """Misspells values of options that have a fixed set of values."""
    Config(consistency="QUROUM")  # type: ignore[arg-type]
    Config(serial_consistency="QUORUM")  # type: ignore[arg-type]
    Config(rows="dicts")  # type: ignore[arg-type]
    Config(compression="zip")  # type: ignore[arg-type]
    ExecutionProfile(consistency="Quorum")  # type: ignore[arg-type]
    Query(SELECT, consistency="LOCAL-QUORUM")  # type: ignore[arg-type]
    turbocql.connect("db", consistency="QUROUM")  # type: ignore[call-overload]
    session.execute(SELECT, consistency="QUROUM")  # type: ignore[call-overload]
    Batch("unlogd")  # type: ignore[arg-type]
    session.execute(SELECT, rows="list")  # type: ignore[call-overload]
    session.execute_many(SELECT, [()], consistency="QUROUM")  # type: ignore[arg-type]
    session.scan("users", consistency="QUROUM")  # type: ignore[call-overload]
    session.unload("users", "users.parquet", compression="zip")  # type: ignore[arg-type]


def rows_of_another_form() -> None:
    """Uses rows as if they had another form."""
    with turbocql.connect("db", rows="dict") as session:
        print(session.execute(SELECT).one_or_raise().id)  # type: ignore[attr-defined]
        session.execute(SELECT).one()["id"]  # type: ignore[index]
        print(session.scan("users", row=Config).one_or_raise().nothing)  # type: ignore[attr-defined]


async def missing_await(session: AsyncSession) -> None:
    """Uses results without awaiting them."""
    session.execute(SELECT).one()  # type: ignore[attr-defined]
    for _ in turbocql.aio.connect("db"):  # type: ignore[attr-defined]
        pass


def credentials_of_other_types() -> None:
    """Passes credentials that are not callable, or that do not return a pair."""
    Config(credentials=("ann", "hunter2"))  # type: ignore[arg-type]
    Config(credentials=lambda: "hunter2")  # type: ignore[arg-type]
