"""Metrics as families of Prometheus: names, types, and samples with labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..telemetry import Histogram, Metrics

__all__ = ["Family", "families", "text"]

Labels = Mapping[str, str]


class Family(NamedTuple):
    """A metric with all its samples. A sample has a suffix to append to the name, its
    labels, and its value.
    """

    name: str
    type: str
    help: str
    samples: list[tuple[str, dict[str, str], float]]


_LEAST_US, _LARGEST_US = 1 << 6, 1 << 24
"""The bounds of the smallest and the largest bucket: 64 us and 16.8 s."""

_COUNTS = (
    ("canceled", "Requests given up by the program"),
    ("retries", "Requests sent again after a failed attempt"),
    ("speculative", "Attempts begun because an earlier one was slow"),
    ("rows", "Rows received"),
    ("pages", "Pages of rows received, first pages included"),
    ("prepared", "Statements prepared"),
    ("prepared_again", "Statements prepared again at a node that had forgotten them"),
    ("cache_hits", "Statements found in the cache of prepared statements"),
    ("connection_timeouts", "Connections that could not be opened in time"),
    ("dropped_events", "Events that were not logged"),
)
_GAUGES = (
    ("in_flight", "requests_in_flight", "Requests in flight"),
    ("in_flight_bytes", "requests_in_flight_bytes", "Bytes of values of requests in flight"),
    ("waiting", "requests_waiting", "Calls that wait because the session is full"),
)
_NODE_COUNTS = (
    ("attempts", "attempts", "Attempts sent to the node"),
    ("failed", "attempts_failed", "Attempts that ended with an error"),
    ("abandoned", "attempts_abandoned", "Attempts whose answer nobody waits for any more"),
    ("opened", "connections_opened", "Connections opened"),
    ("refused", "connections_refused", "Connections that could not be opened"),
    ("lost", "connections_lost", "Connections that ended by an error"),
    ("sent_bytes", "sent_bytes", "Bytes sent"),
    ("received_bytes", "received_bytes", "Bytes received"),
)
_NODE_GAUGES = (
    ("in_flight", "attempts_in_flight", "Attempts without an answer"),
    ("connections", "connections", "Connections open"),
)


class _Families:
    """Collects the samples of several sessions by family."""

    def __init__(self) -> None:
        self.by_name: dict[str, Family] = {}

    def add(
        self, name: str, kind: str, summary: str, labels: Labels, value: float, suffix: str = ""
    ) -> None:
        name = f"turbocql_{name}"
        family = self.by_name.setdefault(name, Family(name, kind, summary, []))
        family.samples.append((suffix, dict(labels), value))

    def count(self, name: str, summary: str, labels: Labels, value: float) -> None:
        self.add(name, "counter", summary, labels, value, "_total")

    def histogram(self, name: str, summary: str, labels: Labels, durations: Histogram) -> None:
        cumulative = accumulate(durations.counts)
        for bound, count in zip(durations.BOUNDS_US, cumulative, strict=False):
            is_power = bound & (bound - 1) == 0
            if is_power and _LEAST_US <= bound <= _LARGEST_US:
                bucket = {**labels, "le": f"{bound / 1e6:g}"}
                self.add(name, "histogram", summary, bucket, count, "_bucket")
        count = durations.count
        self.add(name, "histogram", summary, {**labels, "le": "+Inf"}, count, "_bucket")
        self.add(name, "histogram", summary, labels, count, "_count")
        self.add(name, "histogram", summary, labels, durations.sum_us / 1e6, "_sum")


def families(sessions: Iterable[tuple[Labels, Metrics]]) -> list[Family]:
    """Returns the metrics of `sessions` as families. Every sample of a session has the
    session's labels.
    """
    every = _Families()
    for labels, metrics in sessions:
        _add_session(every, labels, metrics)
        for at, node in metrics.nodes.items():
            node_labels = {**labels, "node": at, "datacenter": node.datacenter or ""}
            up = float(node.state == "up")
            every.add("node_up", "gauge", "Whether the node answers", node_labels, up)
            for attribute, name, summary in _NODE_COUNTS:
                every.count(f"node_{name}", summary, node_labels, getattr(node, attribute))
            for attribute, name, summary in _NODE_GAUGES:
                value = getattr(node, attribute)
                every.add(f"node_{name}", "gauge", summary, node_labels, value)
            for kind, durations in node.latencies.items():
                every.histogram(
                    "node_attempt_duration_seconds",
                    "Durations of successful attempts",
                    {**node_labels, "kind": kind},
                    durations,
                )
    return list(every.by_name.values())


def _add_session(every: _Families, labels: Labels, metrics: Metrics) -> None:
    for kind, figures in metrics.kinds.items():
        of_kind = {**labels, "kind": kind}
        every.count("requests", "Requests that have ended", of_kind, figures.requests)
        every.count("requests_failed", "Requests that have failed", of_kind, figures.failed)
        summary = "Durations of requests with all their attempts"
        every.histogram("request_duration_seconds", summary, of_kind, figures.latency)
    for error, count in metrics.errors.items():
        every.count("errors", "Errors of requests", {**labels, "error": error}, count)
    for phase, count in metrics.timeouts.items():
        every.count("timeouts", "Deadlines that passed", {**labels, "phase": phase}, count)
    for name, summary in _COUNTS:
        every.count(name, summary, labels, getattr(metrics, name))
    for attribute, name, summary in _GAUGES:
        every.add(name, "gauge", summary, labels, getattr(metrics, attribute))


def text(some: Iterable[Family]) -> Iterator[str]:
    """Yields the lines of the families in Prometheus's text format."""
    for family in some:
        suffix = "_total" if family.type == "counter" else ""
        yield f"# HELP {family.name}{suffix} {family.help}"
        yield f"# TYPE {family.name}{suffix} {family.type}"
        for ending, labels, value in family.samples:
            pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
            yield f"{family.name}{ending}{f'{{{pairs}}}' if pairs else ''} {value:.17g}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
