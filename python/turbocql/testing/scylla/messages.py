"""Reads and rewrites bodies of EXECUTE, QUERY and BATCH, as far as the simulator needs."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..frames import FrameError, Reader, int32, short_bytes, value_bytes

__all__ = ["Execute", "Paging", "batch_parts", "paging_of", "read_values", "unwrap", "wrap"]

VALUES, SKIP_METADATA, PAGE_SIZE, PAGING_STATE, NAMES = 0x01, 0x02, 0x04, 0x08, 0x40
"""Flags of the parameters of a statement."""
_MAGIC = b"\xffempty-page\xff"
_SHORT_BYTES = 256


class Execute(NamedTuple):
    """The fields of an EXECUTE. `parameters` begin with two bytes of consistency and the flags."""

    id: bytes
    metadata_id: bytes | None
    parameters: bytes
    block: int | None

    @classmethod
    def parse(cls, body: bytes, *, has_metadata_id: bool, has_block: bool) -> Execute:
        """Reads a body. With `has_metadata_id`, the body has a metadata id. With `has_block`, its
        last byte is `block`, which has four bits of a tablet's version (`Tablet.matches`).

        Raises: `FrameError` if the parameters or `block` are missing.
        """
        reader = Reader(body)
        statement_id = reader.short_bytes()
        metadata_id = reader.short_bytes() if has_metadata_id else None
        parameters = reader.remaining()
        block = None
        if has_block:
            if not parameters:
                raise FrameError("an EXECUTE without the byte of the tablet's version")
            block, parameters = parameters[-1], parameters[:-1]
        if len(parameters) < 3:
            raise FrameError("an EXECUTE without parameters")
        return cls(statement_id, metadata_id, parameters, block)

    @property
    def flags(self) -> int:
        """The flags of the parameters."""
        return self.parameters[2]

    def short_values(self) -> tuple[bytes | None, ...] | None:
        """Returns the bound values, or `None` if they have more than 256 bytes together."""
        values, _ = read_values(self.parameters, 1 << 16)
        if sum(len(value) for value in values if value is not None) > _SHORT_BYTES:
            return None
        return tuple(values)

    def body(self, parameters: bytes, *, skips_metadata: bool) -> bytes:
        """The body for Cassandra, whose EXECUTE has neither a metadata id nor `block`."""
        flags = parameters[2] & ~SKIP_METADATA | (SKIP_METADATA if skips_metadata else 0)
        return b"%b%b%c%b" % (short_bytes(self.id), parameters[:2], flags, parameters[3:])


class Paging(NamedTuple):
    """The page size and paging state of a statement, and the state's offsets in the parameters."""

    size: int | None
    state: bytes | None
    start: int
    end: int

    def with_state(self, parameters: bytes, state: bytes | None) -> bytes:
        """Returns the parameters with another paging state; with no paging state for `None`."""
        flags = parameters[2] & ~PAGING_STATE | (0 if state is None else PAGING_STATE)
        inserted = b"" if state is None else value_bytes(state)
        before, after = parameters[3 : self.start], parameters[self.end :]
        return b"%b%c%b%b%b" % (parameters[:2], flags, before, inserted, after)


def read_values(parameters: bytes, limit: int) -> tuple[list[bytes | None], list[str]]:
    """The first `limit` values of a statement, and their names if they have names.

    A value that is null or unset is `None`.
    """
    flags = parameters[2]
    if not flags & VALUES:
        return [], []
    reader = Reader(parameters, 3)
    count = min(reader.short(), limit)
    if not flags & NAMES:
        return [reader.value() for _ in range(count)], []
    names: list[str] = []
    values: list[bytes | None] = []
    for _ in range(count):
        names.append(reader.string())
        values.append(reader.value())
    return values, names


def paging_of(parameters: bytes) -> Paging:
    """Reads the page size and the paging state from the parameters of a statement."""
    flags = parameters[2]
    reader = Reader(parameters, 3)
    if flags & VALUES:
        for _ in range(reader.short()):
            if flags & NAMES:
                reader.short_bytes()
            reader.value()
    size = reader.int32() if flags & PAGE_SIZE else None
    start = reader.at
    state = reader.value() if flags & PAGING_STATE else None
    return Paging(size, state, start, reader.at)


def wrap(remaining: int, state: bytes | None) -> bytes:
    """Makes a paging state. With it, the client requests `remaining` more empty pages, and after
    them the page of `state`, which is Cassandra's paging state or `None` for the first page.
    """
    return _MAGIC + int32(remaining) + value_bytes(state)


def unwrap(state: bytes | None) -> tuple[int, bytes | None] | None:
    """Returns the arguments with which `wrap` made `state`, or `None` if `wrap` did not make it."""
    if state is None or not state.startswith(_MAGIC):
        return None
    reader = Reader(state, len(_MAGIC))
    return reader.int32(), reader.value()


def batch_parts(body: bytes) -> list[str | bytes]:
    """The statements of a BATCH: the text of each, or its id if it is prepared."""
    reader = Reader(body, 1)
    parts: list[str | bytes] = []
    for _ in range(reader.short()):
        is_prepared = reader.byte()
        parts.append(reader.short_bytes() if is_prepared else reader.long_string())
        for _ in range(reader.short()):
            reader.value()
    return parts


def batch_with_texts(body: bytes, texts: dict[str, str]) -> bytes:
    """The body of a BATCH with some texts replaced. `texts` maps old texts to new texts."""
    reader = Reader(body, 1)
    count = reader.short()
    parts = [body[:1], struct.pack(">H", count)]
    for _ in range(count):
        start = reader.at
        if reader.byte():
            reader.short_bytes()
            parts.append(body[start : reader.at])
        else:
            text = reader.long_string()
            data = texts.get(text, text).encode()
            parts.append(b"\0" + int32(len(data)) + data)
        start = reader.at
        for _ in range(reader.short()):
            reader.value()
        parts.append(body[start : reader.at])
    return b"".join([*parts, reader.remaining()])
