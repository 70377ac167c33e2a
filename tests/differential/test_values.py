"""Compares turbocql with scylla-driver for each type, value by value and byte by byte."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from .cases import COMPILED, DECODE, ENCODE
from .compare import TYPES, TypeReport, compare_type
from .normal import CONVERSIONS
from .reports import Reports, selected
from .rules import RULES

MAX_SHOWN = 20
CASES = {ENCODE: 1, DECODE: 2, COMPILED: 2}
"""For each way to compare, the minimum number of cases per value."""

TypeReports = Reports[str, TypeReport]


@pytest.fixture(scope="module")
def count(proof: bool) -> int:
    """Returns the number of values of each type."""
    return 10_000 if proof else 200


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor, count: int, seed: int
) -> TypeReports:
    compare = partial(compare_type, count=count, seed=seed)
    return Reports(processes, compare, selected(request, "cql_type"))


@pytest.mark.parametrize("cql_type", TYPES, ids=str)
def test_every_difference_is_listed(cql_type: str, reports: TypeReports, count: int) -> None:
    report = reports[cql_type]
    shown = "\n\n".join(failure[:2000] for failure in report.failures[:MAX_SHOWN])
    assert not report.failures, f"{len(report.failures)} failures:\n{shown}"
    for way, cases in CASES.items():
        assert report.tallies[way].total >= cases * count, way


def test_at_least_150_types_are_compared() -> None:
    assert len(TYPES) >= 150


@pytest.mark.parametrize("way", CASES)
def test_most_cases_are_neither_refused_nor_different(way: str, reports: TypeReports) -> None:
    tallies = [report.tallies[way] for report in reports.of_all(TYPES)]
    assert sum(tally.same for tally in tallies) >= sum(tally.total for tally in tallies) // 3


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_each_conversion_occurs(conversion: str, reports: TypeReports) -> None:
    assert sum(report.conversions[conversion] for report in reports.of_all(TYPES)) > 100


def test_all_rules_occur(reports: TypeReports, proof: bool) -> None:
    seen: Counter[str] = Counter()
    for report in reports.of_all(TYPES):
        seen.update(report.rules)
    unseen = [rule.name for rule in RULES if not seen[rule.name]]
    # A short run may miss the rarest rules, but test_rules.py tests the example of every rule.
    assert len(unseen) <= (0 if proof else 5), unseen
