"""Serves requests in forked children, as gunicorn and uWSGI do. Each child has its own session."""

from __future__ import annotations

import json
import os
from typing import Any

from cassandra.query import dict_factory
from tests.accel.programs.running import connected, native_calls, print_native

TABLE = "TABLE carts (id int PRIMARY KEY, items map<text, int>, total decimal, note text)"


def serve(worker: int) -> list[str]:
    """Handles the requests of one worker. Returns lines of text: the rows that it has read, and an
    error.
    """
    with connected() as session:
        session.row_factory = dict_factory
        insert = session.prepare("INSERT INTO carts (id, items, total, note) VALUES (?, ?, ?, ?)")
        select = session.prepare("SELECT * FROM carts WHERE id = ?")
        lines = []
        for number in range(30):
            key = worker * 100 + number
            session.execute(insert, (key, {"apple": number, "it's": 1}, number, None))
            session.execute("UPDATE carts SET note = %s WHERE id = %s", (f"it's {number}", key))
            lines.append(repr(session.execute(select, [key]).one()))
        try:
            session.execute(insert, (1, {"apple": "many"}, 1, ""))
        except Exception as error:
            lines.append(f"{type(error).__name__}: {error}")
        return lines


def forked(worker: int) -> tuple[int, Any]:
    """Forks a child. Returns the child's process id and a file to read the child's report from."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            report = (serve(worker), native_calls())
            with os.fdopen(writer, "w") as pipe:
                json.dump(report, pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    return child, os.fdopen(reader)


def main() -> None:
    with connected(TABLE) as session:
        # The parent uses the driver too, and closes its session before it forks.
        session.execute("INSERT INTO carts (id, note) VALUES (%s, %s)", (0, "master"))
        print(list(session.execute("SELECT * FROM carts")))
    children = []
    for child, pipe in [forked(worker) for worker in (1, 2)]:
        with pipe:
            lines, calls = json.load(pipe)
        _, status = os.waitpid(child, 0)
        print(status, *lines, sep="\n")
        children.append(calls)
    with connected() as session:
        print(session.execute("SELECT count(*), sum(total) FROM carts").one())
    print_native(children)


if __name__ == "__main__":
    main()
