"""Recognizes functions of the driver by their sources.

The drivers compile most modules. The compiled functions cannot be read, but the sources lie beside
them. A function is recognized by a digest of its source's text, comments included. Before a digest
is added, the new source must be read; `status()` shows the digest.
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
        """The attribute in the dict of a class, whose source must be known.

        Raises: NotReplaced, if the attribute is missing, was replaced, or has another source.
        """
        try:
            attribute = expect_own(module, owner, name)
        except NotReplaced as not_replaced:
            owner_name = getattr(owner, "__name__", owner)
            raise NotReplaced(f"{not_replaced}: {module.__name__}.{owner_name}.{name}") from None
        self._expect_source(module, f"{owner.__name__}.{name}", digests)
        return attribute

    def expect_function(self, module: ModuleType, name: str, digests: tuple[str, ...]) -> Any:
        """A function of a module, whose source must be known.

        Raises: NotReplaced, if the function is missing, was replaced, or has another source.
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
        """A digest of the source of a function or method; empty if the source is not there."""
        import hashlib

        source = self.source(module, name)
        return hashlib.sha256(source.encode()).hexdigest()[:12] if source else ""

    def source(self, module: ModuleType, name: str) -> str:
        """The source of a function or method; empty if the source is not there."""
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
    """The text of a function, or of a method of a class; empty if there is none."""
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
    """Where a definition ends: before the next line that is indented as deep as its own."""
    at = start
    while (at := text.find("\n", at, end)) >= 0:
        at += 1
        line = text[at : at + len(indent) + 1]
        # Within a definition, a line without more indentation is empty, a comment or a parenthesis.
        if line.startswith(indent) and line[len(indent) :].strip() and line[-1] not in "#)":
            return at
    return end
