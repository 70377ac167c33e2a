"""Replaces `turbocql.testing.Cassandra` in programs of the documentation.

Most of these programs take less time than the start of a node. So the tests put `PRELUDE` before a
program. Then `Cassandra()` does not start a node, but represents a node that already runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import turbocql
import turbocql.testing

__all__ = ["PRELUDE", "new_keyspaces_dropped", "use"]

PRELUDE = """\
import sys
sys.path.insert(0, {root!r})
from tests.support.shared_node import use
use({contact_points!r})
del sys.path[0], use
"""
"""The lines to put before a program. `root` is the repository's root."""


def use(contact_points: list[str]) -> None:
    """Replaces `turbocql.testing.Cassandra` by a class for the node with these contact points."""

    class RunningCassandra:
        def __init__(self) -> None:
            self.contact_points = contact_points

        def start(self) -> None:
            """Does nothing, because the node already runs."""

        def stop(self) -> None:
            """Does nothing, because other programs use the node."""

        def __enter__(self) -> RunningCassandra:
            return self

        def __exit__(
            self,
            error_class: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            self.stop()

    turbocql.testing.Cassandra = RunningCassandra  # type: ignore[misc,assignment]


@contextmanager
def new_keyspaces_dropped(contact_points: list[str]) -> Iterator[None]:
    """At the end of the `with` block, drops the keyspaces that were created during the block."""
    with turbocql.connect(contact_points, timeout_s=60) as session:
        before = set(session.schema().keyspaces)
        try:
            yield
        finally:
            for keyspace in set(session.schema().keyspaces) - before:
                session.execute(f"DROP KEYSPACE {turbocql.quote_identifier(keyspace)}")
