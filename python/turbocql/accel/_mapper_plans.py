"""Plans how native code converts the columns of models, and which of their methods it may skip."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ._origin import resolved

__all__ = ["Planner"]

_METHODS = ("validate", "to_python", "to_database")
_SCALARS = {
    "Text": "text",
    "Integer": "int",
    "VarInt": "int",
    "UUID": "uuid",
    "Boolean": "bool",
    "BaseFloat": "float",
    "Decimal": "decimal",
}
_COLLECTIONS = {"Set": "set", "List": "list", "Map": "map"}
_INLINED_METHODS = ("has_default", "get_default", "db_field_name", "value_manager")


def _chain(cls: type[Any], name: str) -> tuple[Any, ...]:
    """The attributes of a name in a class and its bases, in lookup order."""
    return tuple(vars(base)[name] for base in cls.__mro__ if name in vars(base))


_INLINED_ATTRIBUTES = (
    *("_can_update", "_set_column_value", "__len__", "_inst_batch"),
    *("ttl", "timestamp", "consistency", "if_not_exists", "if_exists", "using", "batch"),
)
"""Methods and attributes of models that native code does itself, without calling them."""


def _has_default_lookup(cls: type[Any]) -> bool:
    """Whether attribute lookup on instances of the class is that of `object`."""
    getter = resolved(cls, "__getattribute__")
    return getter is not None and getter[0] is object and resolved(cls, "__getattr__") is None


class Planner:
    """Plans how native code converts the columns of models."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self._columns, self._models = modules["columns"], modules["models"]
        columns = self._columns
        self._driver_attributes = {
            name: vars(self._models.BaseModel)[name] for name in _INLINED_ATTRIBUTES
        }
        base = columns.Column
        validate, to_python, to_database = (vars(base)[name] for name in _METHODS)
        self._conversions: dict[str, dict[tuple[Any, ...], str]] = {
            "validate": {(validate,): "checked"},
            "to_python": {(to_python,): "same"},
            "to_database": {(to_database,): "same"},
        }
        for name, conversion in _SCALARS.items():
            class_methods = vars(vars(columns)[name])
            self._conversions["validate"][class_methods["validate"], validate] = conversion
            for method, base_method in (("to_python", to_python), ("to_database", to_database)):
                if method in class_methods:
                    # These methods call `validate`, so they convert as it does.
                    self._conversions[method][class_methods[method], base_method] = "validate"
        datetime_methods = vars(columns.DateTime)
        self._conversions["to_python"][datetime_methods["to_python"], to_python] = "datetime"
        self._conversions["to_database"][datetime_methods["to_database"], to_database] = "millis"
        collection = columns.BaseCollectionColumn
        for name, conversion in _COLLECTIONS.items():
            class_methods = vars(vars(columns)[name])
            chain = (class_methods["validate"], vars(collection)["validate"], validate)
            self._conversions["validate"][chain] = f"{conversion} checked"
            self._conversions["to_python"][class_methods["to_python"], to_python] = (
                f"{conversion} empty"
            )
            self._conversions["to_database"][class_methods["to_database"], to_database] = (
                f"{conversion} none"
            )
        self._inlined_methods = {name: (vars(base)[name],) for name in _INLINED_METHODS}
        self._nulls = {
            (vars(base)["_val_is_null"],): False,
            (vars(collection)["_val_is_null"], vars(base)["_val_is_null"]): True,
        }

    def __call__(self, model: Any) -> Any:
        """The plan of a model for `Mapper`; None if the driver must do the work.

        A tuple: the dict of the columns; the columns; the numbers of the columns of the primary
        key, and of the clustering key; whether the model's methods are the driver's.
        """
        columns = model._columns
        if not isinstance(columns, dict) or not _has_default_lookup(model):
            return None
        has_driver_methods = not hasattr(model, "__bool__") and all(
            _chain(model, name)[:1] == (attribute,)
            for name, attribute in self._driver_attributes.items()
        )
        names = list(columns)
        column_plans = [self._column(name, column, model) for name, column in columns.items()]
        if any(column is None for column in column_plans):
            return None
        keys = [
            [names.index(name) for name in part]
            for part in (model._primary_keys, model._clustering_keys)
        ]
        return columns, column_plans, *keys, has_driver_methods

    def _column(self, name: str, column: Any, model: Any | None) -> Any:
        """The plan of a column: name, column, conversions, plans of its elements, and flags."""
        cls, attributes = type(column), vars(column)
        if not _has_default_lookup(cls):
            return None
        conversions = tuple(self._conversion(cls, attributes, method) for method in _METHODS)
        element_plans = [
            self._column("", element_column, None)
            for element_column in attributes.get("types") or ()
        ]
        if any(element_plan is None for element_plan in element_plans):
            return None
        columns = self._columns
        empty_is_null = self._nulls.get(_chain(cls, "_val_is_null"))
        flags = (
            isinstance(column, columns.BaseContainerColumn),
            isinstance(column, columns.Map),
            bool(empty_is_null),
            model is None
            or (
                empty_is_null is not None
                and all(
                    _chain(cls, method) == chain for method, chain in self._inlined_methods.items()
                )
                and not attributes.keys() & {*_INLINED_METHODS, "_val_is_null"}
                and {"default", "db_field", "required"} <= attributes.keys()
                and attributes.get("column_name") == name
                and self._is_described(name, column, model)
            ),
        )
        return name, column, conversions, element_plans, flags

    def _conversion(self, cls: type[Any], attributes: dict[str, Any], method: str) -> str:
        if method in attributes:
            return ""
        conversion = self._conversions[method].get(_chain(cls, method), "")
        if conversion == "validate":
            return self._conversion(cls, attributes, "validate")
        if conversion == "datetime" and self._columns.DateTime.truncate_microseconds:
            return ""
        kinds = {
            "set": ("value_col",),
            "list": ("value_col",),
            "map": ("key_col", "value_col"),
        }.get(conversion.split(" ")[0])
        if kinds is not None:
            types = attributes.get("types")
            element_columns = [attributes.get(kind) for kind in kinds]
            if not isinstance(types, list) or len(types) != len(element_columns):
                return ""
            if any(
                element_type is not element_column
                for element_type, element_column in zip(types, element_columns, strict=True)
            ):
                return ""
        return conversion

    def _is_described(self, name: str, column: Any, model: Any) -> bool:
        """Whether the model's attribute is the driver's descriptor of this column."""
        resolution = resolved(model, name)
        descriptor: Any = resolution[1] if resolution else None
        return type(descriptor) is self._models.ColumnDescriptor and descriptor.column is column
