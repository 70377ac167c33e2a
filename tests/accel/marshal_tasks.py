"""Tasks that call the functions of `cassandra.marshal`.

A task is a description and a function. The function is called without and with the accelerator,
and the results are compared.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from cassandra import marshal
from tests.accel.answers import answer

Task = tuple[str, Callable[[], Any]]
WIDTHS = {
    **{"int64_unpack": 8, "int32_unpack": 4, "int16_unpack": 2, "int8_unpack": 1},
    **{"uint64_unpack": 8, "uint32_unpack": 4, "uint32_le_unpack": 4, "uint16_unpack": 2},
    **{"uint8_unpack": 1, "float_unpack": 4, "double_unpack": 8},
}
"""The functions that unpack a number of a fixed width, each with this width in bytes."""
FUNCTIONS = (
    *("varint_pack", "varint_unpack", "vints_pack", "vints_unpack", "uvint_pack", "uvint_unpack"),
    *WIDTHS,
)


class Number(int):
    """A subclass of `int`."""


class Level(enum.IntEnum):
    """An enumeration of numbers."""

    ONE = 1


class Data(bytes):
    """A subclass of `bytes` whose first item is always 0x81."""

    def __getitem__(self, index: Any) -> Any:
        return 0x81 if index == 0 else super().__getitem__(index)


class Index:
    """An object that is no number. It can be used as a number, because it has `__index__`."""

    def __index__(self) -> int:
        return 3

    __int__ = __index__


ODD: list[Any] = [
    *(None, True, False, Number(5), Number(-300), Level.ONE, Index(), object(), "text", "", 1.0),
    *(0.0, 2.5, -1.5, float("nan"), float("inf"), 3 + 0j, b"", bytearray(b"\x81\x01"), [], (), {}),
    *(memoryview(b"\0\0\0\1"), bytearray(4), bytearray(8), memoryview(bytes(8)), Data(b"\1\2")),
    *([True], (Number(7), 1), [1.9], ["12"], ["x"], [None], {1: 2}, {3}, range(3), iter([1])),
    *([1 << 63], [-(1 << 63) - 1], [1, 1 << 70], (1 << 400,), [0x80, 0x01], (0x01, 0x7F), [256]),
    *([-1], "\x01\x02", "12", [[1]], Data(b"\x81\1"), Data(bytes(4)), Data(bytes(8))),
]
"""Arguments of unusual classes and sizes. The functions refuse some of them."""


def marshal_tasks(count: int) -> Iterator[Task]:
    """Yields tasks that call each function with random, extreme and odd arguments."""
    rng = Random(12)
    numbers = [
        sign * ((1 << bits) + by) for bits in range(70) for by in (-1, 0, 1) for sign in (1, -1)
    ]
    numbers += [
        rng.randrange(-(1 << bits), 1 << bits) for bits in (8, 64, 200) for _ in range(count)
    ]
    numbers += [10**4_000, -(10**4_000)]
    data = [rng.randbytes(rng.randrange(12)) for _ in range(count)]
    data += [bytes([first]) + rng.randbytes(8) for first in range(256)]
    data += [b"\xff" * 9 + b"\0", b"\x80", b"\xfe" * 8, rng.randbytes(300), b"\x00" * 20]
    data += [bytes.fromhex(nan) for nan in ("7f800001", "ff800001", "7fc00000", "7ff0000000000001")]
    several = [[rng.choice(numbers[:400]) for _ in range(rng.randrange(5))] for _ in range(count)]
    arguments: dict[str, list[Any]] = {
        "varint_pack": numbers,
        "uvint_pack": numbers,
        "vints_pack": [*([number] for number in numbers), *several, *map(tuple, several)],
        "varint_unpack": data,
        "vints_unpack": data,
        "uvint_unpack": data,
    }
    for name in FUNCTIONS:
        chosen = arguments.get(name)
        if chosen is None:
            width = WIDTHS[name]
            chosen = [piece[:width] for piece in data] + [
                rng.randbytes(width) for _ in range(count)
            ]
        for argument in (*chosen, *ODD):
            if not hasattr(argument, "__next__"):
                yield f"{name} {argument!r:.80}", partial(_called, name, argument)
        for parameters in ((), (b"\1", 2)):
            yield f"{name} {parameters}", partial(_called, name, *parameters)
        yield f"{name} by name", partial(_named, name)


def _called(name: str, *arguments: Any) -> Any:
    result = answer(getattr(marshal, name), *arguments)
    # Results are compared by their repr, which differs for -0.0 and 0.0, and is equal for two NaNs.
    return type(result).__name__, repr(result)


def _named(name: str) -> Any:
    return [
        answer(partial(getattr(marshal, name), **{parameter: argument}))
        for parameter in ("big", "term", "values", "val", "bytes", "s", "other")
        for argument in (5, b"\1\2\3\4", [1])
    ]
