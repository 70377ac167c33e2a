"""Decodes damaged bytes of every type.

Decoding must return a value or raise a `DecodeError`. If the bytes contain a length, the decoder
must check it before it allocates memory. Random numbers have a fixed seed, so that failures can be
repeated. The message of a failure has the type and the bytes.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from turbocql.codec import Deserializer, Serializer, encode, find_deserializer, find_serializer
from turbocql.errors import DecodeError, EncodeError
from turbocql.protocol import RowsDecoder

from .child_with_limits import limited
from .paths import COMPOSITE, GOOD
from .paths_results import BODIES

DEFAULT, PROOF = 20_000, 1_000_000
SEED = 20_240_229

VALID: dict[str, list[bytes]] = {
    cql_type: sorted({encode(cql_type, value) for value in values})
    for cql_type, values in GOOD.items()
}
TYPES = list(VALID)
WHOLE = [data for values in VALID.values() for data in values]

ONE_FORM = {"tinyint", "smallint", "int", "bigint", "counter", "blob", "custom", "uuid", "inet"}
ONE_FORM |= {"date", "time", "timestamp"}
"""The kinds of types whose values have only one encoding each."""

LENGTHS = [
    *(n.to_bytes(4, "big") for n in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE)),
    *(n.to_bytes(4, "big") for n in (0x7FFFFFF0, 0x3FFFFFFF, 0x10000, 0xFFFF)),
    *(b"\xff\xff", b"\x7f\xff", b"\x80\x00", b"\xff" * 9, b"\xf0" + b"\xff" * 4, b"\x80"),
]

Mutation = Callable[[random.Random, bytearray], None]


def flip(chance: random.Random, data: bytearray) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def change(chance: random.Random, data: bytearray) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, 0xFE, 0xC0))


def insert(chance: random.Random, data: bytearray) -> None:
    at = chance.randint(0, len(data))
    data[at:at] = chance.randbytes(chance.randint(1, 5))


def delete(chance: random.Random, data: bytearray) -> None:
    at = chance.randint(0, len(data))
    del data[at : at + chance.randint(1, 5)]


def truncate(chance: random.Random, data: bytearray) -> None:
    del data[chance.randint(0, len(data)) :]


def splice(chance: random.Random, data: bytearray) -> None:
    other = chance.choice(WHOLE)
    at, of = chance.randint(0, len(data)), chance.randint(0, len(other))
    data[at:] = other[of:]


def repeat(chance: random.Random, data: bytearray) -> None:
    at, end = sorted(chance.randint(0, len(data)) for _ in range(2))
    data[at:at] = data[at:end] * chance.randint(1, 8)


def claim(chance: random.Random, data: bytearray) -> None:
    length = chance.choice(LENGTHS)
    at = chance.choice((0, chance.randint(0, len(data)), chance.randint(0, len(data)) // 4 * 4))
    data[at : at + len(length)] = length


MUTATIONS: list[Mutation] = [flip, change, insert, delete, truncate, splice, repeat, claim, claim]


def mutants(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yields pairs of a type and damaged bytes.

    The bytes are made from an encoded value of the type. In 20 % of the pairs, another random type
    replaces this type.
    """
    chance = random.Random(seed)
    for _ in range(count):
        cql_type = chance.choice(TYPES)
        data = bytearray(chance.choice(VALID[cql_type]))
        if chance.random() < 0.2:
            cql_type = chance.choice(TYPES)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
            chance.choice(MUTATIONS)(chance, data)
        yield cql_type, bytes(data)


Coders = tuple[Serializer, list[Deserializer]]


def coders(cql_type: str) -> Coders:
    options: list[dict[str, bool]] = [{}, {"numpy_vectors": True}, {"naive_timestamps": True}]
    return find_serializer(cql_type), [find_deserializer(cql_type, **o) for o in options]


def same(one: Any, other: Any) -> bool:
    """Returns whether two decoded values count as equal.

    A NaN equals a NaN. The keys of dicts are not compared.
    """
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    # Two equal sets can have different orders, and their NaNs are unequal. So it is enough if their
    # sizes are equal.
    if isinstance(one, (set, frozenset)):
        return one == other or len(one) == len(other)
    if isinstance(one, dict):
        return len(one) == len(other) and all(map(same, one.values(), other.values()))
    return bool(one == other)


def writable(value: Any) -> bool:
    """Returns whether a decoded value can be encoded.

    A `Time` outside a day cannot be encoded, and neither can a text that was decoded from invalid
    UTF-8.
    """
    if isinstance(value, str):
        return not any("\udc80" <= character <= "\udcff" for character in value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(writable, value))
    if isinstance(value, dict):
        return all(map(writable, itertools.chain(value, value.values())))
    return bool(getattr(value, "within_day", True))


def check(coders: Coders, data: bytes) -> bool:
    """Decodes bytes with every option, and encodes the decoded value again.

    Returns whether the bytes could be decoded.
    """
    serializer, (plain, *others) = coders
    try:
        value = plain.deserialize(data)
    except DecodeError:
        for other in others:
            with pytest.raises(DecodeError):
                other.deserialize(data)
        return False
    for other in others:
        other.deserialize(data)
    if value is None:
        assert not data
        return True
    try:
        again = serializer.serialize(value)
    except EncodeError:
        if serializer.cql_type.kind not in ("ascii", "timeuuid", "composite", "vector", "duration"):
            assert not writable(value)
        return True
    assert again == data or serializer.cql_type.kind not in ONE_FORM
    assert same(value, plain.deserialize(again))
    arrays = others[0].deserialize(data)
    assert same(arrays, others[0].deserialize(serializer.serialize(arrays)))
    return True


def run(seed: int, count: int) -> dict[str, int]:
    """Checks damaged bytes. Maps each type to the number of its mutants that could be decoded."""
    known = {cql_type: coders(cql_type) for cql_type in TYPES}
    values = dict.fromkeys(TYPES, 0)
    for cql_type, data in mutants(seed, count):
        try:
            values[cql_type] += check(known[cql_type], data)
        except BaseException as error:
            raise AssertionError(f"{cql_type}: {data.hex(' ')}") from error
    return values


def test_mutants_are_values_or_refused(proof: bool) -> None:
    values = run(SEED, PROOF if proof else DEFAULT)
    assert sum(values.values()) > 1_000


def test_mutants_need_no_more_memory_than_they_have_bytes(proof: bool) -> None:
    """If the decoder allocated memory before it checked a length, it would exceed the limit."""
    count = (PROOF if proof else DEFAULT) // 10
    kind, message = limited(partial(run, SEED + 1, count), memory=64 << 20, seconds=600)
    assert kind is None, message


@pytest.mark.parametrize("cql_type", TYPES)
def test_each_truncation_and_each_changed_byte(cql_type: str) -> None:
    known = coders(cql_type)
    for data in VALID[cql_type]:
        for end in range(min(len(data), 200)):
            check(known, data[:end])
        for at in range(min(len(data), 100)):
            for byte in (0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1, data[at] ^ 0x80):
                check(known, data[:at] + bytes([byte]) + data[at + 1 :])
            for length in LENGTHS:
                check(known, data[:at] + length + data[at + len(length) :])


def test_each_byte_of_short_values() -> None:
    for cql_type in ("list<int>", "tuple<int, text>", "vector<text, 2>", "duration", COMPOSITE):
        known = coders(cql_type)
        data = VALID[cql_type][-1][:20]
        for at, byte in itertools.product(range(len(data)), range(256)):
            check(known, data[:at] + bytes([byte]) + data[at + 1 :])


def damaged_bodies(seed: int, count: int) -> Iterator[bytes]:
    """Yields damaged RESULT bodies. Most damage is in the metadata at the beginning."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(BODIES))
        start = data[: chance.choice((40, 200, len(data)))]
        for _ in range(chance.choice((1, 1, 2, 4))):
            chance.choice(MUTATIONS)(chance, start)
        data[: min(len(data), len(start))] = start
        yield bytes(data)


def run_bodies(seed: int, count: int) -> int:
    """Decodes damaged bodies, and returns the number of successful calls.

    For each body, a new decoder and a decoder that has already decoded other bodies must have the
    same outcome.
    """
    kept, results = RowsDecoder("tuple"), 0
    for number, data in enumerate(damaged_bodies(seed, count)):
        outcomes = []
        for decoder in (kept, RowsDecoder("tuple"), kept):
            try:
                page = decoder.decode(data)
            except DecodeError as error:
                outcomes.append(str(error))
            else:
                seen = (page.rows, page.columns, page.paging_state, page.metadata_id)
                outcomes.append(repr(seen))
                results += 1
        assert outcomes[0] == outcomes[1] == outcomes[2], data.hex(" ")
        if number % 500 == 0:
            for body in BODIES:
                kept.decode(body)
    return results


def test_damaged_results_are_results_or_refused(proof: bool) -> None:
    assert run_bodies(SEED, (PROOF if proof else DEFAULT) // 10) > 100


def test_damaged_results_need_no_more_memory_than_they_have_bytes() -> None:
    kind, message = limited(partial(run_bodies, SEED + 1, 1_000), memory=96 << 20, seconds=600)
    assert kind is None, message
