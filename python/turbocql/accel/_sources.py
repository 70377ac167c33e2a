"""Recognizes functions of the driver by digests of their sources.

Most modules of the drivers are compiled, but the packages contain the sources beside the compiled
modules. The digest of a function is made from the text of its source, comments included. Read a new
source before you add its digest, which `status()` shows.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from ._origin import NotReplaced, expect_own, is_function_of

__all__ = ["Sources"]


class Sources:
    """The sources of a driver's modules. Each file is read once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def expect_method(
        self, module: ModuleType, owner: Any, name: str, digests: tuple[str, ...]
    ) -> Any:
        """Returns a method from the dict of a class. Its source must have one of `digests`.

        Raises: NotReplaced, if the method is missing, if other code has replaced it, or if its
            source has none of `digests`.
        """
        try:
            attribute = expect_own(module, owner, name)
        except NotReplaced as not_replaced:
            owner_name = getattr(owner, "__name__", owner)
            raise NotReplaced(f"{not_replaced}: {module.__name__}.{owner_name}.{name}") from None
        self._expect_source(module, f"{owner.__name__}.{name}", digests)
        return attribute

    def expect_function(self, module: ModuleType, name: str, digests: tuple[str, ...]) -> Any:
        """Returns a function of a module. Its source must have one of `digests`.

        Raises: NotReplaced, if the function is missing, if other code has replaced it, or if its
            source has none of `digests`.
        """
        value = vars(module).get(name)
        if value is None or not is_function_of(module, value):
            raise NotReplaced(f"{module.__name__}.{name} has been replaced")
        self._expect_source(module, name, digests)
        return value

    def _expect_source(self, module: ModuleType, name: str, digests: tuple[str, ...]) -> None:
        digest = self.digest(module, name)
        if digest not in digests:
            where = f"{module.__name__}.{name}"
            raise NotReplaced(f"turbocql does not know the source of {where} ({digest})")

    def digest(self, module: ModuleType, name: str) -> str:
        """Returns the digest of the source of a function or method; empty if it has no source."""
        import hashlib

        source = self.source(module, name)
        return hashlib.sha256(source.encode()).hexdigest()[:12] if source else ""

    def source(self, module: ModuleType, name: str) -> str:
        """Returns the source of a function or method; empty if the module's file lacks it."""
        return _definition(self._text(module), *name.split("."))

    def _text(self, module: ModuleType) -> str:
        folder, name = os.path.split(getattr(module, "__file__", None) or "")
        path = os.path.join(folder, f"{name.partition('.')[0]}.py")
        if path not in self._texts:
            try:
                with open(path, encoding="utf-8") as file:
                    self._texts[path] = f"\n{file.read()}"
            except OSError:
                self._texts[path] = ""
        return self._texts[path]


def _definition(text: str, *names: str) -> str:
    """Returns the text of a function or of a method of a class; empty if `text` lacks it."""
    start, end, indent = 0, len(text), ""
    for name in names:
        kind = "class" if name is not names[-1] else "def"
        start = min(
            (
                at
                for mark in "(:"
                if (at := text.find(f"\n{indent}{kind} {name}{mark}", start, end)) >= 0
            ),
            default=-1,
        )
        if start < 0:
            return ""
        end = _end(text, start + 1, end, indent)
        indent += "    "
    return text[start + 1 : end].rstrip()


def _end(text: str, start: int, end: int, indent: str) -> int:
    """Returns where a definition ends: before the next line that is indented like the first."""
    at = start
    while (at := text.find("\n", at, end)) >= 0:
        at += 1
        line = text[at : at + len(indent) + 1]
        # Lines of a definition are indented deeper than its first line. Exceptions are empty lines,
        # comments, and lines that begin with a closing parenthesis.
        if line.startswith(indent) and line[len(indent) :].strip() and line[-1] not in "#)":
            return at
    return end
