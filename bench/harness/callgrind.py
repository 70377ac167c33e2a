"""Runs programs under callgrind, switches its counting on and off, and reads its counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness import processes

__all__ = ["counted", "counting", "need_valgrind"]


def need_valgrind() -> None:
    """Ends the program if valgrind is not installed."""
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions are counted with valgrind: install it")


@contextmanager
def counting() -> Iterator[None]:
    """Makes callgrind count the block's instructions. This process must run under callgrind."""
    _switch("on")
    yield
    _switch("off")


def _switch(state: str) -> None:
    control = subprocess.Popen(
        ["callgrind_control", "-i", state, str(os.getpid())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # Callgrind notices the command only while this process executes instructions. So the process
    # sleeps only briefly at a time.
    while control.poll() is None:
        time.sleep(0.005)
    if control.returncode:
        raise SystemExit("callgrind_control failed")


@contextmanager
def counted(command: list[str]) -> Iterator[tuple[str, Path]]:
    """Runs a program under callgrind. The program chooses with `counting` what is counted.

    Yields what the program prints, and the path of callgrind's file. The file is deleted after the
    block.

    Raises: Failed if the program fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no"]
        yield processes.output([*valgrind, f"--callgrind-out-file={out}", *command]), out
