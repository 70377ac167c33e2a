"""Prints the docstrings of the native core as JSON. The keys are names below `turbocql._core`.

The docstrings are written in Rust, and the core's stub has none. So this script imports the core
and reads its docstrings. `make docs` runs the script with the interpreter for which the core was
built.
"""

from __future__ import annotations

import inspect
import json
import sys

from turbocql import _core


def docstrings() -> dict[str, str]:
    """Returns the docstrings of all classes, functions and members of classes."""
    texts = {}
    for name, definition in vars(_core).items():
        if name.startswith("_") or not callable(definition):
            continue
        texts[name] = inspect.getdoc(definition)
        if inspect.isclass(definition):
            for member, value in vars(definition).items():
                if isinstance(value, staticmethod | classmethod):
                    value = getattr(definition, member)
                if not member.startswith("_"):
                    texts[f"{name}.{member}"] = inspect.getdoc(value)
    return {name: text for name, text in texts.items() if text}


if __name__ == "__main__":
    json.dump(docstrings(), sys.stdout, indent=1, sort_keys=True)
