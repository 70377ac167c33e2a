"""Stands in for `turbocql.testing.Cassandra()` in programs of the documentation.

To start a node takes longer than what most programs do with it. `PRELUDE`, before a program, makes
`Cassandra()` a node that runs already. Its `stop()` drops the keyspaces that the program has made.
"""

from __future__ import annotations

from types import TracebackType

import turbocql
import turbocql.testing

__all__ = ["PRELUDE", "use"]

PRELUDE = """\
import sys
sys.path.insert(0, {root!r})
from tests.support.shared_node import use
use({contact_points!r})
del sys.path[0], use
"""
"""The lines before a program. `root` is the repository's root."""


def use(contact_points: list[str]) -> None:
    """Makes `turbocql.testing.Cassandra()` the node with these contact points."""

    class RunningCassandra:
        def __init__(self) -> None:
            self.contact_points = contact_points
            self._keyspaces: set[str] = set()

        def start(self) -> None:
            with turbocql.connect(contact_points) as session:
                self._keyspaces = set(session.schema().keyspaces)

        def stop(self) -> None:
            with turbocql.connect(contact_points, timeout_s=60) as session:
                for keyspace in set(session.schema().keyspaces) - self._keyspaces:
                    session.execute(f"DROP KEYSPACE {turbocql.quote_identifier(keyspace)}")

        def __enter__(self) -> RunningCassandra:
            self.start()
            return self

        def __exit__(
            self,
            error_class: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            self.stop()

    turbocql.testing.Cassandra = RunningCassandra  # type: ignore[misc,assignment]
