"""Starts the processes that are measured, and reads their samples.

A client's program is a module of this repository that prints a line of JSON for each sample. It
runs in the client's environment, with the repository's root and `python/` on its path. turbocql is
installed only in its own environment. Programs in other environments import it from `python/`,
where its native module fits one minor version of Python.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["Failed", "command", "environment", "output", "samples", "with_usage"]

TIMEOUT_S = 3600


class Failed(Exception):
    """A client failed, or something that it needs is missing."""


def environment(**more: str) -> dict[str, str]:
    """Returns the environment variables of every process that is measured."""
    root = Path(__file__).resolve().parents[2]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(root), str(root / "python"))),
        # With this seed, sets iterate in the same order in all processes.
        "PYTHONHASHSEED": "0",
        # By default OpenBLAS, which NumPy loads, starts threads that spin while they wait.
        "OPENBLAS_NUM_THREADS": "1",
        **more,
    }


def command(python: Path, module: str, *arguments: str) -> list[str]:
    """Returns the command that starts a client's program."""
    return [str(python), "-m", module, *arguments]


def output(
    arguments: list[str],
    *,
    stdin: str = "",
    timeout_s: float = TIMEOUT_S,
    variables: dict[str, str] | None = None,
) -> str:
    """Runs a process and returns what it prints. If the process fails, shows its standard error.

    Raises: Failed if the process fails or takes too long.
    """
    try:
        ended = subprocess.run(
            arguments,
            env=environment() if variables is None else variables,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"not ended within {timeout_s:g} s") from None
    if ended.returncode:
        print(ended.stderr[-4000:], file=sys.stderr, flush=True)
        lines = ended.stderr.strip().splitlines() or ["nothing was printed"]
        raise Failed(f"exit status {ended.returncode}: {lines[-1]}")
    return ended.stdout


def samples(
    python: Path,
    module: str,
    *arguments: str,
    stdin: str = "",
    timeout_s: float = TIMEOUT_S,
    variables: dict[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Runs one process of a client and returns the lines of JSON that it prints.

    Lines that do not begin with `{` are left out.

    Raises: Failed if the process fails, takes too long, or prints a line that begins with `{` but
    is not JSON.
    """
    text = output(
        command(python, module, *arguments), stdin=stdin, timeout_s=timeout_s, variables=variables
    )
    try:
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    except ValueError:
        raise Failed(f"it printed no sample: {text[-200:]!r}") from None


def with_usage(arguments: list[str]) -> tuple[str, resource.struct_rusage, float]:
    """Runs a process. Returns its output, its use of resources, and its wall-clock seconds.

    The use of resources includes children that the process has waited for.

    Raises: Failed if the process fails or cannot be started.
    """
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as text:
        try:
            running = subprocess.Popen(
                arguments, stdout=text, stderr=subprocess.STDOUT, env=environment()
            )
        except OSError as error:
            raise Failed(str(error)) from error
        _, status, usage = os.wait4(running.pid, 0)
        wall_s = time.perf_counter() - began
        text.seek(0)
        printed = text.read()
    if status:
        raise Failed(f"it failed: {printed[-2000:]}")
    return printed, usage, wall_s
