"""Makes readers. A reader converts bytes of one type to the value that the driver makes of them."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from .. import _core
from .._native import cassandra_types
from ._origin import function, is_own, resolved

__all__ = ["MAKES_VALUES", "Entry", "Readers"]

MAKES_VALUES = ("deserialize", "deserialize_safe", "from_binary")

Entry = tuple[dict[Any, Any], Any, Any]
"""A dict, a key, and the value that the dict must have for the key. The value is None if the dict
must not have the key.

If the dict has a different value for the key, the plans made with this entry are out of date.
"""

_GENERIC = "GenericDeserializer"
"""The class of the compiled reader that serves all types without a compiled reader of their own. It
calls `cls.deserialize`."""

_UTIL = {
    "SimpleDateType": ("Date",),
    "TimeType": ("Time",),
    "DurationType": ("Duration",),
    "SetType": ("sortedset", "SortedSet"),
    "MapType": ("OrderedMapSerializedKey", "OrderedMap"),
}
"""Names in `cassandra.util` on which the reader of a type depends."""

_FIXED_WIDTH_TYPES = {"FloatType", "DoubleType", "Int32Type", "LongType"}


class Readers:
    """Makes the readers of one driver's types."""

    def __init__(self, cqltypes: ModuleType, native_functions: list[Any]) -> None:
        self._cqltypes = cqltypes
        self._native_functions = native_functions
        util = vars(cqltypes.util)
        self.values = {name: util.get(name) for name in ("Date", "Time", "Duration")}
        """The driver's value classes, by name. Native code makes instances without `__init__`."""

    def reader(
        self, cls: Any, deserializers: ModuleType | None, entries: list[Entry]
    ) -> _core.ValueReader | None:
        """Makes a reader for values of the type `cls`. The reader is native, or calls the
        `deserialize` of `cls`.

        `deserializers` is the module of the compiled readers, if the driver uses them. Returns None
        if no reader is certain to give the driver's values. Adds to `entries` the names in
        `cassandra.util` and in `deserializers` on whose values the reader depends.
        """
        stock = cassandra_types.stock_class(cls)
        if stock is None or not self.is_watched(cls):
            return None
        try:
            return self._make_reader(cls, stock, deserializers, entries)
        except Exception:  # unknown classes may fail in any way
            return None

    def _make_reader(
        self, cls: Any, stock: Any, deserializers: ModuleType | None, entries: list[Entry]
    ) -> _core.ValueReader | None:
        empty = self._empty(cls)
        if deserializers is None or self._chosen(cls, stock, deserializers, entries) == _GENERIC:
            if deserializers is None and not self._is_own(cls, stock, ("from_binary",)):
                return None
            # `deserialize` reads elements and fields with the `from_binary` of their types, and not
            # with compiled readers. So `None` is passed in place of `deserializers`.
            if self._is_own(cls, stock, ("deserialize", "deserialize_safe")):
                native_reader = self._native(cls, stock, None, entries, empty)
                if native_reader is not None:
                    return native_reader
            return _core.ValueReader.python(cls, empty)
        if self._chosen(cls, stock, deserializers, entries) == f"Des{stock.__name__}":
            return self._native(cls, stock, deserializers, entries, empty)
        return None

    def is_watched(self, cls: Any) -> bool:
        """Whether turbocql notices if a program changes the class or one of its bases."""
        metaclass = self._cqltypes.CassandraTypeType
        return "__getattribute__" not in vars(metaclass) and all(
            owner is object or type(owner) is metaclass for owner in cls.__mro__
        )

    @staticmethod
    def has_matching_width(cls: Any) -> bool:
        """Whether turbocql and the driver agree on the width of the elements of the vector `cls`.

        Elements of fixed width are written without lengths, so the width must be the same.
        """
        if type(cls.vector_size) is not int:
            return False
        width = _core.ValueReader.element_width(cassandra_types.cql_type(cls))
        return bool(cassandra_types.parts_of(cls)[0].serial_size() == width)

    def _empty(self, cls: Any) -> Any:
        if cls.empty_binary_ok:
            return True
        return self._cqltypes.EMPTY if cls.support_empty_values else None

    @staticmethod
    def _chosen(cls: Any, stock: Any, deserializers: ModuleType, entries: list[Entry]) -> str:
        """Returns the name of the class of the compiled reader that the driver uses for `cls`.

        The driver looks up this class by its name for each reader. So each name that the driver
        looks up is added to `entries`, with the value that the name has now.
        """
        compiled_readers = vars(deserializers)
        for name in dict.fromkeys((f"Des{cls.__name__}", f"Des{stock.__name__}")):
            entries.append((compiled_readers, name, compiled_readers.get(name)))
        return type(deserializers.find_deserializer(cls)).__name__

    def _is_own(self, cls: Any, stock: Any, names: tuple[str, ...]) -> bool:
        """Whether these functions of a class are the driver's, or native ones that replace them."""
        for name in names:
            stock_resolution, resolution = resolved(stock, name), resolved(cls, name)
            if stock_resolution is None:
                continue
            if resolution is None or function(resolution[1]) is not function(stock_resolution[1]):
                return False
            if not is_own(self._cqltypes, stock_resolution[0], name, self._native_functions):
                return False
        return True

    def _native(
        self,
        cls: Any,
        stock: Any,
        deserializers: ModuleType | None,
        entries: list[Entry],
        empty: Any,
    ) -> _core.ValueReader | None:
        kind, reader = stock.__name__, _core.ValueReader
        util = self._cqltypes.util
        entries += [(vars(util), name, vars(util).get(name)) for name in _UTIL.get(kind, ())]
        if (scalar := cassandra_types.scalar(kind)) is not None:
            if not all(self._is_value_class(name) for name in _UTIL.get(kind, ())):
                return None
            return reader.leaf(_core.CqlType(scalar), empty)
        classes = cassandra_types.parts_of(cls)
        if kind == "VectorType":
            return self._vector(cls, classes[0], entries, empty)
        parts = [self.reader(part, deserializers, entries) for part in classes]
        part_readers = [part for part in parts if part is not None]
        if not parts or len(part_readers) != len(parts):
            return None
        if kind == "ListType":
            is_list = deserializers is not None or cls.adapter is list
            return reader.list_of(part_readers[0], empty) if is_list else None
        if kind == "SetType":
            set_class = util.sortedset if deserializers is not None else cls.adapter
            return reader.set_of(part_readers[0], set_class, self._sorted(set_class), empty)
        if kind == "MapType":
            map_class = util.OrderedMapSerializedKey
            if not self._is_map(map_class):
                return None
            return reader.map_of(part_readers[0], part_readers[1], map_class, classes[0], empty)
        if kind == "TupleType":
            return reader.tuple_of(part_readers, empty)
        if kind == "UserType":
            fields = list(zip(cls.fieldnames, part_readers, strict=True))
            plain = cls.tuple_type if _is_plain(cls.tuple_type, len(fields)) else None
            return reader.udt(cls, cls.keyspace, cls.typename, fields, plain, empty)
        if kind in ("FrozenType", "ReversedType"):
            return reader.through(part_readers[0], empty)
        return None

    def _vector(
        self, cls: Any, subtype: Any, entries: list[Entry], empty: Any
    ) -> _core.ValueReader | None:
        # Drivers differ in which types of elements they write without lengths. If turbocql and this
        # driver differ for the type `subtype`, there is no native reader.
        if not self.has_matching_width(cls):
            return None
        cql_type = cassandra_types.cql_type(cls)
        stock = cassandra_types.stock_class(subtype)
        is_driver_function = stock is not None and self._is_own(subtype, stock, ("deserialize",))
        if is_driver_function and stock is not None and stock.__name__ in _FIXED_WIDTH_TYPES:
            return _core.ValueReader.leaf(cql_type, empty)
        element = self.reader(subtype, None, entries)
        return None if element is None else _core.ValueReader.vector_of(element, cql_type, empty)

    def collections(self) -> tuple[Any, Any]:
        """Returns the driver's classes for sets and maps; None for a class that turbocql does not
        know.
        """
        util = vars(self._cqltypes.util)
        map_class = util.get("OrderedMapSerializedKey")
        is_known_map = isinstance(map_class, type) and self._is_map(map_class)
        return self._sorted(util.get("SortedSet")), map_class if is_known_map else None

    def _sorted(self, set_class: Any) -> Any:
        """Returns `set_class` if it is the driver's `SortedSet`, with the driver's own methods.

        Otherwise, returns None.
        """
        util = self._cqltypes.util
        sorted_set = vars(util).get("SortedSet")
        methods = ("__init__", "update", "add", "_find_insertion", "__len__", "__iter__")
        is_sorted_set = set_class is sorted_set and all(
            is_own(util, sorted_set, name) for name in methods
        )
        return sorted_set if is_sorted_set else None

    def _is_value_class(self, name: str) -> bool:
        value_class = vars(self._cqltypes.util).get(name)
        return (
            isinstance(value_class, type)
            and value_class is self.values[name]
            and value_class.__bases__ == (object,)
            and is_own(self._cqltypes.util, value_class, "__init__")
            and not ({"__setattr__", "__slots__", "__new__"} & vars(value_class).keys())
        )

    def _is_map(self, map_class: Any) -> bool:
        util = self._cqltypes.util
        return (
            map_class.__mro__[1] is util.OrderedMap
            and is_own(util, map_class, "__init__")
            and is_own(util, map_class, "_insert_unchecked")
            and all(
                is_own(util, util.OrderedMap, name)
                for name in ("__init__", "__len__", "__iter__", "__getitem__")
            )
            and not ({"__setattr__", "__slots__"} & {*vars(map_class), *vars(util.OrderedMap)})
        )


def _is_plain(cls: Any, width: int) -> bool:
    """Whether `collections.namedtuple` has made the class, with `width` fields."""
    if type(cls) is not type or cls.__bases__ != (tuple,):
        return False
    new = vars(cls).get("__new__")
    return (
        isinstance(new, FunctionType)
        and new.__globals__.get("__name__") == f"namedtuple_{cls.__name__}"
        and "__init__" not in vars(cls)
        and len(vars(cls).get("_fields", ())) == width
    )
