"""Signed paging tokens: paging states that users of a web site may hold.

A paging state is the server's bytes for a position in a result: where the next page begins. The
database trusts a paging state that comes back. So a user who can change a paging state could read
rows from any position of the result. A token is a paging state with a signature. The token is not
encrypted, although a paging state may contain the keys of rows.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, cast, overload

from . import _core
from ._cql.literals import literal
from ._native.row_classes import field_names
from .codec import find_deserializer
from .errors import ConfigError, Error, PagingTokenError
from .security import Secret, _init_without_frames
from .types import UNSET

if TYPE_CHECKING:
    from .statements import Statement, Values

__all__ = ["PagingTokens"]

_VERSION = b"\x01"
_MAC_BYTES, _BINDING_BYTES = 32, 16
_MIN_KEY_BYTES = 16
_HEAD_BYTES = len(_VERSION) + _MAC_BYTES + _BINDING_BYTES


@_init_without_frames
class PagingTokens:
    """Signs paging states, and checks the tokens that come back.

    `key` is at least 16 random bytes that only your servers know, such as
    `secrets.token_bytes(32)`, or a [`Secret`][turbocql.security.Secret] of bytes. To replace a key,
    pass a list: the first key signs, and tokens signed with any of the keys are valid. A `repr`
    shows no key.

    A token is valid for the statement, the values and the `context` that it was signed for.
    `context` is any text, such as the id of the user. Pass the statement in the same form to both
    methods: as text, or prepared.

    Raises: `ConfigError` for a key that is too short or not bytes.

    Example:
        >>> tokens = turbocql.PagingTokens(b"16 random bytes or more")
        >>> token = tokens.sign(b"state", "SELECT * FROM t WHERE k = ?", (1,))
        >>> tokens.verify(token, "SELECT * FROM t WHERE k = ?", (1,))
        b'state'
    """

    __slots__ = ("_keys",)

    def __init__(self, key: bytes | Secret[bytes] | Sequence[bytes | Secret[bytes]]) -> None:
        is_list = isinstance(key, (list, tuple))
        keys: list[Any] = list(cast("Any", key)) if is_list else [key]
        if not keys:
            raise ConfigError("a key is needed: expected bytes, or a list of them")
        self._keys = [_secret_key(one_key) for one_key in keys]

    @overload
    def sign(
        self,
        paging_state: bytes,
        statement: Statement,
        values: Values | None = None,
        *,
        context: str = "",
    ) -> str: ...
    @overload
    def sign(
        self,
        paging_state: bytes | None,
        statement: Statement,
        values: Values | None = None,
        *,
        context: str = "",
    ) -> str | None: ...
    def sign(
        self,
        paging_state: bytes | None,
        statement: Statement,
        values: Values | None = None,
        *,
        context: str = "",
    ) -> str | None:
        """Makes a token from `rows.paging_state`: letters, digits, `-` and `_`, fit for a URL.

        Returns `None` for `None`, which is the paging state of the last page.

        Raises: `EncodeError` for values that the statement cannot take.
        """
        if paging_state is None:
            return None
        if not isinstance(paging_state, bytes):
            raise TypeError(f"a paging state is bytes, got {type(paging_state).__name__}")
        key = self._keys[0]
        binding = _mac(key, b"binding", _bound_to(statement, values, context))[:_BINDING_BYTES]
        signed = binding + paging_state
        token = _VERSION + _mac(key, b"token", _VERSION, signed) + signed
        return base64.urlsafe_b64encode(token).rstrip(b"=").decode()

    @overload
    def verify(
        self, token: str, statement: Statement, values: Values | None = None, *, context: str = ""
    ) -> bytes: ...
    @overload
    def verify(
        self,
        token: str | None,
        statement: Statement,
        values: Values | None = None,
        *,
        context: str = "",
    ) -> bytes | None: ...
    def verify(
        self,
        token: str | None,
        statement: Statement,
        values: Values | None = None,
        *,
        context: str = "",
    ) -> bytes | None:
        """Returns the paging state of a token, to be passed to `execute` as `paging_state`.

        Returns `None` for `None`, with which `execute` begins at the first page.

        Raises: `PagingTokenError` for a token that is truncated or was changed, that was signed
            with another key, or that is for another statement, other values or another context;
            `EncodeError` for values that the statement cannot take.
        """
        if token is None:
            return None
        head_and_state = _decoded(token)
        mac, signed = head_and_state[1 : 1 + _MAC_BYTES], head_and_state[1 + _MAC_BYTES :]
        for key in self._keys:
            if hmac.compare_digest(mac, _mac(key, b"token", _VERSION, signed)):
                break
        else:
            raise PagingTokenError(
                "the paging token is not valid: it was changed, or was signed with another key"
            )
        binding = _mac(key, b"binding", _bound_to(statement, values, context))[:_BINDING_BYTES]
        if not hmac.compare_digest(signed[:_BINDING_BYTES], binding):
            raise PagingTokenError(
                "the paging token is for another statement, other values or another context"
            )
        return signed[_BINDING_BYTES:]

    def __repr__(self) -> str:
        return f"<PagingTokens with {len(self._keys)} key{'s'[: len(self._keys) - 1]}>"


def _secret_key(key: Any) -> Secret[bytes]:
    plain_key = key.reveal() if isinstance(key, Secret) else key
    got = type(plain_key).__name__
    if isinstance(plain_key, bytes):
        if len(plain_key) >= _MIN_KEY_BYTES:
            return Secret(plain_key)
        got = f"{len(plain_key)} bytes"
    raise ConfigError(
        f"a key must be at least {_MIN_KEY_BYTES} random bytes, such as secrets.token_bytes(32);"
        f" got {got}"
    )


def _decoded(token: str) -> bytes:
    """The bytes of a token.

    Raises: `PagingTokenError` for text that cannot be a token.
    """
    if not isinstance(token, str):
        raise TypeError(f"a paging token is a str or None, got {type(token).__name__}")
    try:
        data = base64.b64decode(
            token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
        )
    except (UnicodeEncodeError, binascii.Error):
        data = b""
    # Base64 has several texts for some bytes. Only the text that `sign` writes is valid.
    is_written_by_sign = base64.urlsafe_b64encode(data).rstrip(b"=").decode() == token
    if len(data) < _HEAD_BYTES or data[:1] != _VERSION or not is_written_by_sign:
        raise PagingTokenError(
            f"expected a paging token, as `sign` returns it; got {len(token)} characters that are"
            " truncated or of another kind"
        )
    return data


def _mac(key: Secret[bytes], purpose: bytes, *parts: bytes) -> bytes:
    """Returns the HMAC of `purpose` and the parts.

    In the message from which the HMAC is computed, `purpose` and each part are written as a length
    and the bytes. So different parts never make the same message.
    """
    message = b"".join(len(part).to_bytes(8, "big") + part for part in (purpose, *parts))
    return hmac.digest(key.reveal(), message, "sha256")


def _bound_to(statement: Any, values: Any, context: str) -> bytes:
    """Returns, as bytes, the parts that a token is valid for: statement, values and context."""
    if not isinstance(context, str):
        raise TypeError(f"context must be a str, got {type(context).__name__}")
    if isinstance(statement, _core.Prepared):
        statement = statement.bind(values)
    elif isinstance(statement, _core.Bound) and values is not None:
        raise TypeError("a Bound has its values already: pass none")
    if isinstance(statement, _core.Bound):
        text = statement.prepared.text
        kinds = [b"value" if isinstance(cell, bytes) else b"none" for cell in statement.cells]
        types = [marker[3] for marker in statement.prepared.markers]
        cells = [
            _without_order(cell, cql_type) if isinstance(cell, bytes) else b""
            for cell, cql_type in zip(statement.cells, types, strict=True)
        ]
        parts = [part for kind_and_cell in zip(kinds, cells, strict=True) for part in kind_and_cell]
    else:
        text = statement.text if isinstance(statement, _core.Query) else statement
        if not isinstance(text, str):
            raise TypeError(f"expected a statement, got {type(statement).__name__}")
        parts = [_written_values(values).encode()]
    texts = [part.encode("utf-8", "surrogatepass") for part in (text, context)]
    return b"".join(len(part).to_bytes(8, "big") + part for part in (*texts, *parts))


def _written_values(values: Any) -> str:
    """The values of a statement that is not prepared, as text that is equal for equal values."""
    if values is None:
        return ""
    names = field_names(type(values))
    if names is not None:
        values = {name: getattr(values, name) for name in names}
    if isinstance(values, Mapping):
        return "".join(f"{name!r}: {_written_value(values[name])}, " for name in sorted(values))
    return "".join(f"{_written_value(value)}, " for value in values)


def _written_value(value: Any) -> str:
    if value is UNSET:
        return "unset"
    if isinstance(value, Mapping):
        entries = (f"{_written_value(key)}: {_written_value(item)}" for key, item in value.items())
        return "{" + ", ".join(sorted(entries)) + "}"
    if isinstance(value, AbstractSet):
        return "{" + ", ".join(sorted(map(_written_value, value))) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written_value, value)) + "]"
    return literal(value)


def _without_order(cell: bytes, cql_type: str) -> bytes:
    """Returns bytes that are equal for equal values, for a type that contains sets or maps.

    The encoded bytes of equal sets may differ, because the order of elements differs between
    processes.
    """
    if not re.search(r"\b(?:set|map)<", cql_type):
        return cell
    try:
        value = find_deserializer(cql_type).deserialize(cell)
    except Error:
        # `cql_type` is or contains the name of a user-defined type. The fields of this type are not
        # known here, so the value cannot be decoded.
        return cell
    return _written_value(value).encode("utf-8", "surrogatepass")
