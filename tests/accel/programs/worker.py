"""A task queue whose workers store results in a table. Each process has its own session.

    python worker.py HOST PORT fork|spawn|forkserver

Prints a report as JSON. For example, the report has the results that the parent process has read
from the table, and says whether each worker was accelerated.
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import os
import pickle
import sys
import uuid
from typing import Any

from cassandra.cluster import Cluster, Session
from cassandra.query import BatchStatement, SimpleStatement

KEYSPACE = "accelerated_worker"
NOW = datetime.datetime(2026, 11, 23, 10, 30)
WRITE = (
    "INSERT INTO results (task_id, status, result, date_done, traceback, children)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)


class Backend:
    """Stores a task queue's results in a table, with simple statements."""

    def __init__(self, host: str, port: int) -> None:
        self.cluster = Cluster([host], port=port, protocol_version=4)
        self.session: Session = self.cluster.connect(KEYSPACE)
        self.session.default_timeout = 60
        self.read = self.session.prepare("SELECT * FROM results WHERE task_id = ?")

    def store(self, task: uuid.UUID, status: str, result: Any, trace: str | None) -> None:
        children = [str(task)[:8], status] if status == "SUCCESS" else []
        given = (task, status, pickle.dumps(result), NOW, trace, children)
        self.session.execute(WRITE, given)

    def result(self, task: uuid.UUID) -> Any:
        row = self.session.execute(self.read, (task,)).one()
        return row and [row.status, pickle.loads(row.result), str(row.date_done), row.children]

    def close(self) -> None:
        self.cluster.shutdown()


def add(a: Any, b: Any) -> Any:
    return a + b


def total(numbers: dict[str, float]) -> Any:
    return {"total": sum(numbers.values()), "names": sorted(numbers)}


def work(place: tuple[str, int], tasks: Any, answers: Any) -> None:
    """Takes and runs tasks until it takes a None. Stores the result or error of each task."""
    backend = Backend(*place)
    done = 0
    while (task := tasks.get()) is not None:
        key, name, arguments = task
        try:
            backend.store(key, "SUCCESS", globals()[name](*arguments), None)
        except Exception as error:
            backend.store(key, "FAILURE", repr(error), f"it's {error}")
        done += 1
    backend.close()
    answers.put((os.getpid(), done, native()))


def native() -> Any:
    """Returns whether the accelerator is on, and how many calls of `bind_params` were native.

    Returns None if turbocql is not imported.
    """
    accel = sys.modules.get("turbocql.accel")
    if accel is None:
        return None
    counted = {seam.name: seam.native for seam in accel.status().seams}
    return [accel.status().on, counted["query.bind_params"]]


def main() -> None:
    place = (sys.argv[1], int(sys.argv[2]))
    with Cluster([place[0]], port=place[1], protocol_version=4) as cluster:
        session = cluster.connect()
        replication = {"class": "SimpleStrategy", "replication_factor": 1}
        for text in (
            f"DROP KEYSPACE IF EXISTS {KEYSPACE}",
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}",
            f"CREATE TABLE {KEYSPACE}.results (task_id uuid PRIMARY KEY, status text, result blob,"
            " date_done timestamp, traceback text, children list<text>)",
        ):
            session.execute(text, timeout=60)
    context: Any = multiprocessing.get_context(sys.argv[3])
    tasks, answers = context.Queue(), context.Queue()
    workers = [context.Process(target=work, args=(place, tasks, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    calls: list[tuple[str, Any]] = [("add", (number, number)) for number in range(60)]
    calls += [("add", ("it's", f" {number}")) for number in range(20)]
    calls += [("add", (1, "a")), ("total", ({"b": 1.5, "a": 2.0},)), ("nothing", ())]
    keys = [uuid.uuid5(uuid.NAMESPACE_URL, str(number)) for number in range(len(calls))]
    for key, (name, arguments) in zip(keys, calls, strict=True):
        tasks.put((key, name, arguments))
    for _ in workers:
        tasks.put(None)
    told = [answers.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join(120)
    backend = Backend(*place)
    texts = [f"{name}{arguments}" for name, arguments in calls]
    results = {text: backend.result(key) for text, key in zip(texts, keys, strict=True)}
    batch = BatchStatement()
    for key in keys[:5]:
        batch.add(SimpleStatement("DELETE FROM results WHERE task_id = %s"), (key,))
    backend.session.execute(batch)
    gone = {text: backend.result(key) for text, key in zip(texts[:6], keys[:6], strict=True)}
    backend.close()
    report = {
        "results": results,
        "gone": gone,
        "done": sum(done for _, done, _ in told),
        "processes": len({pid for pid, _, _ in told} - {os.getpid()}),
        "workers": [one for _, _, one in told],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
