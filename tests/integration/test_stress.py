"""Tests many threads on one session."""

from __future__ import annotations

import threading
import time
from random import Random

from tests.support.threads import run_threads

import turbocql
from turbocql import errors
from turbocql.testing import Cassandra

THREADS, CALLS = 200, 60


def test_two_hundred_threads_on_one_session(cassandra: Cassandra) -> None:
    """Each thread reads what it wrote, although some calls time out."""
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS stress WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE IF NOT EXISTS stress.t (k int PRIMARY KEY, v text)")
    faults: list[object] = []
    given_up = 0
    lock = threading.Lock()
    # `max_in_flight` is below the number of threads, so some calls wait until others have ended.
    with turbocql.connect(cassandra.contact_points, max_in_flight=150) as session:
        insert = session.prepare("INSERT INTO stress.t (k, v) VALUES (?, ?)")
        select = session.prepare("SELECT v FROM stress.t WHERE k = ?")

        def work(thread: int) -> None:
            nonlocal given_up
            random = Random(thread)
            try:
                for call in range(CALLS):
                    text = f"{thread}:{call}"
                    session.execute(insert, (thread, text))
                    if random.random() < 0.1:
                        try:
                            session.execute(select, (thread,), timeout_s=1e-4)
                        except errors.RequestTimeout:
                            with lock:
                                given_up += 1
                    row = session.execute(select, (thread,)).one()
                    if row is None or row.v != text:
                        faults.append((thread, call, row))
            except BaseException as error:
                faults.append(error)

        run_threads(THREADS, work, 120)
        assert faults == []
        # The number of calls that time out depends on the machine.
        assert given_up > 0
        # The I/O thread may still be finishing the last request.
        deadline = time.monotonic() + 10
        while session.in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.in_flight == 0
        assert session.metrics().requests >= 2 * THREADS * CALLS
