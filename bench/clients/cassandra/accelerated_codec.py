"""Times the codec's cases with scylla-driver or cassandra-driver, plain and accelerated.

Reads the Java class names of CQL types from standard input. Prints a line of JSON for each case.
The program ends with an error if the plain and the accelerated result of a case differ, or if a
case fails only when it is accelerated.
"""

from __future__ import annotations

import gc
import sys

import cassandra

from bench.clients.cassandra.codec import cases, read_class_names
from bench.clients.cassandra.everyday import cases as everyday_cases
from bench.clients.cassandra.extensions import cases as extension_cases
from bench.clients.cassandra.plans import cases as plan_cases
from bench.harness.provenance import provenance
from bench.harness.selection import chosen
from bench.harness.timing import ns_per_call, outcome_of, say
from turbocql import accel


def main(client: str, patterns: list[str]) -> None:
    """Prints a line for each case that the patterns choose."""
    about = provenance(client, cassandra.__version__)
    makers = {**cases(), **extension_cases(), **plan_cases(), **everyday_cases()}
    for name, maker in makers.items():
        if not chosen(name, patterns, "accelerator"):
            continue
        plain, expected, note = outcome_of(maker)
        sample = {"suite": "accelerator", "case": name, **about, "note": note}
        if plain is None:
            say({**sample, "plain_ns": None, "accelerated_ns": None})
            continue
        with accel.accelerated():
            # Even with the accelerator on, the driver's own function decodes the first page with
            # new columns. So the result of the first run is dropped.
            outcome_of(maker)
            accelerated, outcome, _ = outcome_of(maker)
        if accelerated is None or outcome != expected:
            raise SystemExit(f"{name}: plain {expected!r:.200}, accelerated {outcome!r:.200}")
        gc.collect()
        gc.freeze()
        # Each measurement makes the case anew. A case refers to the functions that were in place
        # when it was made: the driver's own, or the accelerator's.
        before = ns_per_call(maker())
        with accel.accelerated():
            case = maker()
            if case.outcome:
                case.outcome()
            after = ns_per_call(case)
        say({**sample, "plain_ns": min(before, ns_per_call(maker())), "accelerated_ns": after})


if __name__ == "__main__":
    read_class_names()
    main(sys.argv[1], sys.argv[2:])
