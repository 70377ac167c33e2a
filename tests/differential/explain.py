"""Finds the rules that explain a difference between the drivers, turbocql and scylla-driver.

A rule is an intended difference. If the drivers differ on a nested value, the rules are looked for
at the innermost parts on which they differ.
"""

from __future__ import annotations

from .cases import ENCODE, Case, Difference, Tally, benign, children, run, with_parts
from .drivers import their_encode
from .rules import RULES, Rule


class Unclaimed(Exception):
    """The error for a difference that no rule claims, or that several rules claim."""

    def __init__(self, difference: Difference, claims: list[Rule]) -> None:
        names = [rule.name for rule in claims]
        self.difference = difference
        super().__init__(f"claimed by {names or 'no rule'}: {difference}")


def explain(case: Case, tally: Tally | None = None) -> list[str]:
    """Returns the names of the rules for all differences in the case.

    If the drivers differ on a part of a compound value, the function first explains this part
    alone. It then replaces the part by one on which the drivers agree. If the drivers still differ
    on the whole value, exactly one rule must claim this difference. If no rule or several rules
    claim it, the function raises `Unclaimed`.
    """
    _, _, difference = run(case, tally)
    if difference is None:
        return []
    names: list[str] = []
    replaced = {}
    for i, child in children(case):
        found = explain(child)
        if found:
            names += found
            plain = benign(child.shape, i + 1)
            encoding = case.way == ENCODE
            replaced[i] = plain if encoding else their_encode(child.shape, plain, case.protocol)
    if replaced:
        _, _, difference = run(with_parts(case, replaced))
        if difference is None:
            return names
    claims = [rule for rule in RULES if rule.claims(difference)]
    if len(claims) != 1:
        raise Unclaimed(difference, claims)
    return [*names, claims[0].name]
