"""Tests metrics as plain data, their text for Prometheus, and the table of events."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import re
from typing import Any

import pytest

from turbocql import errors
from turbocql._telemetry.errors import class_name
from turbocql._telemetry.events import KINDS
from turbocql._telemetry.prometheus import families, text
from turbocql.telemetry import Histogram, KindMetrics, Metrics, NodeMetrics


def histogram(**counts: int) -> Histogram:
    """Returns a histogram. The argument `b3=9` puts nine durations into the bucket with index 3."""
    buckets = [0] * (len(Histogram.BOUNDS_US) + 1)
    for name, count in counts.items():
        buckets[int(name[1:])] = count
    return Histogram(tuple(buckets), sum(buckets))


def test_quantiles_are_bounds_of_buckets() -> None:
    durations = histogram(b10=90, b20=9, b30=1)
    bounds = Histogram.BOUNDS_US
    assert durations.quantile_us(0.5) == durations.quantile_us(0.9) == bounds[10]
    assert durations.quantile_us(0.99) == bounds[20]
    assert durations.quantile_us(1) == bounds[30]
    assert durations.quantile_us(0) == bounds[10]
    assert histogram(b104=1).quantile_us(0.5) == bounds[-1]
    assert (Histogram().quantile_us(0.5), Histogram().mean_us) == (None, None)
    for bad in (-0.1, 1.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            durations.quantile_us(bad)


def test_a_difference_has_the_counts_between() -> None:
    node = NodeMetrics("dc1", "up", attempts=5, in_flight=2, latencies={"read": histogram(b3=1)})
    earlier = Metrics(
        uptime_s=1.5,
        kinds={"read": KindMetrics(4, 1, histogram(b3=4))},
        errors={"RequestTimeout": 1},
        timeouts={"answer": 1},
        rows=10,
        waiting=7,
        nodes={"10.0.0.1:9042": node},
    )
    silent = NodeMetrics("dc1", "silent", attempts=9, in_flight=3)
    later = Metrics(
        uptime_s=4.0,
        kinds={"read": KindMetrics(9, 1, histogram(b3=4, b5=5))},
        errors={"RequestTimeout": 1, "Overloaded": 2},
        timeouts={"answer": 3},
        rows=15,
        waiting=0,
        nodes={"10.0.0.1:9042": silent, "10.0.0.2:9042": NodeMetrics(attempts=2)},
    )
    change = later - earlier
    assert change.uptime_s == 2.5
    assert change.kinds == {"read": KindMetrics(5, 0, histogram(b5=5))}
    assert change.errors == {"RequestTimeout": 0, "Overloaded": 2}
    assert (change.timeouts, change.rows, change.waiting) == ({"answer": 2}, 5, 0)
    assert change.nodes["10.0.0.1:9042"].state == "silent"
    assert change.nodes["10.0.0.1:9042"].attempts == 4
    assert change.nodes["10.0.0.1:9042"].in_flight == 3
    assert change.nodes["10.0.0.2:9042"].attempts == 2
    assert (change.requests, change.failures, change.latency.count) == (5, 0, 5)
    with pytest.raises(TypeError):
        later - node  # type: ignore[operator]


def test_metrics_are_plain_data() -> None:
    node = NodeMetrics("dc1", "up", attempts=5, latencies={"read": histogram(b3=1)})
    metrics = Metrics(rows=3, errors={"Overloaded": 1}, nodes={"10.0.0.1:9042": node})
    assert pickle.loads(pickle.dumps(metrics)) == metrics == copy.deepcopy(metrics)
    assert json.loads(json.dumps(dataclasses.asdict(metrics)))["rows"] == 3
    assert sum([histogram(b3=1), histogram(b3=2)], Histogram()) == histogram(b3=3)
    number: Any = 1
    with pytest.raises(TypeError):
        histogram(b3=1) - number
    with pytest.raises(TypeError):
        histogram(b3=1) + number


def test_a_difference_after_a_restart_of_the_counts_is_not_negative() -> None:
    before = NodeMetrics(attempts=100, latencies={"read": histogram(b3=9)})
    after = NodeMetrics(attempts=5, latencies={"read": histogram(b3=2)})
    change = after - before
    assert (change.attempts, change.latencies["read"]) == (5, histogram(b3=2))


def test_the_text_format() -> None:
    name = 'a "b"\\\n'
    metrics = Metrics(
        kinds={"read": KindMetrics(3, 1, histogram(b0=1, b104=2))},
        errors={"RequestTimeout": 1},
        timeouts={"queue": 0},
        nodes={"[::1]:9042": NodeMetrics("dc1", "up", latencies={"read": histogram(b0=1)})},
    )
    lines = list(text(families([({"session": name}, metrics), ({"session": "b"}, Metrics())])))
    sample = re.compile(r'[a-z_]+(\{[a-z]+="([^"\\\n]|\\.)*"(,[a-z]+="([^"\\\n]|\\.)*")*\})? \S+')
    types: dict[str, str] = {}
    for line in lines:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split()
            assert family not in types
            types[family] = kind
        elif not line.startswith("# HELP "):
            assert sample.fullmatch(line), line
            family = re.match("[a-z_]+", line)[0]  # type: ignore[index]
            assert {family, re.sub("_(bucket|count|sum)$", "", family)} & types.keys(), line
    escaped = 'session="a \\"b\\"\\\\\\n"'
    assert f'turbocql_requests_total{{{escaped},kind="read"}} 3' in lines
    assert 'turbocql_rows_total{session="b"} 0' in lines
    buckets = [line for line in lines if line.startswith("turbocql_request_duration_seconds_b")]
    assert buckets[0] == (
        f'turbocql_request_duration_seconds_bucket{{{escaped},kind="read",le="6.4e-05"}} 1'
    )
    assert buckets[-1].endswith('le="+Inf"} 3')
    assert len(buckets) == 20
    assert types["turbocql_request_duration_seconds"] == "histogram"
    (up,) = [line for line in lines if line.startswith("turbocql_node_up")]
    assert 'node="[::1]:9042",datacenter="dc1"' in up


@pytest.mark.parametrize(
    ("kind", "code", "cls"),
    [
        ("timeout", None, errors.RequestTimeout),
        ("server", 0x1001, errors.Overloaded),
        ("server", None, errors.ServerError),
        ("rate_limited", None, errors.RateLimited),
        ("no_hosts", None, errors.NoHostAvailable),
        ("authentication", None, errors.NoHostAvailable),
        ("a new one", None, errors.RequestError),
    ],
)
def test_errors_are_counted_by_their_class(kind: str, code: int | None, cls: type) -> None:
    assert class_name(kind, code) == cls.__name__


FIELDS: dict[str, Any] = {
    "control": True,
    "reason": "refused",
    "was": "10.0.0.9:9042",
    "waited_s": 0.5,
    "keyspace": "k",
    "object": "t",
    "target": "table",
    "change": "created",
    "statement": "SELECT 1",
    "kind": "read",
    "duration_s": 2.0,
    "left_out": 3,
    "error": "RequestTimeout",
    "attempts": [("10.0.0.1:9042", 0.0, None, None), ("10.0.0.2:9042", 0.0, 1.0, "overloaded")],
}


@pytest.mark.parametrize("name", KINDS)
def test_each_event_has_levels_and_a_message(name: str) -> None:
    kind = KINDS[name]
    for flag in (False, True):
        fields = {**FIELDS, "again": flag, "repeated": flag, "authentication": flag}
        level = kind.level if isinstance(kind.level, int) else kind.level(fields)
        assert level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
        assert kind.message("10.0.0.1:9042", fields)
