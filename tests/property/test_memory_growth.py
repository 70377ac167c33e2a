"""Calls each path through the native codec many times.

Memory, allocated blocks and reference counts must not grow.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turbocql import UNSET

from .paths import PATHS

WATCHED = {
    "None": None,
    "True": True,
    "1": 1,
    "UNSET": UNSET,
    "b''": b"",
    "''": "",
    "int": int,
    "tuple": tuple,
    "ValueError": ValueError,
}
PAGE = 4096


def resident() -> int:
    """Returns the resident memory of the process in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def counts() -> dict[str, int]:
    return {name: sys.getrefcount(one) for name, one in WATCHED.items()}


@pytest.fixture(scope="module", autouse=True)
def unburdened() -> Iterator[None]:
    """Freezes the existing objects, so that the frequent GC runs do not visit them."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def growth(call: Callable[[], object], repeats: int) -> dict[str, int]:
    """Returns how much `repeats` calls add to the references, the blocks and the memory in use."""
    gc.collect()
    blocks, references, memory = sys.getallocatedblocks(), counts(), resident()
    for _ in range(repeats):
        call()
    gc.collect()
    grown = {name: sys.getrefcount(one) - references[name] for name, one in WATCHED.items()}
    # Memory is counted in units of 16 bytes, the size of the smallest allocation.
    grown["memory"] = (resident() - memory) // 16
    grown["blocks"] = sys.getallocatedblocks() - blocks
    return grown


@pytest.mark.parametrize("name", PATHS)
def test_a_path_leaks_nothing(name: str, proof: bool) -> None:
    call = PATHS[name]
    repeats = 100_000 if proof else 1_500
    for _ in range(100):
        call()
    # Only a leak causes growth in every round. Python's caches and free lists grow too, but only
    # until they are full.
    for _ in range(4):
        grown = growth(call, repeats)
        kept = {what: n for what, n in grown.items() if abs(n) >= repeats // 20}
        # Resident memory grows by whole pages of 4096 bytes. Without `--proof`, the calls are too
        # few to measure it.
        if not proof:
            kept.pop("memory", None)
        if not kept:
            break
    assert not kept
