"""Serves requests with eight threads that share a session and its prepared statements.

With the option `asyncore`, the driver's connections run on asyncore, which CPython 3.12 removed.
With the option `twisted`, they run on Twisted's reactor.
"""

from __future__ import annotations

import datetime
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from cassandra.query import BatchStatement
from tests.accel.programs.running import connected, print_native

REACTORS = [name for name in ("asyncore", "twisted") if name in sys.argv]
VISITS = "_of_".join(["visits", *REACTORS])
TABLE = (
    f"TABLE {VISITS} (user uuid, number int, at timestamp, page text, tags list<text>, score float,"
    " PRIMARY KEY (user, number))"
)
WORKERS = 8
NOW = datetime.datetime(2026, 11, 23, 10, 30)


class Server:
    """Handles requests as a threaded WSGI application would."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.start = Barrier(WORKERS)
        columns = "user, number, at, page, tags, score"
        self.insert = session.prepare(f"INSERT INTO {VISITS} ({columns}) VALUES (?, ?, ?, ?, ?, ?)")
        self.select = session.prepare(f"SELECT * FROM {VISITS} WHERE user = ?")

    def serve(self, worker: int) -> list[str]:
        """Writes and reads back one user's rows, in several ways."""
        user = uuid.uuid5(uuid.NAMESPACE_DNS, str(worker))
        seen = []
        self.start.wait()
        for number in range(40):
            tags = [f"it's {worker}"] * (number % 3)
            row: Any = (user, number, NOW + datetime.timedelta(number), f"/{worker}", tags, 0.5)
            if number % 4 == 0:
                text = f"INSERT INTO {VISITS} (user, number, page, tags) VALUES (%s, %s, %s, %s)"
                self.session.execute(text, (user, number, f"it's {number}", tags))
            elif number % 4 == 1:
                batch = BatchStatement()
                batch.add(self.insert, row)
                self.session.execute(batch)
            else:
                self.session.execute(self.insert, row)
            if number % 8 == 7:
                rows = list(self.session.execute(self.select, (user,)))
                seen.append(f"{worker} {len(rows)} {rows[-2:]}")
            if number % 16 == 3:
                try:
                    self.session.execute(self.insert, (user, f"{number}", NOW, "", [], 0.5))
                except TypeError as error:
                    seen.append(f"{worker} {error}")
        return seen


def main() -> None:
    options: dict[str, Any] = {}
    if "asyncore" in REACTORS:
        from cassandra.io.asyncorereactor import AsyncoreConnection

        options["connection_class"] = AsyncoreConnection
    elif "twisted" in REACTORS:
        from cassandra.io.twistedreactor import TwistedConnection

        options["connection_class"] = TwistedConnection
    with connected(TABLE, **options) as session, ThreadPoolExecutor(WORKERS) as pool:
        server = Server(session)
        for lines in pool.map(server.serve, range(WORKERS)):
            print("\n".join(lines))
        print(session.execute(f"SELECT count(*), sum(number), max(at) FROM {VISITS}").one())
    print_native()


if __name__ == "__main__":
    main()
