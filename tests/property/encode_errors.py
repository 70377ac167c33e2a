"""Checks that a value raises an `EncodeError`, alone and inside other types."""

from __future__ import annotations

from typing import Any

import pytest

from turbocql.codec import encode
from turbocql.errors import EncodeError


def refused(cql_type: str, value: Any) -> EncodeError:
    """Returns the error that encoding a value raises.

    It also encodes the value inside other types. The error must then be the same, with a longer
    path.
    """
    with pytest.raises(EncodeError) as caught:
        encode(cql_type, value)
    with pytest.raises(EncodeError) as inside:
        encode(f"map<text, tuple<int, frozen<{cql_type}>>>", {"k": (1, value)})
    error, deep = caught.value, inside.value
    assert isinstance(error, TypeError)
    assert isinstance(error, ValueError)
    assert deep.path == 'value["k"][1]' + error.path.removeprefix("value")
    assert str(deep).startswith(deep.path + ": ")
    assert str(error).startswith(f"{error.path}: " if error.path else "")
    assert deep.cql_type == error.cql_type
    assert error.cql_type in str(error)
    return error
