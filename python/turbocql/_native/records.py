"""Makes named tuple classes for rows and user-defined types."""

from __future__ import annotations

import re
from collections import namedtuple
from functools import lru_cache
from keyword import iskeyword
from typing import Any
from unicodedata import normalize


def field_names(names: tuple[str, ...]) -> list[str]:
    """Returns names that a named tuple accepts, one for each column or field.

    A name that a named tuple accepts is unchanged, unless an earlier name is equal to it. In other
    names, each run of characters that are not letters, digits or underscores becomes an underscore,
    and underscores at both ends are removed. If the name is then empty, begins with a digit, is a
    keyword or is already used, it becomes `field_N`. N is its position, counted from 0. If
    `field_N` is already used too, underscores are appended to it.
    """
    fields: list[str | None] = [None] * len(names)
    used_names = set()
    # Names that need no change are assigned first, so that no changed name equals one of them.
    for i, name in enumerate(names):
        if _accepted(name) and name not in used_names:
            fields[i] = name
            used_names.add(name)
    for i, name in enumerate(names):
        if fields[i] is None:
            # Python compares identifiers in this normal form.
            field = re.sub(r"\W+", "_", normalize("NFKC", name)).strip("_")
            if not _accepted(field) or field in used_names:
                field = f"field_{i}"
                while field in used_names:
                    field += "_"
            fields[i] = field
            used_names.add(field)
    return [field for field in fields if field is not None]


def _accepted(name: str) -> bool:
    plain = normalize("NFKC", name) == name and not name.startswith("_")
    return plain and name.isidentifier() and not iskeyword(name)


@lru_cache(maxsize=1024)
def record_class(name: str, names: tuple[str, ...]) -> type[Any]:
    """The named tuple class for these columns or fields. Classes are cached."""
    class_name = re.sub(r"\W+", "_", name).strip("_")
    if not class_name.isidentifier() or iskeyword(class_name):
        class_name = "Record"
    named_tuple: Any = namedtuple(class_name, field_names(names))  # type: ignore[misc]  # noqa: PYI024
    return _with_origin(named_tuple, name, names)


def _with_origin(named_tuple: Any, name: str, names: tuple[str, ...]) -> type[Any]:
    """Stores `name` and `names` on the class, so that objects of the class can be pickled."""
    named_tuple.__module__ = "turbocql.records"
    named_tuple.__reduce__ = _reduce
    named_tuple._turbocql_made_of = (name, names)
    cls: type[Any] = named_tuple
    return cls


def _reduce(record: Any) -> tuple[Any, ...]:
    return _load, (*record._turbocql_made_of, tuple(record))


def _load(name: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return record_class(name, names)._make(values)
