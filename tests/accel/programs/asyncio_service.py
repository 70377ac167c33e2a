"""Awaits requests on asyncio. Callbacks on the driver's futures set the results of asyncio futures.

With the option `reactor`, the driver's connections run on asyncio too.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tests.accel.programs.running import connected, print_native


class Client:
    """Makes an asyncio future for each request, as aiocassandra does."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.loop = asyncio.get_running_loop()

    def execute(self, *values: Any, **named: Any) -> asyncio.Future[Any]:
        """Sends a request. Returns an asyncio future whose result is the first page."""
        waiter = self.loop.create_future()
        future = self.session.execute_async(*values, **named)
        future.add_callbacks(
            lambda rows: self.loop.call_soon_threadsafe(self.set_result, waiter, rows),
            lambda error: self.loop.call_soon_threadsafe(self.set_exception, waiter, error),
        )
        return waiter

    def set_result(self, waiter: asyncio.Future[Any], rows: Any) -> None:
        if not waiter.done():
            waiter.set_result(rows)

    def set_exception(self, waiter: asyncio.Future[Any], error: Exception) -> None:
        if not waiter.done():
            waiter.set_exception(error)


async def serve(session: Any, table: str) -> None:
    client = Client(session)
    insert = session.prepare(f"INSERT INTO {table} (id, name, scores, day) VALUES (?, ?, ?, ?)")
    select = session.prepare(f"SELECT * FROM {table} WHERE id = ?")
    rows = [(n, f"it's {n}", {f"s{n % 3}": n / 4}, f"2026-11-{n % 28 + 1:02}") for n in range(80)]
    await asyncio.gather(*(client.execute(insert, row) for row in rows))
    text = f"UPDATE {table} SET name = %s WHERE id = %s"
    await asyncio.gather(*(client.execute(text, (f"new {n}", n)) for n in range(10)))
    for page in await asyncio.gather(*(client.execute(select, [n]) for n in range(82))):
        print(list(page))
    wrong: list[tuple[Any, Any]] = [
        (insert, (1, 2, {}, None)),
        ("SELECT nothing FROM nowhere", None),
        (select, {}),
    ]
    for statement, values in wrong:
        try:
            print(await client.execute(statement, values))
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    try:
        await asyncio.wait_for(client.execute(select, (1,)), 30)
        waiter = client.execute(select, (1,))
        waiter.cancel()
        await waiter
    except asyncio.CancelledError as error:
        print(repr(error))
    executor = asyncio.get_running_loop().run_in_executor
    print((await executor(None, session.execute, select, (5,))).one())


def main() -> None:
    options: dict[str, Any] = {}
    if "reactor" in sys.argv:
        from cassandra.io.asyncioreactor import AsyncioConnection

        options["connection_class"] = AsyncioConnection
    table = "awaited_" + ("reactor" if options else "callbacks")
    columns = "id int PRIMARY KEY, name text, scores map<text, double>, day date"
    with connected(f"TABLE {table} ({columns})", **options) as session:
        asyncio.run(serve(session, table))
    print_native()


if __name__ == "__main__":
    main()
