"""Lists the rules of the intended differences. docs/differences.md has each rule under its name.

A difference fails the tests if no rule claims it, or if more than one rule claims it.
"""

from __future__ import annotations

import sys

from .rule import Rule
from .rules_compound import COMPOUND
from .rules_decode import DECODED
from .rules_scalar import SCALAR

__all__ = ["LISTED", "RULES", "Rule"]

LISTED = [*SCALAR, *COMPOUND, *DECODED]
"""The rules for all versions of CPython."""
RULES = [rule for rule in LISTED if sys.version_info >= rule.since]
"""The rules for this version of CPython."""
