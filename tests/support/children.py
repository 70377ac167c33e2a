"""Python programs in processes of their own, with warnings as errors."""

from __future__ import annotations

import subprocess
import sys
import textwrap

__all__ = ["finish", "run_python", "start_python"]


def start_python(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A program that runs; its input and output are piped."""
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
    """What a program still prints; it must end well and leave nothing on standard error."""
    try:
        output, complaints = child.communicate(timeout=timeout_s)
    finally:
        child.kill()
        child.wait()
    assert complaints == "", complaints
    assert child.returncode == 0
    return output


def run_python(program: str, *arguments: str) -> str:
    """Runs a program to its end and gives what it prints."""
    return finish(start_python(program, *arguments))
