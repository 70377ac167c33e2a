"""Observes a session: its log records, its metrics at short intervals, and its spans."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.faults.documented import Row
from tests.support.logs import Records, recorded

import turbocql
from turbocql import errors, telemetry
from turbocql.telemetry import Metrics, NodeMetrics

__all__ = ["Observation", "Observer"]

_SAMPLE_S = 0.02
_OF_SESSIONS = ("retries", "speculative", "prepared_again", "canceled", "dropped_events")
_OF_NODES = ("failed", "abandoned", "opened", "refused", "lost")


@dataclass
class Observation:
    """The log records, the metrics and the spans of a session between two moments."""

    node: str | None
    """The node with the fault, as `address:port`. It is `None` if all nodes or no node have the
    fault."""
    besides: frozenset[str]
    """Metrics that change during the observation for other reasons than the fault."""
    began: float
    since: float
    """The time of the fault. `within_s` is counted from this time."""
    callers: int
    """The number of threads that make calls."""
    ended: float = 0.0
    before: Metrics = field(default_factory=Metrics)
    samples: list[tuple[float, Metrics]] = field(default_factory=list)
    """The times and metrics during the observation."""
    records: list[Any] = field(default_factory=list)
    spans: list[ReadableSpan] = field(default_factory=list)

    def differences(self, row: Row) -> Iterator[str]:
        """Yields a message for each way in which the observation differs from a documented row."""
        yield from self._logged(row)
        yield from self._counted(row)
        yield from self._traced(row)
        for name, limit_s in row.within_s.items():
            first = self._first(name, row)
            if first is None or first - self.since > limit_s:
                seen = "never" if first is None else f"after {first - self.since:.3f} s"
                yield f"{name} is seen {seen}, and not within {limit_s} s"

    def _logged(self, row: Row) -> Iterator[str]:
        events = {(record.event, record.levelname) for record in self.records}
        for event, level in sorted(row.logged - events):
            yield f"the event {event!r} with level {level} is not logged"
        loud = {(e.event, e.levelname) for e in self.records if e.levelno >= logging.INFO}
        for event, level in sorted(loud - row.logged):
            yield f"the event {event!r} with level {level} is logged, and not in the row"

    def _counted(self, row: Row) -> Iterator[str]:
        for figure in sorted(row.counted):
            if self._first(figure, row) is None:
                yield f"{figure} is not counted"
        if row.state is not None and self._first("state", row) is None:
            yield f"the state is never {row.state!r}"
        change = self.samples[-1][1] - self.before
        counted = {name for name in _OF_SESSIONS if getattr(change, name)}
        nodes = change.nodes.values()
        counted |= {name for name in _OF_NODES if any(getattr(node, name) for node in nodes)}
        counted |= {f'errors["{name}"]' for name, count in change.errors.items() if count}
        counted |= {f'timeouts["{name}"]' for name, count in change.timeouts.items() if count}
        for figure in sorted(counted - row.counted - self.besides):
            yield f"{figure} is counted, and not in the row"

    def _traced(self, row: Row) -> Iterator[str]:
        attempts = [span for span in self.spans if span.name == "attempt"]
        calls = [span for span in self.spans if span.name != "attempt"]
        types = {str((span.attributes or {}).get("error.type", "")) for span in calls} - {""}
        texts = {span.status.description or "" for span in attempts} - {""}
        attributes = {
            name
            for span in self.spans
            for name, value in (span.attributes or {}).items()
            if value and name in _ATTRIBUTES
        }
        for what, stated, seen in (
            ("a call's span with error.type", row.errors, types),
            ("an attempt's span with the status", row.attempts, texts),
            ("a span with", row.attributes, attributes),
        ):
            for name in sorted(stated - seen):
                yield f"there is not {what} {name}"
            for name in sorted(seen - stated):
                yield f"there is {what} {name}, and it is not in the row"

    def _first(self, name: str, row: Row) -> float | None:
        """Returns the time at which an event or a metric was first seen.

        Returns `None` if it was never seen.
        """
        times: list[float] = [each.created for each in self.records if each.event == name]
        if times:
            return min(times)
        for at, metrics in self.samples:
            change = metrics - self.before
            nodes = [node for key, node in change.nodes.items() if self.node in (key, None)]
            if name == "in_flight":
                # Some calls are always in flight, also without a fault. So the fault counts as seen
                # only when all callers wait for the node.
                is_seen = sum(node.in_flight for node in nodes) >= self.callers > 0
            else:
                is_seen = _is_seen(name, row.state, change, nodes)
            if is_seen:
                return at
        return None


_ATTRIBUTES = {"turbocql.attempt.abandoned", "cassandra.speculative_execution.count"}


def _is_seen(name: str, state: str | None, change: Metrics, nodes: list[NodeMetrics]) -> bool:
    if name == "state":
        return any(node.state == state for node in nodes)
    item = re.fullmatch(r'(errors|timeouts)\["(\w+)"\]', name)
    if item:
        return bool(getattr(change, item[1]).get(item[2]))
    if name in NodeMetrics.__dataclass_fields__:
        return any(getattr(node, name) for node in nodes)
    # `name` may be the name of an event, and not of a metric. Then the metrics have no attribute
    # with this name.
    return bool(getattr(change, name, None))


class Observer:
    """Opens a session, makes calls in threads, observes the session, and closes it.

    The observations are complete after the `with` block.
    """

    def __init__(self, points: list[str], **settings: Any) -> None:
        self._points = points
        self._settings = {"keepalive_interval_s": 600, "timeout_s": 5.0, **settings}
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._samples: list[tuple[float, Metrics]] = []
        self._observations: list[Observation] = []
        self._failures: list[BaseException] = []
        self._callers = 0
        self.session: turbocql.Session[Any]
        self.records: Records

    def __enter__(self) -> Observer:
        self._recorded = recorded()
        self.records = self._recorded.__enter__()
        self.session = turbocql.connect(self._points, **self._settings)
        telemetry.instrument(self.session, tracer_provider=self._provider)
        self.wait(lambda: all(node.connected for node in self.session.nodes))
        self._start(self._sample)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(20)
        # Closing delivers the queued events to the logs.
        self.session.close()
        self._recorded.__exit__(None, None, None)
        spans = self._exporter.get_finished_spans()
        for each in self._observations:
            between = each.began, each.ended
            each.samples = [s for s in self._samples if between[0] <= s[0] <= between[1]]
            each.records = [r for r in self.records.all if between[0] <= r.created <= between[1]]
            each.spans = [s for s in spans if between[0] <= (s.end_time or 0) / 1e9 <= between[1]]
        if error == (None, None, None):
            assert not self._failures, self._failures

    @contextmanager
    def observing(self, node: str | None = None, *besides: str) -> Iterator[Observation]:
        """Observes the session during the `with` block. The fault is made when the block begins."""
        before = self.session.metrics()
        now = time.time()
        observation = Observation(node, frozenset(besides), now, now, self._callers, before=before)
        self._observations.append(observation)
        yield observation
        # Waits until a sample has both begun and ended after the last event of the block.
        count = len(self._samples)
        self.wait(lambda: len(self._samples) > count + 1)
        observation.ended = time.time()

    def calls(self, count: int, call: Callable[[], object], pause_s: float = 0.01) -> None:
        """Makes calls in `count` threads until the observer ends, and ignores turbocql's errors."""

        def repeat() -> None:
            while not self._ended.wait(pause_s):
                try:
                    call()
                except errors.Error:
                    pass
                except BaseException as error:
                    self._failures.append(error)
                    raise

        self._callers += count
        for _ in range(count):
            self._start(repeat)

    def wait(self, holds: Callable[[], object], timeout_s: float = 20.0) -> None:
        """Waits until `holds` returns a true value.

        Raises: AssertionError after `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline, f"not within {timeout_s} s"
            time.sleep(0.005)

    def wait_for(self, observation: Observation, event: str) -> None:
        """Waits until the session has logged an event since the beginning of an observation."""
        self.wait(
            lambda: any(each.created >= observation.began for each in self.records.of(event)), 60
        )

    def figures(self, node: str) -> NodeMetrics:
        """Returns the current metrics of a node. If the session does not know it, all are 0."""
        return self.session.metrics().nodes.get(node, NodeMetrics())

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            metrics = self.session.metrics()
            self._samples.append((time.time(), metrics))
