"""Plans how native code converts values of models, and which methods of the driver it may skip."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

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
_INLINED_METHODS = ("db_field_name", "value_manager")
_DEFAULT_METHODS = ("has_default", "get_default")
"""Methods of columns that native code calls if they are not the driver's own."""


def _chain(cls: type[Any], name: str) -> tuple[Any, ...]:
    """Returns the attributes that a class and its bases define as `name`, in lookup order."""
    return tuple(vars(base)[name] for base in cls.__mro__ if name in vars(base))


_INLINED_ATTRIBUTES = (
    *("_can_update", "_set_column_value", "__len__", "_inst_batch"),
    *("ttl", "timestamp", "consistency", "if_not_exists", "if_exists", "using", "batch"),
)
"""Methods and descriptors of models that native code does not call: it does their work itself."""


def _attribute(cls: type[Any], name: str) -> str:
    """Returns the full name of an attribute: module and name of its owner, and its own name.

    The owner is the class itself or the base that defines the attribute.
    """
    resolution = resolved(cls, name)
    owner = cls if resolution is None else resolution[0]
    return f"{owner.__module__}.{owner.__qualname__}.{name}"


def _expect_default_lookup(cls: type[Any]) -> None:
    """Checks that instances of a class look up attributes as instances of `object` do.

    Raises: _Unfit, if the class has a lookup of its own.
    """
    for name, owner in (("__getattribute__", object), ("__getattr__", None)):
        resolution = resolved(cls, name)
        if (resolution and resolution[0]) is not owner:
            raise _Unfit(f"{_attribute(cls, name)} is not the driver's")


_MAX_UNFIT = 64


class _Unfit(Exception):
    """The reason why a model is left to the driver's own functions."""


class ColumnPlan(NamedTuple):
    """Describes a column of a model, or of a collection's elements, to native code."""

    name: str
    """The column's name; empty for a column of elements."""
    column: Any
    conversions: tuple[str, ...]
    """The names of the conversions that its `validate`, `to_python` and `to_database` do."""
    element_plans: list[ColumnPlan]
    is_container: bool
    """Whether the column is a set, list or map."""
    is_map: bool
    empty_is_null: bool
    """Whether an empty value counts as null."""
    calls_default: bool
    """Whether `has_default` and `get_default` are called, because they are not the driver's."""


class ModelPlan(NamedTuple):
    """Describes a model, whose methods are the driver's own, to native code."""

    columns_of_class: dict[str, Any]
    columns: list[ColumnPlan]
    primary: list[int]
    """The positions of the primary key's columns in the dict."""
    clustering: list[int]
    """The positions of the clustering key's columns in the dict."""


class Planner:
    """Plans how native code converts the values of models' columns.

    `originals` maps names such as "columns.Column.get_default" to the driver's functions. It has no
    entry for a function that the program has replaced.
    """

    def __init__(self, modules: dict[str, ModuleType], originals: dict[str, Any]) -> None:
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
                    # The driver's `to_python` and `to_database` of these columns call `validate`.
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
        self._default_methods = {
            name: (originals.get(f"columns.Column.{name}"),) for name in _DEFAULT_METHODS
        }
        self._null_method = vars(base)["_val_is_null"]
        self.unfit: dict[str, str] = {}
        """The reasons why native code does not handle some models, by the names of these models."""
        self._nulls = {
            (vars(base)["_val_is_null"],): False,
            (vars(collection)["_val_is_null"], vars(base)["_val_is_null"]): True,
        }

    def __call__(self, model: Any) -> ModelPlan | None:
        """Returns the plan of a model for `_core.Mapper`; None if it is left to the driver."""
        name = f"{model.__module__}.{model.__qualname__}"
        try:
            plan = self._plan(model)
        except _Unfit as unfit:
            if len(self.unfit) < _MAX_UNFIT:
                self.unfit[name] = str(unfit)
            return None
        self.unfit.pop(name, None)
        return plan

    def _plan(self, model: Any) -> ModelPlan:
        columns = model._columns
        if not isinstance(columns, dict):
            raise _Unfit("its _columns is not a dict")
        _expect_default_lookup(model)
        if hasattr(model, "__bool__"):
            raise _Unfit(f"{_attribute(model, '__bool__')} is not the driver's")
        for name, attribute in self._driver_attributes.items():
            if _chain(model, name)[:1] != (attribute,):
                raise _Unfit(f"{_attribute(model, name)} is not the driver's")
        names = list(columns)
        column_plans = [self._column(name, column, model) for name, column in columns.items()]
        keys = [
            [names.index(name) for name in part]
            for part in (model._primary_keys, model._clustering_keys)
        ]
        return ModelPlan(columns, column_plans, *keys)

    def problem(self) -> str:
        """Returns the reason why every model is left to the driver; empty if there is none.

        Such a reason is an attribute of `BaseModel` or `Column` that the program has changed.
        """
        model, column = self._models.BaseModel, self._columns.Column
        try:
            for cls in (model, column):
                _expect_default_lookup(cls)
        except _Unfit as unfit:
            return str(unfit)
        attributes = [("__bool__", model, None)]
        attributes += [(name, model, own) for name, own in self._driver_attributes.items()]
        attributes += [(name, column, own) for name, (own,) in self._inlined_methods.items()]
        attributes.append(("_val_is_null", column, self._null_method))
        for name, cls, own in attributes:
            if vars(cls).get(name) is not own:
                return f"{cls.__module__}.{cls.__qualname__}.{name} is not the driver's"
        return ""

    def _column(self, name: str, column: Any, model: Any | None) -> ColumnPlan:
        cls, attributes = type(column), vars(column)
        _expect_default_lookup(cls)
        conversions = tuple(self._conversion(cls, attributes, method) for method in _METHODS)
        element_plans = [
            self._column("", element_column, None)
            for element_column in attributes.get("types") or ()
        ]
        columns = self._columns
        empty_is_null = self._nulls.get(_chain(cls, "_val_is_null"))
        if model is not None:
            self._expect_usual(name, column, model)
        calls_default = bool(attributes.keys() & {*_DEFAULT_METHODS}) or any(
            _chain(cls, method) != chain for method, chain in self._default_methods.items()
        )
        return ColumnPlan(
            name,
            column,
            conversions,
            element_plans,
            is_container=isinstance(column, columns.BaseContainerColumn),
            is_map=isinstance(column, columns.Map),
            empty_is_null=bool(empty_is_null),
            calls_default=calls_default,
        )

    def _expect_usual(self, name: str, column: Any, model: Any) -> None:
        """Checks that the methods and attributes of a model's column are the driver's own.

        Raises: _Unfit, with the name of a method or attribute that is not the driver's own.
        """
        cls, attributes = type(column), vars(column)
        own = attributes.keys() & {*_INLINED_METHODS, "_val_is_null"}
        if own:
            raise _Unfit(f"its column {name} has {min(own)} of its own")
        if _chain(cls, "_val_is_null") not in self._nulls:
            raise _Unfit(f"{_attribute(cls, '_val_is_null')} is not the driver's")
        for method, chain in self._inlined_methods.items():
            if _chain(cls, method) != chain:
                raise _Unfit(f"{_attribute(cls, method)} is not the driver's")
        if not {"default", "db_field", "required"} <= attributes.keys():
            raise _Unfit(f"its column {name} lacks attributes of the driver's")
        if attributes.get("column_name") != name or not self._is_described(name, column, model):
            raise _Unfit(f"its attribute {name} is not the driver's for that column")

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
