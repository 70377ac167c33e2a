"""What the clients of a benchmark share: CPU seconds around a block, and the line they report.

Names no driver: each client runs in an environment with one driver only.
"""

from __future__ import annotations

import json
import platform
import resource
import sys
import time
from types import TracebackType
from typing import Any

ROWS = 20_000
INSERT = "INSERT INTO bench.pairs (k, v) VALUES (?, ?)"


def value(i: int) -> str:
    """The text of row `i`."""
    return f"value {i}"


class Measured:
    """Wall-clock and client CPU (user + system) of a block, in seconds."""

    def __enter__(self) -> Measured:
        self._wall = time.perf_counter()
        self._cpu = _cpu_s()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cpu_s = _cpu_s() - self._cpu
        self.wall_s = time.perf_counter() - self._wall


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def report(client: str, version: str, in_flight: int, measured: Measured) -> None:
    """One sample, as a line of JSON."""
    sample: dict[str, Any] = {
        "client": client,
        "version": version,
        "in_flight": in_flight,
        "rows": ROWS,
        "cpu_us_per_row": measured.cpu_s / ROWS * 1e6,
        "rows_per_s": ROWS / measured.wall_s,
        "python": sys.version,
        "machine": platform.platform(),
    }
    print(json.dumps(sample))
