"""Accelerates the driver when a process imports it, if `TURBOCQL_ACCELERATE` is set and not off."""

from __future__ import annotations

import os
import sys

from ._install import accelerate
from ._variable import VARIABLE, parts_of

__all__ = ["start"]


def start() -> None:
    """Accelerates the driver that is being imported, unless `TURBOCQL_ACCELERATE` is off.

    If the variable is invalid, prints the reason on standard error. The program then runs without
    the accelerator.
    """
    try:
        parts = parts_of(os.environ.get(VARIABLE, ""))
        if parts is not None:
            accelerate(without=parts)
    except ValueError as error:
        print(f"turbocql: {error}; the driver is not accelerated", file=sys.stderr)
