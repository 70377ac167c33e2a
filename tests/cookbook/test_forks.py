"""Tests the recipe for gunicorn and Celery. The tests use real processes that fork."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

import turbocql

from .support import EXAMPLES, Server, answers


def test_each_worker_of_gunicorn_has_a_session(
    server: Server, session: turbocql.Session, schema: Callable[[str], None], port: int
) -> None:
    schema("with_forks")
    running = server("with_forks", "gunicorn", "--no-control-socket", "--bind", f"127.0.0.1:{port}")
    url = f"http://127.0.0.1:{port}/"
    running.wait_for(lambda: answers(f"{url}?id=first&amount=1.50"))
    numbers = iter(range(10_000))

    def workers() -> set[int]:
        number = next(numbers)
        answer = httpx.get(url, params={"id": f"a{number}", "amount": "19.90"}, trust_env=False)
        assert answer.status_code == 201
        return set(session.execute("SELECT accepted_by FROM orders").to_numpy()["accepted_by"])

    running.wait_for(lambda: len(workers()) == 2)
    processes = workers()
    assert running.process.pid not in processes
    assert running.terminate() == 0
    assert "Exception" not in running.log()
    exited = re.findall(r"Worker exiting \(pid: (\d+)\)", running.log())
    assert {*map(int, exited)} == processes
    amount = session.execute("SELECT amount FROM orders WHERE id = 'first'").scalar()
    assert amount == Decimal("1.50")


SEND = """
import tasks

for number in range(8):
    tasks.book.delay(f"a{number}")
"""


# A warm shutdown of Celery takes five seconds.
@pytest.mark.parametrize("is_warm", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_each_process_of_celery_has_a_session(
    is_warm: bool,
    server: Server,
    environment: dict[str, str],
    session: turbocql.Session,
    schema: Callable[[str], None],
    tmp_path: Path,
) -> None:
    schema("with_forks")
    queue, control = tmp_path / "queue", tmp_path / "control"
    queue.mkdir()
    variables = {
        "BROKER_URL": "filesystem://",
        "BROKER_OPTIONS": json.dumps(
            {
                "data_folder_in": str(queue),
                "data_folder_out": str(queue),
                "control_folder": str(control),
                "polling_interval": 0.05,
            }
        ),
    }
    running = server(
        *("with_forks", "celery", "-A", "tasks", "worker", "--pool", "prefork"),
        *("--concurrency", "2", "--loglevel", "INFO", "--without-gossip", "--without-mingle"),
        **variables,
    )
    subprocess.run(
        [sys.executable, "-c", SEND],
        cwd=EXAMPLES / "with_forks",
        env={**environment, **variables},
        check=True,
        timeout=60,
    )

    def booked_by() -> dict[str, int]:
        rows = session.execute("SELECT id, booked_by FROM orders", rows="tuple")
        return dict(rows.all())

    running.wait_for(lambda: len(booked_by()) == 8)
    assert set(booked_by()) == {f"a{number}" for number in range(8)}
    assert not {running.process.pid, os.getpid()} & set(booked_by().values())
    if is_warm:
        assert running.terminate() == 0, running.log()
    else:
        running.kill()
    assert "raised" not in running.log()


FORKED = """
import os
import shop

shop.open_session()
before = shop.session()
child = os.fork()
if child == 0:
    try:
        before.execute("SELECT key FROM system.local")
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    shop.open_session()
    print(shop.session().execute("SELECT key FROM system.local").scalar(), flush=True)
    shop.close_session()
    os._exit(0)
os.waitpid(child, 0)
print("parent", before.execute("SELECT key FROM system.local").scalar())
"""


def test_a_session_of_the_parent_is_refused_in_the_child(environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORKED],
        cwd=EXAMPLES / "with_forks",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stderr == ""
    message = "the session was opened before this process was forked; connect again in the child"
    assert ran.stdout.splitlines() == [f"ClosedError {message}", "local", "parent local"]
