"""Tests decoding rows during GC runs, in several threads, and with too little memory.

It also tests rows in reference cycles.
"""

from __future__ import annotations

import gc
import struct
import sysconfig
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal

import numpy as np
import pytest
from tests.support.results import cell, result

from turbocql.errors import DecodeError
from turbocql.protocol import RowsDecoder

from .child_with_limits import limited
from .paths_results import BODIES, CELLS, COLUMNS, SCALARS, counted

Kind = Literal["named", "tuple", "dict"]
KINDS: tuple[Kind, ...] = ("named", "tuple", "dict")
WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.fixture
def often() -> Iterator[None]:
    """Makes the GC run at almost every allocation of a tracked object."""
    before = gc.get_threshold()
    gc.collect()
    # The GC does not visit frozen objects, so its frequent runs take less time.
    gc.freeze()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
    gc.callbacks.clear()


class Garbage:
    """An object in a reference cycle. Its finalizer, which the GC runs, calls `call`."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.me = self
        self.call = call

    def __del__(self) -> None:
        self.call()


WIDTH = 6
WATCHED = [
    *(("uuid", SCALARS["uuid"]), ("list<uuid>", counted(SCALARS["uuid"], SCALARS["timeuuid"]))),
    *(("inet", SCALARS["inet"]), ("tuple<uuid, time>", cell(SCALARS["uuid"]) + cell(bytes(8)))),
    *(("list<time>", counted(*[SCALARS["time"]] * 3)), ("duration", SCALARS["duration"])),
]
"""Types and cells. Decoding them allocates objects that the GC tracks, so the GC runs between the
values of a row."""
assert len(WATCHED) == WIDTH


@contextmanager
def collected_by_another_thread() -> Iterator[None]:
    """Runs the GC on another thread during the block.

    This is for a Python without the GIL, because it ignores the threshold that `often` sets.
    """
    ended = threading.Event()

    def collect() -> None:
        while not ended.is_set():
            gc.collect()

    thread = threading.Thread(target=collect)
    thread.start()
    yield
    ended.set()
    thread.join()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("kind", KINDS)
def test_the_collector_sees_nothing_unfinished(kind: Kind) -> None:
    """The GC must not find a list or tuple in which a slot is not set yet.

    If a slot is not set, the object has fewer referents than its length.
    """
    body = result(
        [(f"c{i}", t) for i, (t, _) in enumerate(WATCHED)], [[d for _, d in WATCHED]] * 20
    )
    decoder = RowsDecoder(kind)
    seen: list[str] = []
    looks = 0

    def look(*_: object) -> None:
        nonlocal looks
        looks += 1
        for one in gc.get_objects():
            if isinstance(one, (list, tuple)) and len(one) in (2, 3, WIDTH, 20):
                # If the class of the object is defined in Python, the class is one more referent.
                own = type(one) not in (list, tuple)
                if len(gc.get_referents(one)) < len(one) + own:
                    seen.append(f"{type(one).__name__} of {len(one)}")

    def again() -> None:
        look()
        # Each freed object creates another object with this finalizer. The limit ends this chain.
        if looks < 1_000:
            weakref.finalize(Garbage(again), look)

    expected = repr(decoder.decode(body).rows)
    gc.callbacks.append(look)
    Garbage(again)
    with collected_by_another_thread() if WITHOUT_GIL else nullcontext():
        deadline = time.monotonic() + 20
        while looks <= 100 and time.monotonic() < deadline:
            assert repr(decoder.decode(body).rows) == expected
    gc.callbacks.clear()
    # The count is now above the limit. So the last object does not create another one when the
    # interpreter exits.
    looks += 1_000
    gc.collect()
    assert looks > 1_100
    assert seen == []


@pytest.mark.usefixtures("often")
def test_values_are_correct_while_the_gc_runs_all_the_time() -> None:
    for body in BODIES:
        for kind in KINDS:
            decoder = RowsDecoder(kind)
            rows = [repr(decoder.decode(body).rows) for _ in range(5)]
            gc.disable()
            assert repr(RowsDecoder(kind).decode(body).rows) == rows[0]
            gc.enable()
            assert len(set(rows)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_cycles_are_collected(kind: Kind) -> None:
    class Mark:
        pass

    for cql_type, at in (("list<int>", 0), ("list<frozen<list<int>>>", 0), ("map<int, int>", 1)):
        page = RowsDecoder(kind).decode(result([("a", cql_type)], [[bytes(4)]] * 2))
        rows, mark = page.rows, Mark()
        row = rows[0]
        value = row["a"] if kind == "dict" else row[0]
        if at:
            value.update({1: row, 2: rows, 3: mark, 4: page})
        else:
            value.extend((row, rows, mark, page))
        gone = weakref.ref(mark)
        del page, rows, row, value, mark
        gc.collect()
        assert gone() is None


def test_threads_share_a_decoder() -> None:
    """Threads decode bodies with one decoder. Some of the bodies are invalid.

    The number of different metadata exceeds the size of the decoder's cache.
    """
    decoder = RowsDecoder("dict")
    bodies = [
        result([(f"n{i}", "uuid"), ("l", "list<text>")], [[bytes(16), counted(b"a")]] * (i % 4))
        for i in range(90)
    ]
    expected = [RowsDecoder("dict").decode(body).rows for body in bodies]
    ready, wrong = threading.Barrier(8), []

    def work(number: int) -> None:
        ready.wait()
        for step in range(1_000):
            i = (step * (number + 1) + number) % 90
            try:
                if decoder.decode(bodies[i]).rows != expected[i]:
                    wrong.append(i)
                if step % 10 == 0:
                    decoder.decode(bodies[i] + b"\0")
                    wrong.append(-i)
            except DecodeError:
                pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_buffer_that_changes_while_it_is_read() -> None:
    """The decoder copies a mutable buffer before Python code can run."""
    body = bytearray(result(COLUMNS, [list(CELLS.values())] * 5))
    expected = repr(RowsDecoder().decode(bytes(body)).rows)
    done = threading.Event()
    copy = bytes(body)

    def change() -> None:
        while not done.is_set():
            body[:] = bytes(len(body))
            body[:] = copy

    thread = threading.Thread(target=change)
    thread.start()
    good = 0
    for _ in range(60):
        try:
            assert repr(RowsDecoder().decode(body).rows) == expected
            good += 1
        except DecodeError:
            pass
    done.set()
    thread.join()
    assert good


MANY = 50_000
LARGE: dict[str, tuple[str, bytes]] = {
    **{kind: (kind, data) for kind, data in SCALARS.items()},
    "not UTF-8": ("text", b"\xff"),
    "IPv6": ("inet", bytes(15) + b"\1"),
    "lists": ("list<uuid>", counted(SCALARS["uuid"], None)),
    "sets": ("set<int>", counted(SCALARS["int"])),
    "maps": ("map<int, int>", counted(*[SCALARS["int"]] * 2, groups=2)),
    "tuples": ("tuple<int, uuid>", cell(None) + cell(SCALARS["uuid"])),
    "records": ("u{a int, b uuid}", cell(None) + cell(SCALARS["uuid"])),
    "vectors": ("vector<float, 3>", bytes(12)),
}


def page(cql_type: str, data: bytes | None, count: int) -> bytes:
    return result([("a", cql_type)])[:-4] + struct.pack(">i", count) + cell(data) * count


ONE: dict[str, Callable[[], bytes]] = {
    "nulls": lambda: page("int", None, 20 * MANY),
    "text": lambda: page("text", b"a" * 30_000_000, 1),
    "wide text": lambda: page("text", b"a" * 30_000_000 + "\U0001f600".encode(), 1),
    "no text": lambda: page("text", b"a" * 30_000_000 + b"\xff", 1),
    "blob": lambda: page("blob", bytes(30_000_000), 1),
    "varint": lambda: page("varint", b"\1" * 30_000_000, 1),
    "list of nulls": lambda: page("list<int>", counted(*[None] * 8 * MANY), 2),
    "list of ints": lambda: page("list<int>", counted(*[SCALARS["int"]] * 5 * MANY), 2),
    "list of UUIDs": lambda: page("list<uuid>", counted(*[SCALARS["uuid"]] * 5 * MANY), 1),
    "list of text": lambda: page("list<text>", counted(*[b"text"] * 5 * MANY), 2),
    "paging state": lambda: result([], paging_state=bytes(30_000_000)),
}


def lives_without_memory(body: bytes, kind: Kind, memory: int) -> None:
    """Decodes rows in a child process that may allocate less memory than the rows need.

    The call must raise `MemoryError` or return. It can return if it needs no new memory, because
    the process has kept memory that earlier tests have freed.
    """
    decoder = RowsDecoder(kind, numpy_vectors=True)
    error, message = limited(lambda: len(decoder.decode(body).rows), memory=memory, seconds=60)
    assert error in (MemoryError, None), (error, message)


@pytest.mark.parametrize("what", LARGE)
def test_no_memory_for_many_rows(what: str) -> None:
    # This imports NumPy completely before the memory is limited.
    assert np.zeros(1).size == 1
    body = page(*LARGE[what], MANY)
    for kind, memory in zip(KINDS, (1 << 20, 4 << 20, 8 << 20), strict=True):
        lives_without_memory(body, kind, memory)


@pytest.mark.parametrize("what", ONE)
def test_no_memory_for_one_large_value(what: str) -> None:
    lives_without_memory(ONE[what](), "tuple", 12 << 20)


@pytest.mark.needs(not WITHOUT_GIL, "an allocator that reserves no address space in advance")
def test_the_memory_limit_takes_effect() -> None:
    body = page("text", b"a" * 80_000_000, 1)
    error, _ = limited(lambda: RowsDecoder().decode(body), memory=12 << 20, seconds=60)
    assert error is MemoryError


@pytest.mark.parametrize("body", [b"\0\0\0\2\0\0\0\0\x7f\xff\xff\xff", *BODIES])
def test_impossible_counts_allocate_no_memory(body: bytes) -> None:
    def run() -> int:
        refused, decoder = 0, RowsDecoder()
        for at in range(len(body) - 3):
            for count in (b"\x7f\xff\xff\xff", b"\x0f\xff\xff\xff", b"\x00\x7f\xff\xff"):
                try:
                    decoder.decode(body[:at] + count + body[at + 4 :])
                except DecodeError:
                    refused += 1
        assert refused
        return refused

    error, message = limited(run, memory=48 << 20, seconds=120)
    assert error is None, message
