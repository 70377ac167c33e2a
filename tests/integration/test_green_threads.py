"""Tests that gevent's greenlets and Trio's tasks run while a session waits.

A proxy sends each answer 0.3 s late.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.changing_proxy import EXECUTE, Answer, ChangingProxy

from turbocql.testing import Cassandra

ROOT = Path(__file__).resolve().parents[2]
GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent
from gevent.threadpool import ThreadPool
import json, sys, time, turbocql

beats = []

def beat():
    while True:
        beats.append(time.monotonic())
        gevent.sleep(0.01)

with turbocql.connect(sys.argv[1]) as session:
    select = session.prepare("SELECT key FROM system.local WHERE key = ?")
    heart = gevent.spawn(beat)
    gevent.sleep(0.1)
    spawn = ThreadPool(10).spawn if sys.argv[2] == "pool" else gevent.spawn
    began = time.monotonic()
    calls = [spawn(session.execute, select, ("local",)) for _ in range(10)]
    keys = [call.get().one().key for call in gevent.wait(calls)]
    seconds = time.monotonic() - began
    heart.kill()
print(json.dumps([keys, seconds, sum(beat > began for beat in beats)]))
"""
TRIO = """
import json, sys, time, trio, turbocql

async def main():
    beats, keys = [], []

    async def beat():
        while True:
            beats.append(time.monotonic())
            await trio.sleep(0.01)

    async def read():
        rows = await trio.to_thread.run_sync(session.execute, select, ("local",))
        keys.append(rows.one().key)

    with await trio.to_thread.run_sync(turbocql.connect, sys.argv[1]) as session:
        select = session.prepare("SELECT key FROM system.local WHERE key = ?")
        async with trio.open_nursery() as heart:
            heart.start_soon(beat)
            await trio.sleep(0.1)
            began = time.monotonic()
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(read)
            seconds = time.monotonic() - began
            heart.cancel_scope.cancel()
    print(json.dumps([keys, seconds, sum(beat > began for beat in beats)]))

trio.run(main)
"""
WITH_GEVENT = str(ROOT / ".venv-cassandra-driver" / "bin" / "python")
NEEDS_GEVENT = pytest.mark.needs(sys.version_info < (3, 14), "gevent")
PROGRAMS = [
    pytest.param(TRIO, sys.executable, "threads", id="trio"),
    *(
        pytest.param(GEVENT, WITH_GEVENT, how, id=f"gevent-{how}", marks=NEEDS_GEVENT)
        for how in ("greenlets", "pool")
    ),
]


def run(python: str, program: str, *arguments: str) -> str:
    """Returns what the program prints."""
    ran = subprocess.run(
        [python, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": str(ROOT / "python")},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(("program", "python", "how"), PROGRAMS)
def test_other_tasks_run_while_ten_requests_wait(
    cassandra: Cassandra, program: str, python: str, how: str
) -> None:
    def late(answer: Answer) -> bytes:
        if answer.request_opcode == EXECUTE:
            time.sleep(0.3)
        return answer.frame()

    with ChangingProxy(cassandra.contact_points[0], late) as proxy:
        printed = run(python, program, proxy.contact_point, how)
    keys, seconds, beats = json.loads(printed)
    assert keys == ["local"] * 10
    # The proxy delays one answer after another, so ten answers take 3 s.
    assert seconds >= 3
    # If calls blocked the thread of the event loop, the other task would run only once between two
    # calls. Calls do not block it, so the other task runs 300 times on an idle machine.
    assert beats > 40


EVERYTHING = """
from gevent import monkey
monkey.patch_all()
import gevent
import json, sys, threading, time, turbocql
from gevent.queue import Queue

with turbocql.connect(sys.argv[1], page_size=10, max_in_flight=4) as session:
    session.execute("CREATE KEYSPACE IF NOT EXISTS green WITH replication ="
                    " {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE green.t (k int PRIMARY KEY, v text)")
    # The rows come from another greenlet, through a queue of this thread's hub.
    queue = Queue(maxsize=5)

    def produce():
        for k in range(500):
            queue.put((k, str(k)))
        queue.put(StopIteration)

    gevent.spawn(produce)
    assert session.execute_many("INSERT INTO green.t (k, v) VALUES (?, ?)", queue).succeeded == 500

    def read(k):
        text = f"SELECT k, v AS v{k} FROM green.t WHERE k = ?"
        return session.execute(text, (k,)).one().k

    calls = [gevent.spawn(read, k) for k in range(300)]
    assert [call.get() for call in calls] == list(range(300))
    assert len(list(session.execute("SELECT * FROM green.t"))) == 500
    # A thread of threading is a greenlet; it waits too.
    counts = []
    thread = threading.Thread(target=lambda: counts.append(len(session.scan("green.t").all())))
    thread.start()
    thread.join()
    assert counts == [500]
    # A timeout of gevent ends the wait, and the session goes on.
    late = session.prepare("SELECT k FROM green.t WHERE k = ?")
    try:
        with gevent.Timeout(0.05):
            session.execute("SELECT * FROM green.t WHERE v = 'late' ALLOW FILTERING")
        ended = False
    except gevent.Timeout:
        ended = True
    assert session.execute(late, (1,)).one().k == 1
    killed = gevent.spawn(session.execute, "SELECT * FROM green.t WHERE v = 'late' ALLOW FILTERING")
    gevent.sleep(0.05)
    killed.kill()
    assert session.execute(late, (2,)).one().k == 2
    try:
        session.execute("SELECT nothing FROM green.t")
    except turbocql.errors.InvalidQuery as error:
        print(json.dumps([ended, "Undefined column name nothing" in str(error)]))
"""


@NEEDS_GEVENT
def test_all_calls_work_in_greenlets(cassandra: Cassandra) -> None:
    def late(answer: Answer) -> bytes:
        if b"'late'" in answer.request_body:
            time.sleep(0.5)
        return answer.frame()

    with ChangingProxy(cassandra.contact_points[0], late) as proxy:
        assert json.loads(run(WITH_GEVENT, EVERYTHING, proxy.contact_point)) == [True, True]
