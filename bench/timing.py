"""How cases are timed, and what a sample says of where it was taken; names no driver."""

from __future__ import annotations

import gc
import json
import platform
import re
import sys
import sysconfig
import time
import timeit
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from difflib import SequenceMatcher
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

__all__ = [
    "Case",
    "Maker",
    "chosen",
    "measure",
    "nearest",
    "ns_per_call",
    "outcome_of",
    "provenance",
    "say",
    "today",
]

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
    while (taken := timer.timeit(number)) < ROUND_S / 4:
        number = max(number * 2, int(number * ROUND_S / 2 / max(taken, 1e-9)))
    number = max(1, int(number * ROUND_S / taken))
    return min(timer.repeat(ROUNDS, number)) / number * 1e9


def interpreter() -> str:
    """Version and how it was built: an interpreter without PGO is slower where Python code runs."""
    return f"CPython {platform.python_version()} ({_build()})"


def _build() -> str:
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    if "--enable-optimizations" in options:
        return "PGO"
    # Debian's rules build the target `profile-opt` themselves, which the options do not show.
    if sys.base_prefix == "/usr" and Path("/etc/debian_version").exists():
        return "PGO, Debian's"
    return "no PGO"


def machine() -> str:
    """Kernel, processor and how many of them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = f"{len(models)} x {models[0]}" if models else platform.machine()
    return f"{platform.platform()}, {processor}"


def provenance(client: str, version: str) -> dict[str, Any]:
    """What every sample says of who was measured, and where."""
    try:
        numpy = metadata.version("numpy")
    except metadata.PackageNotFoundError:
        numpy = ""
    return {
        "client": client,
        "version": version,
        "interpreter": interpreter(),
        "machine": machine(),
        "numpy": numpy,
        "date": today(),
    }


def today() -> str:
    """The day that a sample is taken on, in ISO form."""
    return datetime.now(timezone.utc).date().isoformat()


def chosen(name: str, patterns: Iterable[str], suite: str = "") -> bool:
    """Whether every word of one of the patterns is in a name; without patterns, every name is.

    Upper and lower case are the same, and a number is only itself: 100 is not in 1000. The name of
    the suite counts as a word of all its names.
    """
    patterns = [pattern for pattern in patterns if pattern.strip()]
    return not patterns or any(
        all(word == suite or _has(name.lower(), word) for word in pattern.lower().split())
        for pattern in patterns
    )


def _has(name: str, word: str) -> bool:
    if not word.isdecimal():
        return word in name
    return re.search(rf"(?<!\w){word}(?!\w)", name) is not None


def nearest(pattern: str, names: Iterable[str]) -> list[str]:
    """The names whose words are most like those of a pattern, the best first."""

    def likeness(name: str) -> float:
        parts = re.findall(r"[\w-]+", name.lower())
        best = [
            max((SequenceMatcher(None, word, part).ratio() for part in parts), default=0.0)
            for word in pattern.lower().split()
        ]
        return sum(best) / max(1, len(best))

    rated = sorted(((likeness(name), name) for name in dict.fromkeys(names)), key=lambda r: -r[0])
    return [name for rate, name in rated[:5] if rate >= 0.5]


def say(sample: dict[str, Any]) -> None:
    """A line of JSON for the runner."""
    print(json.dumps(sample), flush=True)


def reason(error: Exception) -> str:
    """Why a client cannot do a case, on one line."""
    said = " ".join(str(error).split())[:160]
    return said if isinstance(error, NotImplementedError) else f"{type(error).__name__}: {said}"


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
