"""Which rules a difference comes from, down to the part of the value where it arises."""

from __future__ import annotations

from .cases import ENCODE, Case, Difference, Tally, benign, children, run, with_parts
from .drivers import their_encode
from .rules import RULES, Rule


class Unclaimed(Exception):
    """A difference that no rule claims, or more than one."""

    def __init__(self, difference: Difference, claims: list[Rule]) -> None:
        names = [rule.name for rule in claims]
        self.difference = difference
        super().__init__(f"claimed by {names or 'no rule'}: {difference}")


def explain(case: Case, tally: Tally | None = None) -> list[str]:
    """The rules of every difference in the case; none where there is no difference.

    Parts that differ are explained alone and then replaced by ones that do not: what is still
    different after that is for the rules of the whole.
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
