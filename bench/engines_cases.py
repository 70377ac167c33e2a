"""The clients of the benchmark of engines, and what is measured of each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CLIENTS", "PARTS", "TABLE", "Client", "processes", "processor_s"]

TABLE = "engines.rows"
PARTS = 16
"""The tasks of each client that has tasks."""


@dataclass(frozen=True)
class Client:
    """A way to read the table."""

    title: str
    engine: str
    """The environment that it runs in, and the module's function."""
    worker: str = ""
    """What is in the command lines of its workers; empty where the client is one process."""
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
            said = f"{title}, {count} worker{'s' if count > 1 else ''}"
            yield f"{name}-{count}", Client(said, engine, worker, count)


CLIENTS = dict(_clients())


def processes(root: int) -> dict[int, tuple[int, str]]:
    """The processes below one, and itself: the parent and the command line of each."""
    known: dict[int, tuple[int, str]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            stat = (place / "stat").read_text().rpartition(")")[2].split()
            command = (
                (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
        except OSError:
            continue
        known[int(place.name)] = (int(stat[1]), command)
    found = {root}
    while True:
        more = {pid for pid, (parent, _) in known.items() if parent in found} - found
        if not more:
            return {pid: known[pid] for pid in found if pid in known}
        found |= more


def processor_s(root: int, worker: str) -> tuple[float, float]:
    """The processor time of a process and of all below it, and of those with `worker` in their
    command lines; of processes that have ended too, if their parents have waited for them.
    """
    tick = os.sysconf("SC_CLK_TCK")
    whole = workers = 0.0
    for pid, (_, command) in processes(root).items():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        own = sum(map(int, fields[11:15])) / tick
        whole += own
        if worker and worker in command and pid != root:
            workers += own
    return whole, workers
