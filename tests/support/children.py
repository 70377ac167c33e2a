"""Runs Python programs in their own processes, with warnings as errors."""

from __future__ import annotations

import subprocess
import sys
import textwrap

__all__ = ["finish", "run_python", "start_python"]


def start_python(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a program whose standard streams are pipes."""
    return subprocess.Popen(
        [
            sys.executable,
            "-W",
            "error",
            "-X",
            "faulthandler",
            "-c",
            textwrap.dedent(program),
            *arguments,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(child: subprocess.Popen[str], timeout_s: float = 60) -> str:
    """Waits for a program and returns its output.

    The program must exit with 0 and write nothing to stderr.
    """
    try:
        output, complaints = child.communicate(timeout=timeout_s)
    finally:
        child.kill()
        child.wait()
    assert complaints == "", complaints
    assert child.returncode == 0
    return output


def run_python(program: str, *arguments: str) -> str:
    """Runs a program to its end and returns its output."""
    return finish(start_python(program, *arguments))
