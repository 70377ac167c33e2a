"""Reads settings from a URL, the environment or a TOML file.

Every failure here is a `ConfigError` that shows no secret. If a caught exception may contain a
secret, the `ConfigError` is raised outside the `except` block. If it were raised inside the block,
its `__context__` would keep the caught exception.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from .._checks import check_keyspace, holds_url, shown, with_nearest
from ..errors import ConfigError
from .convert import Field, check_text, convert, fields_of, table_settings
from .points import contact_point

if TYPE_CHECKING:
    from ..config import Config

__all__ = ["from_env", "from_toml", "from_url", "settings_file"]

_OTHER_VARIABLES = frozenset({"TURBOCQL_ACCELERATE", "TURBOCQL_CACHE_DIR"})
"""Environment variables that are not settings of a session. `turbocql.accel` and `turbocql.testing`
read them."""


def settings_file() -> Path:
    """Returns the path of the TOML file that is read by default by the command line and by a
    `turbocql.workers.Profile` without a path.
    """
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "turbocql" / "config.toml"


def from_url(owner: type[Config], url: object, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings from which `Config.from_url` makes a `Config`."""
    settings = {**_url_settings(owner, url, "the URL"), **overrides}
    _check_still_encrypted("the URL", url, settings)
    return _with_hosts("the URL", settings)


def from_env(owner: type[Config], prefix: object, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings from which `Config.from_env` makes a `Config`."""
    if not isinstance(prefix, str) or not re.fullmatch(r"\w+", prefix, re.ASCII):
        # The prefix is not shown, because it may be a URL with a password.
        raise ConfigError("prefix must be a str of letters, digits and underscores")
    url_name, fields = f"{prefix}URL", fields_of(owner)
    names = {f"{prefix}{name.upper()}": name for name in fields}
    settings: dict[str, Any] = {}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(prefix) or variable == url_name or variable in _OTHER_VARIABLES:
            continue
        if variable not in names:
            known_variables = [
                url_name,
                *(
                    variable_name
                    for variable_name in names
                    if fields[names[variable_name]].text is not None
                ),
            ]
            raise ConfigError(_unknown_variable(variable, prefix, known_variables))
        if not text:
            raise ConfigError(f"{variable} is empty: set a value, or unset the variable")
        field = fields[names[variable]]
        check_text(variable, field, "in the environment")
        settings[names[variable]] = convert(variable, field.text, text, field.shown)
    if url_name not in os.environ:
        return {**settings, **overrides}
    url = _url_settings(owner, os.environ[url_name], url_name)
    merged = {**url, **settings, **overrides}
    _check_still_encrypted(url_name, os.environ[url_name], merged)
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
        problem = f"{file} has no profile {shown(profile)}"
        raise ConfigError(with_nearest(problem, profile, document, "there are"))
    location = f"{file}, profile {profile!r}: "
    return {**table_settings(location, "", owner, document[profile]), **overrides}


def _unknown_variable(variable: str, prefix: str, known_variables: Sequence[str]) -> str:
    """Returns the error message for a variable that begins with the prefix but is not a setting."""
    # Names are compared without the prefix. With the prefix, all of them would seem similar.
    names = [name.removeprefix(prefix) for name in known_variables]
    return with_nearest(
        f"unknown environment variable {variable}",
        variable.removeprefix(prefix),
        names,
        "known are",
        show=lambda name: f"{prefix}{name}",
    )


# URLs


def _url_settings(owner: type[Config], url: object, location: str) -> dict[str, Any]:
    """The settings in a URL. `location` is the name of the URL in errors.

    Any part of a malformed URL may be the password. So errors show no text of the URL. They
    show only positions in the URL and names of settings.

    Raises: `ConfigError` for a malformed URL, an unknown setting or a value that does not fit.
    """
    if not isinstance(url, str):
        raise ConfigError(f"{location} must be a str, got {type(url).__name__}")
    fields = fields_of(owner)
    scheme, separator, after_scheme = url.strip().partition("://")
    if not separator or scheme.lower() not in ("cql", "cqls"):
        raise ConfigError(
            f"{location} must be like cql://user:password@host:9042,host/keyspace?setting=value"
        )
    authority_and_path, _, query = after_scheme.partition("?")
    authority, _, path = authority_and_path.partition("/")
    if "#" in after_scheme or "@" in path or "@" in query or authority.count("@") > 1:
        raise ConfigError(
            f"{location}: '@', '/', '?' and '#' within user, password or another part must be"
            " percent-encoded: %40, %2F, %3F, %23"
        )
    settings: dict[str, Any] = {}
    if scheme.lower() == "cqls":
        settings.update(_encrypted(location, fields))
    userinfo, at, hosts = authority.rpartition("@")
    if at:
        user, colon, password = userinfo.partition(":")
        settings["user"] = _decoded(f"{location}: the user", user)
        if colon:
            settings["password"] = _decoded(f"{location}: the password", password)
    if hosts:
        settings["contact_points"] = _hosts(location, hosts)
    if path:
        if "/" in path:
            raise ConfigError(
                f"{location}: expected only one keyspace after the hosts, got more parts"
            )
        settings["keyspace"] = _keyspace(f"{location}: the keyspace", path)
    parts = [part for part in re.split("[&;]", query) if part]
    return _query_settings(location, fields, parts, settings)


def _query_settings(
    location: str, fields: Mapping[str, Field], parts: Sequence[str], settings: dict[str, Any]
) -> dict[str, Any]:
    """Adds the settings in the URL's query to `settings`."""
    pairs = [part.partition("=") for part in parts]
    # If one parameter is secret, errors show the text of no parameter: if a password contains an
    # unencoded `&`, the part after the `&` looks like further parameters.
    may_show = all(name not in fields or fields[name].shown for name, _, _ in pairs)
    for number, (encoded_name, equals, text) in enumerate(pairs, 1):
        name = _decoded(f"{location}: the name of parameter {number}", encoded_name)
        if name not in fields:
            # The name is not shown. If the password has an unencoded `?`, the name is part of it.
            known_variables = [
                field_name for field_name, field in fields.items() if field.text is not None
            ]
            problem = f"{location}: parameter {number} of the query is unknown"
            raise ConfigError(with_nearest(problem, name, known_variables, "known are"))
        check_text(f"{location}: {name}", fields[name], "in a URL")
        if not equals:
            raise ConfigError(f"{location}: {name} must be given as {name}=value")
        if name in settings:
            raise ConfigError(f"{location} gives {name} twice")
        value, field = _decoded(f"{location}: {name}", text), fields[name]
        settings[name] = convert(f"{location}: {name}", field.text, value, may_show and field.shown)
    return settings


def _encrypted(location: str, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The settings that the scheme `cqls` implies."""
    if "tls" not in fields:
        raise ConfigError(
            f"{location} begins with cqls://, and encryption is not supported: use cql://"
        )
    return {"tls": True}


def _keyspace(location: str, text: str) -> str:
    keyspace = _decoded(location, text)
    try:
        check_keyspace(keyspace)
    except ConfigError:
        keyspace = ""
    if not keyspace:
        # The keyspace is not shown: in a URL without `@` it may be part of the password.
        raise ConfigError(f"{location} must be 1 to 48 letters, digits and underscores")
    return keyspace


def _hosts(location: str, text: str) -> tuple[str, ...]:
    hosts = []
    for number, encoded_host in enumerate(text.split(","), 1):
        host = _decoded(f"{location}: host {number}", encoded_host)
        try:
            contact_point(host, 9042)
        except ConfigError:
            host = ""
        if not host:
            # The host is not shown: in a URL without `@` it may be the user and the password.
            raise ConfigError(
                f"{location}: host {number} must be a host, host:port or [ipv6]:port, with a port"
                " from 1 to 65535"
            )
        hosts.append(host)
    return tuple(hosts)


def _check_still_encrypted(location: str, url: object, settings: Mapping[str, Any]) -> None:
    """Raises `ConfigError` if the URL requires encryption and the settings turn it off."""
    is_encryption_required = isinstance(url, str) and url.strip().lower().startswith("cqls://")
    if is_encryption_required and settings.get("tls") in (None, False):
        raise ConfigError(
            f"{location} begins with cqls://, but tls turns encryption off: use cql:// or leave"
            " out tls"
        )


def _with_hosts(location: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings.

    Raises: `ConfigError` if neither the URL nor another source names a host. The default would be
        this machine, but most likely the host was left out by mistake.
    """
    if "contact_points" not in settings:
        raise ConfigError(f"{location} names no host")
    return settings


def _decoded(location: str, text: str) -> str:
    """Removes percent-encoding; a `+` stays a plus.

    Raises: `ConfigError` for text that is empty or wrongly encoded.
    """
    decoded = _percent_decoded(text)
    if decoded is None:
        raise ConfigError(f"{location} must be percent-encoded UTF-8, each % as %25")
    if not decoded:
        raise ConfigError(f"{location} is empty")
    return decoded


def _percent_decoded(text: str) -> str | None:
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
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{file!r} cannot be read: {reason}") from error
        content = None
    if content is None:
        raise ConfigError(
            "the file (not shown) cannot be read; pass a URL to connect() or Config.from_url()"
        )
    try:
        text = content.decode()
    except UnicodeError:
        text = None
    if text is None:
        raise ConfigError(f"{file} is not valid TOML: it is not UTF-8")
    library = _toml_library()
    try:
        return dict(library.loads(text))
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        # The exception contains the whole document, so only the message of the exception is used.
        reason = str(error)
    raise ConfigError(f"{file} is not valid TOML: {reason}")


def _toml_library() -> Any:
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            pass
    raise ConfigError("Python 3.10 needs a package to read TOML: install tomli, or turbocql[toml]")
