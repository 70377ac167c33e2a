"""Runs tests/typing/program.py, which type checkers check, and compares its output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "typing" / "program.py"

INSERT = "statement: INSERT INTO users (id, name, box) VALUES (?, ?, ?)"


def test_the_typed_program_runs(points: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), points[0]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "port must be an int from 1 to 65535, got 0",
        f'column "id": expected int (int or an object with __index__), got str "one"; {INSERT}',
        f'column "id": int 2147483648 is out of the range of int; {INSERT}',
        "['one', 'number 2000']",
        "('one',)",
    ]
