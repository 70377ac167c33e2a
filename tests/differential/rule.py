"""A rule is an intended difference between turbocql and scylla-driver (the reference).

docs/differences.md lists the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .cases import COMPILED, DECODE, ENCODE, Case, Difference
from .drivers import Refusal
from .shapes import parse

TAKEN, GIVEN, REFUSED = "Values taken", "Values given", "Bytes refused"
"""The sections of docs/differences.md that list rules."""


@dataclass(frozen=True)
class Rule:
    """An intended difference. `name` is the slug of its heading in docs/differences.md."""

    name: str
    section: str
    reason: str
    """The reason why turbocql differs."""
    claims: Callable[[Difference], bool]
    """Returns whether the rule covers a difference. It should return true for few differences."""
    example: Case
    """A case whose difference the rule claims."""
    since: tuple[int, int] = (3, 0)
    """The first CPython version with this difference."""


def encoding(cql: str, value: Any) -> Case:
    """Returns an example of a value to encode."""
    return Case(ENCODE, parse(cql), value)


def decoding(cql: str, data: bytes) -> Case:
    """Returns an example of bytes to decode with the methods of the reference's types."""
    return Case(DECODE, parse(cql), data)


def compiled(cql: str, data: bytes) -> Case:
    """Returns an example of bytes to decode with the reference's compiled deserializers."""
    return Case(COMPILED, parse(cql), data)


def only_they_take(difference: Difference, *kinds: str) -> bool:
    """Returns whether only the reference encodes the value, and the type is one of `kinds`."""
    return _encodes(difference, kinds) and difference.we_refuse and not difference.they_refuse


def only_we_take(difference: Difference, *kinds: str) -> bool:
    """Returns whether only turbocql encodes the value, and the type is one of `kinds`."""
    return _encodes(difference, kinds) and difference.they_refuse and not difference.we_refuse


def _encodes(difference: Difference, kinds: tuple[str, ...]) -> bool:
    return difference.encoding and difference.kind in kinds


def only_they_read(difference: Difference, *kinds: str) -> bool:
    """Returns whether only the reference decodes the bytes, and the type is one of `kinds`."""
    is_one_sided = difference.we_refuse and not difference.they_refuse
    return not difference.encoding and difference.kind in kinds and is_one_sided


def only_we_read(difference: Difference, *kinds: str) -> bool:
    """Returns whether only turbocql decodes the bytes, and the type is one of `kinds`."""
    is_one_sided = difference.they_refuse and not difference.we_refuse
    return not difference.encoding and difference.kind in kinds and is_one_sided


def gives(call: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of the call, or a refusal if it raises."""
    try:
        return call(*arguments)
    except Exception as error:
        return Refusal(str(error))
