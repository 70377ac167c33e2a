"""`python -m bench run|report|list`: see `--help` of each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.harness import samples
from bench.harness.environments import BUILD, KEPT
from bench.harness.processes import Failed
from bench.harness.samples import Sample
from bench.harness.selection import unknown
from bench.harness.suites import Options, Suite
from bench.report.parts import BUILT
from bench.report.tables.accelerator import accelerator_section
from bench.report.tables.availability import availability_section
from bench.report.tables.engines import engines_section
from bench.suites.registry import SUITES

__all__ = ["main"]

_RUN = """\
Measures suites, or some of their cases. A case is run if its name has all the words of a
pattern. The suite's name may be one of these words. Samples go to build/bench/, and the pages
with figures to build/bench/pages/. With --keep, the samples also replace the samples of the same
cases in bench/samples/.
"""


SECTIONS: dict[str, Callable[[list[Sample]], list[str]]] = {
    "accelerator.jsonl": accelerator_section,
    "availability.jsonl": availability_section,
    "engines.jsonl": engines_section,
}
"""Maps a suite's file of samples to the function that makes the tables to print after a run. Suites
with other files print their tables themselves."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    run = commands.add_parser("run", help="measure", description=_RUN)
    run.add_argument("--list", action="store_true", help="print the names, measure nothing")
    run.add_argument("--rounds", type=int, help="processes per client and case")
    run.add_argument("--rows", type=int, help="tables, engines, memory: rows of the table")
    run.add_argument("--interpreter", type=Path, help="codec, growth: another Python")
    run.add_argument("--contact-point", help="memory: a server that runs already")
    run.add_argument("--record", metavar="WHY", help="instructions: record the counts, and why")
    run.add_argument("--keep", action="store_true", help="keep the samples; memory: the table")
    names = commands.add_parser("list", help="print the names of suites and cases")
    for command in (run, names):
        command.add_argument("--suite", action="append", choices=list(SUITES), default=[])
        command.add_argument("patterns", nargs="*", help="words of names of cases or suites")
    report = commands.add_parser("report", help="write the pages that have figures")
    report.add_argument("--samples", type=Path, default=KEPT, help="default: bench/samples")
    report.add_argument("--out", type=Path, default=BUILT, help="default: build/measured")
    report.add_argument(
        "--targets",
        action="store_true",
        help="print the targets, write nothing; exits with 1 if one is missed",
    )
    report.add_argument("--keep", action="store_true", help="also write the parts that are in git")
    args = parser.parse_args(arguments)
    if args.command == "report":
        return _report(args)
    patterns = [pattern for pattern in args.patterns if pattern.strip()]
    suites = _suites(args.suite, patterns, is_list=args.command == "list")
    if args.command == "list" or args.list:
        return _list(suites, patterns)
    options = Options(
        patterns=patterns,
        rounds=args.rounds,
        rows=args.rows,
        interpreter=args.interpreter,
        contact_point=args.contact_point,
        keep=args.keep,
        record=args.record,
    )
    return _run(suites, options)


def _suites(chosen: Sequence[str], patterns: Sequence[str], *, is_list: bool) -> list[Suite]:
    """Returns the suites that have cases to run or list.

    If `chosen` names no suite, `run` takes the suites that run by default, and `list` takes all.

    Raises: SystemExit if a pattern chooses no case.
    """
    if chosen:
        suites = [SUITES[name] for name in chosen]
    elif is_list:
        suites = list(SUITES.values())
    else:
        suites = [suite for suite in SUITES.values() if suite.by_default]
    for pattern in patterns:
        if not any(_names(suite, [pattern], chosen) for suite in suites):
            every = [name for suite in suites for name in suite.names([])]
            raise SystemExit(unknown(pattern, every))
    return [suite for suite in suites if _names(suite, patterns, chosen)]


def _names(suite: Suite, patterns: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Returns the names of a suite's cases that the patterns choose."""
    if suite.name == "accelerator" and not chosen:
        patterns, every = _of_accelerator(patterns), not patterns
        return suite.names(patterns) if patterns or every else []
    return suite.names(patterns)


def _of_accelerator(patterns: Sequence[str]) -> list[str]:
    """Returns the patterns that contain `accelerat`.

    The accelerator's cases have the same names as cases of other suites. So unless `--suite` names
    the accelerator's suite, only these patterns choose its cases.
    """
    return [pattern for pattern in patterns if "accelerat" in pattern.lower()]


def _list(suites: Sequence[Suite], patterns: Sequence[str]) -> int:
    for suite in suites:
        print(f"{suite.name}: {suite.about}")
        words = _of_accelerator(patterns) or patterns if suite.name == "accelerator" else patterns
        print("\n".join(f"  {name}" for name in suite.names(words)))
    return 0


def _run(suites: Sequence[Suite], options: Options) -> int:
    if options.interpreter is not None:
        suites = [suite for suite in suites if suite.any_interpreter]
    is_measured, failures = False, []
    for suite in suites:
        try:
            run = suite.run(options)
        except Failed as error:
            # The suites after this one still run.
            failures.append(f"{suite.name}: {error}")
            continue
        failures += run.failures
        if run.samples and suite.is_kept:
            is_measured = True
            if suite.file in SECTIONS:
                print("\n".join(SECTIONS[suite.file](run.samples)))
            if options.keep:
                samples.keep(KEPT / suite.file, run.samples, suite.subject)
    if is_measured:
        # `pages` is imported late: it needs Matplotlib, which a run of the suite `instructions`
        # does not need.
        from bench.report import pages

        pages.write(BUILD, BUILD / "pages")
        if options.keep:
            pages.write()
            pages.keep()
    for failure in failures:
        print(f"FAILED {failure}")
    return 1 if failures else 0


def _report(args: argparse.Namespace) -> int:
    if args.targets:
        from bench.report.targets.page import is_missed, targets_page

        lines = targets_page(args.samples)
        print("\n".join(lines))
        return 1 if any(map(is_missed, lines)) else 0
    from bench.report import pages

    pages.write(args.samples, args.out)
    if args.keep:
        pages.keep(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
