"""`cassandra.serializers` against the types' own `serialize`.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.serializers

Run in the environment of either driver. Prints the names of what passed; the first that fails is
an AssertionError.
"""

from __future__ import annotations

import array
import importlib
import math
import struct
import sys
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from cassandra import cqltypes
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
from tests.accel.answers import Raised, answer, run

from turbocql import accel

NAME = "cassandra.serializers"
LARGEST = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
EDGE = math.ldexp(2**25 - 1, 103)
"""Rounds to infinity as a float32; one bit less does not."""


def module() -> Any:
    return importlib.import_module(NAME)


def vector(subtype: Any, dimension: int) -> Any:
    """A type of vectors."""
    return VectorType.apply_parameters([subtype, dimension], None)


def classes_are_as_one_expects() -> None:
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


def scalars_are_the_types_own() -> None:
    serializers = module()
    natively = 0
    for cqltype in (FloatType, DoubleType, Int32Type):
        one = serializers.find_serializer(cqltype)
        for value in NUMBERS:
            ours, own = answer(one.serialize, value, 4), answer(cqltype.serialize, value, 4)
            if isinstance(own, Raised):
                assert isinstance(ours, Raised), (cqltype, value, ours)
                is_kind = own.cls is struct.error and "required argument" in own.said
                assert ours.cls is (TypeError if is_kind else own.cls), (cqltype, value, ours)
                assert ours.said == own.said
            else:
                assert ours == own, (cqltype, value, ours, own)
                natively += 1
    assert natively > 30
    assert answer(serializers.find_serializer(FloatType).serialize, 1e39, 4).cls is OverflowError
    assert answer(serializers.find_serializer(Int32Type).serialize, 2**31, 4).cls is struct.error


def vectors_are_the_types_own() -> None:
    serializers = module()
    cases: list[tuple[Any, Any]] = []
    for subtype, kinds in ((FloatType, "fd"), (DoubleType, "fd"), (Int32Type, "i")):
        for dimension in (1, 3, 128, 1536):
            numbers = [n % 100 - 50 for n in range(dimension)]
            values: list[Any] = [numbers, tuple(numbers), numbers[1:], [*numbers, 1], [], None, 7]
            for kind in kinds:
                values.append(array.array(kind, numbers))
                strided = np.array(numbers * 2, dtype=kind)[::2]
                read_only = np.array(numbers, dtype=kind)
                read_only.setflags(write=False)
                values += [strided, read_only, read_only.astype(f">{kind}"), read_only.data]
            values += [dict.fromkeys(numbers[:1], 0), {1.5}] if dimension == 1 else []
            values += [
                [None] * dimension,
                ["a"] * dimension,
                [2**40] * dimension,
                [1e300] * dimension,
            ]
            cases += [(vector(subtype, dimension), value) for value in values]
    for subtype, value in (
        (UTF8Type, ["a", "bc", "ü"]),
        (LongType, [1, 2, 3]),
        (BooleanType, [True, False, True]),
        (UUIDType, [uuid.UUID(int=n) for n in range(3)]),
        (vector(FloatType, 2), [[1.0, 2.0]] * 3),
        (ListType.apply_parameters([Int32Type]), [[1], [], [2, 3]]),
        (UTF8Type, ["a", "b"]),
        (UTF8Type, [1, 2, 3]),
    ):
        cases.append((vector(subtype, 3), value))
    same = 0
    for cqltype, value in cases:
        one = serializers.find_serializer(cqltype)
        accel.uninstall()
        own = answer(cqltype.serialize, value, 4)
        accel.accelerate()
        ours = answer(one.serialize, value, 4)
        if isinstance(own, Raised):
            is_kind = own.cls is struct.error and "required argument" in own.said
            assert isinstance(ours, Raised), (cqltype, value, ours, own)
            assert ours.cls is (TypeError if is_kind else own.cls), (cqltype, value, ours, own)
        else:
            assert ours == own, (cqltype, value)
            same += 1
    assert same > 60
    wrong = answer(module().find_serializer(vector(FloatType, 3)).serialize, [1.0, 2.0], 4)
    assert wrong.cls is ValueError
    assert "3" in wrong.said
    assert "2" in wrong.said


def values_come_back() -> None:
    for cqltype, value in (
        (FloatType, 1.5),
        (DoubleType, 0.1),
        (Int32Type, -7),
        (UTF8Type, "ü"),
        (vector(FloatType, 3), [0.5, 1.0, -2.0]),
        (vector(DoubleType, 2), [0.1, 1e300]),
        (vector(Int32Type, 2), [1, -1]),
        (ListType.apply_parameters([Int32Type]), [1, 2]),
    ):
        data = module().find_serializer(cqltype).serialize(value, 4)
        assert cqltype.deserialize(data, 4) == value


def what_users_have_put_in_its_place_wins() -> None:
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


def it_goes_away_and_is_counted() -> None:
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


def main() -> None:
    accel.accelerate()
    assert cqltypes is sys.modules["cassandra.cqltypes"]
    checks: list[Callable[[], None]] = [
        classes_are_as_one_expects,
        scalars_are_the_types_own,
        vectors_are_the_types_own,
        values_come_back,
        what_users_have_put_in_its_place_wins,
        it_goes_away_and_is_counted,
    ]
    run(checks)


if __name__ == "__main__":
    main()
