"""The replacements of the object mapper's functions."""

from __future__ import annotations

import copy
import decimal
import logging
import sys
import uuid
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .. import _core
from ._mapper_functions import Functions
from ._mapper_plans import Planner
from ._origin import NotReplaced, function
from ._patch import Driver, Patch

__all__ = ["mapper_patches"]


def mapper_patches(driver: Driver, package: str, replaced: Iterable[str]) -> list[Patch]:
    """Makes patches for the functions whose names are in `replaced`, in the modules of `package`.

    Raises: NotReplaced, if turbocql does not know a function that native code replaces or imitates,
        or if a name on which native code relies was replaced in one of the modules.
    """
    names = ("columns", "models", "query", "statements", "connection", "functions")
    modules = {name: sys.modules[f"{package}.{name}"] for name in names}
    functions = Functions(modules)
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
    kinds = (type(model_attributes[name]) is vars(models)[kind] for name, kind in _SETTERS.items())
    is_batch = (
        all(kinds) and model_attributes["batch"].instmethod is model_attributes["_inst_batch"]
    )
    if not is_batch or any(current is not expected for current, expected in expected_names):
        raise NotReplaced("a name in its modules has been replaced")
    # The values are ids, because references to the stand-ins would form a reference cycle that the
    # GC cannot find.
    stand_in_ids: dict[str, int] = {}
    classes = [
        columns.BaseValueManager,
        statements.InsertStatement,
        statements.AssignmentClause,
        statements.MapDeleteClause,
        models.ColumnDescriptor,
        *_descriptors(models),
    ]
    planner = Planner(modules, functions.originals)

    def problem() -> str:
        name = functions.replaced(classes, stand_in_ids)
        return f"{package}.{name} has been replaced" if name else planner.problem()

    def notes() -> list[str]:
        unfit = planner.unfit.items()
        return [f"cqlengine: {model} is left to the driver: {why}" for model, why in unfit]

    mapper = _core.Mapper(
        planner,
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
        (classes, lambda: not functions.replaced(classes, stand_in_ids)),
    )
    patches: list[Patch] = []
    for name in replaced:
        original = functions.originals[name]
        bare = function(original)
        stand_in = _core.MapperStandIn(bare, mapper, name)
        native_function = stand_in.function()
        is_of_class = isinstance(original, classmethod)
        replacement = classmethod(native_function) if is_of_class else native_function
        stand_in_ids[name] = id(replacement)
        patches.append(
            Patch(
                functions.owner(name),
                name.rsplit(".", 1)[1],
                f"cqlengine.{name}",
                replacement,
                stand_in.counts,
                problem=problem,
                notes=notes,
            )
        )
    return patches


_SETTERS = {
    "ttl": "TTLDescriptor",
    "timestamp": "TimestampDescriptor",
    "consistency": "ConsistencyDescriptor",
    "if_not_exists": "IfNotExistsDescriptor",
    "if_exists": "IfExistsDescriptor",
    "using": "UsingDescriptor",
    "batch": "hybrid_classmethod",
}
"""The methods of models that set options of an instance, each with the class of its descriptor."""


def _descriptors(models: ModuleType) -> list[type[Any]]:
    return [vars(models)[name] for name in _SETTERS.values()]


def _save_with_options(queries: Any, instance: Any) -> Any:
    """Gives a model instance the options of a query set, and saves the instance."""
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
