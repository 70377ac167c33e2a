"""The growth suite's series: inputs and expected results at each size. Imports no driver."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bench.suites.codec.cases import Page

__all__ = ["PAIR", "SERIES", "Series"]

_COLLECTION = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
_VECTOR = (2, 8, 32, 128, 512, 2048, 8192)
_ROWS = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
PAIR = [("id", "int"), ("name", "text")]


@dataclass(frozen=True)
class Series:
    """One kind of call, measured at many sizes."""

    kind: Literal["encode", "decode", "decode to NumPy", "bind", "page"]
    shape: Literal["list", "set", "map", "vector", "ndarray", "rows"]
    sizes: tuple[int, ...]
    rivals_up_to: int = 10_000_000
    """The largest size that the rivals are measured at; larger sizes would take them too long."""

    def cql(self, size: int) -> str:
        """Returns the CQL type at this size."""
        return {
            "list": "list<int>",
            "set": "set<text>",
            "map": "map<text, int>",
            "vector": f"vector<float, {size}>",
            "ndarray": f"vector<float, {size}>",
        }[self.shape]

    def value(self, size: int) -> Any:
        """Returns the Python value or the rows at this size."""
        match self.shape:
            case "list":
                return [(n * 7919) % 2**31 for n in range(size)]
            case "set":
                return {f"element {n}" for n in range(size)}
            case "map":
                return {f"element {n}": (n * 7919) % 2**31 for n in range(size)}
            case "vector":
                return [n / 8 for n in range(size)]
            case "ndarray":
                return np.arange(size, dtype="float32") / 8
        return [(n, f"text of row {n}") for n in range(size)]

    def encoded(self, size: int) -> bytes:
        """Returns the value as the protocol encodes it. The code here uses no driver."""
        if self.shape == "rows":
            return Page.of(PAIR, size).body
        value = self.value(size)
        if self.shape in ("vector", "ndarray"):
            return struct.pack(f">{size}f", *value)
        flat = value
        if self.shape == "map":
            flat = [part for pair in value.items() for part in pair]
        cells = [n.to_bytes(4, "big") if isinstance(n, int) else n.encode() for n in flat]
        return struct.pack(">i", size) + b"".join(
            struct.pack(">i", len(cell)) + cell for cell in cells
        )

    def expected(self, size: int) -> Any:
        """Returns the result that a client must give."""
        match self.kind:
            case "encode":
                return self.encoded(size)
            case "bind":
                return [(struct.pack(">i", n), text.encode()) for n, text in self.value(size)]
        value = self.value(size)
        return value.tolist() if self.shape == "ndarray" else value


SERIES: dict[str, Series] = {
    "list<int>, encode": Series("encode", "list", _COLLECTION),
    "list<int>, decode": Series("decode", "list", _COLLECTION),
    "set<text>, encode": Series("encode", "set", _COLLECTION),
    "set<text>, decode": Series("decode", "set", _COLLECTION),
    "map<text, int>, encode": Series("encode", "map", _COLLECTION),
    "map<text, int>, decode": Series("decode", "map", _COLLECTION),
    "vector<float, n> from list": Series("encode", "vector", _VECTOR),
    "vector<float, n> from float32 ndarray": Series("encode", "ndarray", _VECTOR),
    "vector<float, n> to list": Series("decode", "vector", _VECTOR),
    "vector<float, n> to NumPy": Series("decode to NumPy", "ndarray", _VECTOR),
    "rows (int, text) bound": Series("bind", "rows", _ROWS, rivals_up_to=10_000),
    "page (int, text) to tuples": Series("page", "rows", _ROWS),
}
