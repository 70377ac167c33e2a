"""Prints the docstrings of the native core as JSON: dotted name below `turbocql._core`, text.

They are written in Rust, and only an interpreter that has loaded the core knows them; its stub has
none. `make docs` runs this with the interpreter that the core was built for.
"""

from __future__ import annotations

import inspect
import json
import sys

from turbocql import _core


def docstrings() -> dict[str, str]:
    """The docstrings of all classes and functions, and of what classes have."""
    found = {}
    for name, thing in vars(_core).items():
        if name.startswith("_") or not callable(thing):
            continue
        found[name] = inspect.getdoc(thing)
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if isinstance(value, staticmethod | classmethod):
                    value = getattr(thing, member)
                if not member.startswith("_"):
                    found[f"{name}.{member}"] = inspect.getdoc(value)
    return {name: text for name, text in found.items() if text}


if __name__ == "__main__":
    json.dump(docstrings(), sys.stdout, indent=1, sort_keys=True)
