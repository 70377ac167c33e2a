"""How the codec's cases are timed; names no driver."""

from __future__ import annotations

import fnmatch
import gc
import json
import platform
import sys
import sysconfig
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROUNDS = 5
ROUND_S = 0.02


@dataclass(frozen=True)
class Case:
    """What is timed, and what comes out of it in a form that all clients share.

    What is timed is an expression of names, not a function: calling one costs as much as some cases
    take.
    """

    expression: str
    names: dict[str, Any]
    outcome: Callable[[], Any] | None = None


def ns_per_call(case: Case) -> float:
    """The least of some rounds, each long enough for the clock."""
    timer = timeit.Timer(case.expression, globals=case.names)
    number = 1
    while (taken := timer.timeit(number)) < ROUND_S / 4:
        number = max(number * 2, int(number * ROUND_S / 2 / max(taken, 1e-9)))
    number = max(1, int(number * ROUND_S / taken))
    return min(timer.repeat(ROUNDS, number)) / number * 1e9


def interpreter() -> str:
    """Version and how it was built: an interpreter without PGO is slower where Python code runs."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    built = "PGO" if "--enable-optimizations" in options else "no PGO"
    return f"CPython {platform.python_version()} ({built})"


def measure(client: str, cases: dict[str, Case], patterns: list[str]) -> None:
    """Checks or times the cases that the patterns name, and prints a line of JSON for each.

    With `--outcomes` first among the patterns, what each case gives is printed, and nothing timed.
    """
    outcomes = patterns[:1] == ["--outcomes"]
    patterns = patterns[1:] if outcomes else patterns
    gc.collect()
    gc.freeze()
    for name, case in cases.items():
        if patterns and not any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in patterns):
            continue
        sample: dict[str, Any] = {"client": client, "case": name}
        if outcomes:
            sample["outcome"] = case.outcome() if case.outcome else None
        else:
            sample |= {"ns": ns_per_call(case), "interpreter": interpreter()}
            sample["machine"] = platform.platform()
        print(json.dumps(sample), flush=True)
    sys.stdout.flush()
