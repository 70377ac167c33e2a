"""Tests programs that end while threads of pyarrow or duckdb read: see `programs/ending.py`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .programs import ending


def end(point: str, consumer: str) -> str:
    """Runs the program and returns its standard output; fails if it exits with an error."""
    command = [sys.executable, ending.__file__, point, consumer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("consumer", ["pyarrow", "duckdb"])
def test_a_program_ends_while_other_threads_read(point: str, consumer: str) -> None:
    assert end(point, consumer) == "200\n"


def test_a_program_ends_while_another_thread_waits_for_the_gil(point: str) -> None:
    # The thread waits for the GIL in most runs but not in all, so the program runs three times.
    assert [end(point, ending.WAITING) for _ in range(3)] == ["2\n"] * 3
