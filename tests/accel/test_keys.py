"""If a program has subclasses or replaced methods, these decide how parts of a routing key are
packed.

The tests also check the accelerator's counts of calls.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cassandra.cqltypes import Int32Type, UTF8Type
from cassandra.query import BatchStatement, BoundStatement, SimpleStatement, Statement
from tests.accel.answers import answer
from tests.accel.keys import packed
from tests.accel.statements import seams, statement

from turbocql import accel

PACK = "query.Statement._key_parts_packed"
KEY = b"\0\1a\0\0\2bc\0"


def mine(self: Any, parts: Any) -> Iterator[bytes]:
    """Packs parts differently from the driver."""
    return (b"<" + part + b">" for part in parts)


def key_of(made: Any, parts: Any = (b"a", b"bc")) -> Any:
    """Sets the routing key of a statement and returns it."""
    made.routing_key = parts
    return made.routing_key


def counted(name: str) -> tuple[int, int]:
    """Returns the counts of a stand-in (a native function that replaces a function of the driver):
    how many calls were native, and how many called the driver's function.
    """
    seam = seams()[name]
    return seam.native, seam.fallback


def test_keys_in_parts_are_packed_natively(accelerated: None) -> None:
    for made in (Statement(), SimpleStatement("q"), BatchStatement()):
        assert key_of(made) == KEY
        assert key_of(made, [b"a", b"bc"]) == KEY
        assert key_of(made, [b"a"]) == b"a"
        assert key_of(made, b"abc") == b"abc"
        assert key_of(made, None) is None
    # The setter calls the packer only for keys of several parts. Each of the three statements has
    # got two such keys.
    assert counted(PACK) == (3 * 2, 0)
    assert b"".join(Statement()._key_parts_packed([b"a", b"bc"])) == KEY
    assert key_of(Statement(), [b"a", bytearray(b"bc")]) == KEY
    assert counted(PACK) == (3 * 2 + 2, 0)


def test_a_subclass_may_pack_parts_and_have_a_property() -> None:
    class Packing(SimpleStatement):  # type: ignore[misc]
        _key_parts_packed = mine

    class Own(SimpleStatement):  # type: ignore[misc]
        routing_key = "own"

    class Careful(SimpleStatement):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, f"careful {value}" if name == "_routing_key" else value)

    def asked() -> list[Any]:
        return [key_of(Packing("q")), key_of(Own("q")), key_of(Careful("q"))]

    plain = asked()
    assert plain[0] == b"<a><bc>"
    with accel.accelerated():
        assert asked() == plain


def test_a_replaced_packer_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = statement(Int32Type, UTF8Type, key=[0, 1]).bind([1, "ab"])
    own = vars(Statement)["_key_parts_packed"]

    def asked() -> list[Any]:
        bound._routing_key = None
        single = SimpleStatement("q")
        single._key_parts_packed = lambda parts: [b"single"]
        return [key_of(SimpleStatement("q")), bound.routing_key, key_of(single)]

    plain = asked()
    assert plain[2] == b"single"
    with accel.accelerated():
        assert asked() == plain
        monkeypatch.setattr(Statement, "_key_parts_packed", mine)
        changed = asked()
        assert changed == [b"<a><bc>", b"<\0\0\0\1><ab>", b"single"]
        monkeypatch.undo()
        assert asked() == plain
        # A program may also restore the driver's own function.
        monkeypatch.setattr(Statement, "_key_parts_packed", own)
        assert asked() == plain
        monkeypatch.undo()
    assert vars(Statement)["_key_parts_packed"] is own
    monkeypatch.setattr(Statement, "_key_parts_packed", mine)
    with accel.accelerated():
        assert asked() == changed
        assert "replaced" in seams()[PACK].why


def test_subclasses_of_bound_statements_use_the_native_generator(accelerated: None) -> None:
    class Mine(BoundStatement):  # type: ignore[misc]
        pass

    made = Mine(statement(Int32Type, UTF8Type, key=[0, 1])).bind([1, "ab"])
    assert made.routing_key == b"\0\4\0\0\0\1\0\0\2ab\0"
    assert counted(PACK) == (1, 0)


def test_the_generator_is_lazy() -> None:
    def trace(end: Callable[[], Any]) -> list[Any]:
        seen: list[Any] = []

        def parts() -> Iterator[Any]:
            for part in (b"a", b"b", end):
                seen.append(part)
                yield part() if callable(part) else part

        items = Statement()._key_parts_packed(parts())
        seen.append("made")
        for _ in range(5):
            seen.append(answer(next, items))
        return seen

    def again() -> list[Any]:
        """The native generator reads its parts from a Python generator, which calls `next` on the
        native generator.
        """
        holder: list[Any] = []

        def parts() -> Iterator[Any]:
            yield b"a"
            yield from holder[0]

        holder.append(Statement()._key_parts_packed(parts()))
        return [answer(next, holder[0]) for _ in range(3)]

    def asked() -> list[Any]:
        return [trace(end) for end in (lambda: b"c", lambda: 1 / 0, lambda: 5)] + [again()]

    def shown(every: Any) -> Any:
        # Each call makes new functions, so functions among the parts are not compared.
        return [["end" if callable(item) else item for item in each] for each in every]

    plain = shown(asked())
    with accel.accelerated():
        assert shown(asked()) == plain


def test_parts_are_not_kept(accelerated: None) -> None:
    class Source(list[bytes]):
        pass

    source = Source([b"a", b"b"])
    reference = weakref.ref(source)
    items = Statement()._key_parts_packed(source)
    source.append(items)
    assert next(items) == b"\0\1a\0"
    del items, source
    gc.collect()
    assert reference() is None


def test_closing_ends_the_parts() -> None:
    def asked() -> list[Any]:
        items = Statement()._key_parts_packed(iter([b"a", b"b"]))
        return [next(items), items.close(), list(items), packed(Statement(), [b"a"])]

    plain = asked()
    with accel.accelerated():
        assert asked() == plain
