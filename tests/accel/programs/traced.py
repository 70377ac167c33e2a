"""Traces requests as OpenTelemetry's instrumentation does: it wraps methods of `Session`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from queue import Queue
from typing import Any

from cassandra import cluster
from cassandra.query import BatchStatement, SimpleStatement, tuple_factory
from tests.accel.programs.running import attempt, connected, print_native

SPANS: list[str] = []
ENDED: Queue[str] = Queue()
"""A text for each request that has ended. The thread of the driver's event loop adds it."""


def wrapped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls `original`, and records a span when the call has ended."""

    @functools.wraps(original)
    def traced(session: Any, *values: Any, **named: Any) -> Any:
        statement = values[0] if values else named["query"]
        text = getattr(statement, "query_string", None)
        prepared = getattr(statement, "prepared_statement", statement)
        span = f"{name} {type(statement).__name__}: {text or getattr(prepared, 'query_string', '')}"
        parameters = values[1] if len(values) > 1 else named.get("parameters")
        try:
            result = original(session, *values, **named)
        except Exception as error:
            SPANS.append(f"{span} {parameters!r} failed: {type(error).__name__}: {error}")
            raise
        SPANS.append(f"{span} {parameters!r}")
        if name == "execute_async":
            result.add_callbacks(
                lambda rows: ENDED.put(f"ended {rows!r}"),
                lambda error: ENDED.put(f"ended {type(error).__name__}: {error}"),
            )
        return result

    return traced


def main() -> None:
    for name in ("execute", "execute_async"):
        setattr(cluster.Session, name, wrapped(name, getattr(cluster.Session, name)))
    with connected("TABLE spans (id int PRIMARY KEY, name text, tags set<int>)") as session:
        insert = session.prepare("INSERT INTO spans (id, name, tags) VALUES (?, ?, ?)")
        select = session.prepare("SELECT * FROM spans WHERE id = ?")
        for number in range(20):
            session.execute(insert, (number, f"it's {number}", {number, 1}))
            session.execute(select.bind((number,)))
        session.execute(SimpleStatement("SELECT name FROM spans WHERE id = %s"), (3,))
        session.execute("UPDATE spans SET name = %s WHERE id = %s", ("it's new", 3))
        session.execute(query=select, parameters={"id": 3}, timeout=60)
        batch = BatchStatement()
        batch.add(insert, (50, "batch", None))
        session.execute_async(batch).result()
        attempt(session.execute, insert, ("50", "", None))
        attempt(session.execute, "SELECT nothing FROM spans")
        attempt(session.execute, "UPDATE spans SET name = %s WHERE id = %s", (1,))
        session.row_factory = tuple_factory
        print(sorted(session.execute("SELECT * FROM spans")))
    print("\n".join(SPANS))
    sent = sum(span.startswith("execute_async") and " failed: " not in span for span in SPANS)
    print("\n".join(sorted(ENDED.get(timeout=60) for _ in range(sent))))
    print_native()


if __name__ == "__main__":
    main()
