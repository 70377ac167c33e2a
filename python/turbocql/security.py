"""Encrypted connections, and how to say who connects."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ._checks import holds_url, shown
from .errors import ConfigError

__all__ = ["Authenticator", "Tls"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Tls:
    """Encrypted connections. `Tls()` trusts what the system trusts and verifies everything.

    Files are read when the session connects. TLS 1.2 and 1.3 are spoken. A certificate needs a
    subject alternative name; the common name alone is not looked at.

    Raises: `ConfigError` for a setting that cannot be; when connecting, for a file that cannot be
        read or that holds no certificate or key.
    """

    ca: str | os.PathLike[str] | bytes | None = None
    """Certificates to trust, in PEM: a file, or its content as bytes. `None` trusts those of the
    system."""
    certificate: str | os.PathLike[str] | bytes | None = None
    """The client's own certificate, for servers that ask for one, in PEM, followed by those
    between it and its authority. Goes with `key`."""
    key: str | os.PathLike[str] | bytes | None = field(default=None, repr=False)
    """Its private key in PEM (PKCS #8, PKCS #1 or SEC 1), not encrypted. Never shown."""
    verify: bool | Literal["authority"] = True
    """`True`: a node's certificate must come from a trusted authority and be good for the node's
    IP address, for the host name of a contact point, or for one of `names`: nodes tell of each
    other by address only. `"authority"`: it must come from a trusted authority, whatever name is
    in it. `False`: any certificate will do, which protects from nobody who can answer in the
    node's place."""
    names: Sequence[str] = ()
    """Host names, besides those of the contact points, that a node's certificate may be good
    for."""

    def __post_init__(self) -> None:
        for name in ("ca", "certificate", "key"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, (str, bytes, os.PathLike)):
                got = type(value).__name__
                raise ConfigError(f"tls: {name} must be a path or PEM as bytes, got {got}")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("tls: certificate and key go together: give both or neither")
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

    def __repr__(self) -> str:
        def said(source: str | os.PathLike[str] | bytes | None) -> str:
            if isinstance(source, bytes):
                return f"<{len(source)} bytes>"
            # What is no file may be the content of one, given as text: a key, say.
            return repr(source) if source is None or _exists(source) else "<not shown>"

        ca, certificate = said(self.ca), said(self.certificate)
        return (
            f"Tls(ca={ca}, certificate={certificate}, verify={self.verify!r}, names={self.names!r})"
        )

    def _native(self) -> dict[str, Any]:
        verify = {True: "full", "authority": "authority", False: "nothing"}
        return {
            "ca": _pem("ca", self.ca),
            "certificate": _pem("certificate", self.certificate),
            "key": _pem("key", self.key),
            "verify": verify[self.verify],
            "names": list(self.names),
        }


def _pem(name: str, source: str | os.PathLike[str] | bytes | None) -> bytes | None:
    if source is None or isinstance(source, bytes):
        return source
    path = os.fsdecode(source)
    if "-----BEGIN" in path:
        # It is not shown: it may be the key.
        raise ConfigError(f"tls: {name} is PEM itself where a path is expected: give it as bytes")
    try:
        with open(source, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be a path"
    # Raised here: the context would show what may be a key. A path that is none but has a dot, as
    # those of files have, is shown where no key belongs: the letters of PEM have none.
    known = _exists(path) or (name != "key" and "." in path and len(path) < 200)
    what = f"{path!r}: {reason}" if known and not holds_url(path) else f"<not shown>: {reason}"
    raise ConfigError(f"tls: {name}: {what}")


def _exists(path: str | os.PathLike[str]) -> bool:
    try:
        return os.path.exists(path)
    except (OSError, ValueError):
        return False


class Authenticator(Protocol):
    """One connection's conversation with a server that asks who connects.

    `Config(authenticator=...)` takes a callable that is called for every new connection with the
    authenticator class that the server names, and gives such an object. Its methods run on threads
    of their own, several of them at a time for several connections; what they raise fails the
    connection.
    """

    def first(self) -> bytes | None:
        """What the client says first."""

    def answer(self, challenge: bytes | None) -> bytes | None:
        """The answer to a challenge of the server's."""

    def accepted(self, token: bytes | None) -> None:
        """The server is content; raise to hang up all the same."""


def _native_tls(tls: Tls | bool | None) -> dict[str, Any] | None:
    """What the native core takes."""
    if tls is None or tls is False:
        return None
    return (Tls() if tls is True else tls)._native()


def _check_tls(tls: object) -> None:
    """Raises `ConfigError` unless `tls` says whether and how connections are encrypted."""
    if not isinstance(tls, (Tls, bool, type(None))):
        raise ConfigError(f"tls must be a Tls, True or None, got {type(tls).__name__}")
