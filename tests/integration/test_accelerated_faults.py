"""Runs a program with and without the accelerator on three nodes, while a node fails.

Both runs must print the same lines. They run at the same time, so that each fault hits both.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from queue import Queue
from typing import IO
from uuid import uuid4

import pytest
from tests.accel.environments import DRIVERS, python_of, started
from tests.accel.programs.running import PREFIX
from tests.support.differences import line_differences

import turbocql
from turbocql.testing import Cassandra, Node

USED = ("sending", "concurrent", "responses", "bodies", "rows")
"""Parts of the accelerator that the program has to use."""
CALLBACKS = (
    *(f"{n} [{n % 40}] !" for n in range(60) if n % 10 and n % 40 < 30),
    *(f"{n} [] !" for n in range(31, 40)),
    *(f"{n} {end}" for n in range(0, 60, 10) for end in ("InvalidRequest", "again")),
)
"""The lines about concurrent requests with callbacks. The rows 30 to 39 do not exist, and each
tenth request is invalid."""
PRINTED = Counter(
    {
        **dict.fromkeys(CALLBACKS, 1),
        "300 {True}": 1,
        **{f"True name {number}": 2 for number in range(300) if number % 50},
        "False TypeError": 12,
        "['LOGGED', None]": 1,
        "['UNLOGGED', None]": 1,
        "50 True 309": 1,
        "True 309 309": 1,
        "['s', 't'] ['a']": 1,
        "['s', 't'] ['a', 'b']": 1,
        "['t']": 1,
        "Counter({'answer': 40})": 1,
        "Counter({'InvalidRequest': 3})": 1,
        "endings": 1,
        "all ended: True": 4,
    }
)
"""Lines that the parts `usual` and `endings` of the program print, and how often."""
LONG = pytest.mark.exhaustive


@pytest.fixture
def keyspaces(cassandra_three: Cassandra) -> Iterator[list[str]]:
    """Two keyspaces with three replicas."""
    names = [f"faults_{uuid4().hex[:8]}" for _ in range(2)]
    with turbocql.connect(cassandra_three.contact_points) as session:
        for name in names:
            session.execute(
                f"CREATE KEYSPACE {name} WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 3}"
            )
        yield names
        for name in names:
            session.execute(f"DROP KEYSPACE {name}")


def act(fault: str, node: Node) -> None:
    {"pause": node.pause, "resume": node.resume, "kill": node.kill, "start": node.start}[fault]()


def lines_of(program: subprocess.Popen[str]) -> Queue[str | None]:
    """A queue that a thread fills with the lines that a program prints."""
    queue: Queue[str | None] = Queue()

    def read(stream: IO[str]) -> None:
        for line in stream:
            queue.put(line.rstrip("\n"))
        queue.put(None)

    assert program.stdout is not None
    threading.Thread(target=read, args=(program.stdout,), daemon=True).start()
    return queue


def printed(cluster: Cassandra, programs: Sequence[subprocess.Popen[str]]) -> list[list[str]]:
    """Returns the lines that each program prints.

    A program can print a request for a fault. When all programs have requested the same fault, the
    function makes it.
    """
    queues = [lines_of(program) for program in programs]
    lines: list[list[str]] = [[] for _ in programs]
    while True:
        requests = set()
        for queue, own in zip(queues, lines, strict=True):
            while (line := queue.get(timeout=240)) is not None:
                own.append(line)
                if line.startswith("? "):
                    break
            requests.add(line)
        assert len(requests) == 1, (requests, lines)
        (request,) = requests
        if request is None:
            return lines
        act(request.removeprefix("? "), cluster.nodes[-1])
        for program in programs:
            assert program.stdin is not None
            program.stdin.write("\n")
            program.stdin.flush()


def compared(
    cluster: Cassandra, keyspaces: list[str], tmp_path: Path, driver: str, *options: str
) -> list[str]:
    """Runs the program with and without the accelerator. Returns the lines that both runs print."""
    hosts = ",".join(point.rpartition(":")[0] for point in cluster.contact_points)
    port = cluster.contact_points[0].rpartition(":")[2]
    with ExitStack() as ends:
        programs, logs = [], []
        for variable, keyspace in zip(("0", "1"), keyspaces, strict=True):
            folder = tmp_path / variable
            folder.mkdir()
            log = ends.enter_context((folder / "stderr").open("w+", encoding="utf-8"))
            command = ("-m", "tests.accel.programs.cluster_faults", hosts, port, keyspace, *options)
            program = started(python_of(driver), folder, *command, variable=variable, stderr=log)
            ends.enter_context(program)
            ends.callback(program.kill)
            programs.append(program)
            logs.append(log)
        lines = printed(cluster, programs)
        for program, log in zip(programs, logs, strict=True):
            code = program.wait(60)
            log.seek(0)
            text = log.read()
            assert code == 0, text
            assert "Traceback" not in text
    native = json.loads(lines[1].pop().removeprefix(PREFIX))
    plain, accelerated = (
        [line.replace(keyspace, "KEYSPACE") for line in own]
        for own, keyspace in zip(lines, keyspaces, strict=True)
    )
    changed = line_differences(plain, accelerated)
    assert not changed, changed
    unused = [part for part in USED if not native[part]]
    assert not unused, native
    return plain


@pytest.mark.parametrize("version", [*(pytest.param(v, marks=LONG) for v in "34"), "5"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_program_on_three_nodes(
    cassandra_three: Cassandra, keyspaces: list[str], tmp_path: Path, driver: str, version: str
) -> None:
    plain = compared(cassandra_three, keyspaces, tmp_path, driver, version, "usual", "endings")
    missing = PRINTED - Counter(plain)
    assert not missing, plain
    assert any("['unavailable 0', 'unavailable 1', 'unavailable 2']" in line for line in plain)


@LONG
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_program_while_a_node_fails(
    cassandra_three: Cassandra, keyspaces: list[str], tmp_path: Path, driver: str
) -> None:
    try:
        plain = compared(cassandra_three, keyspaces, tmp_path, driver, "5", "faults")
    finally:
        cassandra_three.nodes[-1].resume()
        cassandra_three.nodes[-1].start()
    assert {"down: True", "up: True"} <= set(plain)
    assert not any("False" in line for line in plain), plain
