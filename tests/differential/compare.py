"""Compares turbocql and scylla-driver on values and bytes of a type, in one process.

docs/differences.md lists the intended differences, which are called rules.
"""

from __future__ import annotations

import traceback
import zlib
from collections import Counter
from dataclasses import dataclass, field

from turbocql.codec import CqlType

from .cases import COMPILED, DECODE, ENCODE, Case, Difference, Tally
from .drivers import Refusal, our_decode, our_encode, their_decode, their_encode
from .explain import Unclaimed, explain
from .generate import Generator
from .mutate import mutated
from .normal import conversions
from .shapes import Shape, every_type

WAYS = (ENCODE, DECODE, COMPILED)
TYPES = {shape.cql: shape for shape in every_type()}


@dataclass
class TypeReport:
    """The results for one type, and the differences that no rule claims."""

    tallies: dict[str, Tally] = field(default_factory=lambda: {way: Tally() for way in WAYS})
    rules: Counter[str] = field(default_factory=Counter)
    conversions: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def compare(self, case: Case) -> None:
        """Compares the drivers on one case."""
        try:
            self.rules.update(explain(case, self.tallies[case.way]))
        except Unclaimed as unclaimed:
            self.failures.append(str(unclaimed))
        except Exception:
            where = str(Difference(case, "?", "?"))
            self.failures.append(f"{where}\n{traceback.format_exc()}")

    def compare_value(
        self, generator: Generator, shape: Shape, protocol: int, *, again: bool
    ) -> None:
        """Compares how the drivers encode a random value, and decode its bytes and damaged bytes.

        If `again`, the method also compares how they encode the decoded values.
        """
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
        # Each driver decodes the bytes. Both drivers then encode both decoded values.
        for read in (our_decode, their_decode):
            value = read(shape, data, protocol)
            if value is not None and not isinstance(value, Refusal):
                self.compare(Case(ENCODE, shape, value, protocol))


def compare_type(cql_type: str, count: int, seed: int) -> TypeReport:
    """Compares the drivers on `count` random values of a type, their bytes, and damaged bytes."""
    shape, report = TYPES[cql_type], TypeReport()
    converted_before = Counter(conversions)
    ours = CqlType(shape.reference).definition.replace("ks.", "")
    if ours != CqlType(shape.cql).definition:
        report.failures.append(f"the class of {shape.cql} is read as {ours}")
    generator = Generator(seed ^ zlib.crc32(shape.cql.encode()))
    for way in (DECODE, COMPILED):
        report.compare(Case(way, shape, b""))
    for i in range(count):
        report.compare_value(generator, shape, 3 + i % 3, again=i % 4 == 0)
    report.conversions = conversions - converted_before
    return report
