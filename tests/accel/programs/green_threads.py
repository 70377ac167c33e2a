"""Runs requests in green threads, with the driver's reactor for gevent or eventlet.

The program's last argument is `gevent` or `eventlet`. The library of this name patches the standard
library before the program imports the driver.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

warnings.simplefilter("ignore")

if sys.argv[4] == "gevent":
    from gevent import monkey

    monkey.patch_all()
    from gevent.pool import Pool
else:
    import eventlet

    eventlet.monkey_patch()

from cassandra.query import BatchStatement  # noqa: E402
from tests.accel.programs.running import attempt, connected, print_native  # noqa: E402


def mapped(call: Callable[[int], Any], numbers: Iterable[int]) -> list[Any]:
    """Calls a function with each number, in ten green threads. Returns the results."""
    if sys.argv[4] == "gevent":
        return list(Pool(10).map(call, numbers))
    return list(eventlet.GreenPool(10).imap(call, numbers))


def main() -> None:
    table = f"TABLE {sys.argv[4]}_jobs (id int PRIMARY KEY, name text, parts list<int>, at time)"
    with connected(table) as session:
        print(session.cluster.connection_class.__name__)
        name = table.split()[1]
        insert = session.prepare(f"INSERT INTO {name} (id, name, parts, at) VALUES (?, ?, ?, ?)")
        select = session.prepare(f"SELECT * FROM {name} WHERE id = ?")

        def job(number: int) -> str:
            session.execute(insert, (number, f"it's {number}", [number] * 3, number))
            futures = [session.execute_async(select, (number,)) for _ in range(3)]
            rows = [future.result().one() for future in futures]
            text = f"UPDATE {name} SET name = %s WHERE id = %s"
            session.execute(text, (f"done {number}", number))
            return f"{rows} {session.execute(select, {'id': number}).one().name}"

        print("\n".join(mapped(job, range(60))))
        batch = BatchStatement()
        for number in range(60, 65):
            batch.add(insert, (number, None, [], "10:30:15"))
        session.execute(batch)
        attempt(session.execute, insert, (1, 5, [], 1))
        attempt(session.execute, "SELECT wrong FROM nothing")
        session.default_fetch_size = 8
        print(sorted(session.execute(f"SELECT id, name, parts, at FROM {name}")))
        # This request has its own timeout. So when the request is answered, the driver must end a
        # timer.
        attempt(lambda: session.execute(select, (1,), timeout=30).one())
    print_native()


if __name__ == "__main__":
    main()
