"""Compares the serializers in `cassandra.serializers` with the methods `serialize` of the driver's
types.

The module `cassandra.serializers` exists only while the driver is accelerated.
"""

from __future__ import annotations

import array
import importlib
import math
import struct
import sys
import uuid
from typing import Any

import numpy as np
import pytest
from cassandra.cqltypes import (
    BooleanType,
    DoubleType,
    FloatType,
    Int32Type,
    ListType,
    LongType,
    UTF8Type,
    UUIDType,
    VectorType,
)
from tests.accel.answers import Raised, answer

from turbocql import accel

NAME = "cassandra.serializers"
LARGEST = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
EDGE = math.ldexp(2**25 - 1, 103)
"""The least number that rounds to infinity as a float32."""


pytestmark = pytest.mark.usefixtures("accelerated")


def module() -> Any:
    return importlib.import_module(NAME)


def vector(subtype: Any, dimension: int) -> Any:
    """Returns a vector type."""
    return VectorType.apply_parameters([subtype, dimension], None)


def test_the_class_of_each_serializer() -> None:
    serializers = module()
    expected = {
        FloatType: "SerFloatType",
        DoubleType: "SerDoubleType",
        Int32Type: "SerInt32Type",
        vector(FloatType, 3): "SerVectorType",
        vector(UTF8Type, 3): "SerVectorType",
        UTF8Type: "GenericSerializer",
        LongType: "GenericSerializer",
        ListType.apply_parameters([FloatType]): "GenericSerializer",
    }
    found = serializers.make_serializers(list(expected))
    for one, (cqltype, name) in zip(found, expected.items(), strict=True):
        assert type(one) is getattr(serializers, name), (cqltype, one)
        assert isinstance(one, serializers.Serializer)
        assert one.cqltype is cqltype
        assert isinstance(serializers.find_serializer(cqltype), type(one))
    assert serializers.make_serializers([]) == []
    assert answer(serializers.Serializer(FloatType).serialize, 1.0, 4).cls is NotImplementedError


NUMBERS: list[Any] = [
    *(0, 1, -1, True, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63, 10**400),
    *(0.0, -0.0, 1.5, 0.1, math.pi, math.inf, -math.inf, math.nan, 1e300, 5e-324),
    *(LARGEST, -LARGEST, math.nextafter(EDGE, 0), EDGE, -EDGE),
    *(np.float32(1.5), np.float64(0.1), np.int32(7), np.int64(-7), np.int64(2**40), np.bool_(True)),
    *(None, "1", b"1", [], 1j, object()),
]


def expected_error(own: Raised) -> type[BaseException]:
    """Returns the class of the error that a serializer must raise if the driver's type raises
    `own`.
    """
    is_kind = own.cls is struct.error and "required argument" in own.said
    return TypeError if is_kind else own.cls


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("cqltype", [FloatType, DoubleType, Int32Type])
def test_scalars_equal_those_of_the_type(cqltype: Any, value: Any) -> None:
    serializer = module().find_serializer(cqltype)
    ours, own = answer(serializer.serialize, value, 4), answer(cqltype.serialize, value, 4)
    if isinstance(own, Raised):
        assert isinstance(ours, Raised), ours
        assert ours.cls is expected_error(own), ours
        assert ours.said == own.said
    else:
        assert ours == own


def test_many_scalars_are_serialized() -> None:
    serializers = [
        module().find_serializer(cqltype) for cqltype in (FloatType, DoubleType, Int32Type)
    ]
    answers = [
        answer(serializer.serialize, value, 4) for serializer in serializers for value in NUMBERS
    ]
    assert sum(not isinstance(result, Raised) for result in answers) > 30


def test_scalars_out_of_range() -> None:
    find = module().find_serializer
    assert answer(find(FloatType).serialize, 1e39, 4).cls is OverflowError
    assert answer(find(Int32Type).serialize, 2**31, 4).cls is struct.error


def vectors_of_numbers(subtype: Any, kinds: str, dimension: int) -> list[Any]:
    """Returns valid and wrong values for a vector. They are lists, tuples, arrays, views and other
    objects.
    """
    numbers = [n % 100 - 50 for n in range(dimension)]
    values: list[Any] = [numbers, tuple(numbers), numbers[1:], [*numbers, 1], [], None, 7]
    for kind in kinds:
        values.append(array.array(kind, numbers))
        strided = np.array(numbers * 2, dtype=kind)[::2]
        read_only = np.array(numbers, dtype=kind)
        read_only.setflags(write=False)
        values += [strided, read_only, read_only.astype(f">{kind}"), read_only.data]
    values += [dict.fromkeys(numbers[:1], 0), {1.5}] if dimension == 1 else []
    values += [[odd] * dimension for odd in (None, "a", 2**40, 1e300)]
    return values


OTHERS: list[tuple[Any, Any]] = [
    (UTF8Type, ["a", "bc", "ü"]),
    (LongType, [1, 2, 3]),
    (BooleanType, [True, False, True]),
    (UUIDType, [uuid.UUID(int=n) for n in range(3)]),
    (vector(FloatType, 2), [[1.0, 2.0]] * 3),
    (ListType.apply_parameters([Int32Type]), [[1], [], [2, 3]]),
    (UTF8Type, ["a", "b"]),
    (UTF8Type, [1, 2, 3]),
]


def compared(cqltype: Any, values: list[Any]) -> int:
    """Asserts that the serializer of a type has the same results and errors as the plain driver.

    Returns how many of the values could be serialized.
    """
    serializer = module().find_serializer(cqltype)
    ours = [answer(serializer.serialize, value, 4) for value in values]
    accel.uninstall()
    own = [answer(cqltype.serialize, value, 4) for value in values]
    accel.accelerate()
    for value, mine, theirs in zip(values, ours, own, strict=True):
        if isinstance(theirs, Raised):
            assert isinstance(mine, Raised), (value, mine, theirs)
            assert mine.cls is expected_error(theirs), (value, mine, theirs)
        else:
            assert mine == theirs, value
    return sum(not isinstance(result, Raised) for result in own)


@pytest.mark.parametrize("dimension", [1, 3, 128, 1536])
@pytest.mark.parametrize(
    ("subtype", "kinds", "least"),
    [(FloatType, "fd", 10), (DoubleType, "fd", 10), (Int32Type, "i", 5)],
)
def test_vectors_are_the_types_own(subtype: Any, kinds: str, least: int, dimension: int) -> None:
    values = vectors_of_numbers(subtype, kinds, dimension)
    assert compared(vector(subtype, dimension), values) >= least


@pytest.mark.parametrize(("subtype", "value"), OTHERS, ids=repr)
def test_vectors_of_other_types_equal_those_of_the_type(subtype: Any, value: Any) -> None:
    compared(vector(subtype, 3), [value])


def test_vectors_of_another_dimension() -> None:
    wrong = answer(module().find_serializer(vector(FloatType, 3)).serialize, [1.0, 2.0], 4)
    assert wrong.cls is ValueError
    assert "3" in wrong.said
    assert "2" in wrong.said


@pytest.mark.parametrize(
    ("cqltype", "value"),
    [
        (FloatType, 1.5),
        (DoubleType, 0.1),
        (Int32Type, -7),
        (UTF8Type, "ü"),
        (vector(FloatType, 3), [0.5, 1.0, -2.0]),
        (vector(DoubleType, 2), [0.1, 1e300]),
        (vector(Int32Type, 2), [1, -1]),
        (ListType.apply_parameters([Int32Type]), [1, 2]),
    ],
    ids=repr,
)
def test_values_are_decoded_to_equal_values(cqltype: Any, value: Any) -> None:
    data = module().find_serializer(cqltype).serialize(value, 4)
    assert cqltype.deserialize(data, 4) == value


def test_replaced_serialize_functions_win() -> None:
    class Doubled(FloatType):  # type: ignore[misc]
        @staticmethod
        def serialize(value: float, protocol_version: int) -> bytes:
            return bytes(FloatType.serialize(value * 2, protocol_version))

    find = module().find_serializer
    assert type(find(Doubled)).__name__ == "GenericSerializer"
    assert find(Doubled).serialize(1.0, 4) == struct.pack(">f", 2.0)
    doubled = find(vector(Doubled, 2))
    assert doubled.serialize([1.0, 2.0], 4) == struct.pack(">ff", 2.0, 4.0)
    own = vars(FloatType)["serialize"]
    FloatType.serialize = staticmethod(lambda value, version: b"mine")
    try:
        assert find(FloatType).serialize(1.0, 4) == b"mine"
        assert find(vector(FloatType, 1)).serialize([1.0], 4) == b"mine"
        accel.uninstall()
        accel.accelerate()
        assert NAME not in sys.modules
        told = {seam.name: seam.why for seam in accel.status().seams}
        assert "replaced" in told[NAME], told[NAME]
    finally:
        FloatType.serialize = own
        accel.uninstall()
        accel.accelerate()
    assert NAME in sys.modules


def test_the_module_is_counted_and_removed_by_uninstall() -> None:
    accel.uninstall()
    assert isinstance(answer(importlib.import_module, NAME), Raised)
    assert not hasattr(importlib.import_module("cassandra"), "serializers")
    accel.accelerate()
    find = module().find_serializer
    find(FloatType).serialize(1.0, 4)
    find(UTF8Type).serialize("a", 4)
    told = {seam.name: seam for seam in accel.status().seams}[NAME]
    assert (told.native, told.fallback, told.part) == (1, 1, "serializers")
    accel.accelerate(without=["serializers"])
    assert NAME not in sys.modules
    accel.accelerate()
