"""The functions of the driver that native ones can replace, in groups."""

from __future__ import annotations

import collections
import datetime
import decimal
import importlib
import io
import itertools
import sys
from _io import BytesIO  # `io.BytesIO` itself, also where that name was replaced
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .. import _core
from ._arrays import Arrays
from ._origin import (
    Left,
    documented,
    expect_own,
    expect_parameters,
    expect_versions,
    function,
)
from ._plans import WATCHED, Plans
from ._readers import Entry

__all__ = ["Driver", "Group", "Patch", "driver_name", "groups"]

_ABSENT = object()


@dataclass
class Patch:
    """One attribute of a class or module, and its replacement."""

    owner: Any
    name: str
    said: str
    """Its dotted name, as `status()` shows it."""
    ours: Any
    """The replacement, as it is put into the class or module."""
    counts: Callable[[], tuple[int, int]]
    learned: Callable[[], int] = int
    original: Any = _ABSENT
    why: str = ""
    """Why its calls are only counted; empty if they are not."""
    is_told: bool = True
    """Whether `status()` lists it."""
    start: tuple[int, int, int] = (0, 0, 0)
    """The counts that are subtracted: those when counting began."""

    def apply(self) -> None:
        """Puts the replacement in."""
        self.original = vars(self.owner).get(self.name, _ABSENT)
        self._set(self.ours)

    def undo(self) -> bool:
        """Puts the original back. False if the attribute was replaced by other code since."""
        if vars(self.owner).get(self.name, _ABSENT) is not self.ours:
            return False
        if self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            self._set(self.original)
        return True

    def count_from_here(self) -> None:
        """Has only later calls counted."""
        self.start = (*self.counts(), self.learned())

    def counted(self) -> tuple[int, int, int]:
        """Calls that were native, that fell back, and from which columns were learned."""
        (native, fallback), learned = self.counts(), self.learned()
        return native - self.start[0], fallback - self.start[1], learned - self.start[2]

    def _set(self, value: Any) -> None:
        # `type.__setattr__`, so that `Watch` does not see it.
        if isinstance(self.owner, type):
            type.__setattr__(self.owner, self.name, value)
        else:
            setattr(self.owner, self.name, value)


def driver_name(protocol: ModuleType) -> str:
    """The name of a driver, as `status()` shows it."""
    package = sys.modules.get("cassandra")
    version = getattr(package, "__version__", "of unknown version")
    compiled = getattr(protocol, "HAVE_CYTHON", False)
    return f"cassandra {version}, {'compiled' if compiled else 'not compiled'}"


class Driver:
    """The modules of the imported driver, and in which of the known ways it works."""

    def __init__(self, cqltypes: ModuleType, protocol: ModuleType, query: ModuleType) -> None:
        self.cqltypes, self.protocol, self.query = cqltypes, protocol, query
        self.plans = Plans(cqltypes)
        self._writes: str | None = None

    @property
    def name(self) -> str:
        """The name of the driver, as `status()` shows it."""
        return driver_name(self.protocol)

    def writes(self) -> str:
        """The name of the dialect in which it writes nulls and timestamps, found once by trying.

        Raises: Left, if it writes them in none of the known dialects.
        """
        if self._writes is None:
            self._writes = self._tried()
        return self._writes

    def _tried(self) -> str:
        types = self.cqltypes
        null = types.ListType.apply_parameters([types.Int32Type]).serialize([None], 4)[4:]
        before = datetime.datetime(1969, 12, 31, 23, 59, 58, 1)
        moment = int.from_bytes(types.DateType.serialize(before, 4), "big", signed=True)
        ways = {
            (b"\xff\xff\xff\xff", -2000): "protocol",
            (b"\xff\xff\xff\xff", -1999): "float time",
            (b"\0\0\0\0", -1999): "float time, empty null",
        }
        try:
            return ways[null, moment]
        except KeyError:
            raise Left("it writes nulls or timestamps in no known dialect") from None

    def read_ways(self) -> _core.ReadWays:
        """How it reads values that drivers read differently: timestamps, dates, durations.

        Raises: Left, if its dialect is not known.
        """
        values = self.plans.readers.values
        return _core.ReadWays(
            self.writes() != "protocol", values["Date"], values["Time"], values["Duration"]
        )


class Group(ABC):
    """Patches that are applied together or not at all."""

    names: tuple[str, ...]
    """The functions that it patches, as `status()` shows them."""
    needs: str | None = None
    """A module whose import it waits for, in addition to those that all groups wait for."""

    @abstractmethod
    def patches(self, driver: Driver) -> list[Patch]:
        """The patches, after the replacements were compared with the originals on samples.

        Raises: Left, with the reason, if the driver's functions must not be replaced.
        """


def _nothing() -> tuple[int, int]:
    return 0, 0


class Watch(Group):
    """Invalidates all plans when an attribute of one of the driver's type classes is changed."""

    names = ("cqltypes.CassandraTypeType",)

    def patches(self, driver: Driver) -> list[Patch]:
        metaclass = driver.cqltypes.CassandraTypeType
        if {"__setattr__", "__delattr__"} & set(vars(metaclass)):
            raise Left("it has a __setattr__ or __delattr__ already")

        def set_attribute(cls: type[Any], name: str, value: Any) -> None:
            type.__setattr__(cls, name, value)
            if name in WATCHED:
                _core.accel_changed()

        def delete_attribute(cls: type[Any], name: str) -> None:
            type.__delattr__(cls, name)
            if name in WATCHED:
                _core.accel_changed()

        said = "cqltypes.CassandraTypeType"
        return [
            Patch(metaclass, "__setattr__", said, set_attribute, _nothing, is_told=False),
            Patch(metaclass, "__delattr__", said, delete_attribute, _nothing, is_told=False),
        ]


class ClassSerialize(Group):
    """`serialize` of types with parameters, which is a class method."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.names = (f"cqltypes.{owner}.serialize",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = getattr(driver.cqltypes, self._owner, None)
        attribute = expect_own(driver.cqltypes, owner, "serialize")
        if not isinstance(attribute, classmethod):
            raise Left("it is not a class method")
        expect_parameters(
            attribute, ("cls", "v", "protocol_version"), ("cls", "val", "protocol_version")
        )
        stand_in = _core.SerializeStandIn(
            function(attribute), driver.writes(), driver.plans.of_type
        )
        ours = stand_in.function(documented(function(attribute)))
        driver.plans.ours.append(ours)
        return [Patch(owner, "serialize", self.names[0], classmethod(ours), stand_in.counts)]


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
    """`serialize` of a scalar type, which is a static method."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.names = (f"cqltypes.{owner}.serialize",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = getattr(driver.cqltypes, self._owner, None)
        attribute = expect_own(driver.cqltypes, owner, "serialize")
        if not isinstance(attribute, staticmethod):
            raise Left("it is not a static method")
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
        known = _core.CqlType(cql_type)
        stand_in = _core.SerializeStandIn(original, driver.writes(), known)
        ours = stand_in.function(documented(original))
        for sample in samples:
            if ours(sample, 4) != original(sample, 4):
                raise Left(f"it writes {sample!r} differently from turbocql")
        driver.plans.ours.append(ours)
        patch = Patch(owner, "serialize", self.names[0], staticmethod(ours), stand_in.counts)
        patch.count_from_here()
        return [patch]


class ClassDeserialize(Group):
    """`deserialize` of types with parameters, which is a class method."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.names = (f"cqltypes.{owner}.deserialize",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = getattr(driver.cqltypes, self._owner, None)
        attribute = expect_own(driver.cqltypes, owner, "deserialize")
        if not isinstance(attribute, classmethod):
            raise Left("it is not a class method")
        expect_parameters(attribute, ("cls", "byts", "protocol_version"))
        stand_in = _core.DeserializeStandIn(
            function(attribute), driver.read_ways(), driver.plans.of_type
        )
        ours = stand_in.function(documented(function(attribute)))
        driver.plans.ours.append(ours)
        return [Patch(owner, "deserialize", self.names[0], classmethod(ours), stand_in.counts)]


_READ = {
    "DateType": ["0000000000000000", "ffffffffffffffff", "0000019aa3f1c2d3", "ffffc77cedd32800"],
    "SimpleDateType": ["80000000", "7fffffff", "80005100", "ffffffff"],
    "TimeType": ["0000000000000000", "00004e94914effff"],
    "IntegerType": ["00", "ff", "7f", "0080", "ff7f", "0123456789abcdef0123456789abcdef0123"],
    "DecimalType": ["0000000000", "00000002ff6a", "ffffffff01", "0000001e4d"],
    "DurationType": ["000000", "020406", "83e7c222dff8397d323427"],
}
"""Samples for each type: bytes that both functions must read as the same value."""


class StaticDeserialize(Group):
    """`deserialize` of a scalar type, which is a static method."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.names = (f"cqltypes.{owner}.deserialize",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner: Any = getattr(driver.cqltypes, self._owner, None)
        attribute = expect_own(driver.cqltypes, owner, "deserialize")
        if not isinstance(attribute, staticmethod):
            raise Left("it is not a static method")
        expect_parameters(attribute, ("byts", "protocol_version"))
        original = function(attribute)
        entries: list[Entry] = []
        reader = driver.plans.readers.reader(owner, None, entries)
        if reader is None or not reader.is_native:
            raise Left("turbocql has no native reader for it")
        stand_in = _core.DeserializeStandIn(original, driver.read_ways(), reader, entries)
        ours = stand_in.function(documented(original))
        for sample in map(bytes.fromhex, _READ[self._owner]):
            if repr(ours(sample, 4)) != repr(original(sample, 4)):
                raise Left(f"it reads {sample!r} differently from turbocql")
        driver.plans.ours.append(ours)
        patch = Patch(owner, "deserialize", self.names[0], staticmethod(ours), stand_in.counts)
        patch.count_from_here()
        return [patch]


class Bind(Group):
    """`BoundStatement.bind`."""

    names = ("query.BoundStatement.bind",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = driver.query.BoundStatement
        original = expect_own(driver.query, owner, "bind")
        expect_own(driver.query, owner, "_append_unset_value")
        expect_parameters(original, ("self", "values"))
        stand_in = _core.BindStandIn(
            original, owner, driver.query.UNSET_VALUE, driver.writes(), driver.plans.of_statement
        )
        ours = stand_in.function(documented(original))
        return [Patch(owner, "bind", self.names[0], ours, stand_in.counts)]


class RoutingKey(Group):
    """`BoundStatement.routing_key`."""

    names = ("query.BoundStatement.routing_key",)

    def patches(self, driver: Driver) -> list[Patch]:
        owner = driver.query.BoundStatement
        original = expect_own(driver.query, owner, "routing_key")
        expect_own(driver.query, driver.query.Statement, "_key_parts_packed")
        if not isinstance(original, property) or original.fset is not None:
            raise Left("it is not a read-only property")
        stand_in = _core.RoutingStandIn(original.fget, owner)
        ours = property(stand_in.function(documented(original.fget)), doc=original.__doc__)
        return [Patch(owner, "routing_key", self.names[0], ours, stand_in.counts)]


class Bodies(Group):
    """The bodies of requests."""

    names = (
        "protocol.QueryMessage.send_body",
        "protocol.ExecuteMessage.send_body",
        "protocol.BatchMessage.send_body",
    )

    def patches(self, driver: Driver) -> list[Patch]:
        protocol = driver.protocol
        found: list[Patch] = []
        versions = expect_versions(protocol)
        for name in ("_write_query_params", "_should_skip_metadata"):
            if name in vars(protocol._QueryMessage):
                expect_own(protocol, protocol._QueryMessage, name)
        for kind, said in zip(("query", "execute", "batch"), self.names, strict=True):
            owner: Any = getattr(protocol, said.split(".")[1], None)
            original = expect_own(protocol, owner, "send_body")
            shape = expect_parameters(
                original,
                ("self", "f", "protocol_version"),
                ("self", "f", "protocol_version", "protocol_features"),
            )
            empty_id = kind == "execute" and _is_empty_id_written(protocol, len(shape) == 4)
            stand_in = _core.BodyStandIn(
                original, owner, protocol._UNSET_VALUE, kind, empty_id, BytesIO, versions
            )
            ours = stand_in.function(documented(original))
            for message, version in _messages(driver, kind):
                if _body(ours, message, version) != _body(original, message, version):
                    raise Left(f"{said} differs from turbocql in version {version}")
            found.append(Patch(owner, "send_body", said, ours, stand_in.counts))
            found[-1].count_from_here()
        return found


def _is_empty_id_written(protocol: ModuleType, has_features: bool) -> bool:
    message = protocol.ExecuteMessage(b"id", [], 1)
    try:
        return bool(_body(protocol.ExecuteMessage.send_body, message, 5)[2:6] == b"id\0\0")
    except TypeError:
        return False


def _body(send_body: Callable[..., None], message: Any, version: int) -> bytes:
    out = io.BytesIO()
    # Functions and native methods are bound by `__get__`, as an attribute lookup does it.
    bind = getattr(send_body, "__get__", None)
    (bind(message) if bind else send_body)(out, version)
    return out.getvalue()


def _messages(driver: Driver, kind: str) -> list[tuple[Any, int]]:
    protocol, unset = driver.protocol, driver.protocol._UNSET_VALUE
    found: list[tuple[Any, int]] = []
    for version, serial, timestamp in itertools.product((3, 4, 5), (None, 8), (None, 0, 1 << 50)):
        values = [b"value", None, b""] + ([unset] if version > 3 else [])
        common = {"serial_consistency_level": serial, "timestamp": timestamp}
        if kind == "batch":
            kinds = driver.query.BatchType
            queries: list[Any] = [
                (True, b"id", values),
                (False, "text \u20ac", ()),
                (False, "q", [b"1"]),
            ]
            for batch_type in (kinds.LOGGED, kinds.UNLOGGED, kinds.COUNTER):
                for some in ([], queries):
                    message = protocol.BatchMessage(batch_type, some, 6, **common)
                    message.keyspace = "ks" if version == 5 and serial else None
                    found.append((message, version))
            continue
        for size, state in itertools.product((None, 0, 5000), (None, b"", b"state")):
            paging = {"fetch_size": size, "paging_state": state, **common}
            if kind == "query":
                found.append((protocol.QueryMessage("text \u20ac", 1, **paging), version))
                continue
            for given in ([], values, None):
                message = protocol.ExecuteMessage(b"id", given, 10, **paging)
                if version == 5:
                    message.result_metadata_id = b"metadata"
                    message.keyspace = "ks" if serial else None
                found.append((message, version))
    return found


class Results(Group):
    """Pages of rows, as one of the driver's protocol handlers reads them."""

    _PARAMETERS = (
        "self",
        "f",
        "protocol_version",
        "user_type_map",
        "result_metadata",
        "column_encryption_policy",
    )

    def __init__(self, handler: str) -> None:
        self._handler = handler
        self.names = (f"protocol.{handler}: recv_results_rows",)

    def patches(self, driver: Driver) -> list[Patch]:
        protocol = driver.protocol
        handler = getattr(protocol, self._handler, None)
        if handler is None:
            raise Left("the driver has no such handler")
        owner = handler.message_types_by_opcode[protocol.ResultMessage.opcode]
        pure = owner is protocol.ResultMessage
        if self._handler == "_ProtocolHandler" and handler is protocol.ProtocolHandler:
            raise Left("it is the same as protocol.ProtocolHandler")
        for name in ("recv_results_metadata", "read_type", "recv_body", "recv"):
            expect_own(protocol, protocol.ResultMessage, name)
            if name in vars(owner) and not pure:
                raise Left(f"its message class overrides {name}")
        original = vars(owner).get("recv_results_rows")
        if original is None:
            raise Left("the driver has no such function")
        expect_parameters(original, self._PARAMETERS)
        deserializers = None
        if pure:
            expect_own(protocol, owner, "recv_results_rows")
        else:
            if getattr(original, "__module__", None) != "cassandra.row_parser":
                raise Left("somebody has replaced it")
            deserializers = importlib.import_module("cassandra.deserializers")
        shape, width = "list", None
        finish: Callable[..., Any] = _as_made
        if self._handler == "LazyProtocolHandler":
            shape, finish = "lazy", _generated
        elif self._handler == "NumpyProtocolHandler":
            arrays = Arrays(original, owner)
            shape, finish, width = "arrays", arrays.finish, arrays.width
        plans, describe = driver.plans, protocol.ColDesc
        stand_in = _core.ResultStandIn(
            original,
            owner,
            lambda metadata: plans.of_result(metadata, deserializers, width),
            lambda policy, metadata: plans.of_secrets(policy, metadata, describe, deserializers),
            driver.read_ways(),
            not pure,
            shape,
            finish,
        )
        ours = stand_in.function(documented(original))
        counts, learned = stand_in.counts, stand_in.learned
        return [Patch(owner, "recv_results_rows", self.names[0], ours, counts, learned)]


def _as_made(rows: Any) -> Any:
    return rows


def _generated(rows: Any) -> Any:
    """A generator of the rows: the driver's handler, too, returns a generator."""
    yield from rows


_ROW = "Row($self, *values)\n--\n\nA row: the values of its columns, in order."
"""One docstring for all classes: the definition of a built-in function is never freed."""


class NamedRows(Group):
    """The class of named rows. The driver makes one for each result; this makes one for all
    results with the same column names.
    """

    names = ("query.namedtuple",)
    _MOST = 512

    def patches(self, driver: Driver) -> list[Patch]:
        query = driver.query
        original = vars(query).get("namedtuple")
        if original is not collections.namedtuple:  # noqa: PYI024
            raise Left("somebody has replaced it")
        known: dict[tuple[str, ...], Any] = {}
        counts = [0, 0, 0]

        def namedtuple(typename: Any, field_names: Any, *rest: Any, **options: Any) -> Any:
            if typename != "Row" or rest or options or isinstance(field_names, str):
                counts[1] += 1
                return collections.namedtuple(typename, field_names, *rest, **options)  # noqa: PYI024
            names = tuple(field_names)
            row = known.get(names)
            if row is None:
                counts[2] += 1
                module = sys._getframe(1).f_globals.get("__name__", "__main__")
                cls = collections.namedtuple(typename, names, module=module)  # type: ignore[misc]  # noqa: PYI024
                if len(known) >= self._MOST:
                    known.clear()
                row = known[names] = _core.NamedStandIn(cls, len(names)).function(_ROW)
            else:
                counts[0] += 1
            return row

        return [
            Patch(
                query,
                "namedtuple",
                self.names[0],
                namedtuple,
                lambda: (counts[0], counts[1]),
                lambda: counts[2],
            )
        ]


def groups() -> list[Group]:
    """All groups for the codec. `Watch` is first: without it, types are not accelerated."""
    return [
        Watch(),
        *(ClassSerialize(owner) for owner in ("_ParameterizedType", "VectorType")),
        *(StaticSerialize(owner) for owner in _SAMPLES),
        *(ClassDeserialize(owner) for owner in ("_ParameterizedType", "VectorType")),
        *(StaticDeserialize(owner) for owner in _READ),
        Bind(),
        RoutingKey(),
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
    ]
