"""Tests that random values have the same routing keys and tokens in turbocql and scylla-driver."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from .reports import Reports, selected
from .routing import RoutingReport, compare_keys

RoutingReports = Reports[int, RoutingReport]


@pytest.fixture(scope="module")
def count(proof: bool) -> int:
    """Returns the number of keys in each part."""
    return 100_000 if proof else 2_000


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor, count: int, seed: int
) -> RoutingReports:
    compare = partial(compare_keys, count=count, seed=seed)
    return Reports(processes, compare, selected(request, "part"))


@pytest.mark.parametrize("part", [0, 1])
def test_routing_keys_and_tokens(part: int, reports: RoutingReports, count: int) -> None:
    report = reports[part]
    assert not report.failures, "\n".join(report.failures[:20])
    # Keys with values that the drivers encode differently are not compared. Enough keys remain.
    assert report.keys > count / 4
    assert report.tokens == report.keys + count + 1
