"""Helpers for the tests of recipes (pages of docs/cookbook): paths, and servers as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx

__all__ = [
    "EXAMPLES",
    "ROOT",
    "Program",
    "RunningServer",
    "Server",
    "answers",
    "is_shown_on",
]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "cookbook"


class RunningServer:
    """The process of a server, and its log."""

    def __init__(self, line: list[str], folder: Path, env: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                line,
                cwd=folder,
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, is_true: Callable[[], object], timeout_s: float = 120) -> None:
        """Waits until `is_true` returns a true value. Fails if the process ends."""
        end = time.monotonic() + timeout_s
        while not is_true():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)

    def terminate(self, timeout_s: float = 60) -> int:
        """Sends SIGTERM, and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        """Kills the process and its workers if the process still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def answers(url: str) -> bool:
    """Returns whether an HTTP server answers."""
    try:
        httpx.get(url, timeout=5, trust_env=False)
    except httpx.TransportError:
        return False
    return True


Program = Callable[..., str]
"""The type of the fixture `program`: it runs a file of the examples, and returns what it prints."""
Server = Callable[..., RunningServer]
"""The type of the fixture `server`: it starts `python -m` in a folder of the examples."""


def is_shown_on(page: str, printed: str) -> bool:
    """Returns whether a page of the cookbook shows this output."""
    text = (ROOT / "docs" / "cookbook" / page).read_text(encoding="utf-8")
    printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return f"```text\n{printed}```\n" in text
