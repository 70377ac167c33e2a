"""Compares the routing keys and tokens of turbocql with those of scylla-driver, the reference."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cassandra.metadata import Murmur3Token
from cassandra.murmur3 import _murmur3
from cassandra.protocol import ColumnMetadata
from cassandra.query import PreparedStatement

from turbocql.codec import routing_key, token

from .drivers import Refusal, our_encode, their_encode
from .generate import Generator
from .shapes import SCALARS, Shape, parse

KEYS = [
    *(Shape(kind) for kind in SCALARS if kind not in ("counter", "duration")),
    parse("frozen<list<int>>"),
    parse("frozen<key{a text, b frozen<set<int>>}>"),
]
_MASK = 2**64 - 1


@dataclass
class RoutingReport:
    """The counts of compared keys and tokens, and the failures."""

    keys: int = 0
    """The number of compared keys. Both drivers encode the values of these keys alike."""
    tokens: int = 0
    failures: list[str] = field(default_factory=list)

    def compare_tokens(self, key: bytes) -> None:
        self.tokens += 1
        self.failures += wrong_tokens(key)


def compare_keys(part: int, count: int, seed: int) -> RoutingReport:
    """Compares keys of random values, and the tokens of the keys and of random byte strings.

    `count` is the number of random keys, and also the number of byte strings. A key is compared
    only if both drivers encode its values alike.
    """
    rng, generator, report = Random(seed + part), Generator(seed + part), RoutingReport()
    for _ in range(count):
        shapes = [rng.choice(KEYS) for _ in range(rng.choice((1, 1, 2, 2, 3, 5)))]
        parts = [generator.value(shape) for shape in shapes]
        pairs = list(zip(shapes, parts, strict=True))
        ours = [our_encode(shape, part, 4) for shape, part in pairs]
        theirs = their_routing_key(shapes, parts)
        # The drivers encode these values differently, so the keys are not compared. test_values.py
        # tests such values.
        if ours != [their_encode(shape, part, 4) for shape, part in pairs]:
            continue
        if any(isinstance(part, Refusal) for part in (*ours, theirs)):
            continue
        report.keys += 1
        key = routing_key(ours)
        named = ", ".join(shape.cql for shape in shapes)
        if key != theirs:
            report.failures.append(
                f"routing key of {named}: {parts!r:.300}: {key!r:.300}, not {theirs!r:.300}"
            )
        report.compare_tokens(key)
    for length in range(count):
        report.compare_tokens(rng.randbytes(length % 67))
    report.compare_tokens(preimage(-(2**63), rng.getrandbits(64)))
    return report


def their_routing_key(shapes: list[Shape], parts: list[Any]) -> Any:
    """Returns the routing key that the reference computes for these values, or a refusal."""
    columns = [ColumnMetadata("ks", "t", f"c{i}", s.reference) for i, s in enumerate(shapes)]
    indexes = list(range(len(shapes)))
    statement = PreparedStatement(columns, b"id", indexes, "", "ks", 4, None, None)
    try:
        return statement.bind(parts).routing_key
    except Exception as error:
        return Refusal(str(error))


def wrong_tokens(key: bytes) -> list[str]:
    """Compares a key's token with the results of the reference's two functions.

    Returns a list with one complaint, or an empty list if all three tokens are equal.
    """
    ours = token(key)
    pure = _murmur3(key)
    theirs = {Murmur3Token.hash_fn(key), 2**63 - 1 if pure == -(2**63) else pure}
    return [] if theirs == {ours} else [f"token of {key!r:.300}: {ours}, not {theirs}"]


def preimage(wanted: int, second: int) -> bytes:
    """Runs Murmur3 backwards, and returns a key of 16 bytes whose hash is `wanted`.

    `second` is any number of 64 bits. Each number gives a different key.

    The tests need this function for the hash -2**63, which random keys almost never have. This hash
    is not a valid token, so a key with this hash has the token 2**63 - 1.
    """

    def unshift(k: int) -> int:
        return k ^ (k >> 33)

    def unmix(k: int) -> int:
        k = unshift(k) * pow(0xC4CEB9FE1A85EC53, -1, 2**64) & _MASK
        return unshift(unshift(k) * pow(0xFF51AFD7ED558CCD, -1, 2**64) & _MASK)

    def rotate(k: int, by: int) -> int:
        return (k >> by | k << (64 - by)) & _MASK

    # Murmur3 ends with: h1 += h2; h2 += h1; mix both; h1 += h2.
    mixed2 = second
    mixed1 = (wanted - mixed2) & _MASK
    h1, h2 = unmix(mixed1), unmix(mixed2)
    h2 = (h2 - h1) & _MASK
    h1 = (h1 - h2) & _MASK
    h1, h2 = h1 ^ 16, h2 ^ 16
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    fifth = pow(5, -1, 2**64)
    k2 = rotate(((h2 - 0x38495AB5) * fifth - h1) & _MASK, 31)
    k1 = rotate((h1 - 0x52DCE729) * fifth & _MASK, 27)
    k1 = rotate(k1 * pow(c2, -1, 2**64) & _MASK, 31) * pow(c1, -1, 2**64) & _MASK
    k2 = rotate(k2 * pow(c1, -1, 2**64) & _MASK, 33) * pow(c2, -1, 2**64) & _MASK
    return struct.pack("<QQ", k1, k2)
