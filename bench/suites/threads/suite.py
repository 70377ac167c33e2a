"""Measures how many calls of the codec are made in a second by one thread and by two threads.

The suite runs under one interpreter, that of `--interpreter` or of `.venv`. It measures with quick
paths (code that uses CPython's C layouts) on and with quick paths off. Run the suite twice: with an
interpreter that has the GIL, and with a free-threaded interpreter. Before the second run, compile
the native module for the free-threaded interpreter into `python/turbocql`.
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
"""Environment variables that make the core behave as on Python 3.99, for which it has no quick
paths."""


_HEAD = """\
| case | interpreter | quick paths | 1 thread, calls/s | 2 threads | ratio | of threads' own time |
|---|---|---|--:|--:|--:|--:|"""


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
    print(_HEAD, flush=True)
    for case in names(options.patterns):
        for _, switches in turns(({}, OFF), options.rounds or ROUNDS):
            current.measure(case, partial(_samples, case, python, switches))
        _print([sample for sample in current.samples if sample["case"] == case])
    return current


def _print(samples: list[Sample]) -> None:
    first = samples[0]
    for variant in sorted({sample["variant"] for sample in samples}):

        def best(field: str, threads: int, variant: str = variant) -> float:
            about = (variant, threads)
            fitting = (s for s in samples if (s["variant"], s["threads"]) == about)
            return max(float(sample[field]) for sample in fitting)

        by_clock = best("per_s", 2) / best("per_s", 1)
        by_time = best("per_thread_s", 2) / best("per_thread_s", 1)
        print(
            f"| {first['case']} | {first['interpreter']} | {variant} | {best('per_s', 1):,.0f} |"
            f" {best('per_s', 2):,.0f} | {by_clock:.2f} | {by_time:.2f} |",
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
