"""When the accelerator is switched off, the driver is restored. This also holds for nested `with`
blocks and for threads.
"""

from __future__ import annotations

import gc
import inspect
import io
import threading
from collections.abc import Callable
from typing import Any

from cassandra import cqltypes, marshal, protocol, query
from cassandra.cqltypes import DateType, Int32Type, ListType, UTF8Type, VectorType
from cassandra.query import BoundStatement
from tests.accel.answers import answer
from tests.accel.statements import statement

from turbocql import accel

WATCHED = [
    (cqltypes._ParameterizedType, "serialize"),
    (VectorType, "serialize"),
    (DateType, "serialize"),
    (BoundStatement, "bind"),
    (BoundStatement, "routing_key"),
    (query.Statement, "_key_parts_packed"),
    (marshal, "varint_pack"),
    (cqltypes, "varint_pack"),
    (protocol, "int32_unpack"),
    (protocol.ExecuteMessage, "send_body"),
    (query, "namedtuple"),
    (type(DateType), "__setattr__"),
]


def stock() -> list[object]:
    return [vars(owner).get(name) for owner, name in WATCHED]


def test_everything_is_restored() -> None:
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


def test_blocks_nest() -> None:
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


def test_threads_switch_and_bind_concurrently() -> None:
    before = stock()
    wrong: list[object] = []
    prepared = statement(ListType.apply_parameters([Int32Type]), UTF8Type)
    wanted = prepared.bind([[1, 2], "a"]).values

    def work() -> None:
        for i in range(300):
            # The accelerator makes a new plan for each new statement and type.
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
        thread.join(600)
    assert not wrong
    assert stock() == before


def test_functions_may_be_taken_from_their_classes_and_put_back() -> None:
    prepared = statement(Int32Type, UTF8Type)
    wanted = prepared.bind([1, "a"]).values
    message = protocol.ExecuteMessage(b"id", wanted, 1)

    def sent() -> bytes:
        out = io.BytesIO()
        message.send_body(out, 4)
        return out.getvalue()

    plain = sent()

    def asked(function: Callable[..., Any]) -> list[Any]:
        """Calls `function` in several ways. Returns the results and the function's metadata."""
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
    # Replaces functions and then restores them as programs do, with the objects that `getattr`
    # returned.
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


def test_switching_leaves_nothing_behind() -> None:
    def toggle() -> int:
        for _ in range(20):
            with accel.accelerated():
                statement(ListType.apply_parameters([Int32Type])).bind([[1]])
        gc.collect()
        return len(gc.get_objects())

    toggle()
    assert toggle() - toggle() > -200
