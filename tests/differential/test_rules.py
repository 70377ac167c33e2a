"""Tests that each rule claims its example, and that docs/differences.md lists all rules.

A rule is an intended difference between turbocql and scylla-driver.
"""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

from .explain import explain
from .normal import CONVERSIONS
from .rule import GIVEN, REFUSED, TAKEN
from .rules import LISTED, RULES, Rule

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", RULES, ids=attrgetter("name"))
def test_a_rule_claims_its_example(rule: Rule) -> None:
    # If the drivers no longer differ on the example, `explain` returns an empty list.
    assert explain(rule.example) == [rule.name]


def test_the_documentation_lists_the_rules_and_no_others() -> None:
    text = PAGE.read_text(encoding="utf-8")
    chapters = dict(zip(*[iter(re.split(r"^## (.+)\n", text, flags=re.M)[1:])] * 2, strict=True))
    documented = {
        _slug(heading): section
        for section in (TAKEN, GIVEN, REFUSED)
        for heading in re.findall(r"^### (.+)$", chapters[section], flags=re.M)
    }
    assert documented == {rule.name: rule.section for rule in LISTED}


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_the_documentation_lists_a_conversion(conversion: str) -> None:
    row = f"| {conversion} | {CONVERSIONS[conversion]} |"
    assert row in PAGE.read_text(encoding="utf-8")


def _slug(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
