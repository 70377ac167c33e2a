"""A program's own subclasses and patches take precedence over the accelerator.

This holds whether the program makes them before or after the accelerator is switched on, or after
it is switched off.
"""

from __future__ import annotations

import collections
import copy
import datetime
import io
import logging
from typing import Any

import numpy as np
import pytest
from cassandra import cqltypes, protocol, query
from cassandra.cqltypes import DateType, FloatType, Int32Type, ListType, UTF8Type, VectorType
from cassandra.protocol import ColumnMetadata
from cassandra.query import BoundStatement
from tests.accel.answers import answer
from tests.accel.statements import statement
from tests.support.results import result

from turbocql import accel

WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000)


def test_a_subclass_has_its_own_bytes() -> None:
    class Loud(UTF8Type):  # type: ignore[misc]
        typename = "text"

        @staticmethod
        def serialize(value: str, protocol_version: int) -> bytes:
            return value.upper().encode()

    class Reversed(ListType):  # type: ignore[misc]
        @classmethod
        def serialize_safe(cls, items: list[object], protocol_version: int) -> bytes:
            return super().serialize_safe(items[::-1], protocol_version)  # type: ignore[no-any-return]

    loud = ListType.apply_parameters([Loud])
    turned = Reversed.apply_parameters([Int32Type])
    prepared = statement(Loud, loud, turned)
    row = ["a", ["b"], [1, 2]]
    plain = prepared.bind(row).values
    assert plain[0] == b"A"
    assert plain[1].endswith(b"B")
    with accel.accelerated():
        assert prepared.bind(row).values == plain
        assert loud.serialize(["b"], 4) == plain[1]
        assert turned.serialize([1, 2], 4) == plain[2]


def test_a_patch_before_ours_stays() -> None:
    original = vars(DateType)["serialize"]
    DateType.serialize = staticmethod(lambda value, protocol_version: b"patched!")
    try:
        prepared = statement(DateType, ListType.apply_parameters([DateType]))
        with accel.accelerated():
            cells = prepared.bind([WHEN, [WHEN]]).values
            not_replaced = {
                seam.name: seam.why for seam in accel.status().seams if not seam.patched
            }
        assert cells[0] == b"patched!"
        assert cells[1].endswith(b"patched!")
        assert "replaced" in not_replaced["cqltypes.DateType.serialize"]
    finally:
        type.__setattr__(DateType, "serialize", original)


def test_a_patch_after_ours_wins() -> None:
    prepared = statement(DateType, ListType.apply_parameters([DateType]))
    plain = prepared.bind([WHEN, [WHEN]]).values
    original = vars(DateType)["serialize"]
    mine = staticmethod(lambda value, protocol_version: b"patched!")
    try:
        with accel.accelerated():
            assert prepared.bind([WHEN, [WHEN]]).values == plain
            ours = vars(DateType)["serialize"]
            DateType.serialize = mine
            cells = prepared.bind([WHEN, [WHEN]]).values
            assert cells[0] == b"patched!"
            assert cells[1].endswith(b"patched!")
            # The program now undoes its patch.
            DateType.serialize = ours
            assert prepared.bind([WHEN, [WHEN]]).values == plain
            DateType.serialize = mine
        assert vars(DateType)["serialize"] is mine
        assert prepared.bind([WHEN, [WHEN]]).values[0] == b"patched!"
        assert "somebody" in str(accel.status())
    finally:
        type.__setattr__(DateType, "serialize", original)


def test_a_patch_that_wraps_a_stand_in_keeps_working() -> None:
    calls = []
    wrapped = BoundStatement.bind

    def bind(self: BoundStatement, values: object) -> BoundStatement:
        calls.append(values)
        return wrapped(self, values)

    original = vars(BoundStatement)["bind"]
    prepared = statement(Int32Type)
    accel.accelerate()
    wrapped = BoundStatement.bind
    try:
        BoundStatement.bind = bind
        assert prepared.bind([1]).values == [b"\0\0\0\1"]
        accel.uninstall()
        assert vars(BoundStatement)["bind"] is bind
        assert prepared.bind([2]).values == [b"\0\0\0\2"]
        assert len(calls) == 2
    finally:
        BoundStatement.bind = original


def test_a_subclass_of_a_statement_may_do_more() -> None:
    class Mine(BoundStatement):  # type: ignore[misc]
        def _append_unset_value(self) -> None:
            self.values.append(b"mine")

    with accel.accelerated():
        assert Mine(statement(Int32Type, UTF8Type)).bind([1]).values == [b"\0\0\0\1", b"mine"]


def test_an_encryption_policy_is_used() -> None:
    class Policy:
        def contains_column(self, column: object) -> bool:
            return True

        def column_type(self, column: object) -> type:
            return UTF8Type  # type: ignore[no-any-return]

        def encrypt(self, column: object, data: bytes) -> bytes:
            return data[::-1]

    prepared = statement(UTF8Type)
    with accel.accelerated():
        assert prepared.bind(["ab"]).values == [b"ab"]
        prepared.column_encryption_policy = Policy()
        assert prepared.bind(["ab"]).values == [b"ba"]
        prepared.column_encryption_policy = None
        assert prepared.bind(["ab"]).values == [b"ab"]


def test_changed_columns_are_noticed() -> None:
    prepared = statement(Int32Type)
    with accel.accelerated():
        assert prepared.bind([1]).values == [b"\0\0\0\1"]
        prepared.column_metadata[0] = ColumnMetadata("ks", "t", "c0", UTF8Type)
        assert prepared.bind(["a"]).values == [b"a"]
        prepared.column_metadata = []
        assert prepared.bind([]).values == []


def test_rows_of_one_shape_have_one_class() -> None:
    factory = query.named_tuple_factory
    with accel.accelerated():
        one, two = (factory(["a", "b"], [(1, 2)])[0] for _ in range(2))
        assert type(one) is type(two)
        assert one == two == (1, 2)
        assert one.a == 1
        assert one._fields == ("a", "b")
        assert one._asdict() == {"a": 1, "b": 2}
        assert one._replace(a=5).a == 5
        assert repr(one) == "Row(a=1, b=2)"


def test_values_that_change_while_they_are_bound() -> None:
    class Clearing:
        def __init__(self, row: list[object]) -> None:
            self.row = row

        def encode(self, encoding: str) -> bytes:
            self.row.clear()
            return b"gone"

    prepared = statement(UTF8Type, UTF8Type)
    with accel.accelerated():
        row: list[object] = []
        row += [Clearing(row), "b"]
        assert prepared.bind(row).values[0] == b"gone"


def test_a_replaced_append_unset_value_is_used() -> None:
    prepared = statement(Int32Type, UTF8Type)
    with accel.accelerated():
        assert prepared.bind([1]).values[0] == b"\0\0\0\1"
        original = vars(BoundStatement)["_append_unset_value"]
        BoundStatement._append_unset_value = lambda self: self.values.append(b"mine")
        try:
            assert prepared.bind([1]).values == [b"\0\0\0\1", b"mine"]
        finally:
            BoundStatement._append_unset_value = original
        keyed = statement(Int32Type, UTF8Type)
        keyed.bind([1, "a"])
        keyed.routing_key_indexes = [1]
        raised = answer(keyed.bind, [1])
        assert raised.cls is ValueError
        assert "routing key" in raised.said


def test_copies_have_plans_of_their_own() -> None:
    prepared = statement(Int32Type)
    original = vars(Int32Type)["serialize"]
    accel.accelerate()
    prepared.bind([1])
    copied, deep = copy.copy(prepared), copy.deepcopy(prepared)
    assert deep.bind([1]).values == copied.bind([1]).values == [b"\0\0\0\1"]
    accel.uninstall()
    type.__setattr__(Int32Type, "serialize", staticmethod(lambda value, version: b"MINE"))
    try:
        with accel.accelerated():
            for each in (prepared, copied, deep):
                assert each.bind([1]).values == [b"MINE"]
    finally:
        type.__setattr__(Int32Type, "serialize", original)


def test_a_message_keeps_its_own_columns() -> None:
    body = result([("a", "int")], [[b"\0\0\0\7"]], paging_state=b"s")

    def read(data: bytes) -> object:
        message = protocol.ProtocolHandler.message_types_by_opcode[8](2)
        source = io.BytesIO(data)
        source.read(4)
        message.recv_results_rows(source, 4, {}, None, None)
        return message

    with accel.accelerated():
        read(body).column_metadata.clear()  # type: ignore[attr-defined]
        for _ in range(2):
            message = read(body)
            assert message.column_names == ["a"]  # type: ignore[attr-defined]
            message.column_names.clear()  # type: ignore[attr-defined]
        negative = body.replace(b"\0\0\0\1s", b"\xff\xff\xff\xff")
        assert answer(read, negative).cls.__name__ == "error"


CALLS: list[str] = []


class Plain:
    """An object with both fields, `a` and `b`."""

    def __init__(self, a: object, b: object) -> None:
        self.a, self.b = a, b


class Slotted:
    """An object without a dict."""

    __slots__ = ("a", "b")


class Computed(Plain):
    """Field `b` is a property that records its calls."""

    @property
    def b(self) -> str:
        CALLS.append("b")
        return "computed"

    @b.setter
    def b(self, value: object) -> None:
        pass


class Dynamic:
    """Computes its fields in `__getattr__`."""

    def __getattr__(self, name: str) -> object:
        return {"a": 5, "b": "dynamic"}[name]


class Indexed(Plain):
    """An object that returns one value by index and another value by attribute."""

    def __getitem__(self, index: object) -> object:
        return [9, "indexed"][index]  # type: ignore[call-overload]


class Inherited(Plain):
    """Field `a` is an attribute of the class."""

    a = 1

    def __init__(self) -> None:
        self.b = "own"


class Backwards(collections.namedtuple("Backwards", "b a")):  # noqa: PYI024
    """A named tuple with the fields in reverse order."""


class Turned(Backwards):
    """A named tuple that returns one value by index and another value by attribute."""

    def __getitem__(self, index: Any) -> Any:
        return (3, "turned")[index]


class Meta(type):
    """A metaclass that makes its classes indexable."""

    def __getitem__(cls, index: int) -> object:
        return (4, "meta")[index]


class Whole(metaclass=Meta):
    """A class that is itself used as a record."""


def slotted(**fields: object) -> Slotted:
    """Returns a `Slotted` object. Only the fields in `fields` are set."""
    record = Slotted()
    for name, value in fields.items():
        setattr(record, name, value)
    return record


PAIR = cqltypes.UserType.make_udt_class("ks", "pair", ("a", "b"), (Int32Type, UTF8Type))
RECORDS: dict[str, object] = {
    "plain": Plain(1, "x"),
    "nulls": Plain(None, None),
    "wrong types": Plain("x", 1),
    "slots": slotted(a=1, b="slotted"),
    "half of the slots": slotted(a=2),
    "computed": Computed(1, 2),
    "dynamic": Dynamic(),
    "indexed": Indexed(1, "x"),
    "inherited": Inherited(),
    "a class that has a field": Inherited,
    "a class that is indexed": Whole,
    "named tuple": Backwards(1, "x"),
    "named tuple, turned": Backwards("x", 1),
    "indexed named tuple": Turned(1, "x"),
    "short tuple": (1,),
    "long tuple": (1, "x", 3),
    "long list": [1, "x", 3],
    "empty list": [],
    "empty dict": {},
    "dict with one place": {0: 1},
    "dict with both places": {0: 1, 1: "x"},
    "None": None,
    "number": 5,
    "text": "ab",
    "bytes": b"ab",
    "set": {1, "x"},
    "object": object(),
    "class": Plain,
    "function": lambda: 1,
    "type": PAIR,
}


@pytest.mark.parametrize("kind", RECORDS)
def test_records_of_all_kinds(kind: str) -> None:
    CALLS.clear()
    logging.disable(logging.CRITICAL)
    try:
        plain = answer(PAIR.serialize, RECORDS[kind], 4)
        calls = len(CALLS)
        assert calls == (kind == "computed")
        with accel.accelerated():
            for _ in range(2):
                assert answer(PAIR.serialize, RECORDS[kind], 4) == plain
        assert len(CALLS) == 3 * calls
    finally:
        logging.disable(logging.NOTSET)


def test_signalling_numbers_become_quiet() -> None:
    vector = VectorType.apply_parameters([FloatType, 20], None)
    array = np.full(20, 0x7F800001, "u4").view("f4")
    plain = vector.serialize(array, 4)
    with accel.accelerated():
        assert vector.serialize(array, 4) == plain == b"\x7f\xc0\0\1" * 20
        short = VectorType.apply_parameters([FloatType, 2], None)
        assert short.serialize(array[:2], 4) == plain[:8]
