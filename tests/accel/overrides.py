"""What users have put in the driver's place wins: before, after and while it is accelerated.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.overrides

Run in the environment of either driver. Prints the names of what passed; the first that fails is
an AssertionError.
"""

from __future__ import annotations

import collections
import copy
import datetime
import gc
import inspect
import io
import logging
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from cassandra import cqltypes, protocol, query
from cassandra.cqltypes import DateType, FloatType, Int32Type, ListType, UTF8Type, VectorType
from cassandra.protocol import ColumnMetadata
from cassandra.query import BoundStatement, PreparedStatement
from tests.accel.answers import answer, run
from tests.support.results import result

from turbocql import accel

WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000)
WATCHED = [
    (cqltypes._ParameterizedType, "serialize"),
    (VectorType, "serialize"),
    (DateType, "serialize"),
    (BoundStatement, "bind"),
    (BoundStatement, "routing_key"),
    (protocol.ExecuteMessage, "send_body"),
    (query, "namedtuple"),
    (type(DateType), "__setattr__"),
]


def statement(*types: type) -> PreparedStatement:
    columns = [ColumnMetadata("ks", "t", f"c{i}", cls) for i, cls in enumerate(types)]
    return PreparedStatement(
        column_metadata=columns,
        query_id=b"id",
        routing_key_indexes=[],
        query="INSERT",
        keyspace="ks",
        protocol_version=4,
        result_metadata=[],
        result_metadata_id=None,
    )


def stock() -> list[object]:
    return [vars(owner).get(name) for owner, name in WATCHED]


def everything_is_put_back() -> None:
    before = stock()
    for _ in range(3):
        accel.accelerate()
        accel.accelerate()
        assert all(a is not b for a, b in zip(before, stock(), strict=True))
        prepared = statement(ListType.apply_parameters([Int32Type]))
        prepared.bind([[1]])
        accel.uninstall()
        accel.uninstall()
        assert all(a is b for a, b in zip(before, stock(), strict=True))
        assert "_turbocql_plan" not in vars(prepared)
    assert "__setattr__" not in vars(type(DateType))


def blocks_nest() -> None:
    before = stock()
    with accel.accelerated():
        with accel.accelerated():
            pass
        assert stock() != before
        accel.accelerate()
    assert stock() != before
    with accel.accelerated():
        pass
    assert stock() != before
    assert accel.status().on
    with accel.accelerated():
        accel.uninstall()
        assert stock() == before
        with accel.accelerated():
            assert stock() != before
        assert stock() == before
    assert stock() == before
    assert not accel.status().on


def threads_may_do_all_at_once() -> None:
    before = stock()
    wrong: list[object] = []
    prepared = statement(ListType.apply_parameters([Int32Type]), UTF8Type)
    wanted = prepared.bind([[1, 2], "a"]).values

    def work() -> None:
        for i in range(300):
            # New statements and types, each of which gets a plan.
            statement(ListType.apply_parameters([UTF8Type])).bind([["a"]])
            with accel.accelerated():
                if prepared.bind([[1, 2], "a"]).values != wanted:
                    wrong.append("bytes")
                if i % 50 == 0:
                    accel.status()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert stock() == before


def a_subclass_has_its_own_bytes() -> None:
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


def a_patch_before_ours_stays() -> None:
    original = vars(DateType)["serialize"]
    DateType.serialize = staticmethod(lambda value, protocol_version: b"patched!")
    try:
        prepared = statement(DateType, ListType.apply_parameters([DateType]))
        with accel.accelerated():
            cells = prepared.bind([WHEN, [WHEN]]).values
            left = {seam.name: seam.why for seam in accel.status().seams if not seam.patched}
        assert cells[0] == b"patched!"
        assert cells[1].endswith(b"patched!")
        assert "replaced" in left["cqltypes.DateType.serialize"]
    finally:
        type.__setattr__(DateType, "serialize", original)


def a_patch_after_ours_wins() -> None:
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
            # And away again.
            DateType.serialize = ours
            assert prepared.bind([WHEN, [WHEN]]).values == plain
            DateType.serialize = mine
        assert vars(DateType)["serialize"] is mine
        assert prepared.bind([WHEN, [WHEN]]).values[0] == b"patched!"
        assert "somebody" in str(accel.status())
    finally:
        type.__setattr__(DateType, "serialize", original)


def a_patch_around_ours_works_on() -> None:
    calls = []
    wrapped = BoundStatement.bind

    def bind(self: BoundStatement, values: object) -> BoundStatement:
        calls.append(values)
        return wrapped(self, values)

    original = vars(BoundStatement)["bind"]
    prepared = statement(Int32Type)
    accel.accelerate()
    wrapped = BoundStatement.bind
    BoundStatement.bind = bind
    assert prepared.bind([1]).values == [b"\0\0\0\1"]
    accel.uninstall()
    assert vars(BoundStatement)["bind"] is bind
    assert prepared.bind([2]).values == [b"\0\0\0\2"]
    assert len(calls) == 2
    BoundStatement.bind = original


def functions_may_be_taken_from_their_classes_and_put_back() -> None:
    prepared = statement(Int32Type, UTF8Type)
    wanted = prepared.bind([1, "a"]).values
    message = protocol.ExecuteMessage(b"id", wanted, 1)

    def sent() -> bytes:
        out = io.BytesIO()
        message.send_body(out, 4)
        return out.getvalue()

    plain = sent()

    def asked(function: Callable[..., Any]) -> list[Any]:
        """What the unbound function gives, by position and by name, and what it says of itself."""
        bound = BoundStatement(prepared)
        return [
            function(bound, [1, "a"]).values,
            function(bound, values=[1, "a"]).values,
            function(self=bound, values=[1, "a"]).values,
            answer(lambda: function(bound)),
            function.__name__,
            function.__qualname__,
            inspect.getdoc(function),
            inspect.signature(function),
        ]

    before = stock()
    unbound = asked(BoundStatement.bind)
    accel.accelerate()
    assert asked(BoundStatement.bind) == unbound
    assert prepared.bind([1, "a"]).values == wanted
    # As somebody does who replaces a function for a while.
    for owner, name in ((BoundStatement, "bind"), (protocol.ExecuteMessage, "send_body")):
        own = getattr(owner, name)
        setattr(owner, name, lambda *_: None)
        setattr(owner, name, own)
    assert prepared.bind([1, "a"]).values == wanted
    assert sent() == plain

    class Alias(BoundStatement):  # type: ignore[misc]
        fill = BoundStatement.bind

    assert Alias(prepared).fill([1, "a"]).values == wanted
    kept = BoundStatement.bind
    accel.uninstall()
    assert all(a is b for a, b in zip(before, stock(), strict=True))
    assert kept(BoundStatement(prepared), [1, "a"]).values == wanted
    assert Alias(prepared).fill([1, "a"]).values == wanted


def a_subclass_of_a_statement_may_do_more() -> None:
    class Mine(BoundStatement):  # type: ignore[misc]
        def _append_unset_value(self) -> None:
            self.values.append(b"mine")

    with accel.accelerated():
        assert Mine(statement(Int32Type, UTF8Type)).bind([1]).values == [b"\0\0\0\1", b"mine"]


def a_policy_is_asked() -> None:
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


def changed_columns_are_seen() -> None:
    prepared = statement(Int32Type)
    with accel.accelerated():
        assert prepared.bind([1]).values == [b"\0\0\0\1"]
        prepared.column_metadata[0] = ColumnMetadata("ks", "t", "c0", UTF8Type)
        assert prepared.bind(["a"]).values == [b"a"]
        prepared.column_metadata = []
        assert prepared.bind([]).values == []


def rows_of_one_shape_have_one_class() -> None:
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


def values_that_change_while_they_are_bound() -> None:
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


def what_is_unset_is_the_drivers_to_say() -> None:
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


def copies_have_plans_of_their_own() -> None:
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


def a_message_keeps_its_own_columns() -> None:
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


def records_of_all_kinds() -> None:
    udt = cqltypes.UserType.make_udt_class("ks", "pair", ("a", "b"), (Int32Type, UTF8Type))
    calls = []

    class Plain:
        def __init__(self, a: object, b: object) -> None:
            self.a, self.b = a, b

    class Slotted:
        __slots__ = ("a", "b")

    class Computed(Plain):
        @property
        def b(self) -> str:
            calls.append("b")
            return "computed"

        @b.setter
        def b(self, value: object) -> None:
            pass

    class Dynamic:
        def __getattr__(self, name: str) -> object:
            return {"a": 5, "b": "dynamic"}[name]

    class Indexed(Plain):
        def __getitem__(self, place: object) -> object:
            return [9, "indexed"][place]  # type: ignore[call-overload]

    class Inherited(Plain):
        a = 1

        def __init__(self) -> None:
            self.b = "own"

    class Backwards(collections.namedtuple("Backwards", "b a")):  # noqa: PYI024
        pass

    class Turned(Backwards):
        def __getitem__(self, place: Any) -> Any:
            return (3, "turned")[place]

    class Meta(type):
        def __getitem__(cls, place: int) -> object:
            return (4, "meta")[place]

    class Whole(metaclass=Meta):
        pass

    slotted: Any = Slotted()
    half: Any = Slotted()
    slotted.a, slotted.b, half.a = 1, "slotted", 2
    values: list[object] = [
        *(Plain(1, "x"), Plain(None, None), Plain("x", 1), slotted, half, Computed(1, 2)),
        *(Dynamic(), Indexed(1, "x"), Inherited(), Inherited, Whole, Backwards(1, "x")),
        *(Backwards("x", 1), Turned(1, "x"), (1,), (1, "x", 3), [1, "x", 3], [], {}, {0: 1}),
        *({0: 1, 1: "x"}, None, 5, "ab", b"ab", {1, "x"}, object(), Plain, lambda: 1, udt),
    ]
    logging.disable(logging.CRITICAL)
    plain = [answer(udt.serialize, value, 4) for value in values]
    called = len(calls)
    with accel.accelerated():
        for _ in range(2):
            assert [answer(udt.serialize, value, 4) for value in values] == plain
    assert called == 1
    assert len(calls) == 3
    logging.disable(logging.NOTSET)


def signalling_numbers_become_quiet() -> None:
    vector = VectorType.apply_parameters([FloatType, 20], None)
    array = np.full(20, 0x7F800001, "u4").view("f4")
    plain = vector.serialize(array, 4)
    with accel.accelerated():
        assert vector.serialize(array, 4) == plain == b"\x7f\xc0\0\1" * 20
        short = VectorType.apply_parameters([FloatType, 2], None)
        assert short.serialize(array[:2], 4) == plain[:8]


def switching_leaves_nothing_behind() -> None:
    def toggle() -> int:
        for _ in range(20):
            with accel.accelerated():
                statement(ListType.apply_parameters([Int32Type])).bind([[1]])
        gc.collect()
        return len(gc.get_objects())

    toggle()
    assert toggle() - toggle() > -200


def main() -> None:
    checks: list[Callable[[], None]] = [
        everything_is_put_back,
        blocks_nest,
        threads_may_do_all_at_once,
        a_subclass_has_its_own_bytes,
        a_patch_before_ours_stays,
        a_patch_after_ours_wins,
        a_patch_around_ours_works_on,
        functions_may_be_taken_from_their_classes_and_put_back,
        a_subclass_of_a_statement_may_do_more,
        a_policy_is_asked,
        changed_columns_are_seen,
        rows_of_one_shape_have_one_class,
        values_that_change_while_they_are_bound,
        what_is_unset_is_the_drivers_to_say,
        copies_have_plans_of_their_own,
        a_message_keeps_its_own_columns,
        records_of_all_kinds,
        signalling_numbers_become_quiet,
        switching_leaves_nothing_behind,
    ]
    run(checks)


if __name__ == "__main__":
    main()
