"""Tests the accelerator with some parts left out. Each part replaces a group of the driver's
functions.
"""

from __future__ import annotations

from typing import Any

import pytest
from cassandra import connection, cqltypes
from cassandra.cqltypes import Int32Type, ListType, UTF8Type
from tests.accel.answers import answer
from tests.accel.statements import seams, statement

from turbocql import accel
from turbocql.accel._variable import parts_of

PARTS = {
    *("types", "bind", "routing_key", "bodies", "rows", "named_rows", "segments", "timers"),
    *("simple_statements", "cqlengine", "serializers", "marshal", "query_plans"),
    *("responses", "frames", "concurrent", "sending"),
}


def work() -> list[Any]:
    """Makes some calls of the driver and returns their results."""
    numbers = ListType.apply_parameters([Int32Type])
    bound = statement(numbers, UTF8Type).bind(([1, 2], "a"))
    timer = connection.Timer(0, print)
    timer.cancel()
    data = numbers.serialize([1, None, 3], 4)
    return [bound.values, data, numbers.deserialize(data, 4), timer.canceled]


@pytest.mark.parametrize("part", sorted(PARTS))
def test_each_part_alone(part: str) -> None:
    plain = work()
    accel.accelerate(without=[part])
    status = accel.status()
    assert {seam.part for seam in status.seams if seam.part} == PARTS
    omitted = {seam.name for seam in status.seams if "left out" in seam.why}
    assert omitted == {seam.name for seam in status.seams if seam.part == part}
    assert omitted
    assert work() == plain
    counts = seams()
    assert not any(counts[name].native or counts[name].fallback for name in omitted)
    assert f"left out: without='{part}'" in str(accel.status())


def test_all_parts_and_none() -> None:
    accel.accelerate(without=PARTS)
    assert isinstance(cqltypes.VectorType, type)
    assert not any(seam.patched for seam in accel.status().seams if seam.part)
    accel.accelerate()
    assert any(seam.patched for seam in accel.status().seams)
    accel.accelerate()
    work()
    native = accel.status().native
    assert native
    # A second call with the same parts changes nothing. A call with other parts resets the counts.
    accel.accelerate()
    assert accel.status().native == native
    accel.accelerate(without=["timers"])
    assert accel.status().native == 0
    accel.accelerate()


@pytest.mark.parametrize(
    ("given", "cls", "message"),
    [
        (["nosuch"], ValueError, "there is no part 'nosuch'; the parts are bind, bodies,"),
        ("types", TypeError, "must be a list of names"),
        (7, TypeError, "not iterable"),
        ([7], ValueError, "there is no part 7"),
        ([[]], TypeError, "unhashable"),
    ],
    ids=repr,
)
def test_what_is_no_part(given: Any, cls: type[Exception], message: str, accelerated: None) -> None:
    raised = answer(lambda: accel.accelerate(without=given))
    assert raised.cls is cls, raised
    assert message in raised.said, raised
    assert accel.status().on
    assert not any("left out" in seam.why for seam in accel.status().seams)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("1", []),
        ("ON", []),
        ("", None),
        ("0", None),
        ("without=timers", ["timers"]),
        ("without= timers , segments,", ["timers", "segments"]),
        ("without=", []),
    ],
)
def test_the_variable(value: str, parts: list[str] | None) -> None:
    assert parts_of(value) == parts


@pytest.mark.parametrize("value", ["maybe", "with=timers"])
def test_a_variable_of_no_meaning(value: str) -> None:
    assert answer(parts_of, value).cls is ValueError
