"""Runs programs that use the drivers as popular libraries do, with and without the accelerator."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from tests.accel.environments import DRIVERS, SAFE, python_of, run_installed
from tests.accel.programs.running import PREFIX

import turbocql
from turbocql.testing import Cassandra

REQUESTS = ("bodies", "rows")
BOUND = ("bind", "routing_key", "segments", *REQUESTS)
NAMED = ("named_rows", "simple_statements", *BOUND)
PROGRAMS: dict[str, tuple[str, ...]] = {
    "vector_store": ("types", "timers", "named_rows", *BOUND),
    "chat_history": ("simple_statements", *BOUND),
    "feature_store": NAMED,
    "hash_storage": ("simple_statements", *BOUND),
    "changed_columns": ("cqlengine", "segments", *REQUESTS),
    "data_frames": ("types", "simple_statements", *BOUND),
    "copy_workers": ("timers", *BOUND),
    "threaded_server": ("timers", "sending", "responses", *NAMED),
    "threaded_server asyncore": ("timers", "responses", *NAMED),
    "prefork_server": ("simple_statements", *BOUND),
    "asyncio_service": NAMED,
    "asyncio_service reactor": NAMED,
    "traced": ("timers", *NAMED),
}
"""Maps each program to the parts of the accelerator that the program must use."""
GREEN = {"cassandra-driver": "green_threads gevent", "eventlet": "green_threads eventlet"}
TWISTED = ("eventlet", "threaded_server twisted")
"""`GREEN` and `TWISTED` have environments, each with a program that runs only there. The program
uses a reactor (an event loop of the driver) that scylla-driver lacks."""
NEEDS = {
    "data_frames": pytest.mark.needs(sys.version_info < (3, 15), "pandas"),
    "threaded_server asyncore": pytest.mark.needs(sys.version_info < (3, 12), "asyncore"),
}
STEPS_ASIDE = {
    *("threaded_server asyncore", "asyncio_service reactor"),
    *("green_threads gevent", "green_threads eventlet", "threaded_server twisted"),
}
"""Programs whose connections do not use libev. For them the accelerator leaves sending to the
driver."""
PATCHED = pytest.mark.needs(sys.version_info < (3, 14), "gevent or eventlet")
CASES = [
    *(
        pytest.param(driver, program, marks=NEEDS.get(program, ()))
        for driver in DRIVERS
        for program in PROGRAMS
    ),
    *(pytest.param(driver, program, marks=PATCHED) for driver, program in GREEN.items()),
    pytest.param(*TWISTED),
]


@pytest.fixture(scope="module")
def keyspaces(cassandra: Cassandra) -> dict[tuple[str, str], str]:
    """Creates two keyspaces for each environment, and returns their names.

    One keyspace is for runs with the accelerator, and the other is for runs without it.
    """
    names = {
        (driver, variable): f"{driver.partition('-')[0]}_{variable}_{uuid4().hex[:8]}"
        for driver in (*DRIVERS, "eventlet")
        for variable in ("0", "1")
    }
    with turbocql.connect(cassandra.contact_points) as session:
        for name in names.values():
            session.execute(
                f"CREATE KEYSPACE {name} WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
    return names


@pytest.mark.parametrize(("driver", "program"), CASES)
def test_a_program_prints_the_same(
    cassandra: Cassandra,
    keyspaces: dict[tuple[str, str], str],
    tmp_path: Path,
    driver: str,
    program: str,
) -> None:
    name, *options = program.split()
    host, _, port = cassandra.contact_points[0].rpartition(":")

    def printed(variable: str) -> list[str]:
        keyspace = keyspaces[driver, variable]
        module = f"tests.accel.programs.{name}"
        folder = tmp_path / variable
        folder.mkdir()
        arguments = ("-m", module, host, port, keyspace, *options)
        done = run_installed(python_of(driver), folder, *arguments, variable=variable)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout.replace(keyspace, "KEYSPACE").splitlines()

    with ThreadPoolExecutor(2) as pool:
        plain, accelerated = pool.map(printed, ("0", "1"))
    report = accelerated.pop()
    assert report.startswith(PREFIX)
    assert len(plain) > 10
    for before, after in zip(plain, accelerated, strict=True):
        assert before == after
    native = json.loads(report.removeprefix(PREFIX))
    unused = {part for part in PROGRAMS.get(program, ("timers", *NAMED)) if not native[part]}
    assert SAFE or not unused, native
    assert (native["sending"] == 0) == (program in STEPS_ASIDE), native
