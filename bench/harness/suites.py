"""The interface between a suite and the command line: names of cases, options, and a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import samples
from bench.harness.environments import BUILD
from bench.harness.processes import Failed
from bench.harness.samples import SUBJECT, Sample

__all__ = ["Options", "Run", "Suite", "say"]


@dataclass(frozen=True)
class Options:
    """The command line's options that a suite gets."""

    patterns: Sequence[str] = ()
    rounds: int | None = None
    rows: int | None = None
    interpreter: Path | None = None
    contact_point: str | None = None
    keep: bool = False
    record: str | None = None


@dataclass
class Run:
    """The samples and the failures of one run.

    Each sample is written to `build/bench` at once, so that an interrupted run keeps its samples.
    """

    file: str
    subject: tuple[str, ...] = SUBJECT
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, *new: Sample) -> None:
        """Adds samples, and writes them to the file in `build/bench`."""
        self.samples += new
        samples.keep(BUILD / self.file, self.samples, self.subject)

    def fail(self, what: object, why: object) -> None:
        """Prints a failure at once, and records it to be printed again at the end."""
        self.failures.append(f"{what}: {why}")
        say(f"FAILED {what}: {why}")

    def measure(self, what: object, sampled: Callable[[], Iterable[Sample]]) -> list[Sample]:
        """Adds and returns the samples of one process, or records that the process failed."""
        try:
            new = list(sampled())
        except Failed as error:
            self.fail(what, error)
            return []
        self.add(*new)
        return new


def say(line: str) -> None:
    """Prints a line of progress to standard error; standard output is for results."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Suite:
    """Cases that are measured in the same way."""

    name: str
    about: str
    names: Callable[[Sequence[str]], list[str]]
    """Returns the names of the cases that the patterns choose. The function runs without the
    clients' environments."""
    run: Callable[[Options], Run]
    file: str
    """The file of the suite's samples, in `build/bench` and in `bench/samples`."""
    subject: tuple[str, ...] = SUBJECT
    by_default: bool = False
    """Whether the suite runs if no suite is named."""
    any_interpreter: bool = False
    """Whether the suite can run under the interpreter that `--interpreter` names."""
    is_kept: bool = True
    """Whether `--keep` keeps the samples: true for suites whose figures the documentation shows."""
