"""Checks that values with hostile methods cause neither a crash nor a hang."""

from __future__ import annotations

import array
import gc
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from functools import partial
from ipaddress import IPv6Address
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turbocql import UNSET, codec
from turbocql.codec import encode
from turbocql.errors import DecodeError, EncodeError

from .encode_errors import refused

SCALARS = [
    *("ascii", "text", "tinyint", "smallint", "int", "bigint", "counter", "varint", "float"),
    *("double", "decimal", "boolean", "blob", "uuid", "timeuuid", "inet", "date", "time"),
    *("timestamp", "duration"),
]
CONTAINERS = [
    *("list<int>", "list<text>", "set<int>", "map<int, int>", "tuple<int, int>", "vector<int, 2>"),
    *("vector<text, 2>", "u{a int, b text}"),
]


class Raising:
    """An object whose special methods all raise."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def fail(self, *_arguments: object) -> Any:
        raise self.error

    __index__ = __float__ = __int__ = __len__ = __iter__ = __getitem__ = __bool__ = fail
    __str__ = __repr__ = __hash__ = __eq__ = __array__ = fail


class RaisingMapping(Mapping[Any, Any]):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __len__(self) -> int:
        raise self.error

    def __iter__(self) -> Iterator[Any]:
        raise self.error

    def __getitem__(self, key: object) -> Any:
        raise self.error


class RaisingAttributes:
    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "error", error)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise object.__getattribute__(self, "error")


class Lying:
    """An object whose `len` can differ from the number of parts that an iteration yields."""

    def __init__(self, length: int, parts: Callable[[], Iterator[Any]]) -> None:
        self.length, self.parts = length, parts

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return self.parts()

    def __getitem__(self, i: int) -> Any:
        raise IndexError


class LyingMapping(Mapping[int, int]):
    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[int]:
        return itertools.count()

    def __getitem__(self, key: int) -> int:
        return key


class Trigger:
    """An object whose `__index__` runs code and returns 1."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action

    def __index__(self) -> int:
        self.action()
        return 1


class RaisingZone(tzinfo):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def utcoffset(self, _instant: datetime | None) -> timedelta:
        raise self.error

    def dst(self, _instant: datetime | None) -> None:
        return None

    def tzname(self, _instant: datetime | None) -> None:
        return None


@pytest.mark.parametrize("error", [RuntimeError("own"), OverflowError(), TypeError(), KeyError()])
@pytest.mark.parametrize("cql_type", SCALARS + CONTAINERS)
def test_objects_whose_methods_raise(cql_type: str, error: Exception) -> None:
    refused(cql_type, Raising(error))
    refused(cql_type, RaisingMapping(error))
    refused(cql_type, RaisingAttributes(error))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_errors_that_do_not_concern_the_value_are_passed_on(error: type[BaseException]) -> None:
    raising: list[tuple[str, Any]] = [
        *((t, Raising(error())) for t in ("int", "varint", "double", "decimal", "timestamp")),
        *((t, Raising(error())) for t in ("list<int>", "set<int>", "vector<int, 2>")),
        *((t, Raising(error())) for t in ("tuple<int, int>", "list<float>", "date", "time")),
        ("map<int, int>", RaisingMapping(error())),
        ("u{a int}", RaisingMapping(error())),
        ("u{a int}", RaisingAttributes(error())),
        ("list<int>", [1, Raising(error())]),
        ("map<int, int>", {1: Raising(error())}),
        ("timestamp", datetime(2020, 1, 1, tzinfo=RaisingZone(error()))),
    ]
    for cql_type, value in raising:
        with pytest.raises(error):
            encode(cql_type, value)


def test_the_users_own_exception_is_the_cause() -> None:
    own = RuntimeError("own")
    for cql_type, value in (
        ("int", Raising(own)),
        ("varint", Raising(own)),
        ("list<int>", [Raising(own)]),
        ("list<int>", Raising(own)),
        ("map<int, int>", RaisingMapping(own)),
        ("u{a int}", RaisingAttributes(own)),
        ("timestamp", datetime(2020, 1, 1, tzinfo=RaisingZone(own))),
    ):
        assert refused(cql_type, value).__cause__ is own


COLLECTIONS = ["list<int>", "set<int>", "vector<int, 3>", "tuple<int, int, int>"]


CHANGES: dict[str, Callable[[list[Any]], object]] = {
    "clear": lambda parts: parts.clear(),
    "pop": lambda parts: parts.pop(),
    "append": lambda parts: parts.append(1),
    "double": lambda parts: parts.extend(parts),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("cql_type", COLLECTIONS)
def test_sequences_that_change_while_they_are_read(
    cql_type: str, change: Callable[[list[Any]], object]
) -> None:
    parts: list[Any] = []
    parts += [1, Trigger(lambda: change(parts)), 1]
    with pytest.raises(EncodeError, match=r"got list that does not have the length"):
        encode(cql_type, parts)


@pytest.mark.parametrize("cql_type", COLLECTIONS)
@pytest.mark.parametrize("length", [0, 2, 4, 2**31, 2**62])
def test_wrong_lengths(cql_type: str, length: int) -> None:
    refused(cql_type, Lying(length, lambda: iter([1, 1, 1])))


@pytest.mark.parametrize("cql_type", COLLECTIONS)
def test_endless_iterations(cql_type: str) -> None:
    refused(cql_type, Lying(3, lambda: itertools.repeat(1)))
    refused(cql_type, Lying(-1, lambda: itertools.repeat(1)))
    refused(cql_type, itertools.repeat(1))
    refused(cql_type, itertools.count())
    refused(cql_type, (i for i in itertools.count()))
    refused(cql_type, iter([1, 1, 1]))
    refused("map<int, int>", LyingMapping())
    refused("u{a int}", LyingMapping())


def test_sets_and_dicts_that_change_while_they_are_read() -> None:
    elements: set[Any] = set()
    elements |= {Trigger(lambda: elements.add(5)), 1, 2, 3}
    entries: dict[Any, Any] = {}
    entries.update({1: Trigger(entries.clear), 2: Trigger(entries.clear)})

    class Shrinking(dict[Any, Any]):
        def __getitem__(self, key: object) -> Any:
            self.clear()
            raise KeyError(key)

    # The codec copies the set and the dict before it calls methods of their elements. So it encodes
    # all the original elements.
    assert len(encode("set<int>", elements)) == 4 + 4 * 8
    assert len(encode("map<int, int>", entries)) == 4 + 2 * 16
    with pytest.raises(EncodeError, match=r"expected u, got .*Shrinking that cannot be read"):
        encode("u{a int, b text}", Shrinking(a=1, b="b"))


def test_values_that_contain_themselves() -> None:
    endless: list[Any] = []
    endless.append(endless)
    looped: dict[Any, Any] = {}
    looped[1] = looped
    assert refused("list<int>", endless).path == "value[0]"
    assert refused("list<list<list<int>>>", endless).path == "value[0][0][0]"
    assert refused("map<int, map<int, int>>", looped).path == "value[1][1]"
    deep = "list<" * 40 + "int" + ">" * 40
    with pytest.raises(EncodeError) as caught:
        encode(deep, endless)
    assert caught.value.path == "value" + "[0]" * 40


def test_released_buffers_and_buffers_of_other_formats() -> None:
    released = memoryview(bytearray(8))
    released.release()
    for cql_type in ("blob", "list<int>", "vector<float, 2>", "set<int>", "tuple<int>"):
        refused(cql_type, released)
    refused("blob", np.zeros((2, 2), np.uint8))
    refused("blob", np.zeros(2, np.int64))
    refused("blob", array.array("d", [1]))
    refused("list<int>", memoryview(b"ab"))


NUMBERS = ["list<int>", "list<double>", "set<int>", "vector<int, 2>", "vector<float, 2>"]


@pytest.mark.parametrize("cql_type", NUMBERS)
@pytest.mark.parametrize(
    "numbers",
    [
        np.ma.array([1, 2], mask=[False, True]),
        np.ma.array([1.0, 2.0]),
        np.zeros((2, 2)),
        np.zeros((2, 2, 2), int),
        np.array(5),
        np.array([1, 2j]),
        np.array([1, "a"], object),
        np.array([(1, 2), (3, 4)], [("a", "i4"), ("b", "f4")]),
        np.array(["a", "b"]),
        np.array([b"a", b"b"]),
        np.array([1, 2], "m8[s]"),
        np.array([1, 2], "M8[s]"),
        np.array([True, False]),
    ],
    ids=lambda numbers: f"{type(numbers).__name__}-{numbers.dtype}-{numbers.ndim}",
)
def test_arrays_that_are_no_row_of_numbers(cql_type: str, numbers: Any) -> None:
    refused(cql_type, numbers)


def test_zero_size_arrays_are_empty_lists_and_no_vectors() -> None:
    for dtype in ("i4", ">f4", "f2", "O", "?"):
        empty = np.zeros(0, dtype)
        assert encode("list<int>", empty) == b"\0\0\0\0"
        assert encode("set<int>", empty) == b"\0\0\0\0"
        assert "expected 2 elements for vector<int, 2>, got 0" in str(
            refused("vector<int, 2>", empty)
        )


def interrupting(
    name: str, base: type = object, error: type[BaseException] = KeyboardInterrupt
) -> Any:
    """Returns a class in which one property or method raises `error`."""

    def raising(*_arguments: object) -> Any:
        raise error

    method = name.startswith("__") and name != "__class__"
    return type("Interrupting", (base,), {name: raising if method else property(raising)})


def test_interrupts_are_passed_on_from_every_method() -> None:
    floats = interrupting("__float__", int)(1)
    passing: list[tuple[str, Any]] = [
        *((t, interrupting("mask", Lying)(1, lambda: iter([1]))) for t in COLLECTIONS),
        ("double", floats),
        ("double", type("Index", (), {"__index__": lambda _: floats})()),
        ("inet", interrupting("scope_id", IPv6Address)("::1")),
        ("int", interrupting("__index__")()),
        ("uuid", interrupting("__class__")()),
        ("list<int>", interrupting("__class__")()),
    ]
    for cql_type, value in passing:
        with pytest.raises(KeyboardInterrupt):
            encode(cql_type, value)


def failing(error: BaseException) -> Any:
    raise error


def test_offsets_of_days() -> None:
    class Far(datetime):
        offset: Any

        def utcoffset(self) -> Any:
            return self.offset

    instant = Far(2020, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    for offset in (timedelta.max, timedelta.min, timedelta(1), timedelta(-1), 5, "1"):
        instant.offset = offset
        refused("timestamp", instant)


def test_buffers_are_given_back() -> None:
    """The codec releases each buffer that it reads.

    An object with an unreleased buffer cannot be resized, so `append` would fail.
    """
    for cql_type in SCALARS + CONTAINERS:
        for make in (lambda: bytearray(8), lambda: array.array("i", [1, 2**31 - 1])):
            for view in (lambda buffer: buffer, memoryview, lambda b: memoryview(b)[::2]):
                buffer: Any = make()
                given = view(buffer)
                with suppress(EncodeError):
                    encode(cql_type, given)
                with suppress(DecodeError, TypeError):
                    codec.decode(cql_type, given)
                del given
                buffer.append(1)


class Exporter:
    """An object whose buffer comes from a function.

    Only Python 3.12 and later call `__buffer__` to get the buffer.
    """

    def __init__(self, export: Callable[[], Any]) -> None:
        self.export = export

    def __buffer__(self, _flags: int) -> Any:
        return self.export()


def test_a_class_with_the_name_of_an_array() -> None:
    """An element of a list has a class named like `array.array`.

    The `__buffer__` of this class, which Python 3.12 and later call, empties the list while the
    codec reads it.
    """
    holder: list[Any] = []

    def export(_: Any, __: int) -> memoryview:
        holder.clear()
        gc.collect()
        return memoryview(array.array("f", [1.0, 2.0]))

    fake: Any = type("array.array", (), {"__buffer__": export})
    for cql_type in ("list<vector<float, 2>>", "tuple<vector<float, 2>, text>"):
        holder[:] = [fake(), "a" * 1000]
        with suppress(EncodeError):
            encode(cql_type, holder)


def test_buffers_of_python_classes() -> None:
    """Before Python 3.12, objects with `__buffer__` are ordinary objects."""
    raised = (KeyboardInterrupt, SystemExit, MemoryError) if sys.version_info >= (3, 12) else ()
    for cql_type in ("blob", "list<int>", "vector<float, 2>", "set<int>", "'org.example.C'"):
        for error in raised:
            for call in (encode, codec.decode):
                if call is codec.decode or cql_type != "set<int>":
                    with pytest.raises(error):
                        call(cql_type, Exporter(partial(failing, error())))
        for export in (partial(failing, RuntimeError()), lambda: 5, lambda: memoryview(b"ab")[::2]):
            with suppress(EncodeError):
                encode(cql_type, Exporter(export))
            with suppress(DecodeError, TypeError):
                codec.decode(cql_type, Exporter(export))


class Resizing(np.ndarray[Any, Any]):
    """An array that tries to resize itself while it is read."""

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            self.resize(1000)
            yield float(i)


def test_an_array_that_is_resized_while_it_is_read() -> None:
    for cql_type in ("list<float>", "vector<float, 3>", "list<int>"):
        array = np.arange(3, dtype=np.float16).view(Resizing)
        refused(cql_type, array)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=8)
    | st.decimals()
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.timedeltas()
    | st.uuids()
    | st.ip_addresses()
    | st.complex_numbers()
    | st.just(UNSET),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text(max_size=2), inner, max_size=3)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(SCALARS + CONTAINERS), ANYTHING)
def test_anything_becomes_bytes_that_decode_or_a_proper_error(cql_type: str, value: Any) -> None:
    try:
        data = encode(cql_type, value)
    except EncodeError as error:
        complaint = (error.cql_type, str(error))
    else:
        codec.decode(cql_type, data)
        return
    assert complaint[0] in complaint[1]


@given(st.sampled_from(SCALARS + CONTAINERS), st.binary(max_size=40))
def test_any_bytes_become_a_value_or_a_proper_error(cql_type: str, data: bytes) -> None:
    try:
        codec.decode(cql_type, data)
    except DecodeError as error:
        complaint = (error.cql_type, str(error))
    else:
        return
    assert "malformed " + complaint[0] in complaint[1]
