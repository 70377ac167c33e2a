"""Plans how values of types, statements and results are converted to bytes and back."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from .. import _core
from .._native import cassandra_types
from ._origin import function, is_own, resolved
from ._readers import MAKES_VALUES, Entry, Readers

__all__ = ["Plans"]

_JAVA = "org.apache.cassandra.db.marshal."
"""The prefix that the driver removes from the names of Java classes."""

_MAX_SECRETS, _MAX_SHAPES = 256, 4096

Width = Callable[[Any, list[Entry]], "int | None"]

PLAN = "_turbocql_plan"
"""The attribute in which classes and prepared statements keep their plans."""

_MAKES_BYTES = ("serialize", "serialize_safe", "to_binary")
_UNSUPPORTED_CLASSES = {"CompositeType", *cassandra_types.OPAQUE}

WATCHED = frozenset(
    {
        *_MAKES_BYTES,
        *MAKES_VALUES,
        *("support_empty_values", "empty_binary_ok", "adapter"),
        "make_udt_class",
        *("serial_size", "apply_parameters", "subtypes", "subtype", "vector_size", "fieldnames"),
        "__bases__",
    }
)
"""Attributes of the driver's type classes that decide how values are converted to and from bytes.

If a program changes one of them in any class, all plans become invalid.
"""


def _shape(cls: Any) -> Any:
    """Returns a key for the plan of `cls`: types with equal keys share one plan.

    Returns None if the plan of `cls` cannot be shared. It can be shared if `cls` only adds
    parameters, such as the type of the elements, to a class of the driver. There are two
    exceptions. The plan of a user-defined type is not shared, because the type's values refer to
    `cls`. The plan of a map whose key type has parameters is not shared, because the map's values
    refer to the class of the key.
    """
    if len(cls.__bases__) != 1:
        return None
    base, class_entries = cls.__bases__[0], vars(cls)
    if class_entries.keys() - _PARAMETER_ENTRIES or any(class_entries.get("fieldnames") or ()):
        return None
    if base.__name__ == "VectorType":
        return base, _part(class_entries.get("subtype")), class_entries.get("vector_size")
    if base.__name__ not in _SHAREABLE_CLASSES or not class_entries.get("subtypes"):
        return None
    parts = class_entries["subtypes"]
    shapes = tuple(_part(part) for part in parts)
    if base.__name__ == "MapType" and shapes[0] is not parts[0]:
        return None
    return (base, *shapes)


_DEEPEST_NESTING = 32


def _is_deep(cls: Any, levels_left: int = _DEEPEST_NESTING) -> bool:
    """Whether types are nested in `cls` more than 32 deep. Such types are left to the driver."""
    if levels_left == 0:
        return True
    return any(_is_deep(part, levels_left - 1) for part in cassandra_types.parts_of(cls))


def _part(cls: Any) -> Any:
    shape = _shape(cls) if isinstance(cls, type) else None
    return cls if shape is None else shape


_SHAREABLE_CLASSES = {"ListType", "SetType", "MapType", "TupleType"}
_PARAMETER_ENTRIES = {
    *("subtypes", "cassname", "fieldnames", "subtype", "vector_size", "typename"),
    *("__module__", "__doc__", "__dict__", "__weakref__", PLAN),
}
"""If a class defines no other attributes than these, it only gives parameters to its base."""


class Plans:
    """The plans of one driver."""

    def __init__(self, cqltypes: ModuleType) -> None:
        self._cqltypes = cqltypes
        self.native_functions: list[Any] = []
        """The native functions that replace functions of the driver's type classes."""
        self.readers = Readers(cqltypes, self.native_functions)
        self._secret_plans: dict[Any, _core.ResultPlan] = {}
        self._plans_by_shape: dict[Any, _core.TypePlan] = {}
        """Maps the key that `_shape` returns to a plan. The driver makes new classes for each page,
        but the classes of equal types have equal keys."""
        self._keepers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()

    @property
    def lock(self) -> threading.Lock:
        """The lock that guards the caches of plans."""
        return self._lock

    def of_type(self, cls: type[Any]) -> _core.TypePlan:
        """Makes the plan of a class, and stores it in the class."""
        try:
            return self._of_type(cls)
        except Exception:  # this plan leaves values to the driver, which raises the error
            return _core.TypePlan(cls, None, None, [])

    def _of_type(self, cls: type[Any]) -> _core.TypePlan:
        if _is_deep(cls):
            return self._store(cls, _core.TypePlan(cls, None, None, []))
        shape = _shape(cls)
        shared_plan = None if shape is None else self._plans_by_shape.get(shape)
        plan = None if shared_plan is None else shared_plan.for_class(cls)
        if plan is None:
            plan = self._make_plan(cls)
            if shape is not None:
                with self._lock:
                    if len(self._plans_by_shape) >= _MAX_SHAPES:
                        self._plans_by_shape.clear()
                    self._plans_by_shape[shape] = plan
        return self._store(cls, plan)

    def _store(self, cls: type[Any], plan: _core.TypePlan) -> _core.TypePlan:
        # If a class cannot keep the plan, the plan is made again each time.
        with contextlib.suppress(Exception):
            type.__setattr__(cls, PLAN, plan)
            with self._lock:
                self._keepers.add(cls)
        return plan

    def _make_plan(self, cls: type[Any]) -> _core.TypePlan:
        entries: list[Entry] = []
        reader = self.readers.reader(cls, None, entries)
        if reader is not None and not reader.is_native:
            # This reader calls the `deserialize` of the class. If a native function replaces that
            # `deserialize`, the native function calls the plan's reader. They would call each other
            # without end.
            reader = None
        return self._type_plan(cls, reader, entries)

    def of_statement(self, prepared: Any) -> _core.BindPlan:
        """Makes the plan of a prepared statement, and stores it in the statement."""
        try:
            return self._of_statement(prepared)
        except Exception:  # this plan leaves `bind` to the driver, which raises the error
            return _core.BindPlan([], 4, None)

    def _of_statement(self, prepared: Any) -> _core.BindPlan:
        metadata, version = prepared.column_metadata, prepared.protocol_version
        columns: list[tuple[str, Any, _core.TypePlan | None]] | None = None
        if self._is_supported(prepared):
            columns = [
                (column.name, column.type, self._type_plan(column.type)) for column in metadata
            ]
        plan = _core.BindPlan(metadata, version, columns)
        with contextlib.suppress(Exception):
            setattr(prepared, PLAN, plan)
            with self._lock:
                self._keepers.add(prepared)
        return plan

    def of_result(
        self, metadata: Any, deserializers: ModuleType | None, width: Width | None = None
    ) -> _core.ResultPlan:
        """Makes the plan for results whose columns are described by `metadata`: a list of tuples
        (keyspace, table, name, class).

        If columns become arrays, `width` returns the size of a number in bytes, or None for a class
        whose columns become arrays of objects.
        """
        if type(metadata) is not list:
            return _core.ResultPlan([], None, [], [])
        entries: list[Entry] = []
        readers, widths = [], []
        for _, _, _, cls in metadata:
            reader = self.readers.reader(cls, deserializers, entries)
            if reader is None or not reader.is_native or hasattr(cls, "subtype"):
                # The driver may have found the class by its name in `_casstypes`. If that name gets
                # another class, the plan is out of date.
                entries += self._by_name(cls)
            readers.append(reader)
            widths.append(None if width is None else width(cls, entries))
        column_readers = [reader for reader in readers if reader is not None]
        columns = column_readers if len(column_readers) == len(readers) else None
        return _core.ResultPlan(metadata, columns, entries, widths)

    def _by_name(self, cls: Any) -> Iterator[Entry]:
        types_by_name = vars(self._cqltypes)["_casstypes"]
        stock = cassandra_types.stock_class(cls)
        parts = cassandra_types.parts_of(cls)
        # The class of a user-defined type is made anew for each page, under the name of the type.
        if stock is not None and stock.__name__ != "UserType":
            # For an unknown Java class, the driver makes a Python class. The name of the Python
            # class is the whole Java name in quotes.
            own_names = () if parts else (cls.__name__, cls.__name__.strip("'").removeprefix(_JAVA))
            for name in {stock.__name__, *own_names}:
                yield types_by_name, name, types_by_name.get(name)
        for part in parts:
            yield from self._by_name(part)

    def of_secrets(
        self, policy: Any, metadata: Any, describe: Any, deserializers: ModuleType | None
    ) -> list[Any] | None:
        """Returns a list with which native code reads columns that `policy` encrypts.

        The list has an item for each column. For an encrypted column, the item is a tuple: the
        description of the column, the policy's `decrypt` and a reader. For other columns, it is
        None. If native code cannot read an encrypted column, returns None in place of the list:
        then the driver must read the page.
        """
        if not policy:
            return [None] * len(metadata)
        column_secrets: list[Any] = []
        for keyspace, table, name, _ in metadata:
            column = describe(keyspace, table, name)
            if not policy.contains_column(column):
                column_secrets.append(None)
                continue
            cls = policy.column_type(column)
            plan = self._secret_plans.get(cls)
            if plan is None or not plan.is_current:
                plan = self.of_result([("", "", "", cls)], deserializers)
                with self._lock:
                    if len(self._secret_plans) >= _MAX_SECRETS:
                        self._secret_plans.clear()
                    self._secret_plans[cls] = plan
            if plan.reader is None:
                return None
            column_secrets.append((column, policy.decrypt, plan.reader))
        return column_secrets

    def forget(self) -> None:
        """Removes the plans from classes and statements, and clears the caches."""
        # The functions in this list refer to this object. If the list kept them, neither they nor
        # this object would ever be freed.
        self.native_functions.clear()
        with self._lock:
            self._secret_plans.clear()
            self._plans_by_shape.clear()
            keepers = list(self._keepers)
            self._keepers.clear()
        for keeper in keepers:
            with contextlib.suppress(TypeError, AttributeError):
                if isinstance(keeper, type):
                    type.__delattr__(keeper, PLAN)
                else:
                    delattr(keeper, PLAN)

    def _is_supported(self, prepared: Any) -> bool:
        metadata = prepared.column_metadata
        return (
            type(metadata) is list
            and type(prepared.protocol_version) is int
            and 3 <= prepared.protocol_version <= 5
            and prepared.column_encryption_policy is None
            and all(type(column.name) is str for column in metadata)
            and all(isinstance(column.type, type) for column in metadata)
        )

    def _type_plan(
        self,
        cls: type[Any],
        reader: _core.ValueReader | None = None,
        entries: Sequence[Entry] = (),
    ) -> _core.TypePlan:
        cql_type = None
        if not _is_deep(cls) and self._is_serialized_by_driver(cls):
            with contextlib.suppress(TypeError, ValueError):
                cql_type = cassandra_types.cql_type(cls)
        return _core.TypePlan(cls, cql_type, reader, list(entries))

    def _is_serialized_by_driver(self, cls: Any) -> bool:
        """Whether a type and all its parts are serialized by the driver's own functions.

        Native functions that replace them count as the driver's own.
        """
        if not self.readers.is_watched(cls):
            return False
        stock = cassandra_types.stock_class(cls)
        if (
            stock is None
            or stock.__name__ in _UNSUPPORTED_CLASSES
            or not cassandra_types.is_stock(cls)
        ):
            return False
        for name in _MAKES_BYTES:
            resolution = resolved(stock, name)
            if resolution is None:
                continue
            owner, attribute = resolution
            is_native = any(
                function(attribute) is native_function for native_function in self.native_functions
            )
            if not is_native and not is_own(self._cqltypes, owner, name):
                return False
        if stock.__name__ == "VectorType" and not self.readers.has_matching_width(cls):
            return False
        return all(self._is_serialized_by_driver(part) for part in cassandra_types.parts_of(cls))
