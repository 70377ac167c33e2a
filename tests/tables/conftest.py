"""Fixtures for tests of whole tables: a session, tables, the command line, and files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import turbocql
from turbocql.testing import Cassandra

SPACE = "tables"
_numbers = count()

Table = Callable[[str], str]
"""A function that makes a table with the given columns, and returns `keyspace.name`."""


class Ended(NamedTuple):
    """The exit code and output of the command line."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]
"""A function that runs `turbocql` with the given arguments, connected to the test's node."""


@pytest.fixture(scope="module")
def session(cassandra: Cassandra) -> Iterator[turbocql.Session]:
    with turbocql.connect(cassandra.contact_points) as opened:
        opened.execute(
            f"CREATE KEYSPACE IF NOT EXISTS {SPACE} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        yield opened


@pytest.fixture
def table(session: turbocql.Session) -> Table:
    def made(columns: str) -> str:
        name = f"{SPACE}.t{next(_numbers)}"
        session.execute(f"DROP TABLE IF EXISTS {name}")
        session.execute(f"CREATE TABLE {name} ({columns})")
        return name

    return made


@pytest.fixture
def command(cassandra: Cassandra) -> Command:
    def run(*arguments: Any, stdin: str | None = None, timeout_s: float = 180) -> Ended:
        environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
        line = [sys.executable, "-m", "turbocql.cli", *map(str, arguments)]
        done = subprocess.run(
            [*line, "--url", f"cql://{cassandra.contact_points[0]}"],
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout_s,
            env=environment,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Returns a function that writes a file and returns its path."""

    def made(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return made
