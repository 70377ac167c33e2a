"""Judges the logs and the metrics of the load's sessions.

"The load" is the process of `load.py`, which makes calls of turbocql during the faults.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.faults.audit import Line
from tests.faults.faults import EVERYWHERE
from tests.faults.records import Window

from turbocql.telemetry import Metrics

__all__ = ["SLOW_S", "Seconds", "contradictions", "judge_logged"]

SLOW_S = 0.3
"""A request of the load that takes longer than this many seconds is logged as slow. Faults that
delay frames cause such events."""
_LATER_S = 5.0
"""An event that a fault causes is logged at most this many seconds after the end of the fault."""

_BROKEN = frozenset({"connection lost"})
_LATE = frozenset({"slow request", "node silent", "connection lost"})
_ALTERED = frozenset({"schema changed"})
_EVENTS = {
    "delay": _LATE,
    "throttle": _LATE,
    "swallow": _LATE,
    "drop": _LATE,
    "cut": _BROKEN,
    "half-close": _BROKEN,
    "silent": _BROKEN,
    "reset": _BROKEN,
    "kill and restart": _BROKEN,
    "kill two": _BROKEN,
    "rolling restart": _BROKEN,
    "pause": _LATE,
    "pause all": _LATE,
    "alter table": _ALTERED,
    "alter while paused": _ALTERED,
    # A node may evict only statements that no caller uses again. Then turbocql does not notice the
    # eviction, so no event is required.
    "evict statements": frozenset(),
    "drop keyspace": _ALTERED,
}
"""Maps a kind of fault to the events that it can cause. At least one of the events must be logged,
unless the set is empty."""


class Seconds(logging.Handler):
    """Records the time of each event, in whole seconds of the monotonic clock."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._seconds: set[tuple[str, int]] = set()
        self._kept = threading.Lock()
        self._offset = time.monotonic() - time.time()

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", "")
        with self._kept:
            self._seconds.add((event, int(record.created + self._offset)))

    def pairs(self) -> list[tuple[str, int]]:
        """Returns the events with their seconds."""
        with self._kept:
            return sorted(self._seconds)


def judge_logged(windows: Sequence[Window], pairs: Iterable[Sequence[Any]]) -> Line:
    """Checks that the logs have at least one event for each kind of fault that hit something.

    A window is a time with a fault. A single window need not have an event, because its fault may
    hit only connections or statements that the sessions do not use at the time.
    """
    line = Line("each kind of fault is in the logs")
    seconds: dict[str, set[int]] = {}
    for event, second in pairs:
        seconds.setdefault(event, set()).add(second)
    kinds: dict[str, bool] = {}
    for window in windows:
        events = _EVENTS[window.kind.removesuffix(EVERYWHERE)] if window.effect else frozenset()
        if events and int(window.effect):
            logged = set().union(*(seconds.get(event, ()) for event in events))
            is_seen = any(
                int(window.begun) <= second <= window.ended + _LATER_S for second in logged
            )
            kinds[window.kind] = kinds.get(window.kind, False) or is_seen
    for kind, is_seen in kinds.items():
        line.check(None if is_seen else f"{kind} is not logged")
    return line


def contradictions(metrics: Metrics) -> Iterator[str]:
    """Yields the contradictions in the metrics of a session that has no calls in flight."""
    for name in ("in_flight", "in_flight_bytes", "waiting"):
        if getattr(metrics, name):
            yield f"{name} is {getattr(metrics, name)}"
    for name, kind in metrics.kinds.items():
        if kind.latency.count != kind.requests or kind.failed > kind.requests:
            yield f"{name}: {kind.requests} requests, {kind.failed} failed, {kind.latency}"
    errors = sum(metrics.errors.values())
    if metrics.failures > errors:
        yield f"{metrics.failures} failures, and {errors} errors"
    timeouts = sum(metrics.timeouts.values())
    if timeouts != metrics.errors.get("RequestTimeout", 0):
        yield f"{timeouts} timeouts, and the errors {dict(metrics.errors)}"
    for at, node in metrics.nodes.items():
        answered = sum(latency.count for latency in node.latencies.values())
        if node.in_flight or node.attempts != answered + node.failed + node.abandoned:
            yield (
                f"{at}: {node.attempts} attempts, {answered} answered, {node.failed} failed,"
                f" {node.abandoned} abandoned, {node.in_flight} in flight"
            )
        if node.connections > node.opened - node.lost:
            yield (
                f"{at}: {node.connections} connections, {node.opened} opened and {node.lost} lost"
            )
