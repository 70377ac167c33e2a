"""Splits encoded compound values into cells, which are their encoded parts, and joins cells.

The framing of a compound value is its count of elements and the lengths of its cells. The code
follows the specification, not a driver.

Source: native_protocol_v5.spec, section 6; for vectors, Cassandra's CEP-30.
"""

from __future__ import annotations

import struct

from .shapes import Shape

Cell = bytes | None
WIDTHS = {"boolean": 1, "int": 4, "float": 4, "bigint": 8, "double": 8, "timestamp": 8}
WIDTHS |= {"uuid": 16, "timeuuid": 16}


def parts_of(shape: Shape, count: int) -> list[Shape]:
    """Returns the types of the first `count` cells of a value."""
    kind, parts = shape.bare.kind, shape.bare.parts
    if kind in ("tuple", "udt"):
        return list(parts[:count])
    return [parts[i % len(parts)] for i in range(count)]


def split(shape: Shape, data: bytes) -> list[Cell] | None:
    """Returns the cells of a compound value, or `None` if its framing is wrong."""
    known, wrong = _read(shape.bare, data)
    return None if wrong else known


def fault(shape: Shape, data: bytes) -> str:
    """Returns the framing fault of a compound value: "count", "short" or "trailing".

    Returns "" if the framing is right, and "no compound" for a type without parts.
    """
    return _read(shape.bare, data)[1]


def _read(bare: Shape, data: bytes) -> tuple[list[Cell], str]:
    if not bare.parts:
        return [], "no compound"
    known: list[Cell] = []
    try:
        if bare.kind == "vector":
            rest = _read_vector(bare, data, known)
        elif bare.kind in ("tuple", "udt"):
            rest = data
            while rest and len(known) < len(bare.parts):
                rest = _take(rest, known)
        else:
            (count,) = struct.unpack(">i", data[:4])
            if count < 0:
                return [], "count"
            rest = data[4:]
            for _ in range(count * len(bare.parts)):
                rest = _take(rest, known)
    except (struct.error, ValueError, IndexError):
        return known, "short"
    # Bytes after the last known field of a UDT are valid: they encode fields that `ALTER TYPE`
    # added later.
    return known, "trailing" if rest and bare.kind != "udt" else ""


def _take(data: bytes, known: list[Cell]) -> bytes:
    (length,) = struct.unpack(">i", data[:4])
    if length > len(data) - 4:
        raise ValueError(length)
    known.append(None if length < 0 else data[4 : 4 + length])
    return data[4 + max(0, length) :]


def _read_vector(bare: Shape, data: bytes, known: list[Cell]) -> bytes:
    element = bare.parts[0]
    for _ in range(bare.dimension):
        length, start = (width(element), 0) if element.fixed_width else read_vint(data)
        if length > len(data) - start:
            raise ValueError(length)
        known.append(data[start : start + length])
        data = data[start + length :]
    return data


def width(element: Shape) -> int:
    """Returns the size in bytes of a vector's element. The elements must have a fixed width."""
    bare = element.bare
    if bare.kind == "vector":
        return bare.dimension * width(bare.parts[0])
    return WIDTHS[bare.kind]


def read_vint(data: bytes) -> tuple[int, int]:
    """Reads an unsigned vint. Returns the number, and the size of the vint in bytes."""
    extra = 8 - (data[0] ^ 0xFF).bit_length()
    if len(data) <= extra:
        raise ValueError("a vint that ends early")
    head = data[0] & (0x7F >> extra)
    return int.from_bytes(bytes([head]) + data[1 : 1 + extra], "big"), 1 + extra


def vint(number: int) -> bytes:
    """Encodes an unsigned vint of at most 8 bytes."""
    extra = max(0, (number.bit_length() - 1) // 7)
    mark = 0xFF & ~(0xFF >> extra)
    data = bytearray(number.to_bytes(1 + extra, "big"))
    data[0] |= mark
    return bytes(data)


def join(shape: Shape, cells: list[Cell]) -> bytes:
    """Encodes the cells as a compound value."""
    bare = shape.bare
    if bare.kind == "vector":
        known = [cell or b"" for cell in cells]
        return b"".join(
            cell if bare.parts[0].fixed_width else vint(len(cell)) + cell for cell in known
        )
    framed = b"".join(
        struct.pack(">i", -1) if cell is None else struct.pack(">i", len(cell)) + cell
        for cell in cells
    )
    if bare.kind in ("tuple", "udt"):
        return framed
    return struct.pack(">i", len(cells) // len(bare.parts)) + framed
