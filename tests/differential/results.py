"""Compares pages of rows that turbocql and scylla-driver (the reference) decode.

Each driver must decode a cell inside a page to the same value to which it decodes the cell alone.
If the two drivers decode a cell differently, a rule of docs/differences.md must explain the
difference.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cassandra.cqltypes import Int32Type
from cassandra.protocol import ProtocolHandler, ResultMessage
from tests.support.results import result

from turbocql.codec import CqlType
from turbocql.errors import DecodeError
from turbocql.protocol import RowsDecoder

from .cases import COMPILED, DECODE, Case, shown
from .compare import TYPES
from .drivers import Refusal, our_decode, our_encode, their_compiled_decode, their_decode
from .explain import Unclaimed, explain
from .generate import Generator
from .mutate import mutated
from .normal import normal
from .shapes import Shape

Cell = bytes | None
Rows = list[tuple[Any, ...]]

READERS: dict[str, Any] = {
    DECODE: ResultMessage,
    COMPILED: ProtocolHandler.message_types_by_opcode[ResultMessage.opcode],
}
ALONE = {DECODE: their_decode, COMPILED: their_compiled_decode}
DECODERS = {kind: RowsDecoder(kind) for kind in ("named", "tuple", "dict")}

ONE_ROW = result([("a", "int")], [[b"\0\0\0\1"]])
ODD = {
    "bytes-after-the-last-row": ONE_ROW + b"\0",
    "a-number-of-rows-below-zero": result([("a", "int")])[:-4] + b"\xff" * 4,
    "unknown-flags": ONE_ROW[:6] + b"\1" + ONE_ROW[7:],
    "a-cell-that-ends-early": result([("a", "text")], [[b"abc"]])[:-1],
}
"""Maps a name in docs/differences.md to a body that only the reference decodes."""

NOT_DESCRIBED = "vector<v{a int, b text}, 3>"
"""The reference cannot parse this type. The UDT's name "v" is sent in hexadecimal as "76", and the
reference reads "76" as a number."""
COLUMN_TYPES = [shape for cql_type, shape in TYPES.items() if cql_type != NOT_DESCRIBED]
FIRST_TYPES = [shape.cql for shape in COLUMN_TYPES]
"""The types that the first column of a page can have. Each has an equal share of the pages."""


class Page:
    """A page that one driver has decoded. `about` has everything except the rows."""

    def __init__(self, names: Any, rows: Rows, paging_state: Any, metadata_id: Any) -> None:
        self.rows = rows
        self.about = [list(names), paging_state, metadata_id]


def our_page(body: bytes, known: Any, kind: str) -> Page | str:
    """Decodes a page with turbocql, or returns the text of turbocql's error.

    `known` describes the columns if the body does not describe them. If `known` is None, all calls
    with the same `kind` share one decoder, because programs also share a decoder.
    """
    decoder = DECODERS[kind] if known is None else RowsDecoder(kind, columns=known)  # type: ignore[arg-type]
    try:
        page = decoder.decode(body)
    except DecodeError as error:
        return str(error)
    rows = [tuple(row.values() if kind == "dict" else row) for row in page.rows]
    names = [column.name for column in page.columns]
    return Page(names, rows, page.paging_state, page.metadata_id)


def their_page(reader: Any, body: bytes, known: Any, protocol: int) -> Page | str:
    """Decodes a page with `reader`, a message class of the reference. Returns an error as text."""
    try:
        page = reader.recv_body(io.BytesIO(body), protocol, None, {}, known, None)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    new_id = getattr(page, "result_metadata_id", None)
    return Page(page.column_names, page.parsed_rows, page.paging_state, new_id)


def odd_cell(generator: Generator, shape: Shape, protocol: int) -> Cell:
    """Returns the bytes of a random value, damaged in 30 % of the cases."""
    rng = generator.rng
    data: Any = Refusal("")
    while isinstance(data, Refusal):
        data = our_encode(shape, generator.value(shape), protocol)
    return mutated(rng, shape, data) if rng.random() < 0.3 else bytes(data)


def tame_cell(generator: Generator, shape: Shape, protocol: int) -> Cell:
    """Returns a null, an empty cell, or a random cell that both drivers can decode."""
    if generator.rng.random() < 0.1:
        return generator.rng.choice((None, b""))
    for _ in range(30):
        data = odd_cell(generator, shape, protocol)
        assert data is not None
        read = [call(shape, data, protocol) for call in (our_decode, *ALONE.values())]
        if not any(isinstance(value, Refusal) for value in read):
            return data
    return None


@cache
def definition(shape: Shape) -> str:
    """Returns the type as text, with the keyspaces of UDTs, because the reference needs them."""
    return CqlType(shape.reference).definition


def same(shape: Shape, one: Any, other: Any, *, ours: bool) -> bool:
    """Returns whether two values are equal, and whether their classes have the same name.

    One driver has decoded both values.
    """
    form: bool = normal(shape, one, ours=ours) == normal(shape, other, ours=ours)
    return form and type(one).__name__ == type(other).__name__


@dataclass
class PageReport:
    """The numbers of compared pages and cells, the number of differences by rule, and failures."""

    counts: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def fail(self, what: str, body: bytes) -> None:
        """Records a failure."""
        self.failures.append(f"{what}: {body.hex()}"[:2000])

    def cells(self, shape: Shape, data: bytes, protocol: int, body: bytes) -> None:
        """Compares the drivers on one cell alone. The rules must explain each difference."""
        for way in ALONE:
            try:
                self.rules.update(explain(Case(way, shape, data, protocol)))
            except Unclaimed as unclaimed:
                self.fail(str(unclaimed), body)

    def rows(
        self, page: Page, way: str | None, shapes: list[Shape], rows: list[list[Cell]], body: bytes
    ) -> None:
        """Checks a page that one driver has decoded, value by value.

        Each value must equal the value that the same driver decodes from the cell alone. The driver
        is turbocql if `way` is `None`, and the reference otherwise.
        """
        read = our_decode if way is None else ALONE[way]
        for row, cells in zip(page.rows, rows, strict=True):
            for shape, value, data in zip(shapes, row, cells, strict=True):
                alone = None if data is None else read(shape, data, 4)
                if isinstance(alone, Refusal) or not same(shape, value, alone, ours=way is None):
                    self.fail(f"{way or 'turbocql'}: {shown(value)} is {shown(alone)}", body)
                self.counts["cells"] += 1

    def page(self, generator: Generator, shapes: list[Shape], tame: bool) -> None:
        """Compares one page of random rows.

        `tame_cell` makes the cells if `tame` is true. Otherwise, `odd_cell` makes them.
        """
        rng = generator.rng
        protocol = rng.choice((3, 4, 5))
        cell = tame_cell if tame else odd_cell
        count = rng.choice((0, 1, 2, 5))
        rows = [[cell(generator, shape, protocol) for shape in shapes] for _ in range(count)]
        columns = [(f"c{i}", definition(shape)) for i, shape in enumerate(shapes)]
        known = rng.random() < 0.3
        body = result(
            len(columns) if known else columns,
            rows,
            shared=rng.random() < 0.5,
            paging_state=rng.choice((None, b"state", b"")),
            # The reference ignores a metadata id that comes without column descriptions.
            metadata_id=None if known else rng.choice((None, None, b"id")),
        )
        theirs = [("ks", "t", f"c{i}", shape.reference) for i, shape in enumerate(shapes)]
        kind = rng.choice(("named", "tuple", "dict"))
        pages: dict[str | None, Page | str] = {
            None: our_page(body, columns if known else None, kind),
            **{
                way: their_page(reader, body, theirs if known else None, protocol)
                for way, reader in READERS.items()
            },
        }
        for way, page in pages.items():
            read = our_decode if way is None else ALONE[way]
            refused = any(
                data is not None and isinstance(read(shape, data, protocol), Refusal)
                for row in rows
                for shape, data in zip(shapes, row, strict=True)
            )
            if isinstance(page, str) != refused:
                self.fail(f"{way or 'turbocql'}: cells say {refused}, the page {page}", body)
            elif isinstance(page, Page):
                self.rows(page, way, shapes, rows, body)
                self.counts[f"read by {way or 'turbocql'}"] += 1
        abouts = [page.about for page in pages.values() if isinstance(page, Page)]
        if any(about != abouts[0] for about in abouts):
            self.fail(f"not the same metadata: {abouts}", body)
        self.counts["read by all"] += len(abouts) == len(pages)
        for row in rows:
            for shape, data in zip(shapes, row, strict=True):
                if data is not None:
                    self.cells(shape, data, protocol, body)
        self.counts["pages"] += 1


def pages_of(cql_type: str, pages: int) -> int:
    """Returns the number of pages whose first column has this type, out of `pages` pages in total.

    The numbers for two types differ by at most 1.
    """
    types = len(FIRST_TYPES)
    return pages // types + (FIRST_TYPES.index(cql_type) < pages % types)


def compare_pages(cql_type: str, pages: int, seed: int) -> PageReport:
    """Compares the pages whose first column has this type. `pages` is the total for all types."""
    generator, report = Generator(seed ^ zlib.crc32(cql_type.encode())), PageReport()
    rng = generator.rng
    for _ in range(pages_of(cql_type, pages)):
        shapes = [TYPES[cql_type], *rng.choices(COLUMN_TYPES, k=rng.choice((0, 1, 3, 6)))]
        report.page(generator, shapes, tame=rng.random() < 0.7)
    return report


def new_id_without_description() -> tuple[Page | str, Page | str]:
    """Returns the pages that turbocql and the reference decode from one body.

    The body has a new metadata id, but no column descriptions.
    """
    body = struct.pack(">iii", 2, 4 | 8, 1) + b"\0\2id" + struct.pack(">i", 0)
    return (
        our_page(body, [("a", "int")], "tuple"),
        their_page(ResultMessage, body, [("ks", "t", "a", Int32Type)], 4),
    )


def describable(shape: Shape) -> bool:
    """Returns whether the reference can parse the description of a column of this type."""
    body = result([("c", definition(shape))])
    return isinstance(their_page(ResultMessage, body, None, 4), Page)
