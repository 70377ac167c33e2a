"""Tests that the audit (`sessions.py`) finds contradictory metrics, and faults without an event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.faults.faults import EVERYWHERE, KINDS
from tests.faults.records import Window
from tests.faults.sessions import contradictions, judge_logged

from turbocql.telemetry import Histogram, KindMetrics, Metrics, NodeMetrics

AT = "10.0.0.1:9042"
FIVE = Histogram((5, *Histogram().counts[1:]), 100)
NODE = NodeMetrics(
    attempts=8, failed=2, abandoned=1, opened=3, lost=1, connections=2, latencies={"read": FIVE}
)
GOOD = Metrics(
    kinds={"read": KindMetrics(requests=5, failed=1, latency=FIVE)},
    errors={"RequestTimeout": 1},
    timeouts={"answer": 1, "queue": 0},
    nodes={AT: NODE},
)


def test_consistent_metrics() -> None:
    assert list(contradictions(GOOD)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"in_flight": 1},
        {"waiting": 1},
        {"in_flight_bytes": 9},
        {"kinds": {"read": KindMetrics(requests=6, failed=1, latency=FIVE)}},
        {"kinds": {"read": KindMetrics(requests=5, failed=2, latency=FIVE)}},
        {"timeouts": {"answer": 0, "queue": 0}},
        {"nodes": {AT: replace(NODE, in_flight=1)}},
        {"nodes": {AT: replace(NODE, attempts=9)}},
        {"nodes": {AT: replace(NODE, abandoned=0)}},
        {"nodes": {AT: replace(NODE, connections=3)}},
    ],
    ids=str,
)
def test_contradictory_metrics_are_found(change: dict[str, Any]) -> None:
    assert len(list(contradictions(replace(GOOD, **change)))) == 1


def test_a_fault_that_is_not_logged_is_found() -> None:
    windows = [
        Window("cut", "node 1", 10.5, 12.0, "7"),
        Window("cut", "node 2", 100.0, 110.0, "1"),
        Window(f"reset{EVERYWHERE}", "node 1", 50.0, 52.0, "3"),
        Window("pause", "node 1", 20.0, 25.0, "0"),
        Window("none, after", "", 200.0, 300.0),
    ]

    def violations(*pairs: tuple[str, int]) -> list[str]:
        return judge_logged(windows, pairs).violations

    assert violations(("connection lost", 10), ("connection lost", 51)) == []
    assert violations(("connection lost", 51)) == ["cut is not logged"]
    assert violations(("connection lost", 9), ("connection lost", 57)) == ["cut is not logged"]
    assert len(violations(("node silent", 10), ("slow request", 51))) == 2


def test_each_kind_of_fault_has_its_events() -> None:
    windows = [Window(kind, "node 1", 10.0, 11.0, "1") for kind in KINDS]
    silent = [f"{kind} is not logged" for kind in KINDS if kind != "evict statements"]
    assert judge_logged(windows, []).violations == silent
