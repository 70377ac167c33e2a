"""Adds the module `cassandra.serializers` to drivers that have none.

The classes and functions of the added module are defined in `_serializers`, which is imported when
a program first uses one of them.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ._origin import NotReplaced, expect_own, function
from ._patch import Driver, Group, Patch
from ._serializers_state import call_counts, original_serialize, vector_types

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    # `importlib.abc` is not imported, because it imports many other modules.
    Loader = object

__all__ = ["SERIALIZERS", "serializer_groups"]

SERIALIZERS = "cassandra.serializers"

_NAMES = {
    "Serializer": "Serializer",
    "GenericSerializer": "GenericSerializer",
    "SerFloatType": "SerFloatType",
    "SerDoubleType": "SerDoubleType",
    "SerInt32Type": "SerInt32Type",
    "SerVectorType": "SerVectorType",
    "find_serializer": "of_type",
    "make_serializers": "of_types",
}
"""Maps each name in the module to the name of the same object in `_serializers`."""


class _ReadyLoader(Loader):
    """A loader that returns a module that is complete already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete."""


class _ModulePatch(Patch):
    """Adds a module to the driver's package."""

    def apply(self) -> None:
        super().apply()
        sys.modules[SERIALIZERS] = self.replacement

    def undo(self) -> bool:
        if sys.modules.get(SERIALIZERS) is self.replacement:
            del sys.modules[SERIALIZERS]
        return super().undo()


class Serializers(Group):
    """Adds the module `cassandra.serializers`."""

    part = "serializers"
    names = (SERIALIZERS,)

    def patches(self, driver: Driver) -> list[Patch]:
        package = sys.modules["cassandra"]
        if SERIALIZERS in sys.modules or _has_serializers(package):
            raise NotReplaced("the driver has its own")
        types = driver.cqltypes
        for owner in (types.FloatType, types.DoubleType, types.Int32Type):
            expect_own(types, owner, "serialize")
        vector_types[:] = [types.VectorType] if hasattr(types, "VectorType") else []
        for owner in vector_types:
            if function(vars(owner).get("serialize")) not in driver.plans.native_functions:
                expect_own(types, owner, "serialize")
        scalars = (types.FloatType, types.DoubleType, types.Int32Type)
        original_serialize.clear()
        original_serialize.update({cqltype: vars(cqltype)["serialize"] for cqltype in scalars})
        module = ModuleType(SERIALIZERS, "Serializers of the driver's types, by turbocql.")
        module.__spec__ = ModuleSpec(SERIALIZERS, _ReadyLoader(module))
        module.__package__ = "cassandra"

        def load(name: str) -> Any:
            if name not in _NAMES:
                raise AttributeError(f"module {SERIALIZERS!r} has no attribute {name!r}")
            classes = vars(importlib.import_module("._serializers", __package__))
            vars(module).update({name: classes[origin] for name, origin in _NAMES.items()})
            return vars(module)[name]

        vars(module).update(
            __all__=[*_NAMES], __getattr__=load, __dir__=lambda: sorted({*vars(module), *_NAMES})
        )
        patch = _ModulePatch(package, "serializers", SERIALIZERS, module, _counts)
        patch.count_from_here()
        return [patch]


def _counts() -> tuple[int, int]:
    return call_counts[0], call_counts[1]


def _has_serializers(package: ModuleType) -> bool:
    """Whether a finder other than turbocql's own finds the module `cassandra.serializers`."""
    for finder in sys.meta_path:
        if type(finder).__module__.startswith("turbocql."):
            continue
        find = getattr(finder, "find_spec", None)
        if find is not None and find(SERIALIZERS, package.__path__, None) is not None:
            return True
    return False


def serializer_groups() -> list[Group]:
    """The group that adds the module."""
    return [Serializers()]
