"""The clients of the benchmark of engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["CLIENTS", "PARTS", "TABLE", "Client"]

TABLE = "engines.rows"
PARTS = 16
"""All clients except `scan` split the table into this many parts."""


@dataclass(frozen=True)
class Client:
    """A way to read the table."""

    title: str
    engine: str
    """The name of the client's environment, without `.venv-`."""
    worker: str = ""
    """A text in the command line of every worker. Empty if the client is a single process."""
    workers: int = 1


def _clients() -> Iterator[tuple[str, Client]]:
    yield "scan", Client("`session.scan`, one process", "ray")
    ways = {
        "ray": ("`turbocql.ray`", "ray", "ray::"),
        "spark": ("`turbocql.spark`", "spark", "pyspark.daemon"),
        "dask": ("Dask by the recipe", "dask", "spawn_main"),
        "driver": ("scylla-driver in Ray's `map_batches`", "ray", "ray::"),
    }
    for name, (title, engine, worker) in ways.items():
        for count in (1, 2):
            workers = f"{title}, {count} worker{'s' if count > 1 else ''}"
            yield f"{name}-{count}", Client(workers, engine, worker, count)


CLIENTS = dict(_clients())
