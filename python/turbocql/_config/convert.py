"""Converts text, or a value from a file, to the type that a setting's annotation requires.

The annotations of `Config` are enough for this: a new field works in URLs, the environment and
files without further code.
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

from .._checks import did_you_mean, holds_url, shown, with_nearest
from ..errors import ConfigError
from ..security import Secret

__all__ = ["Field", "check_text", "convert", "fields_of", "listed", "table_settings"]

_MISMATCH: Any = object()
"""The object that is returned in place of a value that cannot be converted."""


class Field(typing.NamedTuple):
    annotation: Any
    text: Any
    """A union of those members of `annotation` to which text can be converted; `None` if there are
    no such members."""
    in_file: bool
    """Whether the field can be set in a file."""
    shown: bool
    """Whether errors may show the field's value. Fields that the repr leaves out are secrets."""


def fields_of(owner: type[Any]) -> dict[str, Field]:
    hints = typing.get_type_hints(owner)
    return {
        field.name: Field(
            annotation=hints[field.name],
            text=_text_members(hints[field.name]),
            in_file=any(
                _is_table(member) or _text_members(member) for member in _members(hints[field.name])
            ),
            # A user may have written a private key in place of the table `tls`.
            shown=field.repr and field.name != "tls",
        )
        for field in dataclasses.fields(owner)
        if field.init
    }


def _members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; for any other annotation, the annotation itself."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if union else (annotation,)


def _is_table(annotation: Any) -> bool:
    target_class = typing.get_origin(annotation) or annotation
    is_mapping = isinstance(target_class, type) and issubclass(target_class, Mapping)
    return is_mapping or dataclasses.is_dataclass(target_class)


def _text_members(annotation: Any) -> Any:
    """Returns the members to which text can be converted, as a union; `None` if there are none."""
    members = [
        member
        for member in _members(annotation)
        if member in _SCALARS
        or typing.get_origin(member) is typing.Literal
        or _is_enum(member)
        or _is_path(member)
        or (_is_list(member) and all(map(_text_members, typing.get_args(member)[:1])))
    ]
    if not members:
        return None
    none_members = [member for member in _members(annotation) if member is types.NoneType]
    return functools.reduce(operator.or_, [*members, *none_members])


def check_text(name: str, field: Field, source: str) -> None:
    """Raises `ConfigError` for a field that cannot be set by text."""
    if field.text is None:
        allowed_sources = "a file or the program" if field.in_file else "the program"
        raise ConfigError(f"{name} cannot be given {source}: use {allowed_sources}")


def table_settings(
    location: str, path: str, owner: type[Any], table: Mapping[str, Any], may_show: bool = True
) -> dict[str, Any]:
    """Converts the values of a table from a file to the types of a dataclass's fields.

    `location` and `path` begin the names of settings in errors.

    Raises: `ConfigError` for an unknown key, or for a value that does not fit its field.
    """
    fields, settings = fields_of(owner), {}
    for key, value in table.items():
        if key not in fields:
            known_names = [field_name for field_name, field in fields.items() if field.in_file]
            name = key if not holds_url(key) else "(not shown)"
            problem = f"{location}unknown setting {path}{name}"
            raise ConfigError(with_nearest(problem, key, known_names, "known are"))
        field = fields[key]
        settings[key] = convert(
            f"{location}{path}{key}", field.annotation, value, may_show and field.shown
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
    if value is _MISMATCH:
        got = f", got {shown(text_or_value)}" if may_show else ""
        hint = did_you_mean(text_or_value, _words(annotation)) if may_show else ""
        raise ConfigError(f"{name} must be {_expected(annotation)}{got}{hint}")
    return value


def _read(name: str, annotation: Any, value: Any, may_show: bool) -> Any:
    """Like `convert`, but returns `_MISMATCH` for a value that does not fit."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _read_union(name, arguments, value, may_show)
    if origin is typing.Literal:
        if not isinstance(value, str):
            return _identical_choice(value, arguments)
        return next((choice for choice in arguments if value in (choice, str(choice))), _MISMATCH)
    target_class = annotation if origin is None else origin
    if target_class is None or target_class is types.NoneType:
        return None if _is_none(value) else _MISMATCH
    if not isinstance(target_class, type):
        return _MISMATCH
    if target_class in _SCALARS:
        ignores_spaces = target_class is not str and _is_text(value)
        return _SCALARS[target_class](value.strip() if ignores_spaces else value)
    if issubclass(target_class, Enum):
        return _read_enum(target_class, value)
    if dataclasses.is_dataclass(target_class):
        if isinstance(value, target_class):
            return value
        if not isinstance(value, Mapping):
            return _MISMATCH
        return _read_dataclass(name, target_class, value, may_show)
    if _is_path(target_class):
        path: Any = target_class if _is_path_class(target_class) else str
        return path(value) if _is_text(value) else _MISMATCH
    if issubclass(target_class, Mapping):
        if not isinstance(value, Mapping):
            return _MISMATCH
        value_type = arguments[1] if arguments else Any
        return {
            key: convert(f"{name}.{key}", value_type, entry, may_show)
            for key, entry in value.items()
        }
    if issubclass(target_class, (Sequence, typing.AbstractSet)) and target_class is not bytes:
        return _read_items(name, target_class, arguments, value, may_show)
    return value if isinstance(value, target_class) and not _is_text(value) else _MISMATCH


def _read_union(name: str, members: Sequence[Any], value: Any, may_show: bool) -> Any:
    enums, lists = map(_is_enum, members), map(_is_list, members)
    # A union with an enum contains `str` or `Literal` only so that a program may pass a name in
    # place of an enum member. A union with a list contains `str` only so that a program may pass
    # one item in place of a list. So text is converted to the enum or list, not to `str` or
    # `Literal`.
    candidates = [candidate for candidate in members if candidate is not types.NoneType]
    if any(enums):
        candidates = [part for part in candidates if typing.get_origin(part) is not typing.Literal]
    if any(enums) or any(lists):
        candidates = [candidate for candidate in candidates if candidate is not str]
    may_be_any_text = str in candidates or any(map(_is_path, candidates))
    if types.NoneType in members and _is_none(value) and not may_be_any_text:
        return None
    dataclass_members: list[Any] = list(filter(dataclasses.is_dataclass, candidates))
    if isinstance(value, Mapping) and len(dataclass_members) > 1:
        # The keys of the table decide which dataclass the table is converted to.
        candidates = [
            candidate
            for candidate in dataclass_members
            if value.keys() <= fields_of(candidate).keys()
        ]
        if not candidates:
            allowed_keys_text = "; or ".join(
                listed(fields_of(candidate)) for candidate in dataclass_members
            )
            raise ConfigError(f"{name} must have keys of one kind: {allowed_keys_text}")
    for annotation in sorted(
        candidates, key=lambda candidate: (candidate is str, candidate is not bool)
    ):
        converted = _read(name, annotation, value, may_show)
        if converted is not _MISMATCH:
            return converted
    return _MISMATCH


def _read_items(
    name: str, target_class: type[Any], arguments: Sequence[Any], value: Any, may_show: bool
) -> Any:
    if _is_text(value):
        items = [item.strip() for item in value.split(",")]
        if not all(items):
            return _MISMATCH
    elif isinstance(value, (list, tuple)):
        items = list(value)
    else:
        return _MISMATCH
    item_type = arguments[0] if arguments else Any
    converted = [convert(f"{name}[{i}]", item_type, item, may_show) for i, item in enumerate(items)]
    # A `Config` must be hashable, so a sequence becomes a tuple if the annotation allows a tuple.
    if issubclass(target_class, typing.AbstractSet):
        return frozenset(converted)
    return converted if target_class is list else tuple(converted)


def _read_dataclass(
    name: str, dataclass_type: Any, table: Mapping[str, Any], may_show: bool
) -> Any:
    # `name` consists of the location of the table in the file, a colon, and the path of the key.
    location, colon, path = name.rpartition(": ")
    settings = table_settings(location + colon, f"{path}.", dataclass_type, table, may_show)
    for field in dataclasses.fields(dataclass_type):
        has_no_default = field.default is field.default_factory is dataclasses.MISSING
        if has_no_default and field.init and field.name not in settings:
            raise ConfigError(f"{name}.{field.name} is missing")
    return dataclass_type(**settings)


def _read_enum(enum_class: type[Enum], value: Any) -> Any:
    if not _is_text(value):
        return _MISMATCH
    text = value.strip().lower()
    return next(
        (
            member
            for member in enum_class
            if text in (member.name.lower(), str(member.value).lower())
        ),
        _MISMATCH,
    )


def _read_bool(value: Any) -> Any:
    if not _is_text(value):
        return value if isinstance(value, bool) else _MISMATCH
    if value.lower() in ("true", "yes", "on", "1"):
        return True
    return False if value.lower() in ("false", "no", "off", "0") else _MISMATCH


def _read_int(value: Any) -> Any:
    if not _is_text(value):
        return value if isinstance(value, int) and not isinstance(value, bool) else _MISMATCH
    # Without this check, `int` would accept underscores, and would raise its own error for
    # thousands of digits.
    return int(value) if re.fullmatch("[+-]?[0-9]{1,40}", value) else _MISMATCH


def _read_float(value: Any) -> Any:
    if _is_text(value):
        match = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|\+?inf", value, re.I)
        return float(value) if match else _MISMATCH
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return _MISMATCH
    try:
        return float(value)
    except OverflowError:
        return _MISMATCH


def _read_str(value: Any) -> Any:
    return value if _is_text(value) else _MISMATCH


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
    target_class = typing.get_origin(annotation) or annotation
    return target_class is os.PathLike or _is_path_class(target_class)


def _is_path_class(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, PurePath)


def _identical_choice(value: Any, choices: Sequence[Any]) -> Any:
    """Returns the choice that has the value and the type of `value`, so 1 does not match `True`."""
    return next(
        (choice for choice in choices if choice == value and type(choice) is type(value)), _MISMATCH
    )


_DESCRIPTIONS: dict[Any, str] = {
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
        # In a union with `Secret`, the member `str` already describes the text of the secret, so
        # `Secret` is left out.
        arguments = tuple(member for member in arguments if typing.get_origin(member) is not Secret)
        if any(map(_is_enum, arguments)):
            arguments = tuple(
                member for member in arguments if typing.get_origin(member) is not typing.Literal
            )
        by_text = any(map(_is_enum, arguments)) or any(map(_is_list, arguments))
        shown_members = [member for member in arguments if member is not str or not by_text]
        if str in shown_members:
            shown_members = [member for member in shown_members if member is not types.NoneType]
        return " or ".join(dict.fromkeys(map(_expected, shown_members)))
    if origin is typing.Literal:
        return _alternatives(repr(member) for member in arguments)
    if _is_enum(annotation):
        return _alternatives(member.name for member in annotation)
    if annotation in _DESCRIPTIONS:
        return _DESCRIPTIONS[annotation]
    target_class = annotation if origin is None else origin
    if _is_list(annotation):
        return f"a list of {_expected(arguments[0])}"
    if _is_path(annotation):
        return "a path"
    if dataclasses.is_dataclass(target_class) or (
        isinstance(target_class, type) and issubclass(target_class, Mapping)
    ):
        return "a table"
    return f"a {getattr(target_class, '__name__', target_class)}, which can be given in Python only"


def _words(annotation: Any) -> list[str]:
    """The words that an annotation accepts: names of enum members, and texts of a `Literal`."""
    words: list[str] = []
    for member in _members(annotation):
        if _is_enum(member):
            words += [value.name for value in member]
        elif typing.get_origin(member) is typing.Literal:
            words += [choice for choice in typing.get_args(member) if isinstance(choice, str)]
    return words


def _alternatives(names: typing.Iterable[str]) -> str:
    choices = list(names)
    return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"


def listed(names: typing.Iterable[str]) -> str:
    return ", ".join(names) or "none"
