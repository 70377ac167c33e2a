"""Compares pages of random rows that turbocql and scylla-driver (the reference) have decoded."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from cassandra.protocol import ResultMessage

from .compare import TYPES
from .reports import Reports, selected
from .results import (
    FIRST_TYPES,
    NOT_DESCRIBED,
    ODD,
    Page,
    PageReport,
    compare_pages,
    describable,
    new_id_without_description,
    our_page,
    pages_of,
    their_page,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
NEW_ID = "an-id-without-a-description"

PageReports = Reports[str, PageReport]


@pytest.fixture(scope="module")
def pages(proof: bool) -> int:
    """Returns the total number of pages."""
    return 10_000 if proof else 600


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor, pages: int, seed: int
) -> PageReports:
    compare = partial(compare_pages, pages=pages, seed=seed)
    return Reports(processes, compare, selected(request, "cql_type"))


@pytest.mark.parametrize("cql_type", FIRST_TYPES, ids=str)
def test_pages_decode_to_the_same_rows(cql_type: str, reports: PageReports, pages: int) -> None:
    report = reports[cql_type]
    assert not report.failures, "\n".join(report.failures[:10])
    assert report.counts["pages"] == pages_of(cql_type, pages)


def test_all_readers_decode_most_pages(reports: PageReports, pages: int) -> None:
    counts: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    for report in reports.of_all(FIRST_TYPES):
        counts.update(report.counts)
        rules.update(report.rules)
    assert counts["pages"] == pages
    # If all readers decode most pages and few cells differ, then the test compares enough.
    assert counts["read by all"] > counts["pages"] / 2
    assert counts["cells"] > counts["pages"] * 10
    assert rules.total() < counts["cells"] / 10


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ODD)
def test_bodies_that_only_the_reference_decodes(name: str) -> None:
    assert isinstance(our_page(ODD[name], None, "tuple"), str)
    assert isinstance(their_page(ResultMessage, ODD[name], None, 4), Page)


@pytest.mark.filterwarnings("ignore")
def test_only_turbocql_decodes_an_id_without_a_description() -> None:
    ours, theirs = new_id_without_description()
    assert isinstance(ours, Page)
    assert ours.about[2] == b"id"
    # The reference does not read the id. It may then fail, because it takes the id's bytes for the
    # bytes that follow the id.
    assert isinstance(theirs, str) or theirs.about[2] != b"id"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cql_type", TYPES, ids=str)
def test_the_reference_parses_all_types_except_the_listed(cql_type: str) -> None:
    assert describable(TYPES[cql_type]) == (cql_type != NOT_DESCRIBED)


def test_listed_differences_are_documented() -> None:
    chapter = PAGE.read_text(encoding="utf-8").partition("\n## Results\n")[2]
    documented = re.findall(r"^\| ([A-Z].+?) \|", chapter, flags=re.M)
    slugs = {re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-") for what in documented}
    assert slugs == {*ODD, NEW_ID, "vectors-of-types-named-in-digits"}
