"""A real Apache Cassandra for tests, started from Python and ended with the Python process.

    from turbocql.testing import Cassandra

    with Cassandra(nodes=1) as cluster:
        session = turbocql.connect(cluster.contact_points)

It needs Java 17 (or 11). The first start also needs Maven, which fetches the server's jars into
the user's cache. Starting a cluster imports nothing else of turbocql, so any driver can be tested.
On the command line, run `python -m turbocql.testing`. In pytest, use the fixtures of
`pytest_plugin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster import Cassandra
    from .errors import CassandraError, MissingPrerequisite
    from .node import Node
    from .scylla import Scylla, Shards

__all__ = ["Cassandra", "CassandraError", "MissingPrerequisite", "Node", "Scylla", "Shards"]

# Where turbocql is installed, every run of pytest loads the plugin, and this package with it. So
# nothing is imported before it is used.
_SUBMODULES = {
    "Cassandra": ".cluster",
    "CassandraError": ".errors",
    "MissingPrerequisite": ".errors",
    "Node": ".node",
    "Scylla": ".scylla",
    "Shards": ".scylla",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return getattr(import_module(_SUBMODULES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
