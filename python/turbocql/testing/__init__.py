"""A real Apache Cassandra for tests, started from Python, ended with it.

    from turbocql.testing import Cassandra

    with Cassandra(nodes=1) as cluster:
        session = turbocql.connect(cluster.contact_points)

It needs Java 17 (or 11) and, the first time, Maven, which fetches the server's jars into the
user's cache. Nothing else of turbocql is imported here: the module works with any driver.
By hand: `python -m turbocql.testing`. In pytest: the fixtures of `pytest_plugin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster import Cassandra
    from .errors import CassandraError, MissingPrerequisite
    from .node import Node

__all__ = ["Cassandra", "CassandraError", "MissingPrerequisite", "Node"]

# The pytest plugin is loaded in every test run of everybody who has turbocql installed, and
# loads this package with it: so nothing is imported before it is asked for.
_HOMES = {
    "Cassandra": ".cluster",
    "CassandraError": ".errors",
    "MissingPrerequisite": ".errors",
    "Node": ".node",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
