"""Accelerates the object mapper `cassandra.cqlengine`."""

from __future__ import annotations

from ._patch import Driver, Group, Patch

__all__ = ["MODELS", "mapper_groups"]

PACKAGE = "cassandra.cqlengine"
MODELS = f"{PACKAGE}.models"
"""`ObjectMapper` is applied only after this module is imported."""

REPLACED = (
    *("models.BaseModel.__init__", "models.BaseModel._set_persisted", "models.BaseModel.validate"),
    *("query.DMLQuery.save", "query.DMLQuery._delete_null_columns"),
    *("query.AbstractQuerySet.__deepcopy__", "query.AbstractQuerySet.create"),
    *("models.BaseModel.create", "models.BaseModel.column_family_name"),
    "statements.InsertStatement.__unicode__",
    "statements.AssignmentStatement.get_context",
    "statements.AssignmentStatement.partition_key_values",
    "connection.execute",
)


class ObjectMapper(Group):
    """Patches the mapper's functions that create, validate and save model instances (`REPLACED`).

    The group waits until `cassandra.cqlengine.models` is imported. The group is applied only if
    turbocql knows the source of each function that native code replaces or imitates.
    """

    part = "cqlengine"
    needs = MODELS
    names = tuple(f"cqlengine.{name}" for name in REPLACED)

    def patches(self, driver: Driver) -> list[Patch]:
        # Only a program that uses the mapper needs `_mapper_patches`.
        from ._mapper_patches import mapper_patches

        return mapper_patches(driver, PACKAGE, REPLACED)


def mapper_groups() -> list[Group]:
    """The group of the object mapper."""
    return [ObjectMapper()]
