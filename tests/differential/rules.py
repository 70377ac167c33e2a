"""The differences that are meant: each is explained in docs/differences.md under its name.

A difference that no rule claims fails the proof, and so does one that two rules claim.
"""

from __future__ import annotations

import sys

from .rule import Rule
from .rules_compound import COMPOUND
from .rules_decode import DECODED
from .rules_scalar import SCALAR

__all__ = ["LISTED", "RULES", "Rule"]

LISTED = [*SCALAR, *COMPOUND, *DECODED]
"""All of them."""
RULES = [rule for rule in LISTED if sys.version_info >= rule.since]
"""Those of this interpreter."""
