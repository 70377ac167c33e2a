"""Passes the driver's type classes to `turbocql.codec` without parameters."""

from __future__ import annotations

from typing import Any

import pytest
from cassandra import cqltypes
from cassandra.cqltypes import ListType
from tests.accel.answers import answer

from turbocql import codec

OPAQUE = ("ColumnToCollectionType", "DynamicCompositeType", "_UnrecognizedType")
NEED_PARAMETERS = (
    *("ListType", "SetType", "MapType", "TupleType", "UserType", "VectorType"),
    *("CompositeType", "FrozenType", "ReversedType"),
)


CLASSES = {name: cls for name, cls in vars(cqltypes).items() if isinstance(cls, type)}


def test_the_driver_has_the_classes_that_need_parameters() -> None:
    assert set(NEED_PARAMETERS) < set(CLASSES)
    assert len(CLASSES) > 40
    for name in NEED_PARAMETERS:
        assert not isinstance(answer(codec.find_deserializer, CLASSES[name]), codec.Deserializer)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_without_parameters(name: str) -> None:
    cls = CLASSES[name]
    both = answer(codec.find_serializer, cls), answer(codec.find_deserializer, cls)
    if isinstance(both[0], codec.Serializer):
        assert name not in NEED_PARAMETERS
        assert isinstance(both[1], codec.Deserializer)
        if name in OPAQUE:
            assert both[0].serialize(b"\x01\x02") == b"\x01\x02"
            assert both[1].deserialize(b"\x01\x02") == b"\x01\x02"
        return
    if name == "VectorType":
        # The module `cassandra.serializers`, which is only proposed to the drivers, also has a
        # class of this name. For this class, it returns a serializer and does not raise.
        assert isinstance(both[0], codec.GenericSerializer)
        assert both[0].cqltype is cls
        both = both[1], both[1]
    for raised in both:
        assert raised.cls in (TypeError, ValueError), raised
        assert cls.__name__ in raised.said, raised
    if name in NEED_PARAMETERS:
        is_known(name, cls)


@pytest.mark.parametrize("name", NEED_PARAMETERS)
def test_a_class_without_parameters_within_and_below_others(name: str) -> None:
    """For a list of a class that lacks its parameters, and for a subclass of it, turbocql raises
    TypeError.
    """
    within = ListType.apply_parameters([CLASSES[name]])
    below = type("Mine", (CLASSES[name],), {})
    for cls, named in ((within, name), (below, "Mine")):
        raised = answer(codec.find_deserializer, cls)
        assert raised.cls is TypeError, raised
        assert named in raised.said, raised
        assert "has no parameters" in raised.said, raised


@pytest.mark.parametrize("cls", [int, type, Exception, cqltypes.CassandraTypeType])
def test_a_class_that_is_no_type(cls: type) -> None:
    raised = answer(codec.find_serializer, cls)
    assert "a CQL type is CQL text" in raised.said, raised


def is_known(name: str, cls: Any) -> None:
    """Asserts that the error for `cls` names the class and suggests a type that works."""
    try:
        codec.find_deserializer(cls)
    except TypeError as error:
        said = str(error)
    assert repr(cls) in said
    assert "has no parameters" in said
    instead = said.partition("give for example ")[2]
    assert instead.startswith(name + ".")
    given = eval(instead, vars(cqltypes))  # the text comes from turbocql's error
    assert issubclass(given, cls)
    serializer, deserializer = codec.find_serializer(given), codec.find_deserializer(given)
    values: dict[str, Any] = {
        "ListType": [1],
        "SetType": {1},
        "MapType": {"a": 1},
        "TupleType": (1, "a"),
        "UserType": {"field": 1},
        "VectorType": [0.5, 1.0, 2.0],
        "CompositeType": (1, "a"),
        "FrozenType": [1],
        "ReversedType": 1,
    }
    data = serializer.serialize(values[name])
    assert serializer.serialize(deserializer.deserialize(data)) == data
