"""Imports packages that turbocql itself does not need."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["needed"]


def needed(package: str, use: str) -> Any:
    """Imports `package`, and returns it. `use` names what needs the package, for the error.

    Raises: `ModuleNotFoundError`, which says what to install.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"{use} needs the package {package}: pip install {package}", name=package
        ) from error
