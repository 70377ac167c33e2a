"""How values of the driver's types and statements become bytes, decided once for each."""

from __future__ import annotations

import contextlib
import threading
import weakref
from types import ModuleType
from typing import Any

from .. import _cassandra, _core
from ._origin import function, is_own, resolved

__all__ = ["Plans"]

PLAN = "_turbocql_plan"
"""What classes and prepared statements keep their plans as."""

_MAKES_BYTES = ("serialize", "serialize_safe", "to_binary")
_UNKNOWN = {"CompositeType", *_cassandra.OPAQUE}

_MAKES_VALUES = ("deserialize", "deserialize_safe", "from_binary")
_BY_PYTHON = {"DecimalType", "DurationType"}
"""Types of which each value may be read by a call into Python: that is what the driver does."""

WATCHED = frozenset(
    {
        *_MAKES_BYTES,
        *_MAKES_VALUES,
        *("support_empty_values", "empty_binary_ok", "adapter"),
        *("serial_size", "apply_parameters", "subtypes", "subtype", "vector_size", "fieldnames"),
    }
)
"""Attributes of the driver's classes that decide how values become bytes, and bytes values."""


class Plans:
    """The plans of one driver."""

    def __init__(self, cqltypes: ModuleType) -> None:
        self._cqltypes = cqltypes
        self.ours: list[Any] = []
        """Functions of ours that stand in the driver's classes."""
        self._keepers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()

    def of_type(self, cls: type[Any]) -> _core.TypePlan:
        """What is known of a class, made anew and kept by the class."""
        plan = self._make(cls)
        # A class that cannot keep it is asked again each time.
        with contextlib.suppress(TypeError, AttributeError):
            type.__setattr__(cls, PLAN, plan)
            with self._lock:
                self._keepers.add(cls)
        return plan

    def of_statement(self, prepared: Any) -> _core.RowPlan:
        """What is known of a prepared statement, made anew and kept by the statement."""
        metadata, version = prepared.column_metadata, prepared.protocol_version
        columns: list[tuple[str, Any, _core.TypePlan | None]] | None = None
        if self._is_usual(prepared):
            columns = [(column.name, column.type, self._make(column.type)) for column in metadata]
        plan = _core.RowPlan(metadata, version, columns)
        with contextlib.suppress(TypeError, AttributeError):
            setattr(prepared, PLAN, plan)
            with self._lock:
                self._keepers.add(prepared)
        return plan

    def of_result(self, message: Any, deserializers: ModuleType | None) -> _core.ResultPlan:
        """How to read results of the columns that the driver has found in one."""
        metadata = message.column_metadata
        if type(metadata) is not list:
            return _core.ResultPlan([], None, [])
        entries: list[tuple[dict[str, Any], str, Any]] = []
        readers = [self._reader(cls, deserializers, entries) for _, _, _, cls in metadata]
        columns = None if any(reader is None for reader in readers) else readers
        util = vars(self._cqltypes)["util"]
        entries += [(vars(util), name, vars(util).get(name)) for name in ("Date", "Time")]
        return _core.ResultPlan(metadata, columns, entries)

    def _reader(
        self,
        cls: Any,
        deserializers: ModuleType | None,
        entries: list[tuple[dict[str, Any], str, Any]],
    ) -> Any:
        """A type that is read natively, a function that reads one, or None."""
        stock = _cassandra.stock_class(cls)
        if stock is None or not self._reads_as_stock(cls, stock, deserializers, entries):
            return None
        try:
            cql_type = _cassandra.cql_type(cls)
            if stock.__name__ in _BY_PYTHON:
                return cql_type, cls.from_binary
            return cql_type if _core.ResultPlan.reads(cql_type) else None
        except (TypeError, ValueError):
            return None

    def _reads_as_stock(
        self,
        cls: Any,
        stock: type[Any],
        deserializers: ModuleType | None,
        entries: list[tuple[dict[str, Any], str, Any]],
    ) -> bool:
        """Whether the driver's own functions make the values, for a type and all its parts."""
        if cls.support_empty_values:
            return False
        for name in _MAKES_VALUES:
            found, here = resolved(stock, name), resolved(cls, name)
            if found is None:
                continue
            if here is None or function(here[1]) is not function(found[1]):
                return False
            if not is_own(self._cqltypes, found[0], name):
                return False
        if deserializers is not None:
            # Compiled readers are chosen by the name of the class, at the time of reading.
            known = vars(deserializers)
            for name in dict.fromkeys((f"Des{cls.__name__}", f"Des{stock.__name__}")):
                entries.append((known, name, known.get(name)))
            chosen = type(deserializers.find_deserializer(cls)).__name__
            if chosen not in (f"Des{stock.__name__}", "GenericDeserializer"):
                return False
        return all(
            self._reads_as_stock(part, _cassandra.stock_class(part) or part, deserializers, entries)
            for part in _cassandra.parts_of(cls)
        )

    def forget(self) -> None:
        """Takes away what classes and statements keep."""
        # Functions of ours know their plans: not for ever.
        self.ours.clear()
        with self._lock:
            keepers = list(self._keepers)
            self._keepers.clear()
        for keeper in keepers:
            with contextlib.suppress(TypeError, AttributeError):
                if isinstance(keeper, type):
                    type.__delattr__(keeper, PLAN)
                else:
                    delattr(keeper, PLAN)

    def _is_usual(self, prepared: Any) -> bool:
        metadata = prepared.column_metadata
        return (
            type(metadata) is list
            and type(prepared.protocol_version) is int
            and 3 <= prepared.protocol_version <= 5
            and prepared.column_encryption_policy is None
            and all(type(column.name) is str for column in metadata)
            and all(isinstance(column.type, type) for column in metadata)
        )

    def _make(self, cls: type[Any]) -> _core.TypePlan:
        cql_type = None
        if self._is_known(cls):
            with contextlib.suppress(TypeError, ValueError):
                cql_type = _cassandra.cql_type(cls)
        return _core.TypePlan(cls, cql_type)

    def _is_known(self, cls: Any) -> bool:
        """Whether the driver's own functions make the bytes, for a type and all its parts."""
        stock = _cassandra.stock_class(cls)
        if stock is None or stock.__name__ in _UNKNOWN or not _cassandra.is_stock(cls):
            return False
        for name in _MAKES_BYTES:
            found = resolved(stock, name)
            if found is None:
                continue
            owner, attribute = found
            ours = any(function(attribute) is one for one in self.ours)
            if not ours and not is_own(self._cqltypes, owner, name):
                return False
        return all(self._is_known(part) for part in _cassandra.parts_of(cls))
