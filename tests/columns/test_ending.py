"""Tests that `programs/ending.py` ends although a thread of pyarrow or duckdb still reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .programs import ending


def end(point: str, consumer: str) -> str:
    """Runs the program and returns its standard output. Fails if its exit code is not 0."""
    command = [sys.executable, ending.__file__, point, consumer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("consumer", ["pyarrow", "duckdb"])
def test_a_program_ends_while_other_threads_read(point: str, consumer: str) -> None:
    assert end(point, consumer) == "200\n"


def test_a_program_ends_while_another_thread_waits_for_the_gil(point: str) -> None:
    # In most runs, but not in all, the thread is waiting for the GIL when the program ends. So the
    # program is run three times.
    assert [end(point, ending.WAITING) for _ in range(3)] == ["2\n"] * 3
