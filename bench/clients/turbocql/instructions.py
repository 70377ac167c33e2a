"""What callgrind looks at for the suite of instructions: cases in loops that it can tell apart.

    python -m bench.clients.turbocql.instructions FILE [PATTERN...]

Started under `callgrind --dump-before=getppid`, which writes what was executed since the dump
before whenever the C function is called, and `os.getppid` is how Python calls it. So every sample
is a pair of dumps: what led up to it, and the loop itself. Which samples there are, in which
order, goes to the file.
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
    """A loop over the case's expression, between two calls of what it is given."""
    scope: dict[str, Any] = dict(case.names)
    source = f"def loop(mark, calls):\n mark()\n for _ in calls:\n  {case.expression}\n mark()"
    exec(source, scope)
    loop: Loop = scope["loop"]
    return loop


def calls_of(loop: Loop) -> int:
    """How many calls a sample has: one where callgrind takes long for it, as for whole pages.

    Processor time, not the clock: a busy machine must not choose otherwise than a quiet one.
    """
    start = time.process_time()
    loop(os.getpid, itertools.repeat(None, 1))
    return 1 if time.process_time() - start > SLOW_S else CALLS


def blocks() -> list[Any]:
    """Memory of Python's allocators and of turbocql's, to be kept until the end.

    An allocator does more at the edge of a pool, and may stand there in every call of a loop.
    Where it stands hangs on everything since the start, the names of files included: so each round
    begins elsewhere, and the least of the rounds counts.
    """
    sizes = [*range(1, 512, 16), *range(1024, 16384, 1024)]
    bind = RowEncoder([("v", "blob")]).bind
    memory: list[Any] = [bytes(size) for size in sizes for _ in range(3)]
    memory += [bind((bytes(size),)) for size in sizes for _ in range(3)]
    # Python looks a block's address up more quickly in one part of its arenas than in the other,
    # and they are a MiB each: of that, a round's share.
    return memory + [float(number) for number in range(2**20 // sys.getsizeof(0.0) // ROUNDS)]


def main(order: Path, patterns: list[str]) -> None:
    gc.disable()
    loops = {(EMPTY, calls): loop_of(Case("pass", {})) for calls in (1, CALLS)}
    undone = {}
    makers = cases()
    for name in names(patterns):
        try:
            loop = loop_of(makers[name]())
        except NotImplementedError as error:
            undone[name] = str(error)
            continue
        calls = calls_of(loop)
        loops[name, calls] = loop
        # The interpreter rewrites a loop for the types it meets in its first turns.
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
