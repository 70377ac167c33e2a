"""The driver's classes of types, given to the codec as they are.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.classes

Run in the environment of either driver. Prints the names of what passed; the first that fails is
an AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cassandra import cqltypes
from cassandra.cqltypes import ListType
from tests.accel.answers import answer, run

from turbocql import codec

OPAQUE = ("ColumnToCollectionType", "DynamicCompositeType", "_UnrecognizedType")
NEED_PARAMETERS = (
    *("ListType", "SetType", "MapType", "TupleType", "UserType", "VectorType"),
    *("CompositeType", "FrozenType", "ReversedType"),
)


def classes_without_parameters() -> None:
    classes = {name: cls for name, cls in vars(cqltypes).items() if isinstance(cls, type)}
    assert set(NEED_PARAMETERS) < set(classes)
    assert len(classes) > 40
    unsaid = set(NEED_PARAMETERS)
    for name, cls in classes.items():
        both = answer(codec.find_serializer, cls), answer(codec.find_deserializer, cls)
        if isinstance(both[0], codec.Serializer):
            assert name not in NEED_PARAMETERS
            assert isinstance(both[1], codec.Deserializer)
            if name in OPAQUE:
                assert both[0].serialize(b"\x01\x02") == b"\x01\x02"
                assert both[1].deserialize(b"\x01\x02") == b"\x01\x02"
            continue
        if name == "VectorType":
            # As in the module that the proposals to the drivers add.
            assert isinstance(both[0], codec.GenericSerializer)
            assert both[0].cqltype is cls
            both = both[1], both[1]
        for raised in both:
            assert raised.cls in (TypeError, ValueError), (name, raised)
            assert cls.__name__ in raised.said, (name, raised)
        if name in NEED_PARAMETERS:
            unsaid.discard(name)
            is_known(name, cls)
    assert not unsaid
    # Within another, and below a class of the program's own.
    for name in NEED_PARAMETERS:
        within = ListType.apply_parameters([classes[name]])
        below = type("Mine", (classes[name],), {})
        for cls, said in ((within, name), (below, "Mine")):
            raised = answer(codec.find_deserializer, cls)
            assert raised.cls is TypeError, raised
            assert said in raised.said, raised
            assert "has no parameters" in raised.said, raised
    for other in (int, type, Exception, cqltypes.CassandraTypeType):
        raised = answer(codec.find_serializer, other)
        assert "a CQL type is CQL text" in raised.said, raised


def is_known(name: str, cls: Any) -> None:
    """Whether the error names the class, and what it says to give instead is right."""
    try:
        codec.find_deserializer(cls)
    except TypeError as error:
        said = str(error)
    assert repr(cls) in said
    assert "has no parameters" in said
    instead = said.partition("give for example ")[2]
    assert instead.startswith(name + ".")
    given = eval(instead, vars(cqltypes))  # what we say ourselves
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


def main() -> None:
    checks: list[Callable[[], None]] = [
        classes_without_parameters,
    ]
    run(checks)


if __name__ == "__main__":
    main()
