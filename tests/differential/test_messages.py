"""Tests that both drivers write the same bytes for random requests, unless a rule applies.

The drivers are turbocql and scylla-driver. A rule is an intended difference.
"""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from .messages import RULES, MessageReport, compare_messages
from .reports import Reports, selected

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
VERSIONS = (3, 4, 5)

RULES_OF_KINDS = {
    "query": {
        "empty_paging_state": VERSIONS,
        "negative_timestamp": VERSIONS,
        "page_size_below_1": VERSIONS,
        "unset_in_version_3": (3,),
    },
    "execute": {
        "empty_paging_state": VERSIONS,
        "metadata_id_left_out": (3, 4),
        "negative_timestamp": VERSIONS,
        "no_metadata_id": (5,),
        "page_size_below_1": VERSIONS,
        "skip_metadata": (3, 4),
        "unset_in_version_3": (3,),
    },
    "batch": {
        "empty_batch_keyspace": (5,),
        "negative_timestamp": VERSIONS,
        "unset_in_version_3": (3,),
    },
}
"""Maps a kind of request to its rules, and each rule to the protocol versions where it applies."""
MESSAGES = [(kind, version) for kind in RULES_OF_KINDS for version in VERSIONS]

MessageReports = Reports[tuple[str, int], MessageReport]


@pytest.fixture(scope="module")
def count(proof: bool) -> int:
    """Returns the number of requests of each kind in each version."""
    return 10_000 if proof else 300


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, processes: ProcessPoolExecutor, count: int, seed: int
) -> MessageReports:
    compare = partial(compare_messages, count=count, seed=seed)
    return Reports(processes, compare, selected(request, "message"))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: f"{message[0]}-v{message[1]}")
def test_messages_have_the_same_bytes(
    message: tuple[str, int], reports: MessageReports, count: int
) -> None:
    kind, version = message
    report = reports[message]
    assert not report.failures, "\n".join(report.failures[:10])
    expected = {rule for rule, versions in RULES_OF_KINDS[kind].items() if version in versions}
    assert set(report.differing) == expected
    assert report.equal + report.differing.total() == count
    assert report.equal > count / 2


def test_the_rules_are_those_of_the_kinds() -> None:
    assert set(RULES) == set().union(*RULES_OF_KINDS.values())


def test_the_rules_are_documented() -> None:
    chapter = PAGE.read_text(encoding="utf-8").partition("\n## Requests\n")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", chapter, flags=re.M)) == set(RULES)
