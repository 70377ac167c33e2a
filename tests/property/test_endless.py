"""Checks that endless or huge values and types fail quickly, within time and memory limits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import pytest

from turbocql.codec import CqlType, decode, encode, find_serializer
from turbocql.errors import EncodeError

from .child_with_limits import limited
from .encode_errors import refused
from .test_hostile import COLLECTIONS, CONTAINERS, SCALARS, Lying, Raising, Trigger


def endless_mapping(key: Callable[[], Any]) -> Mapping[Any, Any]:
    """Returns a mapping with the key "a". Its length is 5, but its iteration never ends."""

    class Endless(dict[Any, Any]):
        def __len__(self) -> int:
            return 5

        def __iter__(self) -> Iterator[Any]:
            return iter(key, object())

    return Endless(a=1)


def failing() -> Any:
    raise RuntimeError


class Octets(Sequence[Any]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        return itertools.repeat(1)

    def __getitem__(self, i: Any) -> Any:
        return 1


def address(packed: object) -> IPv4Address:
    return type("Packed", (IPv4Address,), {"packed": packed})("1.2.3.4")  # type: ignore[no-any-return]


def re_entering(cql_type: str, levels: int) -> tuple[str, Any]:
    serializer = find_serializer(cql_type)
    value: Any = Trigger(lambda: serializer.serialize(value))
    for _ in range(levels):
        value = [value]
    return cql_type, value


DEEP = "list<" * 60 + "int" + ">" * 60
HUGE = 2**40
MANY: Any = Lying(HUGE, lambda: itertools.repeat(1))

UNBOUNDED: dict[str, Callable[[], tuple[str, Any]]] = {
    **{f"length {t}": partial(lambda t: (t, MANY), t) for t in COLLECTIONS},
    "range": lambda: ("list<int>", range(HUGE)),
    "set of a range": lambda: ("set<int>", range(HUGE)),
    "broadcast": lambda: ("list<float>", np.broadcast_to(np.float32(1), (HUGE,))),
    "broadcast blob": lambda: ("blob", np.broadcast_to(np.uint8(1), (HUGE,))),
    "broadcast set": lambda: ("set<int>", np.broadcast_to(np.int32(1), (HUGE,))),
    "field names": lambda: ("u{a int}", endless_mapping(lambda: "a")),
    "errors": lambda: ("u{a int}", endless_mapping(failing)),
    "octets": lambda: ("inet", address(Octets(HUGE))),
    "more octets": lambda: ("inet", address(Octets(2**62))),
    "octets without end": lambda: ("inet", address(Octets(4))),
    "re-entry": lambda: re_entering("list<int>", 1),
    "deep re-entry": lambda: re_entering(DEEP, 60),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_endless_and_huge_values(case: str) -> None:
    kind, message = limited(lambda: encode(*UNBOUNDED[case]()), seconds=10)
    expected = (EncodeError, RecursionError, *([MemoryError] if "broadcast" in case else []))
    assert kind in expected, (kind, message)


class Asking(dict[str, Any]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def __missing__(self, name: str) -> CqlType:
        return CqlType(self.text, udts=self)


def growing() -> CqlType:
    wide = CqlType.tuple_of(*["int"] * 60_000)
    return CqlType("tuple<" + ",".join(["t"] * 60_000) + ">", udts={"t": wide})


@pytest.mark.parametrize(
    "make",
    [
        lambda: CqlType("list<t>", udts=Asking("list<t>")),
        lambda: CqlType("list<t>", udts=Asking("frozen<list<" * 25 + "t" + ">>" * 25)),
        growing,
        lambda: CqlType.tuple_of(*[CqlType.tuple_of(*["int"] * 60_000)] * 60_000),
        lambda: CqlType.udt("u", ((f"f{i}", "int") for i in itertools.count())),
    ],
)
def test_endless_and_huge_types(make: Callable[[], CqlType]) -> None:
    kind, message = limited(make)
    assert kind in (ValueError, RecursionError), (kind, message)
    assert message


@pytest.mark.parametrize("mark", ["list<", "tuple<", "map<int,", "frozen<", "u{a ", "vector<"])
def test_types_of_100_000_levels(mark: str) -> None:
    for text in (mark * 100_000, mark * 100_000 + "int" + ">" * 100_000, "list<" + mark * 100_000):
        with pytest.raises(ValueError, match="not a CQL type"):
            CqlType(text)
    for name in ("ListType", "TupleType", "UserType", "VectorType", "ReversedType", "X"):
        with pytest.raises(ValueError, match="not a Java class name"):
            CqlType.from_class_name(f"{name}(" * 100_000)


NESTS: dict[str, Callable[[Any], Any]] = {
    "list": lambda inner: [inner],
    "tuple": lambda inner: (inner,),
    "dict": lambda inner: {1: inner},
    "frozenset": lambda inner: frozenset([inner]),
    "record": lambda inner: {"a": inner},
    "array": lambda inner: np.array([None, inner], object)[1:],
}


@pytest.mark.parametrize("nest", [*NESTS, "mixed"])
def test_values_of_100_000_levels(nest: str) -> None:
    value: Any = 1
    levels = 1_000 if nest in ("array", "frozenset") else 100_000
    kinds = itertools.cycle([NESTS[n] for n in ("list", "tuple", "dict", "record")])
    for _ in range(levels):
        value = (next(kinds) if nest == "mixed" else NESTS[nest])(value)
    for cql_type in (*SCALARS, *CONTAINERS, DEEP, "map<int, frozen<map<int, int>>>"):
        assert len(str(refused(cql_type, value))) < 1000
    del value


def test_values_that_contain_themselves_in_every_way() -> None:
    looped: list[Any] = []
    looped += [looped, looped]
    record: dict[str, Any] = {}
    record["a"] = record
    knot = np.empty(2, object)
    knot[:] = [knot, knot]
    attribute = Raising(RuntimeError())
    attribute.a = attribute  # type: ignore[attr-defined]
    for value in (looped, record, knot, attribute, (looped, record)):
        for cql_type in (*SCALARS, *CONTAINERS, "list<frozen<tuple<int, int>>>", "u{a u{a int}}"):
            refused(cql_type, value)
    knot[:] = None


def test_huge_numbers_and_texts() -> None:
    number = 10**1_000_000
    digits = Decimal("7" * 100_000)
    text = "x" * (1 << 24)
    for cql_type in SCALARS + CONTAINERS:
        if cql_type not in ("varint", "decimal"):
            assert len(str(refused(cql_type, number))) < 200
        if cql_type not in ("text", "ascii"):
            assert len(str(refused(cql_type, text))) < 200
        if cql_type != "decimal":
            assert len(str(refused(cql_type, digits))) < 200
    assert decode("varint", encode("varint", number)) == number
    assert decode("decimal", encode("decimal", digits)) == digits
    assert len(encode("list<text>", [text])) == 8 + len(text)
    for exponent in (2**31 + 1, 10**17, -(10**17)):
        with pytest.raises(EncodeError, match="beyond 32 bits"):
            encode("decimal", Decimal((0, (1,), exponent)))
    assert len(str(refused("int", type("x" * 1_000_000, (), {})()))) < 1000
