"""Converts text, or a value from a file, to the type that a setting's annotation requires.

So a new field of `Config` works in URLs, the environment and files without further code.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any

from .._checks import holds_url, shown
from ..errors import ConfigError
from ..security import Secret

__all__ = ["Field", "check_text", "convert", "fields_of", "listed", "table_settings"]

_UNFIT: Any = object()
"""Returned in place of a value that cannot be converted."""


class Field(typing.NamedTuple):
    annotation: Any
    text: Any
    """The part of the annotation that text can be converted to; `None` if there is none."""
    in_file: bool
    """Whether the field can be set in a file."""
    shown: bool
    """Whether errors may show its value. Fields that the repr leaves out are secrets."""


def fields_of(owner: type[Any]) -> dict[str, Field]:
    hints = typing.get_type_hints(owner)
    return {
        field.name: Field(
            annotation=hints[field.name],
            text=_of_text(hints[field.name]),
            in_file=any(_is_table(one) or _of_text(one) for one in _members(hints[field.name])),
            # A user may have written a private key in place of the table `tls`.
            shown=field.repr and field.name != "tls",
        )
        for field in dataclasses.fields(owner)
        if field.init
    }


def _members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union. Any other annotation is its own only member."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if union else (annotation,)


def _is_table(annotation: Any) -> bool:
    kind = typing.get_origin(annotation) or annotation
    mapping = isinstance(kind, type) and issubclass(kind, Mapping)
    return mapping or dataclasses.is_dataclass(kind)


def _of_text(annotation: Any) -> Any:
    """The members of an annotation that text can be converted to, as a union; `None` if none."""
    members = [
        one
        for one in _members(annotation)
        if one in _SCALARS
        or typing.get_origin(one) is typing.Literal
        or _is_enum(one)
        or _is_path(one)
        or (_is_list(one) and all(map(_of_text, typing.get_args(one)[:1])))
    ]
    if not members:
        return None
    nothing = [one for one in _members(annotation) if one is types.NoneType]
    return functools.reduce(operator.or_, [*members, *nothing])


def check_text(name: str, field: Field, where: str) -> None:
    """Raises `ConfigError` for a field that cannot be set by text."""
    if field.text is None:
        how = "a file or the program" if field.in_file else "the program"
        raise ConfigError(f"{name} cannot be given {where}: use {how}")


def table_settings(
    said: str, path: str, owner: type[Any], table: Mapping[str, Any], may_show: bool = True
) -> dict[str, Any]:
    """Converts the values of a table to those of a dataclass's fields."""
    fields, settings = fields_of(owner), {}
    for key, value in table.items():
        if key not in fields:
            known = [one for one, field in fields.items() if field.in_file]
            name = key if not holds_url(key) else "(not shown)"
            raise ConfigError(f"{said}unknown setting {path}{name}; known are {listed(known)}")
        field = fields[key]
        settings[key] = convert(
            f"{said}{path}{key}", field.annotation, value, may_show and field.shown
        )
    return settings


def convert(name: str, annotation: Any, text_or_value: Any, may_show: bool = True) -> Any:
    """Converts text, or a value from a file, to the type that the field's annotation requires.

    Text is written like `true`, `5`, `lz4`, `none`, or `a,b` for a list. `Config` checks whether a
    value of the right type is valid. Errors begin with `name`, and they show the value only if
    `may_show` is true.

    Raises: `ConfigError` for a value that does not fit the annotation.
    """
    value = _read(name, annotation, text_or_value, may_show)
    if value is _UNFIT:
        got = f", got {shown(text_or_value)}" if may_show else ""
        raise ConfigError(f"{name} must be {_expected(annotation)}{got}")
    return value


def _read(name: str, annotation: Any, value: Any, may_show: bool) -> Any:
    """Like `convert`, but returns `_UNFIT` for a value that does not fit."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _read_union(name, arguments, value, may_show)
    if origin is typing.Literal:
        fitting = (one for one in arguments if value in (one, str(one)))
        return next(fitting, _UNFIT) if isinstance(value, str) else _same(value, arguments)
    kind = annotation if origin is None else origin
    if kind is None or kind is types.NoneType:
        return None if _is_none(value) else _UNFIT
    if not isinstance(kind, type):
        return _UNFIT
    if kind in _SCALARS:
        return _SCALARS[kind](value.strip() if kind is not str and _is_text(value) else value)
    if issubclass(kind, Enum):
        return _read_enum(kind, value)
    if dataclasses.is_dataclass(kind):
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            return _UNFIT
        return _read_dataclass(name, kind, value, may_show)
    if _is_path(kind):
        path: Any = kind if _is_path_class(kind) else str
        return path(value) if _is_text(value) else _UNFIT
    if issubclass(kind, Mapping):
        if not isinstance(value, Mapping):
            return _UNFIT
        of = arguments[1] if arguments else Any
        return {key: convert(f"{name}.{key}", of, one, may_show) for key, one in value.items()}
    if issubclass(kind, (Sequence, typing.AbstractSet)) and kind is not bytes:
        return _read_items(name, kind, arguments, value, may_show)
    return value if isinstance(value, kind) and not _is_text(value) else _UNFIT


def _read_union(name: str, members: Sequence[Any], value: Any, may_show: bool) -> Any:
    enums, lists = map(_is_enum, members), map(_is_list, members)
    # In a union with an enum, `str` stands for the names of the enum's members. In a union with a
    # list, it stands for a list of one item.
    others = [one for one in members if one is not types.NoneType]
    if any(enums) or any(lists):
        others = [one for one in others if one is not str]
    may_be_any_text = str in others or any(map(_is_path, others))
    if types.NoneType in members and _is_none(value) and not may_be_any_text:
        return None
    tables: list[Any] = [one for one in others if dataclasses.is_dataclass(one)]
    if isinstance(value, Mapping) and len(tables) > 1:
        # The keys of the table decide which dataclass it belongs to.
        others = [one for one in tables if value.keys() <= fields_of(one).keys()]
        if not others:
            known = "; or ".join(listed(fields_of(one)) for one in tables)
            raise ConfigError(f"{name} must have keys of one kind: {known}")
    for member in sorted(others, key=lambda one: (one is str, one is not bool)):
        read = _read(name, member, value, may_show)
        if read is not _UNFIT:
            return read
    return _UNFIT


def _read_items(
    name: str, kind: type[Any], arguments: Sequence[Any], value: Any, may_show: bool
) -> Any:
    if _is_text(value):
        items = [item.strip() for item in value.split(",")]
        if not all(items):
            return _UNFIT
    elif isinstance(value, (list, tuple)):
        items = list(value)
    else:
        return _UNFIT
    of = arguments[0] if arguments else Any
    read = [convert(f"{name}[{i}]", of, item, may_show) for i, item in enumerate(items)]
    # A Config is compared and hashed, so sequences become tuples if the annotation allows it.
    if issubclass(kind, typing.AbstractSet):
        return frozenset(read)
    return read if kind is list else tuple(read)


def _read_dataclass(name: str, kind: Any, table: Mapping[str, Any], may_show: bool) -> Any:
    # `name` is the location of the file's table, a colon, and the path of the key.
    where, colon, path = name.rpartition(": ")
    settings = table_settings(where + colon, f"{path}.", kind, table, may_show)
    for field in dataclasses.fields(kind):
        unset = field.default is field.default_factory is dataclasses.MISSING
        if unset and field.init and field.name not in settings:
            raise ConfigError(f"{name}.{field.name} is missing")
    return kind(**settings)


def _read_enum(kind: type[Enum], value: Any) -> Any:
    if not _is_text(value):
        return _UNFIT
    text = value.strip().lower()
    return next((one for one in kind if text in (one.name.lower(), str(one.value).lower())), _UNFIT)


def _read_bool(value: Any) -> Any:
    if not _is_text(value):
        return value if isinstance(value, bool) else _UNFIT
    if value.lower() in ("true", "yes", "on", "1"):
        return True
    return False if value.lower() in ("false", "no", "off", "0") else _UNFIT


def _read_int(value: Any) -> Any:
    if not _is_text(value):
        return value if isinstance(value, int) and not isinstance(value, bool) else _UNFIT
    # `int` alone would also accept underscores, and refuse thousands of digits with its own error.
    return int(value) if re.fullmatch("[+-]?[0-9]{1,40}", value) else _UNFIT


def _read_float(value: Any) -> Any:
    if _is_text(value):
        fits = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|\+?inf", value, re.I)
        return float(value) if fits else _UNFIT
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return _UNFIT
    try:
        return float(value)
    except OverflowError:
        return _UNFIT


def _read_str(value: Any) -> Any:
    return value if _is_text(value) else _UNFIT


_SCALARS: dict[Any, Any] = {
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    str: _read_str,
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() == "none")


def _is_enum(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Enum)


def _is_list(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, (Sequence, typing.AbstractSet))


def _is_path(annotation: Any) -> bool:
    kind = typing.get_origin(annotation) or annotation
    return kind is os.PathLike or _is_path_class(kind)


def _is_path_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, PurePath)


def _same(value: Any, choices: Sequence[Any]) -> Any:
    """The choice that is equal to the value and of the same type, so `True` is not 1."""
    return next((one for one in choices if one == value and type(one) is type(value)), _UNFIT)


_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "an int",
    float: "a number",
    str: "text",
    type(None): "'none'",
}


def _expected(annotation: Any) -> str:
    """Describes in words the values that an annotation accepts."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        # A secret is described by the text from which it is made.
        arguments = tuple(one for one in arguments if typing.get_origin(one) is not Secret)
        by_text = any(map(_is_enum, arguments)) or any(map(_is_list, arguments))
        others = [one for one in arguments if one is not str or not by_text]
        if str in others:
            others = [one for one in others if one is not types.NoneType]
        return " or ".join(dict.fromkeys(map(_expected, others)))
    if origin is typing.Literal:
        return _one_of(repr(one) for one in arguments)
    if _is_enum(annotation):
        return _one_of(one.name for one in annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    kind = annotation if origin is None else origin
    if _is_list(annotation):
        return f"a list of {_expected(arguments[0])}"
    if _is_path(annotation):
        return "a path"
    if dataclasses.is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, Mapping)):
        return "a table"
    return f"a {getattr(kind, '__name__', kind)}, which can be given in Python only"


def _one_of(names: typing.Iterable[str]) -> str:
    found = list(names)
    return found[0] if len(found) == 1 else f"one of {', '.join(found)}"


def listed(names: typing.Iterable[str]) -> str:
    return ", ".join(names) or "none"
