"""The bytes of CSV on their way to pyarrow: quotes are checked, and escapes are replaced."""

from __future__ import annotations

import io
import re
from typing import Any, BinaryIO

from .reader import Reader
from .text import library

__all__ = ["Checked", "unescaped"]

_ESCAPE, _QUOTE = b"\xfe\xfe", b"\xff\xff"
"""An escaped escape character and an escaped quote, until pyarrow has found the cells. UTF-8 has no
such bytes."""
_BOM = b"\xef\xbb\xbf"
_STEP = 1 << 20


class Checked(io.RawIOBase):
    """A file for pyarrow, which would take text after a closing quote as part of the cell."""

    def __init__(self, reader: Reader, file: BinaryIO) -> None:
        self._reader, self._file = reader, file
        options = reader.what.csv
        self._escape = (options.escape or "").encode()
        self._separators = options.delimiter.encode() + b"\r\n"
        separators = re.escape(self._separators)
        # A cell in quotes; the byte after it if that is no separator; or the end within quotes.
        self._quoted = re.compile(
            rb'[%b]"[^"]*(?:""[^"]*)*(?:"(?:(?=[%b])|(.))|(\Z))' % (separators, separators),
            re.DOTALL,
        )
        self._before, self._carry = b"", b"\n"
        self.given, self._opened = 0, 0
        self.is_open = False
        """Whether the bytes up to now end within quotes."""
        self.has_escapes = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def read(self, size: int = -1) -> bytes:
        """No part of the file ends with a CR that an LF follows: pyarrow drops the LF, in quotes
        too. None ends between an escape character and what it stands before.

        Raises: `EncodeError` for text after a closing quote.
        """
        new = self._file.read(size - len(self._before))
        found, self._before = self._before + new, b""
        held = found.endswith(b"\r") or self._is_cut(found)
        if held and len(found) > 1:
            found, self._before = found[:-1], found[-1:]
        elif held and new:
            found += self._file.read(1)
        if self._escape:
            found = self._replaced(found)
        if not self.given and 0 < len(found) < size and not re.search(b"[\r\n]", found):
            # For pyarrow, a header without the end of a line is no header.
            self._before += self._file.read(1)
            found += b"" if self._before else b"\n"
        self._check(found)
        self.given += len(found)
        return found

    def _is_cut(self, found: bytes) -> bool:
        """Whether the last byte is an escape character that is not escaped itself."""
        if not self._escape or not found.endswith(self._escape):
            return False
        return (len(found) - len(found.rstrip(self._escape))) % 2 == 1

    def _replaced(self, found: bytes) -> bytes:
        if b"\xfe" in found or b"\xff" in found:
            raise self._reader.wrong("the file is not UTF-8")
        if self._escape not in found:
            return found
        self.has_escapes = True
        return found.replace(self._escape * 2, _ESCAPE).replace(self._escape + b'"', _QUOTE)

    def _check(self, found: bytes) -> None:
        """Follows quotes from part to part.

        What is carried over is the byte before the next part, or a quote that stands for the one of
        an open cell, and quotes at the end: the byte after them tells what they are.
        """
        if len(self._carry) == 1 and b'"' not in found:
            self._carry = found[-1:] or self._carry
            return
        start = self.given - len(self._carry)
        if not self.given and found.startswith(_BOM):
            found, start = found[len(_BOM) :], len(_BOM) - 1
        body = self._carry + (found or b"\n")
        whole = len(body)
        body = body.rstrip(b'"')
        quotes = whole - len(body)
        opened = self._opened_in(body, start)
        self.is_open, self._opened = opened is not None, opened or 0
        self._carry = (b'\n"' if self.is_open else body[-1:]) + b'"' * quotes

    def _opened_in(self, body: bytes, start: int) -> int | None:
        """The place in the file of the quote of a cell that `body` does not end.

        `start` is the place of `body`, which begins outside quotes.
        """
        places = self._if_plain(body)
        if places is not None:
            return self._place(start, int(places[-1])) if len(places) % 2 else None
        last = None
        for last in self._quoted.finditer(body):
            if last[1] is not None:
                self._refuse(body, last, start)
        if last is None or last[2] is None:
            return None
        return self._place(start, last.start() + 1)

    def _if_plain(self, body: bytes) -> Any:
        """The places of all quotes, if each belongs to a cell in quotes as it should.

        Then each that opens has a separator before it, or is the second of two; each that closes
        has one after it, or is the first of two.
        """
        np = _numpy()
        if np is None:
            return None
        data = np.frombuffer(body, np.uint8)
        places = np.flatnonzero(data == ord('"'))
        for beside in (places[0::2] - 1, places[1::2] + 1):
            found = data.take(beside)
            fits = found == ord('"')
            for separator in self._separators:
                fits |= found == separator
            if not fits.all():
                return None
        return places

    def _place(self, start: int, at: int) -> int:
        # The quote that was carried over stands for the one of an earlier part.
        return self._opened if at == 1 and self.is_open else start + at

    def _refuse(self, body: bytes, found: re.Match[bytes], start: int) -> None:
        place = self._place(start, found.start() + 1)
        line = 1 + _lines_before(self._reader, place)
        text = re.split(rb"[\r\n]", body[found.start() + 1 : found.end() + 40])[0]
        shown = text.replace(_ESCAPE, self._escape * 2).replace(_QUOTE, self._escape + b'"')
        hint = "a quote within a cell is written twice"
        if not self._escape:
            hint += (
                '. For files that write it as \\", as dsbulk and cqlsh do, pass'
                ' csv={"escape": "\\\\"}, or --escape "\\" on the command line'
            )
        raise self._reader.wrong(
            f"line {line}: expected a delimiter after the closing quote of a cell, got"
            f" {shown[:80].decode('utf-8', 'replace')!r}: {hint}"
        )


def _numpy() -> Any:
    """NumPy if it is installed, which is several times as quick as a regular expression."""
    try:
        import numpy
    except ModuleNotFoundError:
        return None
    return numpy


def _lines_before(reader: Reader, place: int) -> int:
    """The number of lines that end before a place of a file, found by a second reading."""
    file, plain = reader.bytes()
    count, last = 0, b""
    with plain:
        while place > 0 and (found := file.read(min(place, _STEP))):
            place -= len(found)
            count += found.count(b"\n") + found.count(b"\r") - found.count(b"\r\n")
            count -= last == b"\r" and found[:1] == b"\n"
            last = found[-1:]
    return count


def unescaped(cells: Any, escape: str) -> Any:
    """Cells with the characters that were escaped.

    Some writers escape quotes alone. A cell with an escape character before any other character is
    of such a writer, and has its escape characters as they are.
    """
    pa = library()
    pc, own = pa.compute, escape.encode()
    cells = pc.replace_substring(cells, _QUOTE, b'"')
    is_plain = pc.match_substring(cells, own)
    single = pc.replace_substring(cells, _ESCAPE, own)
    double = pc.replace_substring(cells, _ESCAPE, own * 2)
    return pc.if_else(is_plain, double, single)
