"""Encryption of connections, authentication, and secrets that are never shown."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal, Protocol, TypeVar, cast

from ._checks import check_settings, holds_url, shown
from ._core import Secret
from .errors import ConfigError

__all__ = ["Authenticator", "Credentials", "Secret", "Tls"]

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")


def _without_traceback_frames(call: C) -> C:
    """Wraps a function to remove its frames from the tracebacks of its exceptions.

    Error trackers record the local variables of every frame of a traceback. Where settings are
    read, any of those variables may hold a password in clear text.
    """

    @functools.wraps(call)
    def without_frames(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            raise error.with_traceback(None)  # noqa: B904
        finally:
            del args, kwargs

    return cast("C", without_frames)


def _init_without_frames(cls: type[T]) -> type[T]:
    """Applies `_without_traceback_frames` to the `__init__` of a class."""
    cls.__init__ = _without_traceback_frames(cls.__init__)  # type: ignore[method-assign]
    return cls


def _wrap_secret(settings: object, name: str) -> None:
    """Wraps the value of a field in a `Secret` if the value is text or bytes."""
    if isinstance(getattr(settings, name), (str, bytes)):
        object.__setattr__(settings, name, Secret(getattr(settings, name)))


def _state(settings: object) -> dict[str, Any]:
    """Returns a dataclass's fields and a subclass's further attributes, for copies and pickles."""
    field_values = {
        dataclass_field.name: getattr(settings, dataclass_field.name)
        for dataclass_field in fields(cast("Any", settings))
    }
    return {**getattr(settings, "__dict__", {}), **field_values}


def _restore(settings: T, state: Mapping[str, Any]) -> T:
    """Sets a state from `_state` on a new object, although its class is frozen."""
    for name, value in state.items():
        object.__setattr__(settings, name, value)
    return settings


def _copied(settings: T) -> T:
    """Implements `copy.copy` without pickling, because secrets refuse to be pickled."""
    return _restore(type(settings).__new__(type(settings)), _state(settings))


def _copied_deep(settings: T, memo: dict[int, Any]) -> T:
    """Implements `copy.deepcopy`."""
    settings_copy = type(settings).__new__(type(settings))
    memo[id(settings)] = settings_copy
    return _restore(settings_copy, copy.deepcopy(_state(settings), memo))


@_init_without_frames
@check_settings
@dataclass(frozen=True, kw_only=True, repr=False)
class Tls:
    """Encryption of connections. With `Tls()`, a node's certificate must be issued by an authority
    that the system trusts, and must be valid for the node: see `verify`.

    Files are read when the session connects. TLS 1.2 and 1.3 are supported. A certificate needs a
    subject alternative name; the common name is not checked.

    Raises: `ConfigError` for an invalid setting; when connecting, also for a file that cannot be
        read or that holds no certificate or key.
    """

    ca: str | os.PathLike[str] | bytes | None = None
    """Certificates to trust, in PEM: a file, or its content as bytes. With `None`, the certificates
    of the system are trusted."""
    certificate: str | os.PathLike[str] | bytes | None = None
    """The client's own certificate, for servers that request one: a PEM file, or its content as
    bytes. In this PEM, the intermediate certificates follow the client's certificate. A private key
    in the PEM is left out. `certificate` must be set together with `key`."""
    key: str | os.PathLike[str] | bytes | Secret[str] | Secret[bytes] | None = field(
        default=None, repr=False
    )
    """The private key of `certificate` in PEM (PKCS #8, PKCS #1 or SEC 1), not encrypted: a file,
    or its content as bytes. It is never shown: bytes become a
    [`Secret`][turbocql.security.Secret], and so does a `str`, which may be a key by mistake. A
    `pathlib.Path` is not changed."""
    verify: bool | Literal["authority"] = True
    """`True`: a node's certificate must come from a trusted authority. It must also be valid for
    the node's IP address, for the host name of a contact point, or for one of `names`. Any of these
    is enough: nodes announce each other by address only, so turbocql does not know their names.
    `"authority"`: the certificate must come from a trusted authority, but its names are not
    checked. `False`: any certificate is accepted, which does not protect against an attacker who
    can answer in the node's place."""
    names: Sequence[str] = ()
    """Host names, besides those of the contact points, that a node's certificate may be valid
    for."""
    server_name: str | Literal[False] | None = None
    """The host name that a connection sends as the TLS server name (SNI), for example to a proxy
    that routes by this name. A node's certificate is also accepted if it is valid for this name.
    `None`: the host name of the contact point that has the node's address. If no contact point has
    this address, the first host name among the contact points is sent; if all contact points are
    addresses, the first host name of `names`. `False`: no name is sent."""

    def __post_init__(self) -> None:
        _wrap_secret(self, "key")
        for name in ("ca", "certificate"):
            if isinstance(getattr(self, name), bytes):
                object.__setattr__(self, name, _certificates(getattr(self, name)))
        for name in ("ca", "certificate", "key"):
            value = getattr(self, name)
            kinds = (
                (str, bytes, os.PathLike, Secret) if name == "key" else (str, bytes, os.PathLike)
            )
            if value is not None and not isinstance(value, kinds):
                got = type(value).__name__
                raise ConfigError(f"tls: {name} must be a path or PEM as bytes, got {got}")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("tls: certificate and key go together: set both or neither")
        if not isinstance(self.verify, bool) and self.verify != "authority":
            raise ConfigError(
                f"tls: verify must be True, 'authority' or False, got {shown(self.verify)}"
            )
        if (
            isinstance(self.names, str)
            or not isinstance(self.names, Sequence)
            or not all(isinstance(name, str) for name in self.names)
        ):
            raise ConfigError("tls: names must be a sequence of host names")
        object.__setattr__(self, "names", tuple(self.names))
        server_name: object = self.server_name
        is_name = isinstance(server_name, str) and server_name != ""
        if not (is_name or server_name is None or server_name is False):
            raise ConfigError(
                f"tls: server_name must be a host name, or False for none, got {shown(server_name)}"
            )

    def __repr__(self) -> str:
        def shown_source(source: str | os.PathLike[str] | bytes | None) -> str:
            if isinstance(source, bytes):
                return f"<{len(source)} bytes>"
            # A text that names no file may be the content of a file, such as a key.
            return repr(source) if source is None or _exists(source) else "<not shown>"

        ca, certificate = shown_source(self.ca), shown_source(self.certificate)
        return (
            f"Tls(ca={ca}, certificate={certificate}, verify={self.verify!r},"
            f" names={self.names!r}, server_name={self.server_name!r})"
        )

    __copy__ = _copied
    __deepcopy__ = _copied_deep

    def __getstate__(self) -> dict[str, Any]:
        return self._pickled(secrets=False)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        key = state.get("key")
        _restore(self, {**state, "key": Secret(key) if isinstance(key, (str, bytes)) else key})

    def _pickled(self, *, secrets: bool) -> dict[str, Any]:
        """Returns the state for a pickle.

        Raises: `ConfigError` if the state contains a private key, unless `secrets` is true.
        """
        if not (secrets or _is_path(self.key)):
            raise ConfigError(
                "tls: a private key is not pickled: give the path of its file as a pathlib.Path,"
                " which can be pickled"
            )
        key = self.key.reveal() if isinstance(self.key, Secret) else self.key
        return {**_state(self), "key": key}

    def _native(self) -> dict[str, Any]:
        verify = {True: "full", "authority": "authority", False: "nothing"}
        return {
            "ca": _pem(self, "ca"),
            "certificate": _pem(self, "certificate"),
            "key": _pem(self, "key"),
            "verify": verify[self.verify],
            "names": list(self.names),
            "server_name": "" if self.server_name is False else self.server_name,
        }


def _pem(tls: Tls, name: str) -> bytes | Secret[bytes] | None:
    """Returns the content of a PEM source. The content of a private key is a `Secret`."""
    content_or_fault = _read_pem(name, getattr(tls, name))
    if isinstance(content_or_fault, str):
        # The error is not raised in `_read_pem`: the traceback would keep the frame of `_read_pem`,
        # which may have a key in clear text. This frame has no key in clear text.
        raise ConfigError(f"tls: {name}{content_or_fault}")
    return content_or_fault


def _read_pem(
    name: str, source: str | os.PathLike[str] | bytes | Secret[Any] | None
) -> bytes | Secret[bytes] | str | None:
    """Returns the content of a PEM source, or the fault as a `str`; `None` for no source."""
    plain_source = source.reveal() if isinstance(source, Secret) else source
    if plain_source is None:
        return None
    if isinstance(plain_source, bytes):
        return Secret(plain_source) if name == "key" else plain_source
    path = os.fsdecode(plain_source)
    if "-----BEGIN" in path:
        # The text is not shown: it may be the key.
        return " is PEM itself where a path is expected: give it as bytes"
    try:
        with open(plain_source, "rb") as file:
            return Secret(file.read()) if name == "key" else _certificates(file.read())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be a path"
    # A path that does not exist is shown only if it is not for a key, has a dot, and has fewer than
    # 200 characters. The names of files have dots; the Base64 text of PEM has none.
    is_shown = _exists(path) or (name != "key" and "." in path and len(path) < 200)
    return (
        f": {path!r}: {reason}" if is_shown and not holds_url(path) else f": <not shown>: {reason}"
    )


def _certificates(pem: bytes) -> bytes:
    """Returns the PEM, or only its certificates if it contains a private key."""
    if b"PRIVATE KEY" not in pem:
        return pem
    return b"".join(certificate.group() + b"\n" for certificate in _CERTIFICATE.finditer(pem))


_CERTIFICATE = re.compile(
    rb"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----.*?-----END \1-----", re.DOTALL
)


def _is_path(key: object) -> bool:
    """Whether a key setting holds no secret: it is the path of a file, or it is `None`."""
    if isinstance(key, Secret):
        key_text = key.reveal()
        return isinstance(key_text, str) and _exists(key_text)
    return True


def _exists(path: str | os.PathLike[str]) -> bool:
    try:
        return os.path.exists(path)
    except (OSError, ValueError):
        return False


class Authenticator(Protocol):
    """The client's side of the authentication of one connection.

    `Config(authenticator=...)` takes a callable that returns an object with these methods. The
    callable is called for every new connection, with the authenticator class that the server names.
    The methods run on threads of the driver. Methods for several connections may run at the same
    time. An exception in a method fails the connection.
    """

    def first(self) -> bytes | None:
        """Returns the client's first message."""

    def answer(self, challenge: bytes | None) -> bytes | None:
        """Returns the answer to a challenge of the server."""

    def accepted(self, token: bytes | None) -> None:
        """Is called when the server accepts the client. An exception fails the connection."""


class Credentials(Protocol):
    """A callable that returns the user and the password of a new connection.

    `Config(credentials=...)` takes a function without parameters, or an object that is called
    without arguments. It is called for every new connection: when the session connects, when a lost
    connection is replaced, and when a node joins. So a password can change while the session is
    open. A connection that is open stays open. The callable runs on threads of the driver. It may
    block, and its time counts as part of `connect_timeout_s`. Calls for several connections may run
    at the same time. An exception fails the connection with an `AuthenticationError`, whose message
    contains the message of the exception; the session tries again later.
    """

    def __call__(self) -> tuple[str, str | Secret[str]]:
        """Returns the user and the password."""


class _CredentialsConversation:
    """The authentication of one connection by the user and the password of `Credentials`."""

    __slots__ = ("_credentials",)

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def first(self) -> bytes:
        # If this method raises an exception, only the message of the exception leaves this thread.
        # The traceback does not, so no frame that holds the password is kept.
        try:
            pair: Any = self._credentials()
        except Exception as error:
            raise ConfigError(f"credentials raised {type(error).__name__}: {error}") from None
        fault = _pair_fault(pair)
        if fault is not None:
            raise ConfigError(f"credentials must return the user and the password: {fault}")
        user, password = (_revealed(text) for text in pair)
        return f"\0{user}\0{password}".encode()

    def answer(self, challenge: bytes | None) -> bytes | None:
        raise ConfigError("the server asks for more than a user and a password")

    def accepted(self, token: bytes | None) -> None:
        """The server has accepted the password. There is nothing to check."""


def _revealed(text: Any) -> Any:
    return text.reveal() if isinstance(text, Secret) else text


def _pair_fault(pair: Any) -> str | None:
    """What is wrong with the result of `Credentials`; `None` if nothing is. Shows no password."""
    if inspect.iscoroutine(pair):
        pair.close()
        return "a coroutine was returned; expected a plain function, which may block"
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        return f"expected a tuple of two str, got {type(pair).__name__}"
    for name, text in zip(("user", "password"), map(_revealed, pair), strict=True):
        if not isinstance(text, str):
            return f"the {name} must be a str, got {type(text).__name__}"
        if not text or "\0" in text:
            return f"the {name} must not be empty, and must not contain a null character"
        if any("\ud800" <= character <= "\udfff" for character in text):
            return f"the {name} has characters that UTF-8 cannot encode"
    return None


def _check_credentials(credentials: object) -> None:
    """Raises `ConfigError` unless `credentials` can be a `Credentials`."""
    if not callable(credentials):
        raise ConfigError(
            "credentials must be a callable that returns the user and the password, got"
            f" {type(credentials).__name__}"
        )
    functions = (credentials, getattr(credentials, "__call__", None))  # noqa: B004
    if any(map(inspect.iscoroutinefunction, functions)):
        raise ConfigError(
            "credentials must be a plain function, not a coroutine function: it is called on a"
            " thread, where it may block"
        )


def _native_authenticator(authenticator: Any, credentials: Any) -> Any:
    """Makes the native core's authenticator from the settings `authenticator` and `credentials`."""
    if credentials is None:
        return _unwrap_authenticator(authenticator)
    call = _unwrap_authenticator(credentials)
    return lambda mechanism: _CredentialsConversation(call)


class _HiddenRepr:
    """Wraps a callable so that its `repr` shows nothing. For example, the `repr` of a
    `functools.partial` would show its arguments.
    """

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return "<not shown>"

    def __eq__(self, other: object) -> bool:
        return self.call == (other.call if isinstance(other, _HiddenRepr) else other)

    def __hash__(self) -> int:
        return hash(self.call)

    def __copy__(self) -> _HiddenRepr:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _HiddenRepr:
        return _HiddenRepr(copy.deepcopy(self.call, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConfigError("a callable that may hold a secret is not pickled")


def _hide_repr(authenticator: Any) -> Any:
    """Wraps an authenticator, unless it is a function or a class, whose `repr` shows names only."""
    if authenticator is None or isinstance(authenticator, (FunctionType, type, _HiddenRepr)):
        return authenticator
    return _HiddenRepr(authenticator)


def _unwrap_authenticator(authenticator: Any) -> Any:
    """Returns the authenticator that `_hide_repr` may have wrapped."""
    return authenticator.call if isinstance(authenticator, _HiddenRepr) else authenticator


def _is_pickled_by_name(authenticator: Any) -> bool:
    """Whether an authenticator is pickled by name alone, without a closure or an object's state."""
    is_function_or_class = isinstance(authenticator, (FunctionType, BuiltinFunctionType, type))
    return authenticator is None or (is_function_or_class and "<" not in authenticator.__qualname__)


def _native_tls(tls: Tls | bool | None) -> dict[str, Any] | None:
    """Converts the setting `tls` for the native core."""
    if tls is None or tls is False:
        return None
    return (Tls() if tls is True else tls)._native()


def _check_tls(tls: object) -> None:
    """Raises `ConfigError` unless `tls` is a `Tls`, a bool or `None`."""
    if not isinstance(tls, (Tls, bool, type(None))):
        raise ConfigError(
            f"tls must be a Tls such as Tls(ca='ca.pem'), True or None, got {type(tls).__name__}"
        )
