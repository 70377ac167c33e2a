"""Checks settings and options as soon as they are passed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from functools import wraps
from ipaddress import IPv6Address, ip_address
from typing import Any, NoReturn, TypeVar

from .errors import ConfigError

__all__ = [
    "ReadOnly",
    "address",
    "advise",
    "check_choice",
    "check_flag",
    "check_int",
    "check_keyspace",
    "check_seconds",
    "check_settings",
    "class_name",
    "did_you_mean",
    "holds_url",
    "nearest",
    "shown",
    "shown_address",
    "unknown_setting",
    "with_nearest",
]

K = TypeVar("K")
V = TypeVar("V")

T = TypeVar("T")

_MAX_SHOWN_LENGTH = 100
"""Errors do not show a text that has more characters than this, because it may be a private key."""
_MAX_NAMES_AFTER_HINT = 10
"""If a message suggests the nearest name, it lists all names only if there are at most this many.
The native core has the same limit."""


def class_name(value: object) -> str:
    """The name of an object's class, with its module unless the class is a built-in."""
    cls = type(value)
    is_builtin = cls.__module__ == "builtins"
    return cls.__qualname__ if is_builtin else f"{cls.__module__}.{cls.__qualname__}"


def holds_url(text: str) -> bool:
    """Whether a text may be a URL or a part of one, which most likely contains a password."""
    return "@" in text or "://" in text


def shown(value: object) -> str:
    """Formats a setting for an error. A value that may contain a secret, such as a URL, a key or a
    table of settings, is not shown.
    """
    if value is None or isinstance(value, (float, Enum)):
        return repr(value)
    # Python refuses to convert an int of thousands of digits to text.
    if isinstance(value, int) and value.bit_length() < 4000:
        return repr(value)
    text = shown_address(value) if isinstance(value, str) else None
    return text or f"{type(value).__name__} (not shown)"


def shown_address(text: str) -> str | None:
    """Formats a host or an address for an error; `None` for a text that may hold a password.

    A port that is no number is most likely a password, as in `user:password`.
    """
    match = re.fullmatch(r"[^:\[\]]*(:[0-9]*)?|[0-9A-Fa-f:.\[\]]*", text)
    return repr(text) if match and len(text) <= _MAX_SHOWN_LENGTH and not holds_url(text) else None


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Returns the name in `names` that a misspelt `name` most likely means; `None` if no name is
    similar.
    """
    by_letters: dict[str, str] = {}
    for candidate in names:
        by_letters.setdefault(_letters(candidate), candidate)
    letters = _letters(name)
    if not letters:
        return None
    if letters in by_letters:
        return by_letters[letters]
    # Imported here, because most programs misspell nothing.
    from difflib import get_close_matches

    from ._elsewhere import SYNONYMS

    synonym = _letters(SYNONYMS.get(letters, ""))
    if synonym in by_letters:
        return by_letters[synonym]
    for close in get_close_matches(letters, by_letters, 1, 0.65):
        return by_letters[close]
    for candidate in sorted(by_letters, key=len, reverse=True):
        is_part = len(candidate) >= 2 and letters.startswith(candidate)
        is_part |= len(candidate) >= 4 and candidate in letters
        is_part |= len(letters) >= 3 and candidate.startswith(letters)
        if is_part:
            return by_letters[candidate]
    return None


def _letters(name: str) -> str:
    """A name in lower case, without underscores and other punctuation."""
    return re.sub(r"[\W_]", "", name.lower())


def did_you_mean(name: object, names: Iterable[str], show: Callable[[str], str] = str) -> str:
    """Returns `; did you mean ...?` with the most similar of `names`, for the end of a message. The
    text is empty if no name is similar.

    The native core calls this function.
    """
    candidates = [*names]
    # If `paging_state` is among the names, the names are the options of `execute`. `execute` also
    # accepts the keyword argument `values`, which the core does not pass, so it is added here.
    candidates += ["values"] if "paging_state" in candidates else []
    near = nearest(name, candidates) if isinstance(name, str) else None
    return "" if near is None else f"; did you mean {show(near)}?"


def with_nearest(
    problem: str,
    name: object,
    names: Iterable[str],
    lead: str = "it has",
    show: Callable[[str], str] = str,
) -> str:
    """Returns the message for an unknown `name`: the problem, the nearest of `names`, and the list
    of all `names`.

    `lead` begins the list, and `show` formats a name. If a name is near, a long list is left out.
    """
    name_list = list(names)
    hint = did_you_mean(name, name_list, show)
    if hint and len(name_list) > _MAX_NAMES_AFTER_HINT:
        return f"{problem}{hint}"
    beginning = f"{problem}{hint} {lead[0].upper()}{lead[1:]}" if hint else f"{problem}; {lead}"
    return f"{beginning} {', '.join(map(show, name_list)) or 'none'}"


class _Absent:
    """A descriptor for an attribute that other libraries have and turbocql lacks. Looking up the
    attribute raises an error that says what to use instead. A `__getattr__` would slow down the
    lookup of all attributes.
    """

    def __init__(self, name: str, advice: str, error_class: type[AttributeError]) -> None:
        self._name, self._advice, self._error_class = name, advice, error_class

    def __get__(self, instance: object, owner: type[Any]) -> NoReturn:
        problem = f"{owner.__name__!r} object has no attribute {self._name!r}"
        raise self._error_class(f"{problem}: {self._advice}")

    def __set__(self, instance: object, value: object) -> NoReturn:
        self.__get__(instance, type(instance))


def advise(
    cls: type[Any],
    advice_by_name: Mapping[str, str],
    error_class: type[AttributeError] = AttributeError,
) -> None:
    """For attributes that objects of a class lack, makes the error say what to use instead.

    `advice_by_name` maps the name of such an attribute to the advice. For these names, `hasattr` is
    still false, and `dir` of an object does not list them.
    """
    for name, advice in advice_by_name.items():
        setattr(cls, name, _Absent(name, advice, error_class))

    names_of_base: Any = cls.__dir__

    def names(self: Any) -> list[str]:
        return [name for name in names_of_base(self) if name not in advice_by_name]

    cls.__dir__ = names  # type: ignore[assignment]


def _settings(cls: type[Any]) -> list[str]:
    """The names of a dataclass's settings."""
    return [name for name, field in cls.__dataclass_fields__.items() if field.init]


def unknown_setting(cls: type[Any], name: str, problem: str, lead: str = "it has") -> str:
    """Returns the message for a setting that a dataclass lacks: the problem, then what to use."""
    from ._elsewhere import setting_advice

    advice = setting_advice(cls.__name__, name)
    return f"{problem}: {advice}" if advice else with_nearest(problem, name, _settings(cls), lead)


def check_settings(cls: type[T]) -> type[T]:
    """Makes a dataclass refuse unknown keyword arguments with an error that names the nearest
    field.
    """
    names = _settings(cls)
    init = cls.__init__

    @wraps(init)
    def checked_init(self: T, /, *args: Any, **settings: Any) -> None:
        unknown_names = settings.keys() - set(names)
        if unknown_names:
            name = sorted(unknown_names)[0]
            raise TypeError(unknown_setting(cls, name, f"{cls.__name__} has no setting {name!r}"))
        init(self, *args, **settings)

    cls.__init__ = checked_init  # type: ignore[method-assign, assignment]
    return cls


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raises `ConfigError` unless `value` is an int from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name} must be an int from {low} to {high}, got {shown(value)}")


def check_seconds(name: str, value: object, least: float = 0.0) -> None:
    """Raises `ConfigError` unless `value` is a number of seconds, above 0 and not below `least`."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not value > 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a number of seconds above 0, got {shown(value)}")
    if isinstance(value, int) and value > sys.float_info.max:
        raise ConfigError(f"{name} must be a number of seconds that a float can hold")
    if value < least:  # type: ignore[operator]
        raise ConfigError(f"{name} must be at least {least!r} s, got {value!r}")


def check_choice(name: str, value: object, choices: tuple[str | None, ...]) -> None:
    """Raises `ConfigError` unless `value` is one of `choices`."""
    if value not in choices:
        hint = did_you_mean(value, filter(None, choices), repr)
        raise ConfigError(f"{name} must be one of {choices}, got {shown(value)}{hint}")


def check_flag(name: str, value: object) -> None:
    """Raises `ConfigError` unless `value` is a bool."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be a bool, got {shown(value)}")


def address(name: str, text: object) -> tuple[str, int | None]:
    """Parses an IP address and an optional port: `1.2.3.4:9042`, `1.2.3.4`, `[::1]:9042`, `::1`.

    Raises: `ConfigError` for anything else.
    """
    error = ConfigError(
        f"{name}: expected an IP address like '10.0.0.1', '10.0.0.1:9042' or '[::1]:9042', got"
        f" {shown(text)}"
    )
    if not isinstance(text, str):
        raise error
    match = re.fullmatch(
        r"\[(?P<v6>[^\]]+)\](:(?P<p6>[0-9]{1,9}))?|(?P<v4>[^:]+)(:(?P<p4>[0-9]{1,9}))?", text
    )
    host: str | None = None
    # `error` is not raised in an `except` block, where its `__context__` would show the text.
    with suppress(ValueError):
        host = str(ip_address(match["v6"] or match["v4"]) if match else IPv6Address(text))
    port = None if match is None else match["p6"] or match["p4"]
    if host is None or (port is not None and not 1 <= int(port) <= 65_535):
        raise error
    return host, None if port is None else int(port)


def check_keyspace(name: object) -> None:
    """Raises `ConfigError` unless `name` can be the name of a keyspace."""
    if not isinstance(name, str) or not name:
        raise ConfigError("keyspace must be a non-empty str")
    if not re.fullmatch(r"\w{1,48}", name, re.ASCII):
        raise ConfigError(
            f"keyspace must be 1 to 48 letters, digits and underscores, got {shown(name)}"
        )


class ReadOnly(dict[K, V]):
    """A `dict` that cannot be changed, but works with `dataclasses.asdict`, `pickle` and `==`."""

    __slots__ = ()

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("settings cannot be changed: make new ones with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadOnly, (dict(self),)
