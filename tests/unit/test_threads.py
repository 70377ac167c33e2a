"""Tests that eight threads can share codecs, rows and messages.

Some threads change values while other threads encode them. On an interpreter built without the GIL,
the threads run at the same time. With the GIL, the threads take turns, and these tests shorten a
turn to 10 µs.
"""

from __future__ import annotations

import gc
import os
import struct
import sys
import sysconfig
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import pytest
from tests.support.results import result
from tests.support.threads import run_threads
from tests.unit.test_hostile_producers import Producer, integers

from turbocql import _core
from turbocql.accel._origin import NotReplaced, expect_gil, reason_of
from turbocql.codec import RowEncoder, find_deserializer, find_serializer
from turbocql.errors import EncodeError
from turbocql.protocol import BatchMessage, RowsDecoder

T = TypeVar("T")

THREADS = 8
SECONDS = 0.4
"""How long the threads of a test run."""


@pytest.fixture(autouse=True)
def _short_turns() -> Iterator[None]:
    """On an interpreter with the GIL, makes threads take short turns."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run_together(*works: Callable[[], object]) -> list[int]:
    """Calls each function again and again for `SECONDS`. Each function has its own threads.

    Returns the number of calls of each function. If a function raises an exception, `run_together`
    raises it too.
    """
    start, until = threading.Barrier(THREADS), time.monotonic() + SECONDS
    has_raised = threading.Event()
    counts = [0] * THREADS

    def repeat(number: int) -> None:
        work = works[number % len(works)]
        start.wait()
        try:
            while not has_raised.is_set():
                work()
                counts[number] += 1
                if time.monotonic() >= until:
                    break
        except BaseException:
            has_raised.set()
            raise

    run_threads(THREADS, repeat)
    return [sum(counts[number :: len(works)]) for number in range(len(works))]


VALUES: list[tuple[str, Any]] = [
    ("int", 70_000),
    ("varint", 1 << 80),
    ("text", "gr\u00fc\u00dfe"),
    ("blob", b"bytes"),
    ("decimal", Decimal("-1234.5")),
    ("uuid", UUID(int=7)),
    ("list<int>", [1, 2, 3]),
    ("set<text>", {"a"}),
    ("map<text, int>", {"a": 1, "b": 2}),
    ("frozen<tuple<int, text>>", (1, "a")),
    ("frozen<address{street text, zip int}>", {"street": "x", "zip": 2}),
    ("vector<float, 64>", [0.5] * 64),
]


def test_threads_share_codecs_and_values() -> None:
    pairs = [(find_serializer(name), find_deserializer(name), value) for name, value in VALUES]
    expected = [serializer.serialize(value) for serializer, _, value in pairs]

    def convert() -> None:
        for (serializer, deserializer, value), data in zip(pairs, expected, strict=True):
            assert serializer.serialize(value) == data
            assert serializer.serialize(deserializer.deserialize(data)) == data

    assert min(run_together(convert)) >= THREADS


def changing(kind: str) -> tuple[Any, list[Callable[[], object]]]:
    """Returns a value and a list of functions. Each function changes the value in another way."""
    if kind == "list":
        numbers = [1, 2, 3]
        return numbers, [
            lambda: numbers.__setitem__(slice(0, 60), range(50)),
            lambda: numbers.clear(),
            lambda: numbers.insert(0, 2),
            lambda: numbers.reverse(),
        ]
    if kind == "dict":
        mapping = {"a": 1}
        return mapping, [
            lambda: mapping.update({str(number): number for number in range(50)}),
            lambda: mapping.clear(),
            lambda: mapping.pop("7", None),
        ]
    if kind == "set":
        members = {1}
        return members, [
            lambda: members.update(range(50)),
            lambda: members.clear(),
            lambda: members.discard(7),
        ]
    assert kind == "bytearray"
    data = bytearray(b"abc")

    def resize(to: bytes) -> None:
        # While another thread reads a bytearray, it cannot be resized.
        with suppress(BufferError):
            data[:] = to

    return data, [lambda: resize(b"x" * 1000), lambda: resize(b""), lambda: resize(b"yz")]


def unless_changed(encode: Callable[[Any], T], value: Any) -> T | None:
    """Encodes a value that other threads change. Returns `None` if a change causes an error."""
    try:
        return encode(value)
    except EncodeError:
        return None
    except RuntimeError as error:
        # If a dict or set changes during an iteration, Python's iterator raises this error.
        if "during iteration" not in str(error):
            raise
        return None


@pytest.mark.parametrize(
    ("kind", "cql_type"),
    [
        ("list", "list<int>"),
        ("list", "vector<float, 50>"),
        ("list", "frozen<tuple<int, int, int>>"),
        ("dict", "map<text, int>"),
        ("set", "set<int>"),
        ("bytearray", "blob"),
    ],
)
def test_a_value_changes_while_it_is_encoded(kind: str, cql_type: str) -> None:
    value, changes = changing(kind)
    serializer, deserializer = find_serializer(cql_type), find_deserializer(cql_type)

    def encode() -> None:
        data = unless_changed(serializer.serialize, value)
        if data is not None:
            # The bytes are one complete value.
            deserializer.deserialize(data)

    assert min(run_together(encode, *changes, encode)) > 0


def test_rows_change_while_they_are_bound() -> None:
    encoder = RowEncoder([("id", "int"), ("name", "text"), ("tags", "set<int>")])
    row: list[Any] = [1, "a", {1, 2}]
    named: dict[str, Any] = {"id": 1, "name": "a", "tags": {1, 2}}
    expected = encoder.bind((1, "a", {1})).cells[0]

    def change() -> None:
        row[:] = [1, "a"]
        row.append({1})
        named.pop("tags", None)
        named["tags"] = {1}
        row[2:] = []

    def bind(values: Any) -> None:
        encoded = unless_changed(encoder.bind, values)
        if encoded is not None:
            assert encoded.cells[0] in (expected, ...)

    def bind_many() -> None:
        assert len(encoder.bind_many([(1, "a", {1})] * 10)) == 10

    run_together(change, lambda: bind(row), lambda: bind(named), bind_many)


def test_numbers_of_an_array_change_while_they_are_encoded() -> None:
    numbers, plain = np.zeros(64, np.float32), array("f", [0.0] * 64)
    serializer = find_serializer("vector<float, 64>")

    def change() -> None:
        for number in (0.0, 1.0):
            numbers[:] = number
            plain[7] = number

    def encode() -> None:
        for value in (numbers, plain):
            data = struct.unpack(">64f", serializer.serialize(value))
            assert set(data) <= {0.0, 1.0}

    run_together(change, encode, encode, encode)


def test_threads_share_a_decoder() -> None:
    """Threads decode bodies with one decoder while another thread runs the GC.

    The number of different metadata exceeds the size of the decoder's cache.
    """
    decoder = RowsDecoder("named")
    bodies = [
        (
            result(
                [("id", "int"), (f"name{number}", "text"), ("tags", "list<int>")],
                [(struct.pack(">i", row), b"a", None) for row in range(20)],
            ),
            [(row, "a", None) for row in range(20)],
        )
        for number in range(100)
    ]

    def decode() -> None:
        for body, expected in bodies:
            assert decoder.decode(body).rows == expected

    run_together(decode, decode, decode, gc.collect)


def test_threads_share_an_iteration_while_pages_are_fetched() -> None:
    class Pages:
        def __init__(self) -> None:
            self.pages = [[[page, row] for row in range(7)] for page in range(300)]

        def next_page(self) -> list[list[int]] | None:
            try:
                return self.pages.pop()
            except IndexError:
                return None

    seen: list[list[int]] = []
    rows = _core.RowIterator(Pages())
    threads = [threading.Thread(target=lambda: seen.extend(rows)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(seen) == [[page, row] for page in range(300) for row in range(7)]


def test_threads_resume_one_step() -> None:
    """Two threads resume the same step. One thread gets the row, and the other gets an error."""

    class Pages:
        async def next_page(self) -> list[int]:
            return [1, 2, 3]

    rows = _core.AsyncRowIterator(Pages())
    ended = ("already awaited", "already executing")

    def resume() -> None:
        step = rows.__anext__()
        results: list[object] = []

        def send() -> None:
            try:
                step.send(None)
            except StopIteration as stop:
                results.append(stop.value)
            except (RuntimeError, ValueError) as error:
                if not any(text in str(error) for text in ended):
                    raise

        threads = [threading.Thread(target=send) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 1

    run_together(resume)


def test_a_capsule_is_taken_once() -> None:
    """Threads import one Arrow array at the same time. Exactly one of them gets it."""
    for _ in range(8):
        producer = Producer()
        schema, values = integers(producer)
        take_at_once(producer.capsule(schema), producer.capsule(values))
        producer.check()


def take_at_once(schema: object, values: object) -> None:
    start, pieces = threading.Barrier(THREADS), list[object]()

    def take() -> None:
        start.wait()
        try:
            pieces.append(_core.Piece.of_array(schema, values))
        except EncodeError:
            return

    threads = [threading.Thread(target=take) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pieces) == 1


def test_threads_encode_a_message_and_construct_others() -> None:
    values: list[Any] = [b"a", None, bytes(1000)]
    message = BatchMessage([(b"id", values)] * 20)
    expected = message.encode(5)

    def change() -> None:
        values[2] = b"x" * 1000
        values.append(b"b")
        values.pop()

    def encode() -> None:
        assert message.encode(5) == expected

    def make() -> None:
        try:
            BatchMessage([(b"id", values)] * 20).encode(5)
        except EncodeError:
            return

    run_together(encode, make, change, encode)


def test_importing_the_module_does_not_enable_the_gil() -> None:
    """Importing the native module must not enable the GIL.

    In an interpreter built without the GIL, an extension module can enable the GIL.
    """
    is_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    assert sys.modules["turbocql._core"] is _core
    asked_for = os.environ.get("PYTHON_GIL") == "1"
    assert is_enabled() is (asked_for or not sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.mark.parametrize("is_on", [True, False])
def test_the_accelerator_needs_the_gil(is_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: is_on, raising=False)
    if is_on:
        expect_gil()
        return
    with pytest.raises(NotReplaced, match="without the GIL") as caught:
        expect_gil()
    assert reason_of(caught.value) == str(caught.value)
    assert "KeyError" in reason_of(KeyError("serializer"))
