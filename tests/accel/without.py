"""Parts of the accelerator that are left out.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.without

Run in the environment of either driver. Prints the names of what passed; the first that fails is
an AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cassandra import connection, cqltypes
from cassandra.cqltypes import Int32Type, ListType, UTF8Type
from tests.accel.answers import answer, run
from tests.accel.overrides import statement

from turbocql import accel
from turbocql.accel._variable import parts_of

PARTS = {
    *("types", "bind", "routing_key", "bodies", "rows", "named_rows", "segments", "timers"),
    *("simple_statements", "cqlengine", "serializers"),
}


def work() -> list[Any]:
    """Some calls of the driver, and what they gave."""
    numbers = ListType.apply_parameters([Int32Type])
    bound = statement(numbers, UTF8Type).bind(([1, 2], "a"))
    timer = connection.Timer(0, print)
    timer.cancel()
    data = numbers.serialize([1, None, 3], 4)
    return [bound.values, data, numbers.deserialize(data, 4), timer.canceled]


def each_part_alone() -> None:
    accel.uninstall()
    own = work()
    for part in sorted(PARTS):
        accel.accelerate(without=[part])
        status = accel.status()
        assert {seam.part for seam in status.seams if seam.part} == PARTS
        left = {seam.name for seam in status.seams if "left out" in seam.why}
        of_part = {seam.name for seam in status.seams if seam.part == part}
        assert left == of_part, (part, left)
        assert left
        assert work() == own, part
        counts = {seam.name: seam for seam in accel.status().seams}
        assert not any(counts[name].native or counts[name].fallback for name in left)
        assert f"left out: without='{part}'" in str(accel.status())


def all_parts_and_none() -> None:
    accel.accelerate(without=PARTS)
    assert isinstance(cqltypes.VectorType, type)
    assert not any(seam.patched for seam in accel.status().seams if seam.part)
    accel.accelerate()
    assert any(seam.patched for seam in accel.status().seams)
    accel.accelerate()
    work()
    native = accel.status().native
    assert native
    # The same again changes nothing; another begins to count again.
    accel.accelerate()
    assert accel.status().native == native
    accel.accelerate(without=["timers"])
    assert accel.status().native == 0
    accel.accelerate()


def what_is_no_part() -> None:
    for given, cls, said in (
        (["nosuch"], ValueError, "there is no part 'nosuch'; the parts are bind, bodies,"),
        ("types", TypeError, "must be a list of names"),
        (7, TypeError, "not iterable"),
        ([7], ValueError, "there is no part 7"),
        ([[]], TypeError, "unhashable"),
    ):
        raised = answer(lambda given=given: accel.accelerate(without=given))
        assert raised.cls is cls, raised
        assert said in raised.said, raised
    assert accel.status().on
    assert not any("left out" in seam.why for seam in accel.status().seams)


def the_variable() -> None:
    for value, parts in (
        ("1", []),
        ("ON", []),
        ("", None),
        ("0", None),
        ("without=timers", ["timers"]),
        ("without= timers , segments,", ["timers", "segments"]),
        ("without=", []),
    ):
        assert parts_of(value) == parts, value
    assert answer(parts_of, "maybe").cls is ValueError
    assert answer(parts_of, "with=timers").cls is ValueError


def main() -> None:
    accel.accelerate()
    checks: list[Callable[[], None]] = [
        each_part_alone,
        all_parts_and_none,
        what_is_no_part,
        the_variable,
    ]
    run(checks)


if __name__ == "__main__":
    main()
