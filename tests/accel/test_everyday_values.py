"""Values of classes other than the usual ones: as the driver serializes them, but natively."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest
from cassandra.cqltypes import DateType, FloatType, Int32Type, UTF8Type
from tests.accel.answers import Raised, answer
from tests.accel.environments import SAFE
from tests.accel.everyday import TAKEN, listed, types, values, vector
from tests.accel.statements import statement

from turbocql import _core, accel

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
]
TYPES = types()


def told(result: Any) -> Any:
    """Returns a result without the addresses that some messages have."""
    return (result.cls, result.said.split(" at 0x")[0]) if isinstance(result, Raised) else result


@pytest.mark.parametrize("name", TYPES)
def test_bytes_and_errors_are_the_drivers(name: str) -> None:
    cls = TYPES[name]
    pool = [value for value in values() if not hasattr(value, "__next__")]
    for version in (3, 5):
        plain = [told(answer(cls.serialize, value, version)) for value in pool]
        with accel.accelerated():
            native = [told(answer(cls.serialize, value, version)) for value in pool]
        for value, first, second in zip(pool, plain, native, strict=True):
            assert first == second, f"version {version}, {type(value)}: {value!r}"


@pytest.mark.parametrize("name", TYPES)
def test_iterators_are_used_up_as_by_the_driver(name: str) -> None:
    cls = TYPES[name]
    for make in (lambda: iter([1, 2, 3]), lambda: (n for n in range(3)), lambda: map(str, [1, 2])):
        first, second = make(), make()
        plain = told(answer(cls.serialize, first, 4))
        with accel.accelerated():
            native = told(answer(cls.serialize, second, 4))
        assert native == plain
        assert list(second) == list(first)


@pytest.mark.needs(not SAFE)
@pytest.mark.parametrize("name", TAKEN)
def test_is_native(name: str) -> None:
    cls, make = TAKEN[name]
    value = make()
    plain = cls.serialize(value, 4)
    with accel.accelerated():
        _core.accel_forget_refused()
        assert cls.serialize(value, 4) == plain
        bound = statement(cls).bind((value,))
        assert bound.values == [plain]
        assert _core.accel_refused() == []


class Changing:
    """A number whose conversion changes the list that it is in."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def __float__(self) -> float:
        self.change()
        return 1.0


@pytest.mark.parametrize("size", [3, 1000])
def test_a_list_may_change_while_it_is_read(size: int) -> None:
    def made() -> list[Any]:
        numbers: list[Any] = [float(n) for n in range(size)]
        numbers[1] = Changing(numbers.clear)
        return numbers

    for cls in (listed(FloatType), vector(FloatType, size)):
        plain = answer(cls.serialize, made(), 4)
        with accel.accelerated():
            assert isinstance(answer(cls.serialize, made(), 4), type(plain))


class Interrupting:
    def __float__(self) -> float:
        raise KeyboardInterrupt


@pytest.mark.needs(not SAFE)
@pytest.mark.parametrize("cls", [listed(FloatType), vector(FloatType, 2)])
@pytest.mark.usefixtures("accelerated")
def test_an_interrupt_is_raised(cls: Any) -> None:
    # `struct`, and so the plain driver, turns every exception of a number into its own.
    value = [1.0, Interrupting()]
    with pytest.raises(KeyboardInterrupt):
        cls.serialize(value, 4)
    with pytest.raises(KeyboardInterrupt):
        statement(cls).bind((value,))


class Recursive:
    """Serializes another value while it is converted."""

    def __float__(self) -> float:
        nested = listed(FloatType).serialize([np.float32(1)] * 100, 4)
        assert len(nested) == 804
        return 3.0


@pytest.mark.usefixtures("accelerated")
def test_a_conversion_may_serialize_values() -> None:
    expected = listed(FloatType).serialize([1.0, 3.0, 2.0], 4)
    assert listed(FloatType).serialize([1.0, Recursive(), np.float32(2)], 4) == expected


@pytest.mark.usefixtures("accelerated")
def test_references_are_given_back() -> None:
    number = np.float32(1.5)
    held = [number, Recursive(), None]
    cases = [(listed(FloatType), held), (vector(FloatType, 2), held[:2]), (DateType, number)]
    for cls, value in cases:
        for _ in range(10):
            answer(cls.serialize, value, 4)
        gc.collect()
        before = sys.getrefcount(number), sys.getrefcount(value)
        for _ in range(100):
            answer(cls.serialize, value, 4)
        gc.collect()
        assert (sys.getrefcount(number), sys.getrefcount(value)) == before


@pytest.mark.needs(not SAFE)
@pytest.mark.usefixtures("accelerated")
def test_what_is_left_to_the_driver_is_counted_by_class() -> None:
    _core.accel_forget_refused()
    for _ in range(3):
        answer(listed(Int32Type).serialize, [1, "text"], 4)
    answer(listed(UTF8Type).serialize, ["a", 5], 4)
    answer(statement(Int32Type, UTF8Type).bind, (1.5, "a"))
    refused = _core.accel_refused()
    assert refused[0] == ("int", "str", 3)
    assert ("text", "int", 1) in refused
    assert ("int", "float", 1) in refused
    report = accel.status()
    assert report.values_left[0] == ("int", "str", 3)
    assert "3 values of str for int" in str(report)


@pytest.mark.usefixtures("accelerated")
def test_classes_without_end_do_not_fill_the_memory() -> None:
    _core.accel_forget_refused()
    for n in range(200):
        answer(listed(Int32Type).serialize, [type(f"Class{n}", (), {})()], 4)
    assert len(_core.accel_refused()) <= 64
    _core.accel_forget_refused()
    assert _core.accel_refused() == []
