"""Tests of signed paging tokens."""

from __future__ import annotations

import base64
import datetime
import hmac
import string
import traceback
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turbocql import UNSET, PagingTokens, Query, Secret
from turbocql.errors import ConfigError, EncodeError, Error, PagingTokenError

KEY, OTHER_KEY = b"k" * 32, b"o" * 16
SELECT = "SELECT * FROM t WHERE k = ?"
TOKENS = PagingTokens(KEY)
URL_CHARACTERS = set(string.ascii_letters + string.digits + "-_")


@dataclass
class Key:
    k: int


@given(st.binary(), st.text(max_size=20), st.text(max_size=5))
def test_verify_returns_the_signed_state(state: bytes, text: str, context: str) -> None:
    token = TOKENS.sign(state, text, (1, "a"), context=context)
    assert set(token) <= URL_CHARACTERS
    assert TOKENS.verify(token, text, (1, "a"), context=context) == state
    assert PagingTokens(Secret(KEY)).verify(token, text, (1, "a"), context=context) == state


def test_the_first_and_the_last_page() -> None:
    assert TOKENS.sign(None, SELECT) is None
    assert TOKENS.verify(None, SELECT) is None


@given(st.binary(max_size=30), st.data())
def test_changed_tokens(state: bytes, data: st.DataObject) -> None:
    token = TOKENS.sign(state, SELECT, (1,))
    position = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.sampled_from(sorted(URL_CHARACTERS - {token[position]})))
    changed = token[:position] + character + token[position + 1 :]
    with pytest.raises(PagingTokenError):
        TOKENS.verify(changed, SELECT, (1,))


def test_every_truncation() -> None:
    token = TOKENS.sign(b"a state", SELECT, (1,))
    for end in range(len(token)):
        with pytest.raises(PagingTokenError):
            TOKENS.verify(token[:end], SELECT, (1,))
    for longer in (token + "A", token + "=", token + "AAAA", " " + token, token + "\n"):
        with pytest.raises(PagingTokenError):
            TOKENS.verify(longer, SELECT, (1,))


@pytest.mark.parametrize(
    "text", ["", "a", "garbage!", "é" * 80, base64.b64encode(bytes(100)).decode(), "A" * 400]
)
def test_text_that_is_no_token(text: str) -> None:
    with pytest.raises(PagingTokenError, match="expected a paging token, as `sign` returns it"):
        TOKENS.verify(text, SELECT)


def test_other_keys() -> None:
    token = TOKENS.sign(b"state", SELECT, (1,))
    with pytest.raises(PagingTokenError, match="changed, or was signed with another key"):
        PagingTokens(OTHER_KEY).verify(token, SELECT, (1,))
    rotated = PagingTokens([OTHER_KEY, KEY])
    assert rotated.verify(token, SELECT, (1,)) == b"state"
    newer = rotated.sign(b"state", SELECT, (1,))
    assert PagingTokens(OTHER_KEY).verify(newer, SELECT, (1,)) == b"state"
    with pytest.raises(PagingTokenError, match="another key"):
        TOKENS.verify(newer, SELECT, (1,))


@pytest.mark.parametrize(
    ("statement", "values", "context"),
    [
        (SELECT + " ", (1,), ""),
        ("SELECT * FROM secrets WHERE k = ?", (1,), ""),
        (SELECT, (2,), ""),
        (SELECT, ("1",), ""),
        (SELECT, (1.0,), ""),
        (SELECT, (None,), ""),
        (SELECT, (UNSET,), ""),
        (SELECT, (1, 1), ""),
        (SELECT, (), ""),
        (SELECT, None, ""),
        (SELECT, {"k": 2}, ""),
        (SELECT, (1,), "another user"),
    ],
)
def test_other_statements(statement: str, values: Any, context: str) -> None:
    token = TOKENS.sign(b"state", SELECT, (1,))
    with pytest.raises(PagingTokenError, match="another statement, other values or another"):
        TOKENS.verify(token, statement, values, context=context)


def test_the_signature_separates_statement_values_and_context() -> None:
    token = TOKENS.sign(b"state", "ab", None, context="c")
    for text, context in (("a", "bc"), ("abc", ""), ("", "abc")):
        with pytest.raises(PagingTokenError):
            TOKENS.verify(token, text, None, context=context)
    for first, second in [(("a, 'b",), ("a", "b")), ((["a"],), ("a",)), ((b"a",), ("0x61",))]:
        with pytest.raises(PagingTokenError):
            TOKENS.verify(TOKENS.sign(b"", SELECT, first), SELECT, second)


def test_equal_values() -> None:
    moment = datetime.datetime(2026, 1, 31, tzinfo=datetime.timezone.utc)
    pairs: list[tuple[Any, Any]] = [
        ((1, "a"), [1, "a"]),
        ({"k": 1, "n": moment}, {"n": moment, "k": 1}),
        ({"k": 1}, Key(1)),
        (({3, 1, 2},), ({2, 3, 1},)),
    ]
    for first, second in pairs:
        token = TOKENS.sign(b"state", Query(SELECT), first)
        assert TOKENS.verify(token, SELECT, second) == b"state"


@pytest.mark.parametrize(
    ("key", "got"),
    [(b"short hunter2", "13 bytes"), ("a str, hunter2 .....", "str"), (None, "NoneType")],
)
def test_unsuitable_keys_are_refused(key: Any, got: str) -> None:
    for bad_key in (key, [KEY, key], Secret(key) if key else key):
        with pytest.raises(
            ConfigError, match=f"at least 16 random bytes, .*; got {got}$"
        ) as caught:
            PagingTokens(bad_key)
        assert "hunter2" not in str(caught.value)
        frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        mine = [frame for frame in frames.stack if frame.filename.endswith("paging.py")]
        assert "hunter2" not in repr([frame.locals for frame in mine])
    with pytest.raises(ConfigError, match="a key is needed"):
        PagingTokens([])


def test_the_key_is_not_shown() -> None:
    tokens = PagingTokens([b"hunter2 hunter2 hunter2", KEY])
    assert repr(tokens) == "<PagingTokens with 2 keys>"
    assert repr(TOKENS) == "<PagingTokens with 1 key>"
    assert not hasattr(tokens, "__dict__")
    assert "hunter2" not in repr(tokens._keys)


def test_comparisons_take_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    compare = hmac.compare_digest

    def recorded(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return compare(a, b)

    monkeypatch.setattr(hmac, "compare_digest", recorded)
    token = TOKENS.sign(b"state", SELECT)
    assert TOKENS.verify(token, SELECT) == b"state"
    with pytest.raises(PagingTokenError):
        PagingTokens(OTHER_KEY).verify(token, SELECT)
    assert compared == [(32, 32), (16, 16), (32, 32)]


def test_arguments_of_other_types() -> None:
    with pytest.raises(TypeError, match="a paging state is bytes, got str"):
        TOKENS.sign("state", SELECT)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a paging token is a str or None, got bytes"):
        TOKENS.verify(b"token", SELECT)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="expected a statement, got int"):
        TOKENS.sign(b"", 1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="context must be a str"):
        TOKENS.sign(b"", SELECT, context=1)  # type: ignore[call-overload]
    with pytest.raises(EncodeError, match="no CQL literal"):
        TOKENS.sign(b"", SELECT, (object(),))
    assert issubclass(PagingTokenError, Error)
    assert issubclass(PagingTokenError, ValueError)
