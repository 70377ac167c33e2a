"""Patches the driver's functions for types, `bind` and routing keys, in groups."""

from __future__ import annotations

import datetime
import decimal
import itertools
from typing import Any

from .. import _core
from ._bodies import Bodies
from ._concurrent import CONCURRENT, concurrent_groups
from ._connections import connection_groups
from ._creating import response_groups
from ._frames import frame_groups
from ._marshal import marshal_groups
from ._origin import NotReplaced, expect_own, expect_parameters, function
from ._patch import Driver, Group, Patch
from ._plans import WATCHED
from ._policies import policy_groups
from ._readers import Entry
from ._results import NamedRows, Results
from ._sending import LIBEV, sending_groups

__all__ = ["SEAM_MODULES", "TypeWatcher", "groups"]

SEAM_MODULES = (CONCURRENT, LIBEV)
"""The driver's modules with the executors of `execute_concurrent` and with the event loop of libev.
Only groups that patch one of these modules wait until the module is imported."""


def _no_counts() -> tuple[int, int]:
    return 0, 0


class TypeWatcher(Group):
    """Invalidates all plans when a program sets or deletes certain attributes of a type class.

    `WATCHED` has the names of these attributes.
    """

    names = ("cqltypes.CassandraTypeType",)

    def patches(self, driver: Driver) -> list[Patch]:
        metaclass = driver.cqltypes.CassandraTypeType
        if {"__setattr__", "__delattr__"} & set(vars(metaclass)):
            raise NotReplaced("it has a __setattr__ or __delattr__ already")

        def set_attribute(cls: type[Any], name: str, value: Any) -> None:
            type.__setattr__(cls, name, value)
            if name in WATCHED:
                _core.accel_changed()

        def delete_attribute(cls: type[Any], name: str) -> None:
            type.__delattr__(cls, name)
            if name in WATCHED:
                _core.accel_changed()

        replacements = {"__setattr__": set_attribute, "__delattr__": delete_attribute}
        for name, watcher in replacements.items():
            # Pickle finds the function again by these names.
            watcher.__module__ = driver.cqltypes.__name__
            watcher.__name__, watcher.__qualname__ = name, f"CassandraTypeType.{name}"

        def notes() -> list[str]:
            problems = [
                f"changes of the driver's types are not noticed any more: {self.names[0]}.{name}"
                " has been replaced"
                for name, replacement in replacements.items()
                if vars(metaclass).get(name) is not replacement
            ]
            if "__getattribute__" in vars(metaclass):
                name = f"{self.names[0]}.__getattribute__"
                problems.append(f"values are left to the driver: {name} is not the driver's")
            return problems

        return [
            Patch(
                metaclass,
                name,
                self.names[0],
                replacement,
                _no_counts,
                is_listed=False,
                notes=notes,
            )
            for name, replacement in replacements.items()
        ]


class ClassSerialize(Group):
    """Patches the class method `serialize` of types with parameters."""

    part = "types"

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.names = (f"cqltypes.{owner}.serialize",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = getattr(driver.cqltypes, self._owner, None)
        attribute = expect_own(driver.cqltypes, owner, "serialize")
        if not isinstance(attribute, classmethod):
            raise NotReplaced("it is not a class method")
        expect_parameters(
            attribute, ("cls", "v", "protocol_version"), ("cls", "val", "protocol_version")
        )
        stand_in = _core.SerializeStandIn(
            function(attribute), driver.writes(), driver.plans.of_type
        )
        replacement = stand_in.function()
        driver.plans.native_functions.append(replacement)
        return [Patch(owner, "serialize", self.names[0], classmethod(replacement), stand_in.counts)]


_MOMENTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 58, 1),
    datetime.datetime(1, 1, 1),
    datetime.datetime(2026, 11, 21, 12, 30, 1, 123_456),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
_SAMPLES: dict[str, tuple[str, list[Any]]] = {
    "DateType": ("timestamp", _MOMENTS),
    "SimpleDateType": ("date", [moment.date() for moment in _MOMENTS]),
    "IntegerType": ("varint", [0, -1, 127, 128, -129, 1 << 40, -(1 << 59)]),
    "DecimalType": ("decimal", [decimal.Decimal(t) for t in ("0", "-1.50", "1E+3", "7.7E-30")]),
}


class StaticSerialize(Group):
    """Patches the static method `serialize` of a scalar type."""

    part = "types"

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.names = (f"cqltypes.{owner}.serialize",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = getattr(driver.cqltypes, self._owner, None)
        attribute = expect_own(driver.cqltypes, owner, "serialize")
        if not isinstance(attribute, staticmethod):
            raise NotReplaced("it is not a static method")
        expect_parameters(
            attribute,
            *(
                tuple(pair)
                for pair in itertools.product(
                    ("v", "val", "byts", "dec", "big"), ("protocol_version",)
                )
            ),
        )
        cql_type, samples = _SAMPLES[self._owner]
        original = function(attribute)
        sample_type = _core.CqlType(cql_type)
        stand_in = _core.SerializeStandIn(original, driver.writes(), sample_type)
        replacement = stand_in.function()
        for sample in samples:
            if replacement(sample, 4) != original(sample, 4):
                raise NotReplaced(f"it writes {sample!r} differently from turbocql")
        driver.plans.native_functions.append(replacement)
        patch = Patch(owner, "serialize", self.names[0], staticmethod(replacement), stand_in.counts)
        patch.count_from_here()
        return [patch]


class ClassDeserialize(Group):
    """Patches the class method `deserialize` of types with parameters."""

    part = "types"

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.names = (f"cqltypes.{owner}.deserialize",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = getattr(driver.cqltypes, self._owner, None)
        attribute = expect_own(driver.cqltypes, owner, "deserialize")
        if not isinstance(attribute, classmethod):
            raise NotReplaced("it is not a class method")
        expect_parameters(attribute, ("cls", "byts", "protocol_version"))
        stand_in = _core.DeserializeStandIn(
            function(attribute), driver.read_ways(), driver.plans.of_type
        )
        replacement = stand_in.function()
        driver.plans.native_functions.append(replacement)
        return [
            Patch(owner, "deserialize", self.names[0], classmethod(replacement), stand_in.counts)
        ]


_ENCODED_SAMPLES = {
    "DateType": ["0000000000000000", "ffffffffffffffff", "0000019aa3f1c2d3", "ffffc77cedd32800"],
    "SimpleDateType": ["80000000", "7fffffff", "80005100", "ffffffff"],
    "TimeType": ["0000000000000000", "00004e94914effff"],
    "IntegerType": ["00", "ff", "7f", "0080", "ff7f", "0123456789abcdef0123456789abcdef0123"],
    "DecimalType": ["0000000000", "00000002ff6a", "ffffffff01", "0000001e4d"],
    "DurationType": ["000000", "020406", "83e7c222dff8397d323427"],
}
"""Samples for each type: bytes that native code and the driver must read as the same value."""


class StaticDeserialize(Group):
    """Patches the static method `deserialize` of a scalar type."""

    part = "types"

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.names = (f"cqltypes.{owner}.deserialize",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner: Any = getattr(driver.cqltypes, self._owner, None)
        attribute = expect_own(driver.cqltypes, owner, "deserialize")
        if not isinstance(attribute, staticmethod):
            raise NotReplaced("it is not a static method")
        expect_parameters(attribute, ("byts", "protocol_version"))
        original = function(attribute)
        entries: list[Entry] = []
        reader = driver.plans.readers.reader(owner, None, entries)
        if reader is None or not reader.is_native:
            raise NotReplaced("turbocql has no native reader for it")
        stand_in = _core.DeserializeStandIn(original, driver.read_ways(), reader, entries)
        replacement = stand_in.function()
        for sample in map(bytes.fromhex, _ENCODED_SAMPLES[self._owner]):
            if repr(replacement(sample, 4)) != repr(original(sample, 4)):
                raise NotReplaced(f"it reads {sample!r} differently from turbocql")
        driver.plans.native_functions.append(replacement)

        def problem() -> str:
            for namespace, name, value in entries:
                if namespace.get(name) is not value:
                    return f"{namespace.get('__name__')}.{name} has been replaced"
            return ""

        patch = Patch(
            owner,
            "deserialize",
            self.names[0],
            staticmethod(replacement),
            stand_in.counts,
            problem=problem,
        )
        patch.count_from_here()
        return [patch]


class Bind(Group):
    """Patches the method `BoundStatement.bind`."""

    part = "bind"
    names = ("query.BoundStatement.bind",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = driver.query.BoundStatement
        original = expect_own(driver.query, owner, "bind")
        expect_own(driver.query, owner, "_append_unset_value")
        expect_parameters(original, ("self", "values"))
        stand_in = _core.BindStandIn(
            original,
            owner,
            driver.query.UNSET_VALUE,
            driver.writes(),
            driver.plans.of_statement,
            _REFUSAL if _has_refusal(original) else None,
        )
        replacement = stand_in.function()
        return [Patch(owner, "bind", self.names[0], replacement, stand_in.counts)]


_REFUSAL = 'Received an argument of invalid type for column "%s". Expected: %s, Got: %s; (%s)'
"""The driver's message for a value that a type refuses, with four parts to fill in."""


class _Refusing:
    """Imitates three objects of the driver: the class is a type that refuses all values, and its
    instances are a column of this type and a statement.
    """

    keyspace_name = table_name = name = "a"
    protocol_version, column_encryption_policy, routing_key_indexes = 4, None, None

    @staticmethod
    def serialize(value: Any, protocol_version: int) -> bytes:
        raise TypeError("refused")


def _has_refusal(original: Any) -> bool:
    """Whether the driver's `bind` raises the error `_REFUSAL` for a value that a type refuses."""
    column = _Refusing()
    statement = _Refusing()
    vars(column).update(type=_Refusing)
    vars(statement).update(prepared_statement=statement, column_metadata=[column])
    try:
        original(statement, [5])
    except TypeError as error:
        return error.args == (_REFUSAL % ("a", _Refusing, int, "refused"),)
    except Exception:  # a `bind` that turbocql does not know may fail in any way
        return False
    return False


class RoutingKey(Group):
    """Patches the property `BoundStatement.routing_key`."""

    part = "routing_key"
    names = ("query.BoundStatement.routing_key",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = driver.query.BoundStatement
        original = expect_own(driver.query, owner, "routing_key")
        packer = expect_own(driver.query, driver.query.Statement, "_key_parts_packed")
        if not isinstance(original, property) or original.fset is not None:
            raise NotReplaced("it is not a read-only property")
        stand_in = _core.RoutingStandIn(original.fget, owner, packer)
        replacement = property(stand_in.function(), doc=original.__doc__)
        return [Patch(owner, "routing_key", self.names[0], replacement, stand_in.counts)]


_PARTS: list[Any] = [[], [b"only"], [b"a", b""], (b"x" * 300, b"\0\xff"), [bytes(65_535), b"b"]]
"""Sample routing keys, each as a sequence of its parts."""


class KeyParts(Group):
    """Patches the generator function that yields the packed parts of a routing key."""

    part = "routing_key"
    names = ("query.Statement._key_parts_packed",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = driver.query.Statement
        original = expect_own(driver.query, owner, "_key_parts_packed")
        expect_parameters(original, ("self", "parts"))
        stand_in = _core.KeyPartsStandIn(original)
        replacement = stand_in.function()
        for parts in _PARTS:
            if list(replacement(None, parts[:])) != list(original(None, parts[:])):
                raise NotReplaced("it packs parts differently from turbocql")
        patch = Patch(owner, "_key_parts_packed", self.names[0], replacement, stand_in.counts)
        patch.count_from_here()
        return [patch]


def groups() -> list[Group]:
    """The groups that patch types, bound statements, results, connections, policies and futures.

    `TypeWatcher` is first: without it, types are not accelerated. The functions of
    `cassandra.marshal` are last. To compare samples, the other groups call functions of the driver,
    which call functions of `cassandra.marshal`. If `cassandra.marshal` were patched before the
    other groups, these calls would be counted.
    """
    return [
        TypeWatcher(),
        *(ClassSerialize(owner) for owner in ("_ParameterizedType", "VectorType")),
        *(StaticSerialize(owner) for owner in _SAMPLES),
        *(ClassDeserialize(owner) for owner in ("_ParameterizedType", "VectorType")),
        *(StaticDeserialize(owner) for owner in _ENCODED_SAMPLES),
        Bind(),
        RoutingKey(),
        KeyParts(),
        Bodies(),
        *(
            Results(handler)
            for handler in (
                "ProtocolHandler",
                "_ProtocolHandler",
                "LazyProtocolHandler",
                "NumpyProtocolHandler",
            )
        ),
        NamedRows(),
        *connection_groups(),
        *frame_groups(),
        *policy_groups(),
        *response_groups(),
        *concurrent_groups(),
        *sending_groups(),
        *marshal_groups(),
    ]
