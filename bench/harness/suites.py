"""A suite as the command line sees it: its cases by name, and a run of some of them."""

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
    """What the command line asks of a suite."""

    patterns: Sequence[str] = ()
    rounds: int | None = None
    rows: int | None = None
    interpreter: Path | None = None
    contact_point: str | None = None
    keep: bool = False
    record: str | None = None


@dataclass
class Run:
    """The samples and the failures of one run. Each sample is in the file of `build/bench` at once,
    so that a run that is ended leaves them.
    """

    file: str
    subject: tuple[str, ...] = SUBJECT
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, *new: Sample) -> None:
        """Keeps samples."""
        self.samples += new
        samples.keep(BUILD / self.file, self.samples, self.subject)

    def fail(self, what: object, why: object) -> None:
        """Says so at once, and again at the end."""
        self.failures.append(f"{what}: {why}")
        say(f"FAILED {what}: {why}")

    def measure(self, what: object, sampled: Callable[[], Iterable[Sample]]) -> list[Sample]:
        """The samples of one process, or none if it failed."""
        try:
            new = list(sampled())
        except Failed as error:
            self.fail(what, error)
            return []
        self.add(*new)
        return new


def say(line: str) -> None:
    """A line for whoever waits: standard output is for results."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Suite:
    """Cases that are measured in one way."""

    name: str
    about: str
    names: Callable[[Sequence[str]], list[str]]
    """The names of the cases that the patterns choose; no environment is needed for it."""
    run: Callable[[Options], Run]
    file: str
    """The file of its samples, in `build/bench` and in `bench/samples`."""
    subject: tuple[str, ...] = SUBJECT
    by_default: bool = False
    """Whether it runs where no suite is named."""
    any_interpreter: bool = False
    """Whether it runs under another interpreter too."""
    is_kept: bool = True
    """Whether the documentation has its figures: `--keep` keeps its samples."""
