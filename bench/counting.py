"""Callgrind's counting from within: on and off, and what it has counted. Knows no driver."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

__all__ = ["switch", "total"]

_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)


def switch(state: str) -> None:
    """Has callgrind count or not count this process."""
    said = subprocess.Popen(
        ["callgrind_control", "-i", state, str(os.getpid())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # Callgrind listens when the process goes on, so it must not sleep for long.
    while said.poll() is None:
        time.sleep(0.005)
    if said.returncode:
        raise SystemExit("callgrind_control failed")


def total(out: Path) -> int:
    """All instructions in a file that callgrind has written."""
    found = _TOTAL.findall(out.read_text(encoding="utf-8", errors="replace"))
    if not found:
        raise SystemExit("callgrind counted nothing")
    return int(found[-1])
