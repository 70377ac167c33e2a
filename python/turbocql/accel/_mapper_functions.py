"""Checks that turbocql knows the source of each mapper function that it replaces or imitates."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
from types import ModuleType
from typing import Any

from ._mapper_sources import FILE_DIGESTS, SOURCE_DIGESTS
from ._origin import NotReplaced, function, is_function_of, is_own

__all__ = ["Functions", "known_files", "source_digest"]


def source_digest(code: Any) -> str:
    """Returns a digest of a function's source, without comments, docstring and layout.

    Raises: NotReplaced, if there is no source.
    """
    # These modules are imported late, because they are seldom needed: the functions of known
    # releases are recognized by the digests of their files.
    import io
    import tokenize

    ignored_types = {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        tokenize.ENDMARKER,
    }
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):
        raise NotReplaced("its source is not there to be compared") from None
    # The source of a method is indented. With `if 1:` before it, the source can be parsed.
    source = source if source[:1].strip() else f"if 1:\n{source}"
    tokens: list[str] = []
    previous_type = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        # A string at the start of a statement is a docstring.
        is_documentation = token.type == tokenize.STRING and previous_type in ignored_types
        if token.type not in ignored_types and not is_documentation:
            tokens.append(token.string)
        previous_type = token.type
    return _digest(" ".join(tokens).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def known_files(modules: dict[str, ModuleType]) -> set[str]:
    """Returns the paths of the modules' files that are equal to a file of a known release."""
    paths: set[str] = set()
    for name, digests in FILE_DIGESTS.items():
        path = getattr(modules[name], "__file__", None)
        with contextlib.suppress(OSError, TypeError):
            if _digest(_contents(path or "")) in digests:
                paths.add(str(path))
    return paths


def _contents(path: str) -> bytes:
    """Returns the bytes of a file.

    Uses a descriptor, not a file object: Python warns of a file object that an interrupt leaves
    open, but not of a descriptor.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        size, data = os.fstat(descriptor).st_size, b""
        while len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


_CALLED = {"columns.Column.has_default", "columns.Column.get_default"}
"""Functions that a program may replace. If it does, native code calls the replacement."""


class Functions:
    """The functions of the mapper that native code replaces or imitates (`SOURCE_DIGESTS`).

    Raises: NotReplaced, with the name of a function that is missing, was replaced, or has a source
        that turbocql does not know.
    """

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self.modules = modules
        self.originals: dict[str, Any] = {}
        files = known_files(modules)
        for name, digests in SOURCE_DIGESTS.items():
            module, *path = name.split(".")
            owner: Any = modules[module]
            if len(path) == 2:
                owner = vars(owner).get(path[0])
            attribute = vars(owner).get(path[-1]) if owner is not None else None
            if attribute is None:
                raise NotReplaced(f"the driver has no {name}")
            if not (
                is_own(modules[module], owner, path[-1])
                if isinstance(owner, type)
                else is_function_of(modules[module], attribute)
            ):
                if name in _CALLED:
                    continue
                raise NotReplaced(f"{name} has been replaced")
            code = getattr(attribute, "fget", function(attribute))
            # If the program has defined the function, its code object has the path of a file of the
            # program. This path is not in `files`.
            is_known = getattr(code, "__code__", None) and code.__code__.co_filename in files
            digest = "" if is_known else source_digest(code)
            if not is_known and digest not in digests:
                raise NotReplaced(f"{name} is one that turbocql does not know ({digest})")
            self.originals[name] = attribute

    def owner(self, name: str) -> Any:
        """Returns the class or module that has the function `name`."""
        module, *path = name.split(".")
        return vars(self.modules[module])[path[0]] if len(path) == 2 else self.modules[module]

    def replaced(self, classes: list[type[Any]], stand_in_ids: dict[str, int]) -> str:
        """Returns the name of a replaced function of `classes` or their bases; empty if none is.

        A native stand-in whose id is in `stand_in_ids` counts as the driver's function.
        """
        for name, attribute in self.originals.items():
            owner = self.owner(name)
            if not isinstance(owner, type) or not any(issubclass(cls, owner) for cls in classes):
                continue
            current = vars(owner).get(name.rsplit(".", 1)[1])
            if current is not attribute and id(current) != stand_in_ids.get(name):
                return name
        return ""
