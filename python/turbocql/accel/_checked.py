"""Checks whether other code has replaced something of the driver that native code imitates."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import _core
from ._origin import NotReplaced, function
from ._sources import Sources

__all__ = ["Checked", "is_same", "loaded"]


def is_same(current: Any, value: Any) -> bool:
    """Whether `current` is the driver's attribute `value`, or a native stand-in for `value`."""
    if current is value:
        return True
    stand_in = function(current)
    return (
        type(stand_in).__name__ == "StandInFunction"
        and type(stand_in).__module__ == _core.__name__
        and stand_in.__wrapped__ is function(value)
    )


class Checked:
    """The attributes of the driver's classes and modules that must not be replaced.

    A native function imitates these attributes. At each call of the native function, the object
    that `usual()` returns finds out whether an attribute was replaced.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._attributes: dict[type[Any], dict[str, Any]] = {}
        self._entries: list[tuple[dict[str, Any], str, Any]] = []

    def expect(self, module: ModuleType, name: str, digests: tuple[str, ...]) -> Any:
        """Watches the function or method `name` of a module, and returns it.

        Raises: NotReplaced, if it is missing or was replaced, or its source has none of `digests`.
        """
        owner_name, _, method = name.rpartition(".")
        if not owner_name:
            value = self._sources.expect_function(module, name, digests)
            self.add_entry(module, name, value)
            return value
        owner = vars(module).get(owner_name)
        attribute = self._sources.expect_method(module, owner, method, digests)
        self.add_attribute(owner, method)
        return attribute

    def add_attribute(self, owner: Any, name: str) -> None:
        """Watches an attribute of a class. If it is inherited, `owner` must not override it."""
        self._attributes.setdefault(owner, {})[name] = vars(owner).get(name)

    def add_entry(self, module: ModuleType, name: str, value: Any) -> None:
        """Watches a name of a module. The value of the name must be `value`.

        Raises: NotReplaced, if the name has another value.
        """
        if vars(module).get(name) is not value:
            raise NotReplaced(f"{module.__name__}.{name} has been replaced")
        self._entries.append((vars(module), name, value))

    def expect_none(self, owner: type[Any], *names: str) -> None:
        """Watches attributes that a class must not have in its own dict.

        Raises: NotReplaced, if the class has such an attribute.
        """
        for name in names:
            self.add_attribute(owner, name)
            if name in vars(owner):
                where = f"{owner.__module__}.{owner.__name__}.{name}"
                raise NotReplaced(f"the driver has no {where}")

    def include(self, other: Checked) -> None:
        """Watches also what `other` watches."""
        for owner, attributes in other._attributes.items():
            self._attributes.setdefault(owner, {}).update(attributes)
        self._entries.extend(entry for entry in other._entries if entry not in self._entries)

    def problem(self) -> str:
        """Returns which watched attribute has been replaced; an empty text if none has."""
        for owner, attributes in self._attributes.items():
            for name, value in attributes.items():
                if not is_same(vars(owner).get(name), value):
                    return f"{owner.__module__}.{owner.__name__}.{name} has been replaced"
        for namespace, name, value in self._entries:
            if namespace.get(name) is not value:
                return f"{namespace.get('__name__')}.{name} has been replaced"
        return ""

    def usual(self, *, with_entries: bool = True) -> _core.Usual:
        """Returns an object with which native code checks at each call that nothing was replaced.

        If `with_entries` is False, the object checks only attributes of classes. Names of modules
        take longer to check.
        """
        return _core.Usual(
            [(owner, self._is_unchanged(owner)) for owner in self._attributes],
            list(self._entries) if with_entries else [],
        )

    def _is_unchanged(self, owner: type[Any]) -> Callable[[], bool]:
        attributes = self._attributes[owner]
        return lambda: all(
            is_same(vars(owner).get(name), value) for name, value in attributes.items()
        )


def loaded(name: str) -> ModuleType:
    """Returns the driver's module `cassandra.<name>`.

    Raises: NotReplaced, if the module is not imported.
    """
    module = sys.modules.get(f"cassandra.{name}")
    if module is None:
        raise NotReplaced(f"cassandra.{name} is not imported")
    return module
