"""Times calls. Imports no driver."""

from __future__ import annotations

import gc
import json
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from bench.harness.provenance import provenance
from bench.harness.selection import chosen

__all__ = ["Case", "Maker", "measure", "ns_per_call", "outcome_of", "reason", "say"]

ROUNDS = 5
ROUND_S = 0.02


@dataclass(frozen=True)
class Case:
    """An expression to time, and a function `outcome` that returns the result to check.

    The result has the same form for all clients. The timed code is an expression, not a function,
    because a function call would take as long as the work of some cases.
    """

    expression: str
    names: dict[str, Any]
    outcome: Callable[[], Any] | None = None
    note: str = ""


Maker: TypeAlias = Callable[[], Case]
"""Makes a case, or raises an exception that says why the client cannot run it."""


def ns_per_call(case: Case) -> float:
    """Returns the time per call of the fastest of several rounds.

    The time is processor time, which other processes affect less than wall-clock time. No case
    waits for anything. `timeit` disables the garbage collector during the rounds.
    """
    timer = timeit.Timer(case.expression, timer=time.process_time, globals=case.names)
    number = 1
    while (seconds := timer.timeit(number)) < ROUND_S / 4:
        number = max(number * 2, int(number * ROUND_S / 2 / max(seconds, 1e-9)))
    number = max(1, int(number * ROUND_S / seconds))
    return min(timer.repeat(ROUNDS, number)) / number * 1e9


def say(sample: dict[str, Any]) -> None:
    """Prints a line of JSON, which the suite's process reads."""
    print(json.dumps(sample), flush=True)


def reason(error: Exception) -> str:
    """Returns on one line why a client cannot run a case."""
    text = " ".join(str(error).split())[:160]
    return text if isinstance(error, NotImplementedError) else f"{type(error).__name__}: {text}"


def outcome_of(maker: Maker) -> tuple[Case | None, Any, str]:
    """Returns the case, its result and its note; or None, None and why the client cannot run it."""
    try:
        case = maker()
        return case, case.outcome() if case.outcome else None, case.note
    except Exception as error:  # Any failure of a client is a result.
        return None, None, reason(error)


def measure(
    client: str, version: str, makers: Mapping[str, Maker], arguments: list[str], suite: str
) -> None:
    """Checks or times the cases that the arguments name, and prints a line of JSON for each.

    If the first argument is `--outcomes`, prints the results and times nothing. For a case that the
    client cannot run, prints no time, and a note with the reason. If a case has several makers, the
    makers' names end in `#` and a number.
    """
    outcomes = arguments[:1] == ["--outcomes"]
    patterns = arguments[1:] if outcomes else arguments
    about = provenance(client, version)
    for name, maker in makers.items():
        if not chosen(name.partition("#")[0], patterns, suite):
            continue
        case, outcome, note = outcome_of(maker)
        sample = {"suite": suite, "case": name.partition("#")[0], **about, "note": note}
        if outcomes:
            say({**sample, "done": case is not None, "outcome": outcome})
            continue
        # Frees the garbage of earlier cases. Then takes all objects that are alive out of the
        # GC's reach.
        gc.collect()
        gc.freeze()
        say({**sample, "ns": None if case is None else ns_per_call(case)})
