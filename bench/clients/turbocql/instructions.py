"""Runs the codec's cases in loops under callgrind, for the suite `instructions`.

    python -m bench.clients.turbocql.instructions FILE [PATTERN...]

Callgrind runs with `--dump-before=getppid`: each call of the C function `getppid` dumps the counts
since the previous dump. Every sample calls `os.getppid` before and after its loop. So a sample has
two dumps: the code before the loop, and the loop itself. The program writes the name and the number
of calls of each sample to FILE as JSON, in the order in which the samples ran.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from bench.clients.turbocql.codec import cases
from bench.harness.timing import Case
from bench.suites.instructions.suite import EMPTY, names
from turbocql import _core
from turbocql.codec import RowEncoder

ROUNDS = 7
CALLS = 100
SLOW_S = 0.05
Loop: TypeAlias = Callable[[Callable[[], int], Iterable[None]], None]


def loop_of(case: Case) -> Loop:
    """Compiles a loop over the case's expression, with a call of `mark` before and after it."""
    scope: dict[str, Any] = dict(case.names)
    source = f"def loop(mark, calls):\n mark()\n for _ in calls:\n  {case.expression}\n mark()"
    exec(source, scope)
    loop: Loop = scope["loop"]
    return loop


def calls_of(loop: Loop) -> int:
    """Returns how many calls a sample makes: 100, or 1 if a call takes over 50 ms under callgrind.

    The function measures processor time, so that the choice is the same on a busy machine.
    """
    start = time.process_time()
    loop(os.getpid, itertools.repeat(None, 1))
    return 1 if time.process_time() - start > SLOW_S else CALLS


def blocks() -> list[Any]:
    """Allocates memory from Python's and turbocql's allocators. The caller keeps it until the end.

    An allocator needs more instructions at the edge of a pool, and every call of a loop may hit
    that edge. The edge depends on all allocations since the start, even on those of file names. So
    this function is called before each round, and each round begins at another distance from the
    edge. The round with the fewest instructions counts.
    """
    sizes = [*range(1, 512, 16), *range(1024, 16384, 1024)]
    bind = RowEncoder([("v", "blob")]).bind
    memory: list[Any] = [bytes(size) for size in sizes for _ in range(3)]
    memory += [bind((bytes(size),)) for size in sizes for _ in range(3)]
    # Python's allocator takes memory in arenas of 1 MiB, and finds addresses faster in one part of
    # an arena than in the rest. So each round also allocates a seventh of an arena.
    return memory + [float(number) for number in range(2**20 // sys.getsizeof(0.0) // ROUNDS)]


def main(order: Path, patterns: list[str]) -> None:
    gc.disable()
    loops = {(EMPTY, calls): loop_of(Case("pass", {})) for calls in (1, CALLS)}
    undone = {}
    makers = cases()
    # Whole requests are counted elsewhere: see bench/suites/instructions/requests.py.
    for name in (name for name in names(patterns) if name in makers):
        try:
            loop = loop_of(makers[name]())
        except NotImplementedError as error:
            undone[name] = str(error)
            continue
        calls = calls_of(loop)
        loops[name, calls] = loop
        # CPython specializes the loop's bytecode for the types of the first iterations.
        loop(os.getpid, itertools.repeat(None, min(calls, 20)))
    gc.collect()
    gc.freeze()

    samples = []
    ballast: list[list[Any]] = []
    for _ in range(ROUNDS):
        for (name, calls), loop in loops.items():
            loop(os.getpid, itertools.repeat(None, min(calls, 5)))
            loop(os.getppid, itertools.repeat(None, calls))
            samples.append((name, calls))
        ballast.append(blocks())
    report = {"core": _core.__file__, "samples": samples, "undone": undone}
    order.write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
