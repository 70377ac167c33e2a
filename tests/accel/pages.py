"""Tasks that decode values and result pages.

A task is a description and a function. The function is called without and with the accelerator,
and the results are compared.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np
from cassandra import cqltypes, protocol
from tests.accel.answers import answer
from tests.accel.tasks import Task
from tests.differential.cases import shown
from tests.differential.generate import Generator
from tests.differential.results import definition, odd_cell, tame_cell
from tests.differential.shapes import Shape
from tests.support.results import result

HANDLERS = {
    "compiled": protocol.ProtocolHandler,
    "pure": protocol._ProtocolHandler,
    "lazy": protocol.LazyProtocolHandler,
    "arrays": protocol.NumpyProtocolHandler,
}


READERS = {
    kind: handler.message_types_by_opcode[8]
    for kind, handler in HANDLERS.items()
    if handler is not None
}


def deep(value: Any) -> Any:
    """Converts a value to nested tuples and lists with the names of its classes and attributes."""
    if isinstance(value, type):
        return named(value)
    cls = type(value)
    # For named tuples, `__module__` is left out, because it depends on the module that made the
    # class first.
    said = ("" if hasattr(cls, "_fields") else cls.__module__, cls.__name__)
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value).tolist()
        return (
            said,
            value.dtype.str,
            value.dtype.byteorder,
            mask,
            repr(value.tolist()),
            repr(value.fill_value),
        )
    if isinstance(value, np.ndarray):
        return said, str(value.dtype), [deep(part) for part in value.tolist()]
    if isinstance(value, dict):
        return said, [(deep(key), deep(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return said, getattr(value, "_fields", None), [deep(part) for part in value]
    if said[0] == "cassandra.util":
        return said, deep(vars(value))
    return said, shown(value)


def named(cls: Any) -> Any:
    return answer(lambda: cls.cql_parameterized_type())


def _rows(made: Any) -> Any:
    """Returns the rows of a page. If `made` is an iterator, takes at most 101 rows or errors from
    it.
    """
    if not hasattr(made, "__next__"):
        return deep(made)
    rows: list[Any] = []
    while True:
        row = answer(next, made, "no more")
        rows.append(deep(row))
        if row == "no more" or len(rows) > 100:
            return rows


class Disguise:
    """An encryption policy that inverts all bits of some columns."""

    def __init__(self, classes: dict[str, Any]) -> None:
        self._classes = classes

    def contains_column(self, column: Any) -> bool:
        """Returns whether the column is encrypted."""
        return column.col in self._classes

    def column_type(self, column: Any) -> Any:
        """Returns the type of the decrypted column."""
        return self._classes[column.col]

    def decrypt(self, column: Any, given: bytes) -> bytes:
        """Inverts all bits again."""
        return bytes(byte ^ 0xFF for byte in given)


def page_answer(
    reader: Any, body: bytes, version: int, types: Any = None, known: Any = None, policy: Any = None
) -> Any:
    message = reader(2)
    # In a frame, warnings and other data may precede the result. So `source` starts with a few
    # other bytes. The next 4 bytes are the kind of the result. All these bytes are skipped here,
    # because the driver has read them before it reads rows.
    before = zlib.crc32(body) % 5
    source = io.BytesIO(bytes(before) + body)
    source.read(before + 4)
    said = answer(message.recv_results_rows, source, version, types or {}, known, policy)
    found = vars(message)
    rows = _rows(found.get("parsed_rows"))
    if types:
        for cls in cqltypes.UserType._cache.values():
            cls.mapped_class = None
    classes = found.get("column_types") or []
    columns = [(*c[:3], named(c[3])) for c in found.get("column_metadata") or []]
    return (
        said,
        sorted(found),
        found.get("column_names"),
        [named(cls) for cls in classes],
        columns,
        rows,
        found.get("paging_state"),
        found.get("result_metadata_id"),
        source.tell(),
    )


def deserialize_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Yields tasks that decode valid or damaged bytes with the methods of a shape's CQL type."""
    for shape in shapes:
        generator = Generator(zlib.crc32(shape.cql.encode()) + 1)
        for i in range(count):
            version = (3, 4, 5, 4, 4)[i % 5]
            given = (odd_cell if i % 4 == 0 else tame_cell)(generator, shape, version)
            cls = shape.reference

            def task(cls: Any = cls, given: Any = given, version: int = version) -> Any:
                read = [] if given is None else [answer(cls.deserialize, given, version)]
                read.append(answer(cls.from_binary, given, version))
                written = [answer(cls.serialize, value, version) for value in read]
                return [deep(value) for value in read], written

            said = None if given is None else given.hex()
            yield f"{shape.cql}, version {version}, bytes {said}", task


class Mapped:
    """A class that is registered for user-defined types."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __repr__(self) -> str:
        return f"Mapped({self.fields})"


def special_page_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Yields tasks that read special pages of three kinds.

    A page of the first kind does not describe its columns, so the driver uses the description in a
    prepared statement. A page of the second kind has an encrypted column. For the user-defined
    types in a page of the third kind, the program has registered a class.
    """
    rng = Random(13)
    generator = Generator(14)
    udts = [shape for shape in shapes if shape.bare.kind == "udt"]
    for i in range(count):
        chosen = [rng.choice(shapes) for _ in range(2)]
        if udts and i % 2:
            chosen[0] = rng.choice(udts)
        columns = [(f"c{n}", definition(shape)) for n, shape in enumerate(chosen)]
        known = [("ks", "t", f"c{n}", shape.reference) for n, shape in enumerate(chosen)]
        names = [shape.bare.name for shape in chosen if shape.bare.kind == "udt"]
        types: Any = {"ks": dict.fromkeys(names, Mapped)} if i % 3 else {}
        for turn in range(3):
            version = rng.choice((3, 4, 5))
            rows = [[tame_cell(generator, shape, version) for shape in chosen] for _ in range(2)]
            turned = [
                [row[0], None if row[1] is None else bytes(byte ^ 0xFF for byte in row[1])]
                for row in rows
            ]
            policy = Disguise({"c1": chosen[1].reference})
            for kind, reader in READERS.items():
                if kind == "arrays":
                    continue
                said = f"page, {kind}, of {[s.cql for s in chosen]}: {rows}"
                body = result(2, rows)
                yield f"known {said}", partial(page_answer, reader, body, version, types, known)
                if turn == 2:
                    yield (
                        f"other {said}",
                        partial(page_answer, reader, body, version, {}, known[:1] * 2),
                    )
                body = result(columns, rows)
                yield f"registered {said}", partial(page_answer, reader, body, version, types)
                body = result([columns[0], ("c1", "blob")], turned)
                yield (
                    f"encrypted {said}",
                    partial(page_answer, reader, body, version, types, None, policy),
                )


def page_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Yields tasks that read pages. A page may be valid, have damaged cells, be cut off, or have an
    extra byte.
    """
    rng = Random(11)
    generator = Generator(12)
    for i in range(count * 6):
        # For every third `i`, all columns have scalar types.
        some = shapes if i % 3 else [shape for shape in shapes if not shape.bare.parts]
        chosen = [rng.choice(some) for _ in range(rng.randrange(1, 5))]
        columns = [(f"c{n}", definition(shape)) for n, shape in enumerate(chosen)]
        for _ in range(3):
            version = rng.choice((3, 4, 5))
            rows = [
                [
                    tame_cell(generator, shape, version)
                    if rng.random() < 0.95
                    else odd_cell(generator, shape, version)
                    for shape in chosen
                ]
                for _ in range(rng.randrange(4))
            ]
            state = rng.choice((None, None, b"", b"state"))
            new_id = rng.choice((None, None, b"id")) if version == 5 else None
            body = result(columns, rows, shared=i % 2 == 0, paging_state=state, metadata_id=new_id)
            if rng.random() < 0.05:
                body = body[: rng.randrange(4, len(body))] if i % 2 else body + b"\0"
            for kind, reader in READERS.items():
                if kind == "arrays":
                    continue
                said = f"page, {kind}, of {[s.cql for s in chosen]}: {body.hex()}"
                yield said, partial(page_answer, reader, body, version)


def array_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Yields tasks that read pages as NumPy arrays.

    The pages have no damaged cells, because the driver does not check the width of cells.
    """
    rng = Random(15)
    generator = Generator(16)
    numbers = [shape for shape in shapes if shape.kind in ("bigint", "int", "float", "double")]
    for _ in range(count * 2):
        chosen = [rng.choice(rng.choice((shapes, numbers))) for _ in range(3)]
        columns = [(f"c{n % 3}", definition(shape)) for n, shape in enumerate(chosen)]
        for _ in range(2):
            rows = [
                [tame_cell(generator, shape, 4) or None for shape in chosen]
                for _ in range(rng.randrange(5))
            ]
            body = result(columns, rows, paging_state=b"state")
            said = f"page, arrays, of {[s.cql for s in chosen]}: {body.hex()}"
            yield said, partial(page_answer, READERS["arrays"], body, 4)
