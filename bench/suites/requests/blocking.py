"""Sends one request at a time with a blocking session. Imports no driver."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from bench.suites.requests.job import Pass

__all__ = ["run"]


def run(execute: Callable[[Any, Any], Any], prepared: Any, requests: Pass, *, reads: bool) -> int:
    """Sends all requests, one after another. Returns the sum of the keys that were read."""
    if requests.latencies is not None:
        execute = _timed(execute, requests.latencies)
    if not reads:
        for row in requests.rows:
            execute(prepared, row)
        return 0
    total = 0
    for row in requests.rows:
        row = execute(prepared, row).one()
        total += row[0]
        if requests.seen is not None:
            requests.seen.append(row)
    return total


def _timed(execute: Callable[[Any, Any], Any], latencies: list[int]) -> Callable[[Any, Any], Any]:
    def timed(prepared: Any, row: Any) -> Any:
        begin = perf_counter_ns()
        result = execute(prepared, row)
        latencies.append(perf_counter_ns() - begin)
        return result

    return timed
