"""Gives the same values and bytes to turbocql and to scylla-driver, and reports what differs.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.differential.compare --count 200

Run in the reference driver's environment: both drivers encode and decode the very same objects in
one process. Prints JSON; see docs/differences.md for the differences that are meant.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import time
import traceback
import warnings
import zlib
from collections import Counter
from typing import Any

from turbocql.codec import CqlType

from .cases import COMPILED, DECODE, ENCODE, Case, Difference, Tally, shown
from .drivers import Refusal, our_decode, our_encode, their_decode, their_encode
from .explain import Unclaimed, explain
from .generate import Generator
from .mutate import mutated
from .normal import CONVERSIONS, conversions
from .routing import routing
from .rules import LISTED, RULES
from .shapes import Shape, every_type

MOST_SHOWN = 20


class Report:
    """What was compared, and what of it no rule claims."""

    def __init__(self) -> None:
        self.tallies = {way: Tally() for way in (ENCODE, DECODE, COMPILED)}
        self.rules: Counter[str] = Counter({rule.name: 0 for rule in RULES})
        self.failures: list[str] = []

    def compare(self, case: Case) -> None:
        """Both drivers' answers to one case."""
        try:
            self.rules.update(explain(case, self.tallies[case.way]))
        except Unclaimed as unclaimed:
            self.failures.append(str(unclaimed))
        except Exception:
            where = str(Difference(case, "?", "?"))
            self.failures.append(f"{where}\n{traceback.format_exc()}")

    def examples(self) -> None:
        """Each rule claims its own example: a rule that no longer applies is dead."""
        for rule in RULES:
            try:
                found = explain(rule.example)
            except Unclaimed as unclaimed:
                self.failures.append(f"example of {rule.name}: {unclaimed}")
                continue
            if found != [rule.name]:
                self.failures.append(f"the example of {rule.name} is claimed by {found}")

    def type(self, shape: Shape, count: int, seed: int) -> None:
        """So many values of a type, their bytes, and bytes that are no value of it."""
        ours = CqlType(shape.reference).definition.replace("ks.", "")
        if ours != CqlType(shape.cql).definition:
            self.failures.append(f"the class of {shape.cql} is read as {ours}")
        generator = Generator(seed ^ zlib.crc32(shape.cql.encode()))
        for way in (DECODE, COMPILED):
            self.compare(Case(way, shape, b""))
        for i in range(count):
            protocol = 3 + i % 3
            self._value(generator, shape, protocol, again=i % 4 == 0)

    def _value(self, generator: Generator, shape: Shape, protocol: int, *, again: bool) -> None:
        value = generator.value(shape)
        self.compare(Case(ENCODE, shape, value, protocol))
        data = their_encode(shape, value, protocol)
        if isinstance(data, Refusal):
            data = our_encode(shape, value, protocol)
        if isinstance(data, Refusal):
            data = generator.rng.randbytes(generator.rng.randrange(12))
        odd = mutated(generator.rng, shape, data)
        for way in (DECODE, COMPILED):
            self.compare(Case(way, shape, data, protocol))
            self.compare(Case(way, shape, odd, protocol))
        if not again:
            return
        # What one driver reads, both must take again.
        for read in (our_decode, their_decode):
            value = read(shape, data, protocol)
            if value is not None and not isinstance(value, Refusal):
                self.compare(Case(ENCODE, shape, value, protocol))


def main() -> None:
    """Prints the report; exit status 1 when something differs that should not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="values of each type")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--types", default="", help="only types whose CQL this expression matches")
    parser.add_argument("--part", default="0/1", help="every Nth type from the Kth: K/N")
    options = parser.parse_args()

    warnings.simplefilter("ignore")  # NumPy's and the reference's, of what is given to them.
    logging.disable(logging.CRITICAL)
    started = time.monotonic()
    part, parts = map(int, options.part.split("/"))
    shapes = [shape for shape in every_type() if re.search(options.types, shape.cql)][part::parts]
    report = Report()
    report.examples()
    for shape in shapes:
        report.type(shape, options.count, options.seed)
    keys, wrong = routing(options.count * 10, options.seed + part)
    failures = report.failures + wrong
    result: dict[str, Any] = {
        "types": [shape.cql for shape in shapes],
        "compared": {way: vars(tally) for way, tally in report.tallies.items()},
        "routing": keys,
        "rules": dict(report.rules),
        "sections": {rule.name: rule.section for rule in LISTED},
        "reasons": {rule.name: rule.reason for rule in RULES},
        "examples": {rule.name: shown(rule.example.given) for rule in RULES},
        "conversions": {name: [CONVERSIONS[name], conversions[name]] for name in CONVERSIONS},
        "failed": len(failures),
        "failures": [failure[:2000] for failure in failures[:MOST_SHOWN]],
        "seconds": round(time.monotonic() - started, 1),
    }
    json.dump(result, sys.stdout, indent=1)
    print()
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
