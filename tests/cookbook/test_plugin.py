"""Tests the recipe for pytest: an example project whose tests use turbocql's plugin.

The project's tests run in a pytest process of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import turbocql
from turbocql.testing import Cassandra

from .support import EXAMPLES, ROOT


def outcome(folder: Path, *arguments: str) -> str:
    """Runs pytest in a copy of the project. Returns the last line of output, without the time."""
    project = folder / "project"
    shutil.copytree(EXAMPLES / "with_pytest", project, ignore=shutil.ignore_patterns("__pycache__"))
    # turbocql is not installed here, so `-p` registers the plugin. An installed turbocql registers
    # the plugin itself.
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "turbocql.testing.pytest_plugin", "-q", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED), ran.stdout + ran.stderr
    return ran.stdout.splitlines()[-1].partition(" in ")[0]


def test_a_project_with_a_server_that_runs(
    cassandra: Cassandra, session: turbocql.Session, tmp_path: Path
) -> None:
    select = "SELECT keyspace_name FROM system_schema.keyspaces"
    before = set(session.execute(select, rows="tuple"))
    points = ",".join(cassandra.contact_points)
    assert outcome(tmp_path, f"--cassandra={points}") == "4 passed"
    assert set(session.execute(select, rows="tuple")) == before


@pytest.mark.exhaustive
def test_a_project_without_a_server(tmp_path: Path) -> None:
    assert (
        outcome(tmp_path, "--no-cassandra", "--collect-only") == "no tests collected (4 deselected)"
    )


@pytest.mark.exhaustive
def test_a_project_that_starts_its_server(tmp_path: Path) -> None:
    assert outcome(tmp_path) == "4 passed"
