"""Hostile programs behave the same with and without the accelerator."""

from __future__ import annotations

import functools
import gc
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
from cassandra import cqltypes
from cassandra.cqltypes import DecimalType, Int32Type, ListType, UserType, UTF8Type
from tests.accel.answers import answer, differing
from tests.accel.pages import READERS, Disguise, page_answer
from tests.support.results import result

from turbocql import accel

INTS = [("c", "int")]
SEVEN = [[b"\0\0\0\7"]]


def pages(body: bytes, known: Any = None, policy: Any = None) -> list[Any]:
    """Reads a page three times with each reader, except that of arrays. Returns all results."""
    kinds = [kind for kind in READERS if kind != "arrays"]
    return [page_answer(READERS[k], body, 4, None, known, policy) for k in kinds for _ in range(3)]


def same(call: Callable[[], Any]) -> None:
    """Calls a function once without the accelerator and twice with it. Asserts that all results are
    equal.
    """
    plain = call()
    with accel.accelerated():
        for _ in range(2):
            made = call()
            assert made == plain, "\n{}\n{}".format(*differing(made, plain))


def test_keys_of_a_class_of_their_own() -> None:
    """The elements of a list have dicts with odd keys. When the keys are compared while the list is
    encoded, the comparison empties the list.
    """
    inner = UserType.make_udt_class("ks", "hostile", ("a",), (Int32Type,))
    lists = ListType.apply_parameters([inner])

    def attempt() -> Any:
        values: list[Any] = []

        class Key(str):
            __slots__ = ()

            def __hash__(self) -> int:
                return hash("a")

            def __eq__(self, other: object) -> bool:
                values.clear()
                gc.collect()
                return True

        class Holder:
            pass

        for number in range(200):
            holder = Holder()
            holder.__dict__[Key("b")] = number
            values.append(holder)
        return answer(lists.serialize, values, 4)

    # The result of the plain driver is ignored. With the accelerator, each call must return bytes.
    attempt()
    with accel.accelerated():
        for _ in range(20):
            assert isinstance(attempt(), bytes)


@pytest.mark.parametrize("name", ["deserialize", "serialize"])
def test_wrappers_are_not_mistaken_for_the_drivers_functions(name: str) -> None:
    calls = []
    cls: Any = Int32Type
    before = vars(cls)[name]
    original = before.__func__

    @functools.wraps(original)
    def traced(*arguments: Any) -> Any:
        calls.append(1)
        return original(*arguments)

    lists = ListType.apply_parameters([cls])

    def use() -> int:
        calls.clear()
        if name == "serialize":
            lists.serialize([1, 2], 4)
        else:
            lists.deserialize(bytes([0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1]), 4)
        return len(calls)

    try:
        setattr(cls, name, staticmethod(traced))
        plain = use()
        assert plain
        with accel.accelerated():
            assert use() == plain
        setattr(cls, name, before)
        with accel.accelerated():
            assert use() == 0
            setattr(cls, name, staticmethod(traced))
            assert use() == plain
            setattr(cls, name, before)
    finally:
        setattr(cls, name, before)


def test_a_type_that_is_defined_again() -> None:
    body = result([("c", "'org.apache.cassandra.db.marshal.Later'")], [[b"abc"]])

    def attempt() -> Any:
        seen = [pages(body)]
        for number in range(2):

            class Later(cqltypes._CassandraType):  # type: ignore[misc]
                typename = "later"
                number_of = number

                @classmethod
                def deserialize(cls, byts: bytes, protocol_version: int) -> Any:
                    return cls.number_of, byts

            seen += [pages(body), pages(body)]
        del cqltypes._casstypes["Later"]
        return seen

    same(attempt)


KNOWN = [("ks", "t", "c", Int32Type)]
SHAPES: dict[str, Any] = {
    "a list": KNOWN,
    "five parts": [(*KNOWN[0], 5)],
    "a tuple": tuple(KNOWN),
    "vectors": [("ks", "t", "c", cqltypes.VectorType)],
    "none": [],
    "None": None,
    "two": KNOWN * 2,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_columns_of_odd_shapes(shape: str) -> None:
    same(lambda: pages(result(1, SEVEN), SHAPES[shape]))
    same(lambda: pages(result(1, [[None]]), SHAPES[shape]))


def test_a_page_without_columns() -> None:
    same(lambda: pages(result([], []), KNOWN))


@pytest.mark.needs(
    hasattr(sys, "set_int_max_str_digits"), reason="some CPythons have no limit of digits"
)
def test_a_lower_limit_for_digits_of_integers() -> None:
    body = result([("c", "decimal")], [[b"\0\0\0\1" + b"\x55" * 400]])
    limit = sys.get_int_max_str_digits()
    same(lambda: pages(body))
    try:
        sys.set_int_max_str_digits(640)
        same(lambda: pages(body))
        same(lambda: answer(DecimalType.deserialize, b"\0\0\0\1" + b"\x55" * 400, 4))
    finally:
        sys.set_int_max_str_digits(limit)


@pytest.mark.needs("lazy" in READERS, reason="the earliest driver reads no rows one by one")
def test_a_type_that_changes_within_a_page() -> None:
    """A setting of a type is changed while rows are read one by one."""
    reader: Any = READERS["lazy"]
    body = result(INTS, [[b""], [b""], [b""]])

    def attempt() -> Any:
        seen = []
        for _ in range(2):
            message, source = reader(2), io.BytesIO(body)
            source.read(4)
            message.recv_results_rows(source, 4, {}, None, None)
            rows = message.parsed_rows
            first = next(rows)
            Int32Type.support_empty_values = True
            seen += [repr(first), repr(list(rows))]
            Int32Type.support_empty_values = False
        return seen

    same(attempt)


def test_types_of_pages_are_not_kept_alive() -> None:
    """Each page has a new type or a new list of columns. They must not stay alive after the page is
    read.
    """

    class New(Disguise):
        def column_type(self, column: Any) -> Any:
            return ListType.apply_parameters([UTF8Type])

    body = result([("c", "blob")], [[b"\xff\xff\xff\xff"]])

    def use(count: int) -> int:
        for _ in range(count):
            page_answer(READERS["compiled"], body, 4, None, None, New({"c": None}))
            page_answer(READERS["pure"], result(1, SEVEN), 4, None, [("k", "t", "c", Int32Type)])
        gc.collect()
        return len(gc.get_objects())

    with accel.accelerated():
        use(600)
        before = use(600)
        assert use(600) - before < 2000


class Finalized:
    """Serializes an unusual value when it is freed, in the middle of another conversion."""

    def __del__(self) -> None:
        ListType.apply_parameters([Int32Type]).serialize(object(), 4)


@pytest.mark.parametrize("steps", ["interrupted twice", "finalized after an interrupt"])
def test_an_interrupt_survives_a_conversion_within_a_conversion(
    steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> str:
        kept = Finalized()  # The exception keeps this object alive.
        raise KeyboardInterrupt(kept)

    def finalize() -> str:
        Finalized()
        return "module"

    functions = [interrupt, interrupt if steps == "interrupted twice" else finalize]

    class Meta(type):
        @property
        def __module__(cls) -> str:  # type: ignore[override]
            return functions.pop(0)() if functions else "module"

    class Odd(metaclass=Meta):
        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Any:
            return iter([1.0])

    lost: list[str] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda unraisable: lost.append(type(unraisable.exc_value).__name__)
    )
    vector = cqltypes.lookup_casstype(
        "org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 1)"
    )
    with accel.accelerated(), pytest.raises(KeyboardInterrupt):
        vector.serialize(Odd(), 4)
    gc.collect()
    # The driver refuses the value that `__del__` serializes. No other error may be lost.
    assert set(lost) <= {"TypeError"}
