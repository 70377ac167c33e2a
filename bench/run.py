"""Runs the suites, then writes the report: `make bench`, or `make bench CASE=...` for some.

A case is run whose name has all the words of a pattern; the suite's name counts as one of them.
`--list` prints all names. Samples go to `build/bench/`, and the page to
`build/bench/benchmarks.md`; with `--keep` the samples also replace those of the same cases in
`bench/samples/`, and the page in `docs/` is written from there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import accelerator
import codec
import end_to_end
import growth
import report
from codec_environments import BUILD, keep_samples, read_samples, write_samples
from codec_turbocql import cases as codec_cases
from end_to_end_cases import named
from growth_timing import series_named
from report_data import Sample
from timing import chosen, nearest

SUITES = ("codec", "end_to_end", "growth", "accelerator")


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="words of names of cases or suites")
    parser.add_argument("--list", action="store_true", help="print the names, measure nothing")
    parser.add_argument("--rounds", type=int, help="processes per client and case")
    parser.add_argument("--interpreter", type=Path, help="another Python: codec and growth only")
    parser.add_argument("--keep", action="store_true", help="keep samples, write docs/")
    given = parser.parse_args()
    patterns = [pattern for pattern in given.patterns if pattern.strip()]
    suites = SUITES if given.interpreter is None else ("codec", "growth")
    for pattern in patterns:
        if not any(names(suite, [pattern]) for suite in suites):
            raise SystemExit(unknown(pattern, [n for suite in suites for n in names(suite, [])]))
    if given.list:
        for suite in suites:
            if found := names(suite, patterns):
                print("\n".join([f"{suite}:", *(f"  {name}" for name in found)]))
        return
    taken: dict[str, list[Sample]] = {}
    failed = False
    for suite in suites:
        if names(suite, patterns):
            taken[suite], fails = run(suite, patterns, given.rounds, given.interpreter)
            failed |= fails
    if not any(taken.values()):
        raise SystemExit("nothing was measured")
    report.main(BUILD, BUILD / "benchmarks.md")
    if given.keep:
        keep(taken)
    sys.exit(failed)


def names(suite: str, patterns: list[str]) -> list[str]:
    """The names of a suite's cases that the patterns choose; no environment is needed for it."""
    if suite == "codec":
        return [name for name in codec_cases() if chosen(name, patterns, suite)]
    if suite == "accelerator":
        # Without its name, it is the driver's own cases that are meant.
        words = [pattern for pattern in patterns if "accelerat" in pattern.lower()]
        return accelerator.names(words) if words or not patterns else []
    return series_named(patterns) if suite == "growth" else [str(case) for case in named(patterns)]


def unknown(pattern: str, all_names: list[str]) -> str:
    """What to say of a pattern that chooses nothing."""
    lines = [f"no case has all the words of {pattern!r} in its name; --list lists all"]
    near = nearest(pattern, all_names)
    return "\n".join([*lines, *(["the nearest:"] if near else []), *(f"  {n}" for n in near)])


def run(
    suite: str, patterns: list[str], rounds: int | None, interpreter: Path | None
) -> tuple[list[Sample], bool]:
    """One suite, or some of its cases: samples, and whether something failed."""
    if suite == "codec":
        return codec.main(patterns, rounds or codec.ROUNDS, interpreter), False
    if suite == "growth":
        return growth.main(patterns, rounds or growth.ROUNDS, interpreter), False
    if suite == "accelerator":
        words = [pattern for pattern in patterns if "accelerat" in pattern.lower()]
        return accelerator.main(words, rounds or accelerator.ROUNDS)
    return run_end_to_end(patterns, rounds or end_to_end.ROUNDS)


def run_end_to_end(patterns: list[str], rounds: int) -> tuple[list[Sample], bool]:
    """The suite adds to its file; what was there of the same cases gives way to what is new."""
    before = read_samples(end_to_end.SAMPLES)
    status = end_to_end.main(patterns, rounds)
    new = read_samples(end_to_end.SAMPLES)[len(before) :]
    # Where a client cannot do a case, no process said under which interpreter.
    here = next((sample["interpreter"] for sample in new if sample.get("interpreter")), "")
    new = [{"interpreter": here, **sample} for sample in new]
    write_samples(end_to_end.SAMPLES, before)
    keep_samples(end_to_end.SAMPLES, new)
    return new, status != 0


def keep(taken: dict[str, list[Sample]]) -> None:
    """What this run took, into the repository; then the page in `docs/`."""
    for suite, samples in taken.items():
        if samples:
            keep_samples(report.SAMPLES / f"{suite}.jsonl", samples)
    report.main()


if __name__ == "__main__":
    main()
