"""Deletes or replaces one attribute of the driver, and then accelerates the driver.

python pieces.py MODULE ATTRIBUTE deleted|5|object|None

Prints whether the accelerator is on, and how many functions of the driver it has replaced.
"""

from __future__ import annotations

import importlib
import sys

from turbocql import accel

VALUES = {"5": 5, "object": object, "None": None}


def main() -> None:
    name, attribute, value = sys.argv[1:]
    module = importlib.import_module(f"cassandra.{name}")
    if value == "deleted":
        delattr(module, attribute)
    else:
        setattr(module, attribute, VALUES[value])
    accel.accelerate()
    for later in ("cqltypes", "protocol", "query"):
        importlib.import_module(f"cassandra.{later}")
    with accel.accelerated():
        pass
    print(accel.status().on, sum(seam.patched for seam in accel.status().seams))
    accel.uninstall()


if __name__ == "__main__":
    main()
