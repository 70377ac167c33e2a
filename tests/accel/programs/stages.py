"""Accelerates the driver before, during or after the import of its modules. The argument selects
one of five ways.

python stages.py while_it_is_imported|interrupted|imported_again|over_between|loaders
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from typing import Any

from turbocql import accel


def unpatched() -> dict[str, str]:
    """Returns the driver's functions that are not replaced, with the reasons."""
    return {seam.name: seam.why for seam in accel.status().seams if not seam.patched}


def is_watching() -> bool:
    """Returns whether the accelerator watches imports."""
    return any("accel" in type(finder).__module__ for finder in sys.meta_path)


def is_native() -> bool:
    """Returns whether timers are cancelled natively."""
    return "native" in repr(vars(sys.modules["cassandra.connection"].Timer)["cancel"])


def load(name: str) -> Any:
    """Imports and returns a module of the driver."""
    return importlib.import_module(f"cassandra.{name}")


class Late(MetaPathFinder):
    """An import hook that calls `accelerate` during the import of `cassandra.connection`.

    The call happens when `cassandra.connection` imports `cassandra.segment`.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "cassandra.segment" and "cassandra.connection" in sys.modules:
            accel.accelerate()


def while_it_is_imported() -> None:
    load("query")
    sys.meta_path.insert(0, Late())
    load("connection")
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Late)]
    importlib.import_module("wave")
    assert is_native()
    assert is_watching()
    load("cluster")
    load("concurrent")
    load("cqlengine.models")
    assert accel.status().seams
    assert "it waits" not in str(accel.status())
    assert not is_watching()


def interrupted() -> None:
    query = load("query")
    from turbocql.accel import _connections

    accel.accelerate()
    patches = _connections.Timers.patches

    def interrupt(self: Any, driver: Any) -> Any:
        _connections.Timers.patches = patches  # type: ignore[method-assign]
        raise KeyboardInterrupt

    _connections.Timers.patches = interrupt  # type: ignore[method-assign]
    try:
        load("connection")
    except KeyboardInterrupt:
        assert "cassandra.connection" not in sys.modules
    else:
        raise AssertionError
    load("connection")
    assert is_native()
    assert "native" in repr(vars(query.BoundStatement)["bind"])


def imported_again() -> None:
    load("cluster")
    accel.accelerate()
    assert is_native()
    del sys.modules["cassandra.connection"]
    load("connection")
    accel.status()
    assert is_native()
    accel.uninstall()
    assert not is_native()


def over_between() -> None:
    load("query")
    with accel.accelerated():
        assert "it waits for" in unpatched()["connection.Timer.cancel"]
    assert not is_watching()
    load("connection")
    assert not is_native()
    assert "waits" not in str(accel.status()), str(accel.status())


def loaders() -> None:
    accel.accelerate()
    spec: Any = importlib.util.find_spec("cassandra.connection")
    assert is_watching()
    assert spec.loader.is_package("cassandra.connection") is False
    assert spec.loader.path == spec.origin


if __name__ == "__main__":
    globals()[sys.argv[1]]()
