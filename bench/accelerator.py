"""Other drivers plain and accelerated: the codec's cases in one process, and requests to a server.

`make bench CASE=accelerator`. Raw samples go to `build/bench/accelerator.jsonl`, the medians to
standard output; `report_accelerator.py` writes the table of `docs/accelerator.md` from samples.
"""

from __future__ import annotations

from typing import Any

import end_to_end
import report_accelerator
from codec import class_names
from codec_cases import EXTENSIONS
from codec_environments import BUILD, RIVALS, keep_samples, read_samples, run, write_samples
from codec_turbocql import cases as codec_cases
from end_to_end_cases import Case, accelerated_cases
from timing import chosen

__all__ = ["ROUNDS", "main", "names"]

ROUNDS = 5
SAMPLES = BUILD / "accelerator.jsonl"

Sample = dict[str, Any]


def names(patterns: list[str]) -> list[str]:
    """The names of the cases that the patterns choose."""
    return [*_codec(patterns), *map(str, _requests(patterns))]


def _codec(patterns: list[str]) -> list[str]:
    every = [*codec_cases(), *EXTENSIONS]
    return [name for name in every if chosen(name, patterns, "accelerator")]


def _requests(patterns: list[str]) -> list[Case]:
    return [case for case in accelerated_cases() if chosen(str(case), patterns, "accelerator")]


def main(patterns: list[str], rounds: int = ROUNDS) -> tuple[list[Sample], bool]:
    """Measures, then prints a table; samples, and whether something failed."""
    samples: list[Sample] = []
    if _codec(patterns):
        for turn in range(rounds):
            for client in RIVALS if turn % 2 else reversed(RIVALS):
                arguments = [client, *patterns]
                samples += run(client, "codec_accelerated.py", arguments, stdin=class_names())
    before, failed = read_samples(SAMPLES), False
    if wanted := _requests(patterns):
        write_samples(SAMPLES, [])
        failed = end_to_end.measure(wanted, rounds, "accelerator", SAMPLES) != 0
        samples += read_samples(SAMPLES)
        write_samples(SAMPLES, before)
    keep_samples(SAMPLES, samples)
    print("\n".join(report_accelerator.section(samples)))
    return samples, failed
