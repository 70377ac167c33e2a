"""How a call is timed; names no driver."""

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
    """What is timed, and what comes out of it in a form that all clients share.

    What is timed is an expression of names, not a function: calling one costs as much as some cases
    take.
    """

    expression: str
    names: dict[str, Any]
    outcome: Callable[[], Any] | None = None
    note: str = ""


Maker: TypeAlias = Callable[[], Case]
"""Makes a case when it is wanted, and fails with the reason why a client has none."""


def ns_per_call(case: Case) -> float:
    """The least of some rounds, each long enough for the clock.

    Processor time, so that what else runs on the machine counts less; nothing here waits. The
    garbage collector is off meanwhile, as `timeit` has it.
    """
    timer = timeit.Timer(case.expression, timer=time.process_time, globals=case.names)
    number = 1
    while (seconds := timer.timeit(number)) < ROUND_S / 4:
        number = max(number * 2, int(number * ROUND_S / 2 / max(seconds, 1e-9)))
    number = max(1, int(number * ROUND_S / seconds))
    return min(timer.repeat(ROUNDS, number)) / number * 1e9


def say(sample: dict[str, Any]) -> None:
    """A line of JSON for the runner."""
    print(json.dumps(sample), flush=True)


def reason(error: Exception) -> str:
    """Why a client cannot do a case, on one line."""
    text = " ".join(str(error).split())[:160]
    return text if isinstance(error, NotImplementedError) else f"{type(error).__name__}: {text}"


def outcome_of(maker: Maker) -> tuple[Case | None, Any, str]:
    """The case, what it gives, and why there is none."""
    try:
        case = maker()
        return case, case.outcome() if case.outcome else None, case.note
    except Exception as error:  # Whatever stops a client from doing a case is the finding.
        return None, None, reason(error)


def measure(
    client: str, version: str, makers: Mapping[str, Maker], arguments: list[str], suite: str
) -> None:
    """Checks or times the cases that the arguments name, and prints a line of JSON for each.

    With `--outcomes` first among the arguments, what each case gives is printed, and nothing
    timed. What a client cannot do has a note that says why, and no time. A name may end in `#` and
    a number, for several ways to do one case.
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
        # What the cases before it left behind is not to be looked through while this one runs.
        gc.collect()
        gc.freeze()
        say({**sample, "ns": None if case is None else ns_per_call(case)})
