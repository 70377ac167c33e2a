"""Measures how many calls of the codec one thread and two threads make in a second.

The suite runs under one interpreter, that of `--interpreter` or of `.venv`, with quick paths on and
off. Run it once with an interpreter that has the GIL, and once with one that is built without it,
for which the native module was compiled into `python/turbocql`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.harness import processes
from bench.harness.environments import OURS, python_in
from bench.harness.samples import Sample
from bench.harness.selection import chosen
from bench.harness.spread import turns
from bench.harness.suites import Options, Run, Suite
from bench.suites.threads.cases import CASES

__all__ = ["SUITE"]

ROUNDS = 2
OFF = {"_TURBOCQL_TEST_INTERPRETER": "3.99"}
"""The version that the native core assumes. It has no quick paths for an unknown version."""


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the cases that the patterns choose."""
    return [name for name in CASES if chosen(name, patterns, "threads")]


def _samples(case: str, python: Path, switches: dict[str, str]) -> list[Sample]:
    variables = processes.environment(**switches)
    program = "bench.clients.turbocql.threads"
    return processes.samples(python, program, case, variables=variables)


def run(options: Options) -> Run:
    """Measures the chosen cases, and prints a line of a Markdown table for each."""
    current, python = Run(SUITE.file, SUITE.subject), options.interpreter or python_in(OURS)
    for case in names(options.patterns):
        for _, switches in turns(({}, OFF), options.rounds or ROUNDS):
            current.measure(case, partial(_samples, case, python, switches))
        _print([sample for sample in current.samples if sample["case"] == case])
    return current


def _print(samples: list[Sample]) -> None:
    for variant in sorted({sample["variant"] for sample in samples}):
        rates = {
            threads: max(
                sample["per_s"]
                for sample in samples
                if (sample["variant"], sample["threads"]) == (variant, threads)
            )
            for threads in (1, 2)
        }
        first = samples[0]
        print(
            f"| {first['case']} | {first['interpreter']} | {variant} | {rates[1]:,.0f} |"
            f" {rates[2]:,.0f} | {rates[2] / rates[1]:.2f} |",
            flush=True,
        )


SUITE = Suite(
    "threads",
    "calls of the codec per second by one thread and by two",
    names,
    run,
    "threads.jsonl",
    subject=("case", "interpreter", "variant"),
    any_interpreter=True,
    is_kept=False,
)
