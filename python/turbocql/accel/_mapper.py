"""Accelerates the object mapper `cassandra.cqlengine`: instances, their values and statements."""

from __future__ import annotations

import copy
import decimal
import hashlib
import inspect
import io
import logging
import sys
import tokenize
import uuid
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .. import _core
from ._mapper_sources import SOURCE_DIGESTS
from ._origin import NotReplaced, documented, function, is_function_of, is_own, resolved
from ._patch import Driver, Group, Patch

__all__ = ["MODELS", "mapper_groups"]

_PACKAGE = "cassandra.cqlengine"
MODELS = f"{_PACKAGE}.models"
"""`ObjectMapper` is applied only after this module is imported."""

_REPLACED = (
    *("models.BaseModel.__init__", "models.BaseModel._set_persisted", "models.BaseModel.validate"),
    *("query.DMLQuery.save", "query.DMLQuery._delete_null_columns"),
    *("query.AbstractQuerySet.__deepcopy__", "query.AbstractQuerySet.create"),
    *("models.BaseModel.create", "models.BaseModel.column_family_name"),
    "statements.InsertStatement.__unicode__",
    "statements.AssignmentStatement.get_context",
    "statements.AssignmentStatement.partition_key_values",
    "connection.execute",
)
_IGNORED = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


def source_digest(code: Any) -> str:
    """A digest of a function's source without comments, docstring and layout.

    Raises: NotReplaced, if there is no source.
    """
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):
        raise NotReplaced("its source is not there to be compared") from None
    # A method's source begins with its indentation.
    source = source if source[:1].strip() else f"if 1:\n{source}"
    tokens: list[str] = []
    previous_type = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        # A string that is a statement is a docstring.
        is_documentation = token.type == tokenize.STRING and previous_type in _IGNORED
        if token.type not in _IGNORED and not is_documentation:
            tokens.append(token.string)
        previous_type = token.type
    return hashlib.sha256(" ".join(tokens).encode()).hexdigest()[:12]


class _Functions:
    """The functions of the driver that native code replaces or inlines, and their classes."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self.modules = modules
        self.originals: dict[str, Any] = {}
        for name, digests in SOURCE_DIGESTS.items():
            module, *path = name.split(".")
            owner: Any = modules[module]
            if len(path) == 2:
                owner = vars(owner).get(path[0])
            attribute = vars(owner).get(path[-1]) if owner is not None else None
            if attribute is None:
                raise NotReplaced(f"the driver has no {name}")
            if not (
                is_own(modules[module], owner, path[-1])
                if isinstance(owner, type)
                else is_function_of(modules[module], attribute)
            ):
                raise NotReplaced(f"{name} has been replaced")
            digest = source_digest(getattr(attribute, "fget", function(attribute)))
            if digest not in digests:
                raise NotReplaced(f"{name} is one that turbocql does not know ({digest})")
            self.originals[name] = attribute

    def owner(self, name: str) -> Any:
        """The class or module of a function."""
        module, *path = name.split(".")
        return vars(self.modules[module])[path[0]] if len(path) == 2 else self.modules[module]

    def are_unchanged(self, stand_in_ids: dict[str, int]) -> bool:
        """Whether each function is the driver's, or a stand-in with its id in `stand_in_ids`."""
        for name, attribute in self.originals.items():
            current = vars(self.owner(name)).get(name.rsplit(".", 1)[1])
            if current is not attribute and id(current) != stand_in_ids.get(name):
                return False
        return True


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
"""Attributes of models that native code inlines: it does their work without calling them."""


def _has_default_lookup(cls: type[Any]) -> bool:
    """Whether attribute lookup on instances of the class is that of `object`."""
    getter = resolved(cls, "__getattribute__")
    return getter is not None and getter[0] is object and resolved(cls, "__getattr__") is None


class _Planner:
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

        The plan is a tuple: the dict of the columns; the columns; the numbers of the columns of the
        primary key, and of the clustering key; whether the model's methods are the driver's.
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


class ObjectMapper(Group):
    """The functions that create, validate, save and read instances of models.

    The group waits until `cassandra.cqlengine.models` is imported. It is applied only if each
    function that it replaces or inlines has a source that turbocql knows.
    """

    part = "cqlengine"
    needs = MODELS
    names = tuple(f"cqlengine.{name}" for name in _REPLACED)

    def patches(self, driver: Driver) -> list[Patch]:
        package = ("columns", "models", "query", "statements", "connection", "functions")
        modules = {name: sys.modules[f"{_PACKAGE}.{name}"] for name in package}
        functions = _Functions(modules)
        columns, statements = modules["columns"], modules["statements"]
        expected_names = (
            (columns.deepcopy, copy.deepcopy),
            (columns._UUID, uuid.UUID),
            (modules["query"].copy, copy),
            (modules["query"].InsertStatement, statements.InsertStatement),
            (modules["query"].conn, modules["connection"]),
            (modules["models"].connection, modules["connection"]),
            (modules["connection"].SimpleStatement, driver.query.SimpleStatement),
            (modules["models"].protect_name, sys.modules["cassandra.metadata"].protect_name),
        )
        models = modules["models"]
        model_attributes = vars(models.BaseModel)
        kinds = (
            type(model_attributes[name]) is vars(models)[kind] for name, kind in _SETTERS.items()
        )
        is_batch = (
            all(kinds) and model_attributes["batch"].instmethod is model_attributes["_inst_batch"]
        )
        if not is_batch or any(current is not expected for current, expected in expected_names):
            raise NotReplaced("a name in its modules has been replaced")
        # Ids only: references to the stand-ins would form a cycle that the GC does not see.
        stand_in_ids: dict[str, int] = {}
        mapper = _core.Mapper(
            _Planner(modules),
            (uuid.UUID, decimal.Decimal, copy.deepcopy),
            (
                columns.BaseValueManager,
                statements.InsertStatement,
                statements.AssignmentClause,
                driver.query.SimpleStatement,
                logging.Logger,
            ),
            (modules["connection"].NOT_SET, statements.FETCH_SIZE_UNSET),
            modules["connection"],
            (_save_with_options, modules["models"].protect_name),
            (
                [
                    columns.BaseValueManager,
                    statements.InsertStatement,
                    statements.AssignmentClause,
                    statements.MapDeleteClause,
                    modules["models"].ColumnDescriptor,
                    *_descriptors(modules["models"]),
                ],
                lambda: functions.are_unchanged(stand_in_ids),
            ),
        )
        return list(self._make_patches(functions, mapper, stand_in_ids))

    def _make_patches(
        self, functions: _Functions, mapper: _core.Mapper, stand_in_ids: dict[str, int]
    ) -> Iterator[Patch]:
        for name in _REPLACED:
            original = functions.originals[name]
            is_of_class = isinstance(original, classmethod)
            bare = function(original)
            stand_in = _core.MapperStandIn(bare, mapper, name)
            native_function = stand_in.function(documented(bare))
            replacement = classmethod(native_function) if is_of_class else native_function
            stand_in_ids[name] = id(replacement)
            attribute = name.rsplit(".", 1)[1]
            yield Patch(
                functions.owner(name),
                attribute,
                f"cqlengine.{name}",
                replacement,
                stand_in.counts,
            )


_SETTERS = {
    "ttl": "TTLDescriptor",
    "timestamp": "TimestampDescriptor",
    "consistency": "ConsistencyDescriptor",
    "if_not_exists": "IfNotExistsDescriptor",
    "if_exists": "IfExistsDescriptor",
    "using": "UsingDescriptor",
    "batch": "hybrid_classmethod",
}
"""Attributes of models that set an option of an instance, and their descriptors' classes."""


def _descriptors(models: ModuleType) -> list[type[Any]]:
    return [vars(models)[name] for name in _SETTERS.values()]


def _save_with_options(queries: Any, instance: Any) -> Any:
    """Sets the options of a query set on an instance, and saves it."""
    return (
        instance.batch(queries._batch)
        .ttl(queries._ttl)
        .consistency(queries._consistency)
        .if_not_exists(queries._if_not_exists)
        .timestamp(queries._timestamp)
        .if_exists(queries._if_exists)
        .using(connection=queries._connection)
        .save()
    )


def mapper_groups() -> list[Group]:
    """The group of the object mapper."""
    return [ObjectMapper()]
