"""Diagnoses of synchronous sessions, and of programs without a session."""

from __future__ import annotations

from typing import Any, TextIO

from ..errors import Error
from ..session import Session
from .collect import TIMEOUT_S, Diagnosis, steps

__all__ = ["diagnose", "diagnosis"]


# Generated from diagnosis of aio.py by scripts/async_to_sync.py: change the source.
def diagnosis(session: Session | None = None) -> Diagnosis:
    """Describes this installation and, if a session is passed, its cluster.

    The description of the cluster comes from the server's system tables. Each query takes 10
    seconds at most. If a query fails, the `notes` in the `session` of the result say why. The
    result contains no secrets.

    Raises: `TypeError` if `session` is of a class other than `Session`.
    """
    if session is not None and not isinstance(session, Session):
        raise TypeError(
            f"expected a turbocql.Session, got {type(session).__name__}; for an AsyncSession, call"
            " `await turbocql.aio.diagnose(session)`"
        )
    running = steps(session, asynchronous=False)
    try:
        statement = next(running)
        while True:
            assert session is not None
            try:
                rows = session.execute(
                    statement, consistency="ONE", timeout_s=TIMEOUT_S, rows="dict"
                )
                answer: Any = rows.all(), rows.coordinator
            except Error as error:
                answer = error
            statement = running.send(answer)
    except StopIteration as end:
        result: Diagnosis = end.value
        return result


# Generated from diagnose of aio.py by scripts/async_to_sync.py: change the source.
def diagnose(session: Session | None = None, *, file: TextIO | None = None) -> None:
    """Prints what [`diagnosis`][turbocql.diagnosis] finds, to standard output or `file`."""
    print(diagnosis(session), file=file)
