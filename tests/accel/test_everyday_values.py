"""Values of unusual classes are encoded to the driver's bytes, or raise the driver's errors. Many
of these values are encoded natively.
"""

from __future__ import annotations

import datetime
import gc
import io
import sys
import uuid
from typing import Any

import numpy as np
import pytest
from cassandra.cqltypes import (
    BytesType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    InetAddressType,
    Int32Type,
    IntegerType,
    TupleType,
    UTF8Type,
    UUIDType,
)
from tests.accel.answers import Raised, answer
from tests.accel.environments import SAFE
from tests.accel.everyday import (
    TAKEN,
    UDT,
    Amount,
    Floating,
    Key,
    listed,
    mapped,
    types,
    values,
    vector,
)
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
    """Returns a result. If the result is an error, first removes the memory address from its
    message.
    """
    return (result.cls, result.said.split(" at 0x")[0]) if isinstance(result, Raised) else result


@pytest.mark.parametrize("name", TYPES)
def test_bytes_and_errors_equal_those_of_the_driver(name: str) -> None:
    cls = TYPES[name]
    pool = [value for value in values() if not hasattr(value, "__next__")]
    for version in (3, 5):
        plain = [told(answer(cls.serialize, value, version)) for value in pool]
        with accel.accelerated():
            native = [told(answer(cls.serialize, value, version)) for value in pool]
        for value, first, second in zip(pool, plain, native, strict=True):
            assert first == second, f"version {version}, {type(value)}: {value!r}"


@pytest.mark.parametrize("name", TYPES)
def test_iterators_are_consumed_as_by_the_driver(name: str) -> None:
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
def test_values_are_serialized_natively(name: str) -> None:
    cls, make = TAKEN[name]
    value = make()
    plain = cls.serialize(value, 4)
    with accel.accelerated():
        _core.accel_forget_refused()
        assert cls.serialize(value, 4) == plain
        bound = statement(cls).bind((value,))
        assert bound.values == [plain]
        assert _core.accel_refused() == []


class Drain:
    """An iterable with a length. It yields each part only once, so a second iteration yields
    nothing.
    """

    def __init__(self, parts: Any) -> None:
        self.parts = list(parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Any:
        while self.parts:
            yield self.parts.pop(0)


class Entries(Drain):
    """A mapping whose `items()` yields each entry only once."""

    def items(self) -> Any:
        return iter(self)


class Flaky:
    """Raises OSError in every odd iteration: the first, the third and so on."""

    def __init__(self) -> None:
        self.calls = 0

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        self.calls += 1
        if self.calls % 2:
            raise OSError("transient")
        return iter(["1.1.1.1"])


class Counting:
    """Records the calls of `__float__` and `__index__`. Each call also calls `change`."""

    def __init__(self, change: Any = int) -> None:
        self.calls: list[str] = []
        self.change = change

    def __float__(self) -> float:
        self.calls.append("float")
        self.change()
        return 1.0

    def __index__(self) -> int:
        self.calls.append("index")
        self.change()
        return 1


ONCE: dict[str, tuple[Any, Any]] = {
    "flat of an array": (listed(IntegerType), lambda: np.arange(3).flat),
    "flat beside a refused value": (
        TupleType.apply_parameters([listed(DoubleType), InetAddressType]),
        lambda: (np.arange(2.0).flat, "127.1"),
    ),
    "a queue": (listed(InetAddressType), lambda: Drain(["1.1.1.1", "127.1"])),
    "a queue as a vector": (vector(InetAddressType, 2), lambda: Drain(["1.1.1.1", "127.1"])),
    "a queue as a tuple": (
        TupleType.apply_parameters([InetAddressType, InetAddressType]),
        lambda: Drain(["1.1.1.1", "127.1"]),
    ),
    "entries": (mapped(UTF8Type, InetAddressType), lambda: Entries([("a", "127.1")])),
    "a flaky object": (listed(InetAddressType), Flaky),
    "a file as a blob": (listed(BytesType), lambda: [io.BytesIO(b"photo")]),
    "a generator as a blob": (listed(BytesType), lambda: [(n for n in (1, 2, 300))]),
    "a map as a blob": (listed(BytesType), lambda: [map(int, ["1", "x"])]),
    "a generator beside a refused value": (
        TupleType.apply_parameters([BytesType, InetAddressType]),
        lambda: ((n for n in (1, 2, 3)), "127.1"),
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_iterables_are_read_only_once(name: str) -> None:
    cls, make = ONCE[name]
    plain = told(answer(cls.serialize, make(), 4))
    plain_cells = told(answer(lambda: statement(cls).bind((make(),)).values))
    with accel.accelerated():
        assert told(answer(cls.serialize, make(), 4)) == plain
        assert told(answer(lambda: statement(cls).bind((make(),)).values)) == plain_cells


@pytest.mark.parametrize("value", [io.BytesIO, lambda: (n for n in (1, 2, 300)), lambda: 5])
def test_a_blob_that_is_no_buffer_is_bound_as_by_the_driver(value: Any) -> None:
    make = value if value is not io.BytesIO else lambda: io.BytesIO(b"photo")
    plain = told(answer(lambda: statement(BytesType).bind([make()]).values))
    with accel.accelerated():
        assert told(answer(lambda: statement(BytesType).bind([make()]).values)) == plain


@pytest.mark.parametrize("cls", [listed(FloatType), listed(Int32Type), vector(FloatType, 3)])
def test_conversions_of_a_program_are_called_once(cls: Any) -> None:
    def asked() -> Any:
        counting = Counting()
        result = told(answer(cls.serialize, [1, counting, "wrong"], 4))
        return result, counting.calls

    plain = asked()
    with accel.accelerated():
        assert asked() == plain


@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize("kind", [FloatType, Int32Type])
@pytest.mark.parametrize("way", ["clear", "pop", "reverse"])
def test_a_list_may_change_while_it_is_read(kind: Any, way: str, size: int) -> None:
    def made() -> list[Any]:
        numbers: list[Any] = list(range(size))
        numbers[1] = Counting(getattr(numbers, way))
        return numbers

    for cls in (listed(kind), vector(kind, size)):
        plain = told(answer(cls.serialize, made(), 4))
        with accel.accelerated():
            assert told(answer(cls.serialize, made(), 4)) == plain


class Interrupting(datetime.tzinfo):
    """A time zone whose methods raise KeyboardInterrupt."""

    def utcoffset(self, when: Any) -> Any:
        raise KeyboardInterrupt

    dst = tzname = utcoffset


@pytest.mark.parametrize("cls", [listed(DateType), vector(DateType, 1)])
@pytest.mark.usefixtures("accelerated")
def test_an_interrupt_is_raised(cls: Any) -> None:
    value = [datetime.datetime(2026, 1, 1, tzinfo=Interrupting())]
    with pytest.raises(KeyboardInterrupt):
        cls.serialize(value, 4)
    with pytest.raises(KeyboardInterrupt):
        statement(cls).bind((value,))


class Recursive:
    """A record whose property serializes another value."""

    @property
    def a(self) -> float:
        assert len(listed(FloatType).serialize([np.float32(1)] * 100, 4)) == 804
        return 3.0

    b = "x"


@pytest.mark.usefixtures("accelerated")
def test_a_property_may_serialize_values() -> None:
    pairs = listed(UDT)
    expected = pairs.serialize([(3.0, "x"), (1.0, "y")], 4)
    assert pairs.serialize([Recursive(), (np.float32(1), "y")], 4) == expected


class Dressed(str):
    """A subclass of `str` whose instances can have attributes."""


class Hiding(str):
    def __getattribute__(self, name: str) -> Any:
        return (lambda *_: b"zz") if name == "encode" else super().__getattribute__(name)


def test_attributes_of_an_instance_win_as_in_the_driver() -> None:
    dressed = Dressed("text")
    dressed.encode = lambda *_: b"zz"  # type: ignore[method-assign]
    odd = uuid.UUID(int=5)
    key = Key(int=6)
    object.__setattr__(key, "int", np.int64(5))
    # `bytes` is a property of the class. So attribute lookup ignores this entry of the instance's
    # dict.
    hidden = Key(int=7)
    hidden.__dict__["bytes"] = bytes(16)
    amount = Amount("1.5")
    amount.as_tuple = lambda: (0, (7,), 0)  # type: ignore[method-assign,assignment,return-value]
    cases = [
        (listed(UTF8Type), [dressed, Hiding("text")]),
        (listed(UUIDType), [odd, key]),
        (listed(UUIDType), [hidden]),
        (listed(DecimalType), [amount]),
    ]
    plain = [told(answer(cls.serialize, value, 4)) for cls, value in cases]
    with accel.accelerated():
        assert [told(answer(cls.serialize, value, 4)) for cls, value in cases] == plain


@pytest.mark.usefixtures("accelerated")
def test_a_class_without_a_module_is_counted() -> None:
    odd = type("Odd", (), {"__module__": None})
    answer(listed(Int32Type).serialize, [odd()], 4)
    assert "Odd" in str(accel.status()) or SAFE


@pytest.mark.usefixtures("accelerated")
def test_references_are_released() -> None:
    number = np.float32(1.5)
    held = [number, Floating(), None]
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
def test_values_that_fall_back_are_counted_by_class() -> None:
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
def test_the_number_of_counted_classes_is_bounded() -> None:
    _core.accel_forget_refused()
    for n in range(200):
        answer(listed(Int32Type).serialize, [type(f"Class{n}", (), {})()], 4)
    assert len(_core.accel_refused()) <= 64
    _core.accel_forget_refused()
    assert _core.accel_refused() == []
