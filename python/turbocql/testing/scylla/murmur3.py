"""Computes the token of a partition key, as Cassandra's and ScyllaDB's Murmur3Partitioner do."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["MAX_TOKEN", "MIN_TOKEN", "routing_key", "token_of"]

MIN_TOKEN, MAX_TOKEN = -(1 << 63), (1 << 63) - 1
_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_PAIR = struct.Struct("<QQ")


def token_of(key: bytes) -> int:
    """The token of a routing key, a signed number of 64 bits. See `routing_key`.

    The token is the first half of MurmurHash3 (x64, 128 bits, seed 0). The last, incomplete block
    is read as signed bytes, which differs from the published algorithm for bytes above 127. The
    least 64-bit number is not a valid token, so the greatest 64-bit number replaces it.
    """
    size = len(key)
    h1 = h2 = 0
    blocks_end = size & ~15
    for k1, k2 in _PAIR.iter_unpack(key[:blocks_end]):
        k1 = k1 * _C1 & _MASK
        k1 = (k1 << 31 | k1 >> 33) * _C2 & _MASK
        h1 ^= k1
        h1 = (((h1 << 27 | h1 >> 37) + h2) * 5 + 0x52DCE729) & _MASK
        k2 = k2 * _C2 & _MASK
        k2 = (k2 << 33 | k2 >> 31) * _C1 & _MASK
        h2 ^= k2
        h2 = (((h2 << 31 | h2 >> 33) + h1) * 5 + 0x38495AB5) & _MASK
    if blocks_end < size:
        h1, h2 = _with_tail(h1, h2, key[blocks_end:])
    h1 ^= size
    h2 ^= size
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1 = _mixed(h1) + _mixed(h2) & _MASK
    token = h1 - (1 << 64) if h1 >> 63 else h1
    return MAX_TOKEN if token == MIN_TOKEN else token


def _with_tail(h1: int, h2: int, tail: bytes) -> tuple[int, int]:
    k1 = k2 = 0
    for at, byte in enumerate(tail):
        signed = byte - 256 if byte > 127 else byte
        if at < 8:
            k1 ^= signed << 8 * at
        else:
            k2 ^= signed << 8 * (at - 8)
    k2 = (k2 & _MASK) * _C2 & _MASK
    h2 ^= (k2 << 33 | k2 >> 31) * _C1 & _MASK
    k1 = (k1 & _MASK) * _C1 & _MASK
    h1 ^= (k1 << 31 | k1 >> 33) * _C2 & _MASK
    return h1, h2


def _mixed(k: int) -> int:
    k ^= k >> 33
    k = k * 0xFF51AFD7ED558CCD & _MASK
    k ^= k >> 33
    k = k * 0xC4CEB9FE1A85EC53 & _MASK
    return k ^ k >> 33


def routing_key(components: Sequence[bytes]) -> bytes:
    """The bytes that are hashed for a partition key.

    A key of one column is its value. A composite key is, for each column, a length of two bytes,
    the value and a zero byte.
    """
    if len(components) == 1:
        return components[0]
    return b"".join(struct.pack(">H", len(part)) + part + b"\0" for part in components)
