"""Helpers that pause a node of the test cluster or wait for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turbocql.testing import Node

__all__ = ["eventually", "paused"]


def eventually(holds: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Waits until `holds` returns true. Returns whether it did within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _is_stopped(pid: int | None) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@contextmanager
def paused(node: Node) -> Iterator[None]:
    """Pauses a node's process during the `with` block.

    The kernel still accepts connections and data for the node, but the node answers nothing.
    """
    node.pause()
    try:
        assert eventually(lambda: _is_stopped(node.pid))
        yield
    finally:
        node.resume()
