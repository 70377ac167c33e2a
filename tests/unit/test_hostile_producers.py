"""Tests that malformed Arrow data is refused, and that each C struct of the data is released once.

The tests need no server. `scripts/memcheck` runs them too.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from turbocql import _core
from turbocql.errors import EncodeError

RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
LAST_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Schema(ctypes.Structure):
    """The struct `ArrowSchema` of Arrow's C data interface."""

    _fields_ = [
        ("format", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class Array(ctypes.Structure):
    """The struct `ArrowArray` of Arrow's C data interface."""

    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.c_void_p),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class Stream(ctypes.Structure):
    """The struct `ArrowArrayStream` of Arrow's C stream interface."""

    _fields_ = [
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.c_void_p),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


NAMES = {Schema: b"arrow_schema", Array: b"arrow_array", Stream: b"arrow_array_stream"}


class Producer:
    """Makes Arrow structs, and counts how often each is released.

    It keeps all memory alive. So if the consumer releases a struct a second time, the release is
    counted and nothing crashes.
    """

    def __init__(self) -> None:
        self.kept: list[Any] = []
        # A consumer moves structs to other addresses, so a struct is identified by its
        # `private_data` and not by its address. This number minus one is the struct's index in both
        # lists.
        self.structs: list[Any] = []
        self.releases: list[int] = []
        self.handed_over: set[int] = set()

    def memory(self, content: bytes) -> int:
        """Returns the address of a copy of `content`, followed by zeros."""
        kept = ctypes.create_string_buffer(content, len(content) + 64)
        self.kept.append(kept)
        return ctypes.addressof(kept)

    def pointers(self, addresses: Iterable[int | None]) -> int:
        return self.memory(b"".join(struct.pack("P", address or 0) for address in addresses))

    def function(self, kind: Any, function: Callable[..., Any]) -> int:
        kept = kind(function)
        self.kept.append(kept)
        address = ctypes.cast(kept, ctypes.c_void_p).value
        assert address is not None
        return address

    def track(self, made: Any) -> None:
        made.private_data = len(self.structs) + 1

        def release(address: int) -> None:
            moved = type(made).from_address(address)
            self.releases[moved.private_data - 1] += 1
            moved.release = None

        made.release = self.function(RELEASE, release)
        self.structs.append(made)
        self.releases.append(0)

    def schema(
        self,
        form: bytes | None,
        *children: Schema,
        name: bytes | None = b"x",
        nullable: bool = True,
    ) -> Schema:
        made = Schema()
        made.format = None if form is None else self.memory(form)
        made.name = None if name is None else self.memory(name)
        made.flags = 2 if nullable else 0
        made.n_children = len(children)
        made.children = self.pointers(ctypes.addressof(child) for child in children)
        self.track(made)
        return made

    def array(
        self, length: int, buffers: Sequence[bytes | None], *children: Array, null_count: int = 0
    ) -> Array:
        made = Array()
        made.length = length
        made.null_count = null_count
        made.n_buffers = len(buffers)
        made.buffers = self.pointers(
            None if buffer is None else self.memory(buffer) for buffer in buffers
        )
        made.n_children = len(children)
        made.children = self.pointers(ctypes.addressof(child) for child in children)
        self.track(made)
        return made

    def stream(
        self,
        schema: Schema | None,
        arrays: Sequence[Array],
        *,
        fails_at: int | None = None,
        message: bytes | None = None,
    ) -> Stream:
        """Returns a stream of the arrays.

        If `fails_at` is n, the n-th call of `get_next` fails. `get_schema` fails if `schema` is
        None.
        """
        rest = list(arrays)
        calls = 0
        text = 0 if message is None else self.memory(message)

        def hand_over(given: Any, to: int) -> int:
            self.hand_over(given)
            ctypes.memmove(to, ctypes.addressof(given), ctypes.sizeof(given))
            return 0

        def get_schema(_stream: int, to: int) -> int:
            return errno.EINVAL if schema is None else hand_over(schema, to)

        def get_next(_stream: int, to: int) -> int:
            nonlocal calls
            calls += 1
            assert fails_at is None or calls <= fails_at, "called again after it had failed"
            if calls == fails_at:
                return errno.EIO
            # A struct `ArrowArray` that contains only zeros has no release function. It marks the
            # end of the stream.
            return hand_over(rest.pop(0) if rest else Array(), to)

        made = Stream()
        made.get_schema = self.function(GET, get_schema)
        made.get_next = self.function(GET, get_next)
        made.get_last_error = self.function(LAST_ERROR, lambda _stream: text)
        self.track(made)
        return made

    def hand_over(self, given: Any) -> None:
        if given.release:
            self.handed_over.add(given.private_data)

    def capsule(self, given: Any, name: bytes | None = None) -> object:
        """Returns a capsule without a destructor, so that only the consumer releases the struct."""
        if name is None:
            self.hand_over(given)
        name = name or NAMES[type(given)]
        self.kept += [given, name]
        made: object = new_capsule(ctypes.addressof(given), name, None)
        return made

    def check(self) -> None:
        """Checks how often each struct was released.

        A struct that was handed over to the consumer must have been released once, and any other
        struct never. Child structs are not handed over, so the consumer must not release them.
        """
        gc.collect()
        for number, count in enumerate(self.releases, 1):
            expected = int(number in self.handed_over)
            kind = type(self.structs[number - 1]).__name__
            assert count == expected, f"{kind} was released {count} times, not {expected}"


def is_refused(call: Callable[..., object], *arguments: object) -> None:
    try:
        call(*arguments)
    except EncodeError:
        return
    raise AssertionError("it was not refused")


def as_array(producer: Producer, schema: Schema, array: Array) -> object:
    return _core.Piece.of_array(producer.capsule(schema), producer.capsule(array))


def read_stream(capsule: object) -> list[_core.Piece]:
    return list(_core.ArrowStream(capsule))


def as_stream(producer: Producer, schema: Schema, array: Array) -> object:
    return read_stream(producer.capsule(producer.stream(schema, [array])))


Made = tuple[Schema, Array]


def refuses(make: Callable[[Producer], Made]) -> None:
    """Checks that the data from `make` is refused, as an array and in a stream."""
    for read in (as_array, as_stream):
        producer = Producer()
        schema, array = make(producer)
        is_refused(read, producer, schema, array)
        producer.check()


def refuses_schema(make: Callable[[Producer], Schema]) -> None:
    refuses(lambda producer: (make(producer), integers(producer)[1]))


def refuses_change(change: Callable[[Schema, Array], None]) -> None:
    """Checks that the data from `integers` is refused after `change`."""

    def make(producer: Producer) -> Made:
        schema, array = integers(producer)
        change(schema, array)
        return schema, array

    refuses(make)


def put(address: int, value: int | None) -> None:
    """Writes a pointer to an address."""
    ctypes.c_void_p.from_address(address).value = value


def first_child(array: Array) -> Array:
    address = ctypes.c_void_p.from_address(array.children).value
    assert address is not None
    return Array.from_address(address)


def column(producer: Producer, schema: Schema, array: Array) -> Made:
    """Returns the schema and the array of a struct with one column."""
    return producer.schema(b"+s", schema), producer.array(array.length, [None], array)


def integers(producer: Producer) -> Made:
    array = producer.array(3, [None, struct.pack("3i", 1, 2, 3)])
    return column(producer, producer.schema(b"i"), array)


def texts(producer: Producer, offsets: Sequence[int], content: bytes = b"abcdef") -> Made:
    packed = struct.pack(f"{len(offsets)}i", *offsets)
    array = producer.array(len(offsets) - 1, [None, packed, content])
    return column(producer, producer.schema(b"u"), array)


def lists(producer: Producer, offsets: Sequence[int]) -> Made:
    """Returns a column of lists. The child array of the column has three integers."""
    child = producer.array(3, [None, struct.pack("3i", 1, 2, 3)])
    packed = struct.pack(f"{len(offsets)}i", *offsets)
    array = producer.array(len(offsets) - 1, [None, packed], child)
    return column(producer, producer.schema(b"+l", producer.schema(b"i")), array)


def vectors(producer: Producer, length: int) -> Made:
    """Returns a column of fixed-size lists of two floats. The child array has three floats."""
    child = producer.array(3, [None, struct.pack("3f", 1, 2, 3)])
    array = producer.array(length, [None], child)
    return column(producer, producer.schema(b"+w:2", producer.schema(b"f")), array)


def categories(producer: Producer, keys: Sequence[int]) -> Made:
    """Returns a column of keys into a dictionary of two texts."""
    schema, array = (
        producer.schema(b"i"),
        producer.array(len(keys), [None, struct.pack(f"{len(keys)}i", *keys)]),
    )
    values = producer.array(2, [None, struct.pack("3i", 0, 1, 2), b"ab"])
    schema.dictionary = ctypes.addressof(producer.schema(b"u"))
    array.dictionary = ctypes.addressof(values)
    return column(producer, schema, array)


def test_valid_data_is_accepted() -> None:
    makes: list[Callable[[Producer], Made]] = [
        integers,
        lambda producer: texts(producer, [0, 1, 3, 6]),
        lambda producer: lists(producer, [0, 1, 3]),
        lambda producer: vectors(producer, 1),
        lambda producer: categories(producer, [0, 1, 0]),
    ]
    for make in makes:
        for read in (as_array, as_stream):
            producer = Producer()
            pieces: Any = read(producer, *make(producer))
            assert read is as_array or len(pieces) == 1
            del pieces
            producer.check()


def test_wrong_capsule_names() -> None:
    for name in (b"arrow_schema", b"arrow_array", b"other", b"arrow_array_stream\xff"):
        producer = Producer()
        schema, array = integers(producer)
        stream = producer.stream(schema, [array])
        capsule = producer.capsule(stream, name)
        is_refused(_core.ArrowStream, capsule)
        del capsule
        producer.check()
    for names in ((b"other", None), (b"other", b"other"), (b"arrow_array", b"arrow_schema")):
        producer = Producer()
        schemas, arrays = (
            producer.capsule(made, name)
            for made, name in zip(integers(producer), names, strict=True)
        )
        # One of the two capsules may have the right name. The consumer must not take the struct of
        # this capsule either.
        producer.handed_over.clear()
        is_refused(_core.Piece.of_array, schemas, arrays)
        producer.check()


def test_capsules_used_twice() -> None:
    producer = Producer()
    schema, array = (producer.capsule(made) for made in integers(producer))
    _core.Piece.of_array(schema, array)
    is_refused(_core.Piece.of_array, schema, array)
    producer.check()
    producer = Producer()
    made = integers(producer)
    stream = producer.capsule(producer.stream(made[0], [made[1]]))
    assert len(list(_core.ArrowStream(stream))) == 1
    is_refused(_core.ArrowStream, stream)
    producer.check()


def test_released_structs() -> None:
    def release_schema(schema: Schema, array: Array) -> None:
        schema.release = None

    def release_child(schema: Schema, array: Array) -> None:
        first_child(array).release = None

    refuses_change(release_schema)
    refuses_change(release_child)
    # This case does not use a stream, because in a stream a released array marks the end.
    producer = Producer()
    schema, array = integers(producer)
    array.release = None
    is_refused(as_array, producer, schema, array)
    producer.check()
    producer = Producer()
    stream = producer.stream(None, [])
    stream.release = None
    is_refused(_core.ArrowStream, producer.capsule(stream))
    producer.check()


def test_arrays_that_are_no_structs() -> None:
    producer = Producer()
    schema, array = producer.schema(b"i"), producer.array(1, [None, struct.pack("i", 1)])
    is_refused(as_array, producer, schema, array)
    producer.check()


def test_short_children() -> None:
    def longer(schema: Schema, array: Array) -> None:
        array.length = 4

    def shifted(schema: Schema, array: Array) -> None:
        array.offset = 1

    refuses_change(longer)
    refuses_change(shifted)
    refuses(lambda producer: vectors(producer, 2))
    refuses(lambda producer: lists(producer, [0, 1, 4]))
    refuses(lambda producer: lists(producer, [2, 3, 2**31 - 1]))


def test_wrong_counts() -> None:
    for count in (-1, 0, 1, 3, 2**40):

        def buffers(schema: Schema, array: Array, count: int = count) -> None:
            first_child(array).n_buffers = count

        refuses_change(buffers)
    for count in (-1, 0, 2, 2**40):

        def children(schema: Schema, array: Array, count: int = count) -> None:
            array.n_children = count

        refuses_change(children)

        def fields(schema: Schema, array: Array, count: int = count) -> None:
            schema.n_children = count

        if count != 2:
            refuses_change(fields)
    refuses_schema(lambda producer: producer.schema(b"+s", producer.schema(b"+l")))
    refuses_schema(lambda producer: producer.schema(b"+s", producer.schema(b"+m")))
    refuses_schema(lambda producer: producer.schema(b"+s", producer.schema(b"+r")))


def test_null_pointers() -> None:
    def children(schema: Schema, array: Array) -> None:
        array.children = None

    def child(schema: Schema, array: Array) -> None:
        put(array.children, None)

    def buffers(schema: Schema, array: Array) -> None:
        first_child(array).buffers = None

    def values(schema: Schema, array: Array) -> None:
        put(first_child(array).buffers + ctypes.sizeof(ctypes.c_void_p), None)

    def fields(schema: Schema, array: Array) -> None:
        schema.children = None

    def field(schema: Schema, array: Array) -> None:
        put(schema.children, None)

    def validity(schema: Schema, array: Array) -> None:
        first_child(array).null_count = 1

    for change in (children, child, buffers, values, fields, field, validity):
        refuses_change(change)

    def keys(producer: Producer) -> Made:
        schema, array = categories(producer, [0, 1])
        first_child(array).dictionary = None
        return schema, array

    refuses(keys)
    for name in ("get_schema", "get_next"):
        producer = Producer()
        made = integers(producer)
        stream = producer.stream(made[0], [made[1]])
        setattr(stream, name, None)
        is_refused(read_stream, producer.capsule(stream))
        producer.check()


def test_wrong_offsets() -> None:
    for offsets in ([-1, 1, 2], [0, 2, 1], [0, -(2**31), 3], [3, 2, 1]):
        refuses(partial(texts, offsets=offsets))
        refuses(partial(lists, offsets=offsets))


def test_wrong_lengths() -> None:
    for length in (-1, -(2**63), 2**62, 2**63 - 1):

        def lengthen(schema: Schema, array: Array, length: int = length) -> None:
            array.length = first_child(array).length = length

        def shift(schema: Schema, array: Array, length: int = length) -> None:
            array.offset = length

        refuses_change(lengthen)
        refuses_change(shift)


def test_wrong_null_counts() -> None:
    for count in (-2, 4, 2**62):

        def miscount(schema: Schema, array: Array, count: int = count) -> None:
            first_child(array).null_count = count

        refuses_change(miscount)

    def make(producer: Producer) -> Made:
        array = producer.array(3, [b"\x05", struct.pack("3i", 1, 2, 3)], null_count=2)
        return column(producer, producer.schema(b"i"), array)

    refuses(make)


def test_not_utf8() -> None:
    refuses(lambda producer: texts(producer, [0, 1, 2], b"a\xff"))
    refuses(lambda producer: texts(producer, [0, 1, 2], "\u00e9".encode()))


def test_wrong_keys() -> None:
    for key in (2, -1, 2**31 - 1):
        refuses(partial(categories, keys=[0, key]))


def test_wrong_schemas() -> None:
    for form in (None, b"", b"?", b"\xff", b"i" * 5000, b"+w:-1", b"w:-1", b"d:0,0", b"d:x"):

        def wrong(producer: Producer, form: bytes | None = form) -> Schema:
            return producer.schema(b"+s", producer.schema(form))

        refuses_schema(wrong)
    refuses_schema(lambda producer: producer.schema(b"+s", producer.schema(b"i", name=b"\xff")))
    for metadata in ((-1,), (1, -1), (1, 0, -1), (-(2**31),), (1, 2**31 - 1)):

        def make(producer: Producer, metadata: tuple[int, ...] = metadata) -> Schema:
            schema = producer.schema(b"+s", producer.schema(b"i"))
            schema.metadata = producer.memory(struct.pack(f"{len(metadata)}i", *metadata))
            return schema

        refuses_schema(make)


def test_cyclic_schemas() -> None:
    for form in (b"+s", b"+l"):

        def child(producer: Producer, form: bytes = form) -> Schema:
            inner = producer.schema(form, Schema())
            put(inner.children, ctypes.addressof(inner))
            return producer.schema(b"+s", inner)

        refuses_schema(child)

    def dictionary(producer: Producer) -> Schema:
        inner = producer.schema(b"i")
        inner.dictionary = ctypes.addressof(inner)
        return producer.schema(b"+s", inner)

    refuses_schema(dictionary)


def test_failing_streams() -> None:
    for message in (None, b"it is gone", b"\xff\xfe", b"m" * 100_000):
        producer = Producer()
        stream = producer.stream(None, [], message=message)
        is_refused(_core.ArrowStream, producer.capsule(stream))
        producer.check()
        for fails_at in (1, 2):
            producer = Producer()
            made = [integers(producer) for _ in range(3)]
            arrays = [array for _, array in made]
            stream = producer.stream(made[0][0], arrays, fails_at=fails_at, message=message)
            pieces = iter(_core.ArrowStream(producer.capsule(stream)))
            for _ in range(1, fails_at):
                next(pieces)
            is_refused(next, pieces)
            # The next call must fail too, but it must not call the producer again.
            is_refused(next, pieces)
            del pieces
            producer.check()


def test_wrong_array_in_stream() -> None:
    producer = Producer()
    (schema, first), (_, second) = integers(producer), texts(producer, [0, 1, 2])
    pieces = iter(_core.ArrowStream(producer.capsule(producer.stream(schema, [first, second]))))
    next(pieces)
    is_refused(next, pieces)
    del pieces
    producer.check()


def test_streams_that_end() -> None:
    producer = Producer()
    pieces = iter(_core.ArrowStream(producer.capsule(producer.stream(integers(producer)[0], []))))
    for _ in range(3):
        assert next(pieces, None) is None
    del pieces
    producer.check()
    # The stream is dropped before its end.
    producer = Producer()
    schema, array = integers(producer)
    pieces = iter(_core.ArrowStream(producer.capsule(producer.stream(schema, [array]))))
    del pieces
    producer.check()
