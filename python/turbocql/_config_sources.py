"""Reads settings from a URL, the environment or a TOML file.

Text is converted to a value by the annotation of its field, so a new field of `Config` works with
every source at once. Every failure here is a `ConfigError` that shows no secret. If a caught
exception may contain a secret, the `ConfigError` is raised outside the `except` block. Inside the
block, its `__context__` would keep the caught exception.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import operator
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote_to_bytes

from ._checks import check_keyspace, holds_url, shown
from .config import Config, _point
from .errors import ConfigError
from .security import Secret

__all__ = ["from_env", "from_toml", "from_url"]

_OTHERS = frozenset({"TURBOCQL_CACHE_DIR"})
"""Environment variables that are not settings of a session. `turbocql.testing` reads them."""

_UNFIT: Any = object()
"""Returned in place of a value that cannot be converted."""


def from_url(owner: type[Config], url: object, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings from which `Config.from_url` makes a `Config`."""
    settings = {**_url_settings(owner, url, "the URL"), **overrides}
    _still_encrypted("the URL", url, settings)
    return _with_hosts("the URL", settings)


def from_env(owner: type[Config], prefix: object, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings from which `Config.from_env` makes a `Config`."""
    if not isinstance(prefix, str) or not re.fullmatch(r"\w+", prefix, re.ASCII):
        # The prefix is not shown, because it may be a URL with a password.
        raise ConfigError("prefix must be a str of letters, digits and underscores")
    url_name, fields = f"{prefix}URL", _fields(owner)
    names = {f"{prefix}{name.upper()}": name for name in fields}
    settings: dict[str, Any] = {}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(prefix) or variable == url_name or variable in _OTHERS:
            continue
        if variable not in names:
            known = [url_name, *(one for one in names if fields[names[one]].text is not None)]
            raise ConfigError(
                f"unknown environment variable {variable}; known are {_listed(known)}"
            )
        if not text:
            raise ConfigError(f"{variable} is empty: set a value, or unset the variable")
        field = fields[names[variable]]
        _check_text(variable, field, "in the environment")
        settings[names[variable]] = _convert(variable, field.text, text, field.shown)
    if url_name not in os.environ:
        return {**settings, **overrides}
    url = _url_settings(owner, os.environ[url_name], url_name)
    merged = {**url, **settings, **overrides}
    _still_encrypted(url_name, os.environ[url_name], merged)
    return _with_hosts(url_name, merged)


def from_toml(
    owner: type[Config], path: str | os.PathLike[str], profile: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings from which `Config.from_toml` makes a `Config`."""
    file = os.fsdecode(path)
    document = _toml(file)
    for key, table in document.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{file}: {key} stands outside of any table; settings belong in one table per"
                f" profile, such as [{profile}]"
            )
    if profile not in document:
        raise ConfigError(f"{file} has no profile {shown(profile)}; there are {_listed(document)}")
    said = f"{file}, profile {profile!r}: "
    return {**_table_settings(said, "", owner, document[profile]), **overrides}


# URLs


def _url_settings(owner: type[Config], url: object, said: str) -> dict[str, Any]:
    """The settings in a URL. `said` is the name of the URL in errors.

    In a malformed URL the password may be in any place, so errors show positions and known names
    instead of text.
    """
    if not isinstance(url, str):
        raise ConfigError(f"{said} must be a str, got {type(url).__name__}")
    fields = _fields(owner)
    scheme, separator, rest = url.strip().partition("://")
    if not separator or scheme.lower() not in ("cql", "cqls"):
        raise ConfigError(
            f"{said} must be like cql://user:password@host:9042,host/keyspace?setting=value"
        )
    before, _, query = rest.partition("?")
    authority, _, path = before.partition("/")
    if "#" in rest or "@" in path or "@" in query or authority.count("@") > 1:
        raise ConfigError(
            f"{said}: '@', '/', '?' and '#' within user, password or another part must be"
            " percent-encoded: %40, %2F, %3F, %23"
        )
    settings: dict[str, Any] = {}
    if scheme.lower() == "cqls":
        settings.update(_encrypted(said, fields))
    userinfo, at, hosts = authority.rpartition("@")
    if at:
        user, colon, password = userinfo.partition(":")
        settings["user"] = _decoded(f"{said}: the user", user)
        if colon:
            settings["password"] = _decoded(f"{said}: the password", password)
    if hosts:
        settings["contact_points"] = _hosts(said, hosts)
    if path:
        if "/" in path:
            raise ConfigError(f"{said}: expected only one keyspace after the hosts, got more parts")
        settings["keyspace"] = _keyspace(f"{said}: the keyspace", path)
    parts = [part for part in re.split("[&;]", query) if part]
    return _query_settings(said, fields, parts, settings)


def _query_settings(
    said: str, fields: Mapping[str, _Field], parts: Sequence[str], settings: dict[str, Any]
) -> dict[str, Any]:
    """Adds the settings in the URL's query to `settings`."""
    pairs = [part.partition("=") for part in parts]
    # If a password has an unencoded `&`, the parts after it still belong to the password.
    may_show = all(name not in fields or fields[name].shown for name, _, _ in pairs)
    for number, (encoded, equals, text) in enumerate(pairs, 1):
        name = _decoded(f"{said}: the name of parameter {number}", encoded)
        if name not in fields:
            # The name is not shown: after an unencoded `?` in a password it is part of it.
            known = [one for one, field in fields.items() if field.text is not None]
            meant = difflib.get_close_matches(name.lower(), known, 1)
            guess = f", perhaps {meant[0]} is meant" if meant else ""
            raise ConfigError(
                f"{said}: parameter {number} of the query is unknown{guess};"
                f" known are {_listed(known)}"
            )
        _check_text(f"{said}: {name}", fields[name], "in a URL")
        if not equals:
            raise ConfigError(f"{said}: {name} must be given as {name}=value")
        if name in settings:
            raise ConfigError(f"{said} gives {name} twice")
        value, field = _decoded(f"{said}: {name}", text), fields[name]
        settings[name] = _convert(f"{said}: {name}", field.text, value, may_show and field.shown)
    return settings


def _encrypted(said: str, fields: Mapping[str, _Field]) -> dict[str, Any]:
    """The settings that the scheme `cqls` implies."""
    if "tls" not in fields:
        raise ConfigError(
            f"{said} begins with cqls://, and encryption is not supported: use cql://"
        )
    return {"tls": True}


def _keyspace(said: str, text: str) -> str:
    keyspace = _decoded(said, text)
    try:
        check_keyspace(keyspace)
    except ConfigError:
        keyspace = ""
    if not keyspace:
        # The keyspace is not shown: in a URL without `@` it may be part of the password.
        raise ConfigError(f"{said} must be 1 to 48 letters, digits and underscores")
    return keyspace


def _hosts(said: str, text: str) -> tuple[str, ...]:
    hosts = []
    for number, encoded in enumerate(text.split(","), 1):
        host = _decoded(f"{said}: host {number}", encoded)
        try:
            _point(host, 9042)
        except ConfigError:
            host = ""
        if not host:
            # The host is not shown: in a URL without `@` it may be the user and the password.
            raise ConfigError(
                f"{said}: host {number} must be a host, host:port or [ipv6]:port, with a port from"
                " 1 to 65535"
            )
        hosts.append(host)
    return tuple(hosts)


def _still_encrypted(said: str, url: object, settings: Mapping[str, Any]) -> None:
    """Raises `ConfigError` if the URL requires encryption and the settings turn it off."""
    asked = isinstance(url, str) and url.strip().lower().startswith("cqls://")
    if asked and settings.get("tls") in (None, False):
        raise ConfigError(
            f"{said} begins with cqls://, but tls turns encryption off: use cql:// or leave out tls"
        )


def _with_hosts(said: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Raises `ConfigError` if neither the URL nor another source names a host.

    The hosts were most likely left out by mistake, and the default would be this machine.
    """
    if "contact_points" not in settings:
        raise ConfigError(f"{said} names no host")
    return settings


def _decoded(said: str, text: str) -> str:
    """Removes percent-encoding; a `+` stays a plus."""
    decoded = _unquoted(text)
    if decoded is None:
        raise ConfigError(f"{said} must be percent-encoded UTF-8, each % as %25")
    if not decoded:
        raise ConfigError(f"{said} is empty")
    return decoded


def _unquoted(text: str) -> str | None:
    if re.search("%(?![0-9A-Fa-f]{2})", text):
        return None
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        return None


# TOML


def _toml(file: str) -> dict[str, Any]:
    try:
        with open(file, "rb") as source:
            content = source.read()
    except (OSError, ValueError) as error:
        if not holds_url(file):
            why = getattr(error, "strerror", None) or error
            raise ConfigError(f"{file!r} cannot be read: {why}") from error
        content = None
    if content is None:
        raise ConfigError(
            "the file (not shown) cannot be read; a URL is for connect(url) or Config.from_url(url)"
        )
    try:
        text = content.decode()
    except UnicodeError:
        text = None
    if text is None:
        raise ConfigError(f"{file} is no TOML: it is not UTF-8")
    library = _toml_library()
    try:
        return dict(library.loads(text))
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:
        # The exception contains the whole document, so only its text is used.
        why = str(error)
    raise ConfigError(f"{file} is no TOML: {why}")


def _toml_library() -> Any:
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            pass
    raise ConfigError("Python 3.10 needs a package to read TOML: install tomli, or turbocql[toml]")


# Values


class _Field(typing.NamedTuple):
    annotation: Any
    text: Any
    """The part of the annotation that text can be converted to; `None` if there is none."""
    in_file: bool
    """Whether the field can be set in a file."""
    shown: bool
    """Whether errors may show its value. Fields that the repr leaves out are secrets."""


def _fields(owner: type[Any]) -> dict[str, _Field]:
    hints = typing.get_type_hints(owner)
    return {
        field.name: _Field(
            annotation=hints[field.name],
            text=_of_text(hints[field.name]),
            in_file=any(_is_table(one) or _of_text(one) for one in _members(hints[field.name])),
            # A private key may have been written in place of the table.
            shown=field.repr and field.name != "tls",
        )
        for field in dataclasses.fields(owner)
        if field.init
    }


def _members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; any other annotation by itself."""
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


def _check_text(name: str, field: _Field, where: str) -> None:
    """Raises `ConfigError` for a field that cannot be set by text."""
    if field.text is None:
        how = "a file or the program" if field.in_file else "the program"
        raise ConfigError(f"{name} cannot be given {where}: use {how}")


def _table_settings(
    said: str, path: str, owner: type[Any], table: Mapping[str, Any], may_show: bool = True
) -> dict[str, Any]:
    """Converts the values of a table to those of a dataclass's fields."""
    fields, settings = _fields(owner), {}
    for key, value in table.items():
        if key not in fields:
            known = [one for one, field in fields.items() if field.in_file]
            name = key if not holds_url(key) else "(not shown)"
            raise ConfigError(f"{said}unknown setting {path}{name}; known are {_listed(known)}")
        field = fields[key]
        settings[key] = _convert(
            f"{said}{path}{key}", field.annotation, value, may_show and field.shown
        )
    return settings


def _convert(name: str, annotation: Any, text_or_value: Any, may_show: bool = True) -> Any:
    """Converts text, or a value from a file, to the type that the field's annotation requires.

    Text is written like `true`, `5`, `lz4`, `none`, or `a,b` for a list. `Config` checks whether a
    value of the right type is valid. `name` is the value's origin in errors. `may_show` is whether
    errors may show the value.

    Raises: `ConfigError` for a value that does not fit the annotation.
    """
    value = _read(name, annotation, text_or_value, may_show)
    if value is _UNFIT:
        got = f", got {shown(text_or_value)}" if may_show else ""
        raise ConfigError(f"{name} must be {_expected(annotation)}{got}")
    return value


def _read(name: str, annotation: Any, value: Any, may_show: bool) -> Any:
    """Like `_convert`, but returns `_UNFIT` for a value that does not fit."""
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
        return {key: _convert(f"{name}.{key}", of, one, may_show) for key, one in value.items()}
    if issubclass(kind, (Sequence, typing.AbstractSet)) and kind is not bytes:
        return _read_items(name, kind, arguments, value, may_show)
    return value if isinstance(value, kind) and not _is_text(value) else _UNFIT


def _read_union(name: str, members: Sequence[Any], value: Any, may_show: bool) -> Any:
    enums, lists = map(_is_enum, members), map(_is_list, members)
    # In a union with an enum, `str` is for the enum's names. In a union with a list, it is for a
    # list of one item.
    others = [one for one in members if one is not types.NoneType]
    if any(enums) or any(lists):
        others = [one for one in others if one is not str]
    may_be_any_text = str in others or any(map(_is_path, others))
    if types.NoneType in members and _is_none(value) and not may_be_any_text:
        return None
    tables: list[Any] = [one for one in others if dataclasses.is_dataclass(one)]
    if isinstance(value, Mapping) and len(tables) > 1:
        # The keys of the table decide which dataclass it belongs to.
        others = [one for one in tables if value.keys() <= _fields(one).keys()]
        if not others:
            known = "; or ".join(_listed(_fields(one)) for one in tables)
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
    read = [_convert(f"{name}[{i}]", of, item, may_show) for i, item in enumerate(items)]
    # A Config is compared and hashed, so sequences become tuples if the annotation allows it.
    if issubclass(kind, typing.AbstractSet):
        return frozenset(read)
    return read if kind is list else tuple(read)


def _read_dataclass(name: str, kind: Any, table: Mapping[str, Any], may_show: bool) -> Any:
    # The name begins with the location of the table, which errors show first.
    where, colon, path = name.rpartition(": ")
    settings = _table_settings(where + colon, f"{path}.", kind, table, may_show)
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


def _listed(names: typing.Iterable[str]) -> str:
    return ", ".join(names) or "none"
