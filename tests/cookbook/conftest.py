"""Fixtures for the tests of recipes (pages of docs/cookbook), such as keyspaces and servers."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import turbocql
from turbocql.testing import Cassandra

from .support import EXAMPLES, ROOT, Program, RunningServer, Server


@pytest.fixture
def session(cassandra: Cassandra, unique_keyspace: str) -> Iterator[turbocql.Session]:
    """Yields a session with a new keyspace for the recipe."""
    with turbocql.connect(cassandra.contact_points, timeout_s=60) as opened:
        opened.execute(
            f"CREATE KEYSPACE {unique_keyspace} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        opened.use_keyspace(unique_keyspace)
        yield opened


@pytest.fixture
def environment(cassandra: Cassandra, session: turbocql.Session) -> dict[str, str]:
    """Returns the environment variables from which a recipe reads its cluster and keyspace."""
    assert session.keyspace is not None
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "PYTHONHASHSEED": "0",  # fixes the order in which sets are printed
        "TURBOCQL_CONTACT_POINTS": ",".join(cassandra.contact_points),
        "TURBOCQL_KEYSPACE": session.keyspace,
    }


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    def run(name: str, *arguments: object) -> str:
        ran = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        # If an example runs a load by the command line of turbocql, the progress of the load is on
        # stderr.
        assert re.sub(r"^load: .*\n", "", ran.stderr, flags=re.MULTILINE) == ""
        return ran.stdout

    return run


@pytest.fixture
def schema(session: turbocql.Session) -> Callable[[str], None]:
    """Returns a function that executes the statements of a folder's schema.cql."""

    def execute(folder: str) -> None:
        for statement in (EXAMPLES / folder / "schema.cql").read_text().split(";"):
            if statement.strip():
                session.execute(statement)

    return execute


@pytest.fixture
def server(environment: dict[str, str], tmp_path: Path) -> Iterator[Server]:
    running: list[RunningServer] = []

    def start(folder: str, *arguments: str, **variables: str) -> RunningServer:
        path = EXAMPLES / folder
        places = os.pathsep.join([environment["PYTHONPATH"], str(path)])
        env = {
            **environment,
            **variables,
            "PYTHONPATH": places,
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        line = [sys.executable, "-m", *arguments]
        running.append(RunningServer(line, path, env, tmp_path / f"{arguments[0]}.log"))
        return running[-1]

    yield start
    for server in running:
        server.kill()


@pytest.fixture
def port() -> int:
    """Returns the number of a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number: int = listening.getsockname()[1]
    return number
