"""Imports rows as cqlsh's COPY does: with worker processes, values converted from text, batches,
and callbacks.
"""

from __future__ import annotations

import datetime
import multiprocessing
import uuid
from decimal import Decimal
from threading import Event
from typing import Any

from cassandra.query import BatchStatement, BatchType, tuple_factory
from cassandra.util import SortedSet
from tests.accel.programs.running import attempt, connected, native_calls, print_native

TABLE = (
    "TABLE copied (id uuid, number int, at timestamp, price decimal, tags set<text>,"
    " stock map<text, int>, pair frozen<tuple<int, text>>, raw blob, PRIMARY KEY (id, number))"
)
INSERT = (
    "INSERT INTO copied (id, number, at, price, tags, stock, pair, raw) VALUES (?,?,?,?,?,?,?,?)"
)


def converted(fields: list[str]) -> list[Any]:
    """Converts the texts of a line to values, as COPY does."""
    key, number, at, price, tags, stock, first, second, raw = fields
    moment = datetime.datetime.strptime(at, "%Y-%m-%d %H:%M:%S.%f")
    since = moment - datetime.datetime(1970, 1, 1)
    return [
        uuid.UUID(key),
        int(number),
        since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000,
        Decimal(price),
        SortedSet(tags.split("|")) if tags else None,
        {name: int(count) for name, count in (pair.split(":") for pair in stock.split("|"))},
        (int(first), second),
        bytearray.fromhex(raw[2:]),
    ]


def line(number: int) -> list[str]:
    key = uuid.uuid5(uuid.NAMESPACE_DNS, str(number // 4))
    tags = "" if number % 5 == 0 else f"new|it's|{number % 3}"
    price = f"{number}.{number:02}"
    at = f"2026-11-23 10:30:{number % 60:02}.123456"
    return [
        str(key),
        str(number),
        at,
        price,
        tags,
        f"a:{number}|b:1",
        "7",
        "pair",
        f"0x{number:04x}",
    ]


def work(lines: list[list[str]], answers: Any) -> None:
    """Imports lines on a connection of this process. Each batch has lines of one partition."""
    with connected() as session:
        insert = session.prepare(INSERT)
        sent: list[tuple[Event, list[str]]] = []
        for at in range(0, len(lines), 4):
            batch = BatchStatement(batch_type=BatchType.UNLOGGED)
            # Like COPY, this code appends to the batch's list, without `BatchStatement.add`.
            for fields in lines[at : at + 4]:
                bound = insert.bind(converted(fields))
                batch._statements_and_parameters.append(
                    (True, bound.prepared_statement.query_id, bound.values)
                )
                batch._update_state(bound)
            finished, errors = Event(), []  # type: ignore[var-annotated]
            sent.append((finished, errors))
            future = session.execute_async(batch)
            future.add_callbacks(
                callback=lambda _, event=finished: event.set(),
                errback=lambda error, event=finished, to=errors: (
                    to.append(repr(error)),
                    event.set(),
                ),
            )
        failed = [errors for event, errors in sent if not event.wait(60) or errors]
        answers.put((len(lines), failed, native_calls()))


def main() -> None:
    lines = [line(number) for number in range(96)]
    with connected(TABLE) as session:
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        workers = [
            context.Process(target=work, args=(lines[at : at + 48], answers)) for at in (0, 48)
        ]
        for worker in workers:
            worker.start()
        reports = [answers.get(timeout=60) for _ in workers]
        for worker in workers:
            worker.join(60)
        print([report[:2] for report in reports])
        session.row_factory, session.default_fetch_size = tuple_factory, 10
        for row in sorted(session.execute("SELECT * FROM copied"), key=lambda row: row[1]):
            print(row)
        insert = session.prepare(INSERT)
        for position, value in ((0, "no uuid"), (1, "7"), (2, "today"), (5, {"a": "b"}), (6, (1,))):
            values = converted(lines[1])
            values[position] = value
            attempt(lambda v=values: insert.bind(v).values)
    print_native(report[2] for report in reports)


if __name__ == "__main__":
    main()
