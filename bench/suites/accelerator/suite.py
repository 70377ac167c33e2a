"""Measures other drivers, plain and accelerated: the codec's cases, requests, and imports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench.harness import processes
from bench.harness.environments import RIVALS, python_of
from bench.harness.samples import Sample
from bench.harness.selection import chosen
from bench.harness.spread import turns
from bench.harness.suites import Options, Run, Suite
from bench.suites.accelerator import instructions, start
from bench.suites.codec.cases import EXTENSIONS, NAMES, PLANS
from bench.suites.codec.everyday import CASES as EVERYDAY_CASES
from bench.suites.codec.everyday import EVERYDAY
from bench.suites.codec.suite import class_names
from bench.suites.requests.cases import Case, accelerated_cases
from bench.suites.requests.suite import measure

__all__ = ["INSTRUCTIONS", "SUITE"]

ROUNDS = 5


def _codec(patterns: Sequence[str]) -> list[str]:
    return [
        name
        for name in [*NAMES, *EXTENSIONS, *PLANS, *EVERYDAY_CASES]
        if chosen(name, patterns, "accelerator")
    ]


def _requests(patterns: Sequence[str]) -> list[Case]:
    return [case for case in accelerated_cases() if chosen(str(case), patterns, "accelerator")]


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the cases that the patterns choose."""
    return [*_codec(patterns), *map(str, _requests(patterns)), *start.names(patterns)]


def run(options: Options) -> Run:
    """Measures the codec's cases, then requests, then the imports of the drivers."""
    current = Run(SUITE.file)
    rounds = options.rounds or ROUNDS
    if _codec(options.patterns):
        for number, client in turns(RIVALS, rounds):
            sampled = partial(_samples, client, options.patterns)
            current.measure(f"{client}, round {number}", sampled)
    if cases := _requests(options.patterns):
        measure(cases, rounds, current, SUITE.name)
    if start.names(options.patterns):
        for client in RIVALS:
            sampled = partial(start.samples, client, options.patterns)
            current.measure(f"start, {client}", sampled)
    return current


def _samples(client: str, patterns: Sequence[str]) -> list[Sample]:
    program = "bench.clients.cassandra.accelerated_codec"
    types = class_names({cql for cql, _ in EVERYDAY.values()})
    return processes.samples(python_of(client), program, client, *patterns, stdin=types)


SUITE = Suite(
    "accelerator",
    "other drivers plain and accelerated, in processor time",
    names,
    run,
    "accelerator.jsonl",
    by_default=True,
)
INSTRUCTIONS = Suite(
    "accelerator-instructions",
    "instructions of requests through other drivers, plain and accelerated",
    instructions.names,
    partial(instructions.run, SUITE.file),
    SUITE.file,
)
