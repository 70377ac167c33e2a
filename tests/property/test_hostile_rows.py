"""Tests rows, encryption policies, column types and messages with hostile methods.

The methods raise, return wrong results, or change the data that is read.
"""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest

from turbocql import UNSET
from turbocql.codec import RowEncoder, decode, encode, routing_key
from turbocql.errors import EncodeError

from .child_with_limits import limited
from .paths import Batch, Query
from .test_hostile import Lying, Raising, RaisingAttributes, RaisingMapping, Trigger, interrupting

COLUMNS = [("id", "int"), ("name", "text"), ("v", "list<int>")]
WHOLE = [("ks", "t", *column) for column in COLUMNS]
ENCODER = RowEncoder(COLUMNS, key_columns=["id"])
OWN = RuntimeError("own")

Ways = dict[str, Callable[[Any], Any]]
WAYS: Ways = {
    "bind": ENCODER.bind,
    "bind_many": lambda row: ENCODER.bind_many([(1,), row]),
    "bind_columns": ENCODER.bind_columns,
}


def own_or_refused(call: Callable[[], Any], own: BaseException = OWN) -> None:
    """Checks that a call raises either `own`, the user's exception, or an error with a message."""
    with pytest.raises((EncodeError, type(own), TypeError, ValueError, OverflowError)) as raised:
        call()
    assert raised.value is own or str(raised.value)
    if not isinstance(raised.value, EncodeError):
        assert raised.value is own or raised.value.__cause__ is None


class Row(Lying):
    """A sequence with a chosen length and parts. `raising` adds a method that raises."""

    def __getitem__(self, i: int) -> Any:
        return list(itertools.islice(self.parts(), 4))[i]


def raising(name: str, base: Any = Row, error: BaseException = OWN) -> Any:
    def fail(*_arguments: object) -> Any:
        raise error

    return type("Raising", (base,), {name: fail})(3, lambda: iter([1, "a", [2]]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [OWN, KeyError("own"), KeyboardInterrupt(), SystemExit(3)])
def test_rows_that_raise(way: str, error: BaseException) -> None:
    rows = [
        *(raising(name, error=error) for name in ("__len__", "__iter__", "__getitem__")),
        Raising(error),
        RaisingMapping(error),
        make_dataclass("Broken", [])() if way != "bind_columns" else RaisingAttributes(error),
        type("Broken", (), {"__dataclass_fields__": {}, "__getattr__": lambda *_: raise_(error)})(),
    ]
    for row in rows:
        if way != "bind_columns" and isinstance(row, Row) and "__getitem__" in vars(type(row)):
            # The encoder iterates over a row. Only `bind_columns` uses indexing.
            assert len(ENCODER.bind(row)) == 3
            continue
        own_or_refused(lambda row=row: WAYS[way](row), error)  # type: ignore[misc]


def raise_(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize("length", [-1, 0, 2, 4, 2**31, 2**62, 2**70])
def test_rows_with_wrong_lengths(length: int) -> None:
    for parts in (lambda: iter([1]), lambda: itertools.repeat(1), lambda: iter([])):
        for call in (ENCODER.bind, lambda row: ENCODER.bind_many([row])):
            with suppress(EncodeError, ValueError, OverflowError):
                assert len(call(Row(length, parts))) in (1, 3)
    own_or_refused(lambda: ENCODER.bind_columns([Lying(1, lambda: itertools.repeat(1))]))
    own_or_refused(lambda: ENCODER.bind_columns([Lying(max(length, 2), lambda: iter([1]))]))


class Endless(dict[str, Any]):
    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat("id")


class Pairs(tuple[Any, ...]):
    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat("q")


class EndlessItems(Endless):
    def items(self) -> Any:
        return itertools.repeat(("a", b""))


def long_list(length: int, *parts: Any) -> list[Any]:
    return type("Long", (list,), {"__len__": lambda _: length})(parts)  # type: ignore[no-any-return]


class Names(Mapping[str, Any]):
    """A mapping that is not a dict, so that the codec must call its methods."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat("id")

    def __getitem__(self, name: object) -> Any:
        if name == "id":
            return self.value
        raise KeyError(name)


UNBOUNDED: dict[str, Callable[[], Any]] = {
    "names": lambda: ENCODER.bind(Names(1)),
    "names of columns": lambda: ENCODER.bind_columns(Names([1])),
    "columns": lambda: RowEncoder(itertools.repeat(("a", "int"))),
    "key columns": lambda: RowEncoder(COLUMNS, key_columns=itertools.repeat("id")),
    "key parts": lambda: routing_key(itertools.repeat(b"a")),
    "pair": lambda: Batch([long_list(2**40, "q", [])]),
    "longer pair": lambda: Batch([long_list(2**62, "q", [])]),
    "endless pair": lambda: Batch([Pairs(["q"])]),
    "values": lambda: Query("q", itertools.repeat(b"")),
    "named values": lambda: Query("q", EndlessItems()),
    "statements": lambda: Batch(itertools.repeat("q")),
    "re-entry": lambda: re_entering(),
}


def re_entering() -> Any:
    deep = "list<" * 60 + "int" + ">" * 60
    encoder = RowEncoder([("a", deep)])
    value: Any = Trigger(lambda: encoder.bind([value]))
    for _ in range(60):
        value = [value]
    return encoder.bind([value])


@pytest.mark.parametrize("case", UNBOUNDED)
def test_endless_and_huge_rows(case: str) -> None:
    kind, message = limited(UNBOUNDED[case], seconds=10)
    assert kind in (EncodeError, ValueError, TypeError, RecursionError, None), (kind, message)
    assert message
    assert kind is not None or case in ("pair", "longer pair", "names", "names of columns")


@pytest.mark.parametrize("change", ["clear", "pop", "reverse", "append"])
def test_rows_that_change_while_they_are_read(change: str) -> None:
    def act() -> None:
        getattr(row, change)(*[None] * (change == "append"))

    row: Any = []
    row += [Trigger(act), "a", [1, 2]]
    with suppress(EncodeError):
        cells = ENCODER.bind(row).cells
        assert len(cells) == 3
        assert cells[0] == b"\0\0\0\1"
    columns: list[list[Any]] = [[], ["a", "b"], [[1], [2]]]
    row = columns[1]
    columns[0] += [Trigger(act), 2]
    with suppress(EncodeError):
        assert len(ENCODER.bind_columns(columns)) == 2
    rows: list[Any] = [(Trigger(act), "a"), (2, "b"), (3, "c")]
    row = rows
    with suppress(TypeError):  # "append" adds None, which is no row.
        assert len(ENCODER.bind_many(rows)) in (1, 2, 3)


def test_mappings_and_records_that_change_while_they_are_read() -> None:
    row: dict[str, Any] = {}
    row |= {"id": Trigger(row.clear), "name": "a", "v": [1]}
    assert ENCODER.bind(row).cells == [b"\0\0\0\1", UNSET, UNSET]

    class Key(str):
        def __eq__(self, other: object) -> bool:
            strange.clear()
            raise OWN

        __hash__ = str.__hash__

    strange: dict[str, Any] = {Key("id"): 1, Key("name"): 2}
    own_or_refused(lambda: ENCODER.bind(strange))

    @dataclass
    class Vanishing:
        id: Any
        name: str = "a"

    record = Vanishing(None)
    record.id = Trigger(lambda: record.__dict__.clear())
    with pytest.raises(EncodeError, match="has no such field"):
        ENCODER.bind(record)


def test_invalid_columns_of_an_encoder() -> None:
    given: list[Any] = [
        [("a",)],
        [("a", "int", 1)],
        [(1, "int")],
        [("a", 5)],
        [("\ud800", "int")],
        [("a", "\ud800")],
        [("a", "int\0")],
        [("a", object())],
        [("a", type("T", (), {"serialize": 5}))],
        [None],
        5,
        [Raising(OWN)],
        [RaisingAttributes(OWN)],
        Lying(1, lambda: raise_(OWN)),
        [("a", type("T", (), {"serialize": property(lambda _: raise_(OWN))})())],
    ]
    for columns in given:
        own_or_refused(lambda columns=columns: RowEncoder(columns))  # type: ignore[misc]
    for keys in (
        ["x"],
        [3],
        [-1],
        [2**70],
        ["id", 0],
        "id",
        5,
        [None],
        Raising(OWN),
        [Raising(OWN)],
    ):
        own_or_refused(lambda keys=keys: RowEncoder(COLUMNS, key_columns=keys))  # type: ignore[misc]
    interrupted = interrupting("keyspace")
    hostile_key: list[Any] = [Raising(KeyboardInterrupt())]
    calls: list[Callable[[], Any]] = [
        lambda: RowEncoder([interrupted()]),
        lambda: RowEncoder(COLUMNS, key_columns=hostile_key),
    ]
    for call in calls:
        with pytest.raises(KeyboardInterrupt):
            call()


class Policy:
    """An encryption policy. `answers` has the result or the exception of each of its methods."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"contains_column": True, "column_type": "int", "encrypt": b"x", **answers}

    def answer(self, what: str) -> Any:
        answer = self.answers[what]
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def contains_column(self, _column: Any) -> Any:
        return self.answer("contains_column")

    def column_type(self, _column: Any) -> Any:
        return self.answer("column_type")

    def encrypt(self, _column: Any, _data: bytes) -> Any:
        return self.answer("encrypt")


@pytest.mark.parametrize(
    "answers",
    [
        *({name: OWN} for name in ("contains_column", "column_type", "encrypt")),
        {"contains_column": Raising(OWN)},
        *({"column_type": what} for what in (None, 5, "", "imt", object(), ENCODER, Raising(OWN))),
        *({"encrypt": what} for what in (None, "x", 5, bytearray(b"x"), [b"x"], Raising(OWN))),
    ],
    ids=lambda answers: "-".join(answers),
)
def test_policies_that_raise_or_return_wrong_results(answers: dict[str, Any]) -> None:
    own_or_refused(lambda: RowEncoder(WHOLE, encryption_policy=Policy(**answers)).bind((1, 2, 3)))
    (name,) = answers
    for passing in (KeyboardInterrupt, SystemExit, MemoryError):
        policy = Policy(**{name: passing()})
        with pytest.raises(passing):
            RowEncoder(WHOLE, encryption_policy=policy).bind((1, 2, 3))


def test_invalid_policies_and_types() -> None:
    for policy in (5, object(), Raising(OWN), RaisingAttributes(OWN)):
        with pytest.raises((TypeError, AttributeError, RuntimeError), match=r"own|policy|contains"):
            RowEncoder(WHOLE, encryption_policy=policy)

    class Type:
        answer: Any = None

        def serialize(self, _value: Any, _version: int) -> Any:
            return raise_(OWN) if self.answer is OWN else self.answer

    encoder: Any = RowEncoder([("a", kind := Type())])
    for kind.answer in (None, "x", 5, bytearray(1), object(), OWN, Raising(OWN)):
        own_or_refused(lambda: encoder.bind([1]))

    class OddBytes(bytes):
        def __len__(self) -> int:
            return 2**40

    kind.answer = OddBytes(b"ab")
    assert encoder.bind([1]).cells == [b"ab"]


def test_policies_and_types_that_call_the_encoder() -> None:
    class Type:
        depth = 0

        def serialize(self, value: Any, _version: int) -> bytes:
            self.depth += 1
            inner = encoder.bind_many([[value], [None]]) if self.depth < 20 else b""
            return bytes(len(inner))

    encoder = RowEncoder([("a", Type())])
    assert encoder.bind([1]).cells == [bytes(2)]
    policy = Policy(encrypt=lambda: bytes(sealed.bind((None,))))
    sealed: RowEncoder = RowEncoder([("ks", "t", "a", "int")], encryption_policy=policy)
    assert sealed.bind((5,)).cells == [b"\xff" * 4]


def test_cycles_through_an_encoder_are_collected() -> None:
    class Type:
        encoder: Any = None

        def serialize(self, _value: Any, _version: int) -> bytes:
            return b""

    policy: Any = Policy()
    policy.encoder = RowEncoder(WHOLE, encryption_policy=policy)
    kind = Type()
    kind.encoder = RowEncoder([("a", kind)])
    rows = policy.encoder.bind_many([(1, 2, 3)]), kind.encoder.bind([1])
    alive = [weakref.ref(policy), weakref.ref(kind)]
    del policy, kind
    gc.collect()
    assert [ref() is not None for ref in alive] == [True, True]
    assert rows[0][0].cells == [b"x"] * 3
    del rows
    gc.collect()
    assert [ref() for ref in alive] == [None, None]


def test_threads_share_an_encoder() -> None:
    shared: list[Any] = [1, "a", [1, 2]]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(300):
                assert ENCODER.bind((number, "a", [i])).cells[0] == number.to_bytes(4, "big")
                shared[:] = [i, "b"] if i % 2 else [i, "a", [Trigger(shared.clear)]]
                with suppress(EncodeError):
                    ENCODER.bind(shared)
                with pytest.raises(EncodeError, match="row 1"):
                    ENCODER.bind_many([(1, "a"), (2, number)])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_list_that_another_thread_changes() -> None:
    parts: list[Any] = [1] * 50
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            del parts[10:]
            parts.extend([None, "a", parts] * 5)
            parts[:] = [1] * 50

    thread = threading.Thread(target=change)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for number in range(3_000):
            value = [Trigger(lambda: None), *parts] if number % 2 else parts
            with suppress(EncodeError):
                decode("list<int>", encode("list<int>", value))
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(switch)


def test_keys_longer_than_65535_bytes() -> None:
    encoder = RowEncoder([("a", "blob"), ("b", "text")], key_columns=["a", "b"])
    long = encoder.bind((bytes(65_536), "b"))
    for call in (
        lambda: long.routing_key,
        lambda: long.token,
        encoder.bind_many([(b"", ""), (b"a", "x" * 70_000)]).tokens,
        lambda: routing_key([b"a", bytes(65_536)]),
    ):
        with pytest.raises(EncodeError, match=r"65,?53[56]|70,?000"):
            call()
    assert encoder.bind((bytes(65_535), "b")).token is not None
