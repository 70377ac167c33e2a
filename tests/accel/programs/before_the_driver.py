"""Accelerates before the driver is imported, then imports the driver module by module.

    python before_the_driver.py FIRST SEAM...

FIRST is the first module of the driver to import. Each SEAM is the name of a function of the
driver. The accelerator replaces it in other releases, but must not replace it in this release.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import turbocql


def unpatched() -> dict[str, str]:
    """Returns the names of the seams that are not patched, with the reasons."""
    return {seam.name: seam.why for seam in turbocql.accel.status().seams if not seam.patched}


def is_watching() -> bool:
    """Returns whether the accelerator watches imports."""
    return any("accel" in type(finder).__module__ for finder in sys.meta_path)


def main() -> None:
    first, *names = sys.argv[1:]
    expected = set(names)
    turbocql.accelerate()
    assert "cassandra" not in sys.modules
    assert "not imported" in turbocql.accel.status().driver
    importlib.import_module(f"cassandra.{first}")
    query: Any = importlib.import_module("cassandra.query")
    assert query.BoundStatement
    assert turbocql.accel.status().seams
    waiting = {name for name, why in unpatched().items() if "it waits for" in why}
    assert set(unpatched()) - waiting == expected - waiting, turbocql.accel.status()
    later = {name for name in waiting if name.startswith(("cqlengine.", "concurrent."))}
    assert len(later) == 17
    assert bool(waiting - later) == ("cassandra.cluster" not in sys.modules)
    assert ("connection.Timer.cancel" in waiting) == ("cassandra.connection" not in sys.modules)
    importlib.import_module("cassandra.cluster")
    importlib.import_module("cassandra.concurrent")
    assert {name for name in unpatched() if not name.startswith("cqlengine.")} == expected
    importlib.import_module("cassandra.cqlengine.models")
    assert set(unpatched()) == expected, turbocql.accel.status()
    assert not is_watching()
    assert type(query.__spec__.loader).__module__ != "turbocql.accel._install"
    assert type(query.__loader__).__module__ != "turbocql.accel._install"
    turbocql.accel.uninstall()
    assert not turbocql.accel.status().on
    assert not is_watching()


if __name__ == "__main__":
    main()
