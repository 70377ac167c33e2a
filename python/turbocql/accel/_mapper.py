"""The driver's object mapper, `cassandra.cqlengine`: instances, their values and statements."""

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
from ._mapper_sources import KNOWN
from ._origin import Left, documented, function, is_function_of, is_own, resolved
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


def source_digest(of: Any) -> str:
    """A digest of a function's source without comments, docstring and layout.

    Raises: Left, if there is no source.
    """
    try:
        source = inspect.getsource(of)
    except (OSError, TypeError):
        raise Left("its source is not there to be compared") from None
    # A method's source begins with its indentation.
    source = source if source[:1].strip() else f"if 1:\n{source}"
    words: list[str] = []
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        # A string that is a statement is a docstring.
        is_documentation = token.type == tokenize.STRING and before in _IGNORED
        if token.type not in _IGNORED and not is_documentation:
            words.append(token.string)
        before = token.type
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


class _Functions:
    """The functions of the driver that native code replaces or does itself, and their classes."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self.modules = modules
        self.found: dict[str, Any] = {}
        for name, digests in KNOWN.items():
            module, *path = name.split(".")
            owner: Any = modules[module]
            if len(path) == 2:
                owner = vars(owner).get(path[0])
            attribute = vars(owner).get(path[-1]) if owner is not None else None
            if attribute is None:
                raise Left(f"the driver has no {name}")
            if not (
                is_own(modules[module], owner, path[-1])
                if isinstance(owner, type)
                else is_function_of(modules[module], attribute)
            ):
                raise Left(f"{name} has been replaced")
            digest = source_digest(getattr(attribute, "fget", function(attribute)))
            if digest not in digests:
                raise Left(f"{name} is one that turbocql does not know ({digest})")
            self.found[name] = attribute

    def owner(self, name: str) -> Any:
        """The class or module of a function."""
        module, *path = name.split(".")
        return vars(self.modules[module])[path[0]] if len(path) == 2 else self.modules[module]

    def are_usual(self, ours: dict[str, int]) -> bool:
        """Whether all are still in their places, or what has replaced them has its id in `ours`."""
        for name, attribute in self.found.items():
            now = vars(self.owner(name)).get(name.rsplit(".", 1)[1])
            if now is not attribute and id(now) != ours.get(name):
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
_USUAL = ("has_default", "get_default", "db_field_name", "value_manager")


def _chain(cls: type[Any], name: str) -> tuple[Any, ...]:
    """What a class and its bases define under a name, in the order in which it is looked up."""
    return tuple(vars(one)[name] for one in cls.__mro__ if name in vars(one))


_OWN = (
    *("_can_update", "_set_column_value", "__len__", "_inst_batch"),
    *("ttl", "timestamp", "consistency", "if_not_exists", "if_exists", "using", "batch"),
)
"""What native code does of a model without calling it."""


def _is_looked_up_usually(cls: type[Any]) -> bool:
    """Whether the class has no say in how attributes of its instances are found."""
    found = resolved(cls, "__getattribute__")
    return found is not None and found[0] is object and resolved(cls, "__getattr__") is None


class _Planner:
    """What is known of models and their columns."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self._columns, self._models = modules["columns"], modules["models"]
        columns = self._columns
        self._own = {name: vars(self._models.BaseModel)[name] for name in _OWN}
        base = columns.Column
        validate, to_python, to_database = (vars(base)[name] for name in _METHODS)
        self._ways: dict[str, dict[tuple[Any, ...], str]] = {
            "validate": {(validate,): "checked"},
            "to_python": {(to_python,): "same"},
            "to_database": {(to_database,): "same"},
        }
        for name, way in _SCALARS.items():
            own = vars(vars(columns)[name])
            self._ways["validate"][own["validate"], validate] = way
            for method, last in (("to_python", to_python), ("to_database", to_database)):
                if method in own:
                    # These call `validate`, whatever that is.
                    self._ways[method][own[method], last] = "validate"
        moments = vars(columns.DateTime)
        self._ways["to_python"][moments["to_python"], to_python] = "datetime"
        self._ways["to_database"][moments["to_database"], to_database] = "millis"
        collection = columns.BaseCollectionColumn
        for name, way in _COLLECTIONS.items():
            own = vars(vars(columns)[name])
            chain = (own["validate"], vars(collection)["validate"], validate)
            self._ways["validate"][chain] = f"{way} checked"
            self._ways["to_python"][own["to_python"], to_python] = f"{way} empty"
            self._ways["to_database"][own["to_database"], to_database] = f"{way} none"
        self._usual = {name: (vars(base)[name],) for name in _USUAL}
        self._nulls = {
            (vars(base)["_val_is_null"],): False,
            (vars(collection)["_val_is_null"], vars(base)["_val_is_null"]): True,
        }

    def __call__(self, model: Any) -> Any:
        """What `Mapper` needs to know of a model; None if the driver must do the work.

        A tuple: the dict of the columns; the columns; the numbers of the columns of the primary
        key, and of the clustering key; whether the model's methods are the driver's.
        """
        columns = model._columns
        if not isinstance(columns, dict) or not _is_looked_up_usually(model):
            return None
        is_usual = not hasattr(model, "__bool__") and all(
            _chain(model, name)[:1] == (own,) for name, own in self._own.items()
        )
        names = list(columns)
        found = [self._column(name, column, model) for name, column in columns.items()]
        if any(column is None for column in found):
            return None
        keys = [
            [names.index(name) for name in part]
            for part in (model._primary_keys, model._clustering_keys)
        ]
        return columns, found, *keys, is_usual

    def _column(self, name: str, column: Any, model: Any | None) -> Any:
        """A column: its name, itself, its ways, the columns of its elements, and flags."""
        cls, own = type(column), vars(column)
        if not _is_looked_up_usually(cls):
            return None
        ways = tuple(self._way(cls, own, method) for method in _METHODS)
        inner = [self._column("", one, None) for one in own.get("types") or ()]
        if any(one is None for one in inner):
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
                and all(_chain(cls, one) == chain for one, chain in self._usual.items())
                and not own.keys() & {*_USUAL, "_val_is_null"}
                and {"default", "db_field", "required"} <= own.keys()
                and own.get("column_name") == name
                and self._is_described(name, column, model)
            ),
        )
        return name, column, ways, inner, flags

    def _way(self, cls: type[Any], own: dict[str, Any], method: str) -> str:
        if method in own:
            return ""
        way = self._ways[method].get(_chain(cls, method), "")
        if way == "validate":
            return self._way(cls, own, "validate")
        if way == "datetime" and self._columns.DateTime.truncate_microseconds:
            return ""
        kinds = {
            "set": ("value_col",),
            "list": ("value_col",),
            "map": ("key_col", "value_col"),
        }.get(way.split(" ")[0])
        if kinds is not None:
            types = own.get("types")
            named = [own.get(kind) for kind in kinds]
            if not isinstance(types, list) or len(types) != len(named):
                return ""
            if any(one is not other for one, other in zip(types, named, strict=True)):
                return ""
        return way

    def _is_described(self, name: str, column: Any, model: Any) -> bool:
        """Whether the model's attribute is the driver's descriptor of this column."""
        found = resolved(model, name)
        descriptor: Any = found[1] if found else None
        return type(descriptor) is self._models.ColumnDescriptor and descriptor.column is column


class ObjectMapper(Group):
    """The functions that create, validate, save and read instances of models.

    The group waits until `cassandra.cqlengine.models` is imported. It is applied only if each
    function that it replaces or does itself has a source that turbocql knows.
    """

    part = "cqlengine"
    needs = MODELS
    names = tuple(f"cqlengine.{name}" for name in _REPLACED)

    def patches(self, driver: Driver) -> list[Patch]:
        package = ("columns", "models", "query", "statements", "connection", "functions")
        modules = {name: sys.modules[f"{_PACKAGE}.{name}"] for name in package}
        functions = _Functions(modules)
        columns, statements = modules["columns"], modules["statements"]
        usual = (
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
        own = vars(models.BaseModel)
        kinds = (type(own[name]) is vars(models)[kind] for name, kind in _SETTERS.items())
        is_batch = all(kinds) and own["batch"].instmethod is own["_inst_batch"]
        if not is_batch or any(found is not expected for found, expected in usual):
            raise Left("a name in its modules has been replaced")
        # Their ids: a reference to the stand-ins would be a cycle that the GC does not see.
        ours: dict[str, int] = {}
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
            (_told, modules["models"].protect_name),
            (
                [
                    columns.BaseValueManager,
                    statements.InsertStatement,
                    statements.AssignmentClause,
                    statements.MapDeleteClause,
                    modules["models"].ColumnDescriptor,
                    *_descriptors(modules["models"]),
                ],
                lambda: functions.are_usual(ours),
            ),
        )
        return list(self._made(functions, mapper, ours))

    def _made(
        self, functions: _Functions, mapper: _core.Mapper, ours: dict[str, int]
    ) -> Iterator[Patch]:
        for name in _REPLACED:
            original = functions.found[name]
            is_of_class = isinstance(original, classmethod)
            bare = function(original)
            stand_in = _core.MapperStandIn(bare, mapper, name)
            made = stand_in.function(documented(bare))
            put_in = classmethod(made) if is_of_class else made
            ours[name] = id(put_in)
            attribute = name.rsplit(".", 1)[1]
            yield Patch(
                functions.owner(name),
                attribute,
                f"cqlengine.{name}",
                put_in,
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
"""Attributes of models that set something of an instance, and their descriptors' classes."""


def _descriptors(models: ModuleType) -> list[type[Any]]:
    return [vars(models)[name] for name in _SETTERS.values()]


def _told(queries: Any, instance: Any) -> Any:
    """Tells an instance what a query set was told, and saves it."""
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
