"""Tests messages with parts of wrong types, whose methods may raise or return wrong results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from turbocql.codec import CqlType

from .paths import Batch, Execute, Query
from .test_hostile import Raising, RaisingAttributes, RaisingMapping
from .test_hostile_rows import ENCODER, OWN, Names, Row, own_or_refused, raising

MESSAGES: dict[str, Callable[[Any], Any]] = {
    "query": lambda given: Query(given),
    "values": lambda given: Query("q", given),
    "value": lambda given: Query("q", [b"", given]),
    "named": lambda given: Query("q", {"a": given}),
    "name": lambda given: Query("q", {given: b""}),
    "id": lambda given: Execute(given),
    "metadata": lambda given: Execute(b"", result_metadata_id=given),
    "statements": lambda given: Batch(given),
    "statement": lambda given: Batch(["q", given]),
    "statement's values": lambda given: Batch([("q", given)]),
    "pair": lambda given: Batch([(given, [])]),
    "kind": lambda given: Batch(["q"], kind=given),
    "version": lambda given: Query("q").encode(given),
    **{
        name: lambda given, name=name: Query("q", **{name: given})  # type: ignore[misc]
        for name in (
            *("consistency", "serial_consistency", "page_size", "paging_state", "timestamp"),
            *("keyspace", "now_in_seconds"),
        )
    },
}


def hashable(given: object) -> bool:
    try:
        hash(given)
    except (TypeError, RuntimeError):
        return False
    return True


@pytest.mark.parametrize("part", MESSAGES)
def test_parts_of_messages_that_raise_or_are_anything(part: str) -> None:
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    looped: list[Any] = []
    looped.append(looped)
    hostile: list[Any] = [
        *(Raising(OWN), RaisingMapping(OWN), RaisingAttributes(OWN), raising("__iter__")),
        *(nested, looped, 10**100_000, -(2**63) - 1, float("nan"), object(), type, memoryview),
        *(Names(1), Row(2**62, lambda: itertools.repeat(5)), "\ud800", CqlType("int"), ENCODER),
    ]
    for given in hostile:
        if part == "name" and not hashable(given):
            continue
        own_or_refused(lambda given=given: MESSAGES[part](given))  # type: ignore[misc]


def test_values_by_name_that_change_while_they_are_read() -> None:
    class Items(Mapping[str, Any]):
        def __init__(self, items: Any) -> None:
            self.given = items

        def items(self) -> Any:
            return self.given

        def __len__(self) -> int:
            return 2**40

        def __iter__(self) -> Iterator[str]:
            raise OWN

        def __getitem__(self, key: str) -> Any:
            raise OWN

    pairs: list[Any] = [("a", b"a"), ("b", b"b")]
    assert Query("q", Items(iter(pairs))).values == {"a": b"a", "b": b"b"}
    for items in (5, [5], [("a",)], [("a", b"", 1)], [["a", b""]], Raising(OWN), "ab", None):
        own_or_refused(lambda items=items: Query("q", Items(items)))  # type: ignore[misc]
