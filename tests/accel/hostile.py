"""What a program may do that is hard on the accelerator: everything is as without it.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.hostile

Run in the environment of either driver. Prints the names of what passed; the first that fails is
an AssertionError.
"""

from __future__ import annotations

import functools
import gc
import io
import sys
from collections.abc import Callable
from typing import Any

from cassandra import cqltypes
from cassandra.cqltypes import DecimalType, Int32Type, ListType, UserType, UTF8Type
from tests.accel.answers import answer, run
from tests.accel.compare import READERS, Disguise, differing, page_answer
from tests.support.results import result

from turbocql import accel

INTS = [("c", "int")]
SEVEN = [[b"\0\0\0\7"]]


def pages(body: bytes, known: Any = None, policy: Any = None) -> list[Any]:
    """What each way of reading makes of a page, three times."""
    kinds = [kind for kind in READERS if kind != "arrays"]
    return [page_answer(READERS[k], body, 4, None, known, policy) for k in kinds for _ in range(3)]


def same(call: Callable[[], Any]) -> None:
    """Plain, accelerated, and accelerated once more."""
    plain = call()
    with accel.accelerated():
        for _ in range(2):
            made = call()
            assert made == plain, "\n{}\n{}".format(*differing(made, plain))


def keys_of_a_class_of_their_own() -> None:
    """A dict whose keys run code when they are compared, which empties what is being written."""
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

    # The driver's own way begins with what is left then.
    attempt()
    with accel.accelerated():
        for _ in range(20):
            assert isinstance(attempt(), bytes)


def wrappers_are_no_functions_of_the_drivers() -> None:
    calls = []
    cls: Any
    for cls, name in ((Int32Type, "deserialize"), (Int32Type, "serialize")):
        then = vars(cls)[name]
        original = then.__func__

        @functools.wraps(original)
        def traced(*arguments: Any, original: Any = original) -> Any:
            calls.append(1)
            return original(*arguments)

        lists = ListType.apply_parameters([cls])

        def use(lists: Any = lists, name: str = name) -> Any:
            calls.clear()
            if name == "serialize":
                lists.serialize([1, 2], 4)
            else:
                lists.deserialize(bytes([0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1]), 4)
            return len(calls)

        setattr(cls, name, staticmethod(traced))
        wanted = use()
        assert wanted
        with accel.accelerated():
            assert use() == wanted
        setattr(cls, name, then)
        with accel.accelerated():
            assert use() == 0
            setattr(cls, name, staticmethod(traced))
            assert use() == wanted
            setattr(cls, name, then)


def a_type_that_is_defined_again() -> None:
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


def columns_of_odd_shapes() -> None:
    body = result(1, SEVEN)
    known = [("ks", "t", "c", Int32Type)]
    vectors = [("ks", "t", "c", cqltypes.VectorType)]
    for columns in (known, [(*known[0], 5)], tuple(known), vectors, [], None, known * 2):
        same(lambda columns=columns: pages(body, columns))  # type: ignore[misc]
        same(lambda columns=columns: pages(result(1, [[None]]), columns))  # type: ignore[misc]
    same(lambda: pages(result([], []), known))


def fewer_digits_than_usual() -> None:
    if not hasattr(sys, "set_int_max_str_digits"):
        return
    body = result([("c", "decimal")], [[b"\0\0\0\1" + b"\x55" * 400]])
    limit = sys.get_int_max_str_digits()
    same(lambda: pages(body))
    try:
        sys.set_int_max_str_digits(640)
        same(lambda: pages(body))
        same(lambda: answer(DecimalType.deserialize, b"\0\0\0\1" + b"\x55" * 400, 4))
    finally:
        sys.set_int_max_str_digits(limit)


def values_of_half_a_page() -> None:
    """A setting of a type that is changed while rows are read one by one."""
    reader = READERS.get("lazy")
    if reader is None:
        return
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


def nothing_is_kept() -> None:
    """Types of a policy and lists of columns that are new for each page."""

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


def main() -> None:
    checks: list[Callable[[], None]] = [
        keys_of_a_class_of_their_own,
        wrappers_are_no_functions_of_the_drivers,
        a_type_that_is_defined_again,
        columns_of_odd_shapes,
        fewer_digits_than_usual,
        values_of_half_a_page,
        nothing_is_kept,
    ]
    run(checks)


if __name__ == "__main__":
    main()
