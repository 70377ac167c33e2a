"""Tests that gevent's greenlets and Trio's tasks run while a session waits in their threads.

A proxy sends each answer 0.3 s late.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.liar import EXECUTE, Answer, Liar

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
    pool = ThreadPool(10)
    began = time.monotonic()
    calls = [pool.spawn(session.execute, select, ("local",)) for _ in range(10)]
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
PROGRAMS = [
    pytest.param(TRIO, sys.executable, id="trio"),
    pytest.param(
        GEVENT,
        str(ROOT / ".venv-cassandra-driver" / "bin" / "python"),
        id="gevent",
        marks=pytest.mark.needs(sys.version_info < (3, 14), "gevent"),
    ),
]


@pytest.mark.parametrize(("program", "python"), PROGRAMS)
def test_others_run_while_ten_requests_wait(
    cassandra: Cassandra, program: str, python: str
) -> None:
    def late(answer: Answer) -> bytes:
        if answer.request_opcode == EXECUTE:
            time.sleep(0.3)
        return answer.frame()

    with Liar(cassandra.contact_points[0], late) as proxy:
        ran = subprocess.run(
            [python, "-c", program, proxy.contact_point],
            capture_output=True,
            text=True,
            timeout=120,
            env={"PYTHONPATH": str(ROOT / "python")},
        )
    assert ran.returncode == 0, ran.stderr
    keys, seconds, beats = json.loads(ran.stdout)
    assert keys == ["local"] * 10
    # The proxy delays the answers one after another.
    assert seconds >= 3
    # If calls waited in the loop's thread, the others would run once between two calls. They run
    # 300 times on a machine that is not loaded.
    assert beats > 40
