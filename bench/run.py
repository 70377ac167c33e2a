"""Runs the suites, then writes the report: `make bench`, or `make bench CASE=...` for some.

A case is run whose name contains the text, or whose suite's name does. Samples go to
`build/bench/`, and the page to `build/bench/benchmarks.md`; with `--keep` the samples also replace
those of the same cases in `bench/samples/`, and the page in `docs/` is written from there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import codec
import end_to_end
import growth
import report
from codec_environments import BUILD, keep_samples, read_samples, write_samples
from end_to_end_cases import cases
from report_data import Sample
from timing import chosen

SUITES = ("codec", "end_to_end", "growth")


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="parts of names of cases or suites")
    parser.add_argument("--rounds", type=int, help="processes per client and case")
    parser.add_argument("--interpreter", type=Path, help="another Python: codec and growth only")
    parser.add_argument("--keep", action="store_true", help="keep samples, write docs/")
    given = parser.parse_args()
    patterns = [pattern for pattern in given.patterns if pattern]
    taken: dict[str, list[Sample]] = {}
    failed = False
    for suite in SUITES:
        # A suite that is named runs whole.
        wanted = [] if any(pattern in suite for pattern in patterns) else patterns
        taken[suite], fails = run(suite, wanted, given.rounds, given.interpreter)
        failed |= fails
    if not any(taken.values()):
        raise SystemExit(f"no case has {' or '.join(patterns)} in its name")
    report.main(BUILD, BUILD / "benchmarks.md")
    if given.keep:
        keep(taken)
    sys.exit(failed)


def run(
    suite: str, patterns: list[str], rounds: int | None, interpreter: Path | None
) -> tuple[list[Sample], bool]:
    """One suite, unless none of its cases is asked for: samples, and whether something failed."""
    if suite == "codec":
        return codec.main(patterns, rounds or codec.ROUNDS, interpreter), False
    if suite == "growth":
        return growth.main(patterns, rounds or growth.ROUNDS, interpreter), False
    if interpreter is None and any(chosen(str(case), patterns) for case in cases()):
        return run_end_to_end(patterns, rounds or end_to_end.ROUNDS)
    return [], False


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
