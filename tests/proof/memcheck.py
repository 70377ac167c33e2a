"""Runs every path of the native codec a few times. `scripts/memcheck` runs it under valgrind."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import turbocql._core

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.property import test_mutations
from tests.property.paths import PATHS

REPEATS = 3
MUTANTS = 3_000
BODIES = 300


def look_at(result: object, sink: int) -> None:
    """Writes a result to a file, because valgrind checks the bytes that a system call gets."""
    if isinstance(result, bytes):
        os.write(sink, result)
    elif isinstance(result, str):
        os.write(sink, result.encode("utf-8", "surrogatepass"))
    elif isinstance(result, Iterable) and not hasattr(result, "tokens"):
        for part in result:
            look_at(part, sink)
    elif hasattr(result, "tobytes"):
        os.write(sink, result.tobytes())


def run(sink: int) -> None:
    for name, path in PATHS.items():
        for _ in range(REPEATS):
            try:
                look_at(path(), sink)
            except Exception as error:
                raise AssertionError(name) from error


def damaged() -> None:
    known = {cql_type: test_mutations.coders(cql_type) for cql_type in test_mutations.TYPES}
    for cql_type, data in test_mutations.mutants(test_mutations.SEED, MUTANTS):
        # Data in which all bytes are 0 is skipped. For a UUID of zeros, CPython before 3.12 makes
        # the int 0, whose address valgrind treats as uninitialized. memcheck.supp suppresses
        # reports about this address, but not in turbocql's frames, where they would be here.
        if any(data):
            test_mutations.check(known[cql_type], data)
    assert test_mutations.run_bodies(test_mutations.SEED, BODIES)


def main() -> None:
    expected = os.environ["MEMCHECK_PACKAGE"]
    found = turbocql._core.__file__
    assert found.startswith(expected), f"this would check {found}"
    sink = os.open(os.devnull, os.O_WRONLY)
    run(sink)
    damaged()
    threads = [threading.Thread(target=run, args=(sink,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    print(f"{len(PATHS)} paths, {3 * REPEATS} times each, and {MUTANTS + BODIES} damaged values")


main()
