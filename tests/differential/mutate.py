"""Damages the encoded bytes of values."""

from __future__ import annotations

from random import Random
from typing import Any

from . import cells
from .shapes import Shape

ODD: dict[str, list[bytes]] = {
    "text": [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"ok\xe2\x82"],
    "ascii": [b"\x80", b"a\xc3\xa4", b"\xff\xff"],
    "boolean": [b"\2", b"\xff", b"\x80"],
    "varint": [b"\0\0\1", b"\xff\xff\xff", b"\0" * 40, b"\x80" + b"\0" * 40, b"\1" + b"\0" * 3000],
    "decimal": [
        b"\0\0\0\0\0\0\1",
        b"\x80\0\0\0\1",
        b"\x7f\xff\xff\xff\xff",
        b"\0\0\0\2\1" + b"\0" * 3000,
        b"\0\0\0\5",
    ],
    "date": [
        b"\0\0\0\0",
        b"\xff" * 4,
        b"\x80\x2c\xc0\xa1",
        b"\x7f\xf5\x06\xc6",
        b"\x7f\xf5\x06\xc5",
    ],
    "time": [b"\xff" * 8, b"\0\0\x4e\x94\x91\x4f\0\0", b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7],
    "timestamp": [
        b"\x7f" + b"\xff" * 7,
        b"\x80" + b"\0" * 7,
        (253_402_300_800_000).to_bytes(8, "big"),
        (253_402_300_799_999).to_bytes(8, "big"),
        (-62_135_596_800_001).to_bytes(8, "big", signed=True),
        (-62_135_596_800_000).to_bytes(8, "big", signed=True),
    ],
    "duration": [
        b"\1\2\3",
        b"\2\1\2",
        b"\0\0",
        b"\0\0\0\0",
        b"\xf8" + b"\xff" * 5 + b"\0\0",
        b"\xff" * 27,
    ],
    "inet": [b"\1\2\3\4\5", b"\0" * 12, b"\1", b"\0" * 16, b"\0" * 10 + b"\xff\xff\1\2\3\4"],
    "uuid": [bytes(15), bytes(17)],
    "timeuuid": [bytes(16), b"\xff" * 16],
    "float": [b"\x7f\x80\0\1", b"\x7f\xc0\0\1", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1"],
    "double": [
        b"\x7f\xf0" + b"\0" * 5 + b"\1",
        b"\xff" * 8,
        b"\x80" + b"\0" * 7,
        b"\0" * 7 + b"\1",
    ],
}


def mutated(rng: Random, shape: Shape, data: bytes) -> bytes:
    """Returns the bytes with one random change, at any depth."""
    bare = shape.bare
    known = cells.split(shape, data) if rng.random() < 0.5 else None
    if known:
        return _inside(rng, bare, known)
    if not bare.parts and rng.random() < 0.4:
        return rng.choice([*ODD.get(bare.kind, [b"\0"]), b""])
    chance = rng.random()
    if chance < 0.3:
        return data[: rng.randrange(len(data) + 1)]
    if chance < 0.5:
        return data + rng.randbytes(rng.randrange(1, 6))
    if chance < 0.6 and bare.kind in ("list", "set", "map"):
        count = rng.choice((-2, -1, 0, 1, 2, 3, 2**31 - 1, -(2**31)))
        return count.to_bytes(4, "big", signed=True) + data[4:]
    if chance < 0.95 and data:
        changed = bytearray(data)
        changed[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
        return bytes(changed)
    return rng.randbytes(rng.randrange(12))


def _inside(rng: Random, bare: Shape, known: list[cells.Cell]) -> bytes:
    at = rng.randrange(len(known))
    part = cells.parts_of(bare, len(known))[at]
    cell = known[at]
    changed: Any = (
        rng.choice((None, b"")) if rng.random() < 0.3 else mutated(rng, part, cell or b"")
    )
    chance = rng.random()
    if chance < 0.05 and bare.kind == "set":
        known.append(known[at])
    elif chance < 0.1 and bare.kind == "map":
        known += known[:2]
    elif bare.kind in ("tuple", "udt") and chance < 0.2:
        del known[at:]
    elif bare.kind in ("tuple", "udt") and chance < 0.25:
        known.append(cell)
    else:
        known[at] = changed
    return cells.join(bare, known)
