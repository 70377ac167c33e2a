"""A listed difference between the two drivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .cases import COMPILED, DECODE, ENCODE, Case, Difference
from .drivers import Refusal
from .shapes import parse

TAKEN, GIVEN, REFUSED = "Values taken", "Values given", "Bytes refused"
"""The sections of docs/differences.md."""


@dataclass(frozen=True)
class Rule:
    """A difference: its name is the slug of its heading in docs/differences.md."""

    name: str
    section: str
    reason: str
    """Why turbocql is right to differ."""
    claims: Callable[[Difference], bool]
    """Whether a difference is of this rule. It says no more than it must."""
    example: Case
    """One that it claims."""
    since: tuple[int, int] = (3, 0)
    """The first CPython where there is such a difference."""


def encoding(cql: str, value: Any) -> Case:
    """An example of a value to encode."""
    return Case(ENCODE, parse(cql), value)


def decoding(cql: str, data: bytes) -> Case:
    """An example of bytes to decode, by the methods of the reference's types."""
    return Case(DECODE, parse(cql), data)


def compiled(cql: str, data: bytes) -> Case:
    """An example of bytes to decode, by the reference's compiled deserializers."""
    return Case(COMPILED, parse(cql), data)


def only_they_take(difference: Difference, *kinds: str) -> bool:
    """A value of one of these types that the reference writes and turbocql refuses."""
    return _encodes(difference, kinds) and difference.we_refuse and not difference.they_refuse


def only_we_take(difference: Difference, *kinds: str) -> bool:
    """A value of one of these types that turbocql writes and the reference refuses."""
    return _encodes(difference, kinds) and difference.they_refuse and not difference.we_refuse


def _encodes(difference: Difference, kinds: tuple[str, ...]) -> bool:
    return difference.encoding and difference.kind in kinds


def only_they_read(difference: Difference, *kinds: str) -> bool:
    """Bytes of one of these types that the reference reads and turbocql refuses."""
    one = difference.we_refuse and not difference.they_refuse
    return not difference.encoding and difference.kind in kinds and one


def only_we_read(difference: Difference, *kinds: str) -> bool:
    """Bytes of one of these types that turbocql reads and the reference refuses."""
    one = difference.they_refuse and not difference.we_refuse
    return not difference.encoding and difference.kind in kinds and one


def gives(call: Callable[..., Any], *arguments: Any) -> Any:
    """What the call gives, or a refusal."""
    try:
        return call(*arguments)
    except Exception as error:
        return Refusal(str(error))
