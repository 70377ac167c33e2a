"""Checks the quotes of a CSV file that pyarrow reads, and replaces its escapes."""

from __future__ import annotations

import io
import re
from typing import Any, BinaryIO

from .from_text import library
from .reader import Reader

__all__ = ["CheckedQuotes", "unescaped"]

_ESCAPE, _QUOTE = b"\xfe\xfe", b"\xff\xff"
"""The bytes that stand for an escaped escape character and an escaped quote while pyarrow splits
cells. They do not occur in UTF-8."""
_BOM = b"\xef\xbb\xbf"
_STEP = 1 << 20


class CheckedQuotes(io.RawIOBase):
    """A stream of a CSV file's bytes that refuses text after a closing quote, which pyarrow itself
    would accept. The stream replaces the escapes in the file by `_ESCAPE` and `_QUOTE`.
    """

    def __init__(self, reader: Reader, file: BinaryIO) -> None:
        self._reader, self._file = reader, file
        self._shows_values = reader.context.shows_values
        options = reader.context.csv
        self._escape = (options.escape or "").encode()
        self._separators = options.delimiter.encode() + b"\r\n"
        separators = re.escape(self._separators)
        # The pattern matches a cell in quotes. Group 1 is the byte after the cell, if this byte is
        # not a separator. Group 2 matches if the text ends within quotes.
        self._quoted_cell = re.compile(
            rb'[%b]"[^"]*(?:""[^"]*)*(?:"(?:(?=[%b])|(.))|(\Z))' % (separators, separators),
            re.DOTALL,
        )
        self._pending, self._carry = b"", b"\n"
        self.bytes_returned, self._open_quote_offset = 0, 0
        self.ends_in_quotes = False
        """Whether the bytes returned so far end within quotes."""
        self.has_escapes = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def read(self, size: int = -1) -> bytes:
        """The next bytes, which never end between a CR and an LF, or within an escape.

        If they ended between a CR and an LF, pyarrow would drop the LF, even within quotes.

        Raises: `EncodeError` for text after a closing quote.
        """
        new_bytes = self._file.read(size - len(self._pending))
        chunk, self._pending = self._pending + new_bytes, b""
        needs_next_byte = chunk.endswith(b"\r") or self._ends_in_escape(chunk)
        if needs_next_byte and len(chunk) > 1:
            chunk, self._pending = chunk[:-1], chunk[-1:]
        elif needs_next_byte and new_bytes:
            chunk += self._file.read(1)
        if self._escape:
            chunk = self._mark_escapes(chunk)
        if not self.bytes_returned and 0 < len(chunk) < size and not re.search(b"[\r\n]", chunk):
            # pyarrow recognizes a header only if a line end follows it.
            self._pending += self._file.read(1)
            chunk += b"" if self._pending else b"\n"
        self._follow_quotes(chunk)
        self.bytes_returned += len(chunk)
        return chunk

    def _ends_in_escape(self, chunk: bytes) -> bool:
        """Whether the last byte is an escape character that is not escaped itself."""
        if not self._escape or not chunk.endswith(self._escape):
            return False
        return (len(chunk) - len(chunk.rstrip(self._escape))) % 2 == 1

    def _mark_escapes(self, chunk: bytes) -> bytes:
        if b"\xfe" in chunk or b"\xff" in chunk:
            raise self._reader.file_error("the file is not UTF-8")
        if self._escape not in chunk:
            return chunk
        self.has_escapes = True
        return chunk.replace(self._escape * 2, _ESCAPE).replace(self._escape + b'"', _QUOTE)

    def _follow_quotes(self, chunk: bytes) -> None:
        """Checks the quotes of a chunk, and updates `_carry` for the next chunk.

        A chunk may end with quotes. Only the first byte of the next chunk shows whether they close
        a cell or are escaped. So `_carry` keeps these quotes and the byte before them. If this byte
        is within a quoted cell, `_carry` has a line end and a quote in place of the byte, as if the
        cell began there.

        Raises: `EncodeError` for text after a closing quote.
        """
        if len(self._carry) == 1 and b'"' not in chunk:
            self._carry = chunk[-1:] or self._carry
            return
        body_offset = self.bytes_returned - len(self._carry)
        if not self.bytes_returned and chunk.startswith(_BOM):
            chunk, body_offset = chunk[len(_BOM) :], len(_BOM) - 1
        body = self._carry + (chunk or b"\n")
        length = len(body)
        body = body.rstrip(b'"')
        quotes = length - len(body)
        open_quote = self._find_open_quote(body, body_offset)
        self.ends_in_quotes, self._open_quote_offset = open_quote is not None, open_quote or 0
        self._carry = (b'\n"' if self.ends_in_quotes else body[-1:]) + b'"' * quotes

    def _find_open_quote(self, body: bytes, body_offset: int) -> int | None:
        """The offset in the file of the opening quote of a cell that `body` does not close.

        It is `None` if there is no such cell. `body` begins outside quotes, at `body_offset` in the
        file.
        """
        quotes = self._balanced_quotes(body)
        if quotes is not None:
            return self._file_offset(body_offset, int(quotes[-1])) if len(quotes) % 2 else None
        last_match = None
        for last_match in self._quoted_cell.finditer(body):
            if last_match[1] is not None:
                self._raise_misplaced(body, last_match, body_offset)
        if last_match is None or last_match[2] is None:
            return None
        return self._file_offset(body_offset, last_match.start() + 1)

    def _balanced_quotes(self, body: bytes) -> Any:
        """The positions of all quotes; `None` if they are not well-formed, or if NumPy is missing.

        Quotes are well-formed if each opening quote follows a separator or a quote, and each
        closing quote precedes a separator or a quote.
        """
        np = _numpy()
        if np is None:
            return None
        data = np.frombuffer(body, np.uint8)
        quotes = np.flatnonzero(data == ord('"'))
        for neighbours in (quotes[0::2] - 1, quotes[1::2] + 1):
            neighbour_bytes = data.take(neighbours)
            is_expected = neighbour_bytes == ord('"')
            for separator in self._separators:
                is_expected |= neighbour_bytes == separator
            if not is_expected.all():
                return None
        return quotes

    def _file_offset(self, body_offset: int, position: int) -> int:
        # If the earlier chunks end within a quoted cell, `body` begins with a line end and a quote.
        # The quote is at position 1. It stands for the opening quote of the cell, which is in an
        # earlier chunk.
        is_carried = position == 1 and self.ends_in_quotes
        return self._open_quote_offset if is_carried else body_offset + position

    def _raise_misplaced(self, body: bytes, match: re.Match[bytes], body_offset: int) -> None:
        quote_offset = self._file_offset(body_offset, match.start() + 1)
        line = 1 + _lines_before(self._reader, quote_offset)
        text = re.split(rb"[\r\n]", body[match.start() + 1 : match.end() + 40])[0]
        shown = text.replace(_ESCAPE, self._escape * 2).replace(_QUOTE, self._escape + b'"')
        hint = "a quote within a cell is written twice"
        if not self._escape:
            hint += (
                '. For files that write it as \\", as dsbulk and cqlsh do, pass'
                ' csv={"escape": "\\\\"}'
            )
        got = f", got {shown[:80].decode('utf-8', 'replace')!r}" if self._shows_values else ""
        raise self._reader.file_error(
            f"line {line}: expected a delimiter after the closing quote of a cell{got}: {hint}"
        )


def _numpy() -> Any:
    """The module NumPy, or `None`. NumPy is several times as fast as the regular expression."""
    try:
        import numpy
    except ModuleNotFoundError:
        return None
    return numpy


def _lines_before(reader: Reader, offset: int) -> int:
    """Returns how many lines end before `offset`, a number of decompressed bytes.

    This function reads the file again.
    """
    file, raw_file = reader.open_bytes()
    count, last_byte = 0, b""
    with raw_file:
        while offset > 0 and (chunk := file.read(min(offset, _STEP))):
            offset -= len(chunk)
            count += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n")
            count -= last_byte == b"\r" and chunk[:1] == b"\n"
            last_byte = chunk[-1:]
    return count


def unescaped(cells: Any, escape: str) -> Any:
    """Cells with their escapes replaced by the escaped characters.

    Some writers escape quotes, but not the escape character itself. So their cells may have an
    escape character before an ordinary character. In a cell with such an escape character, only the
    escapes of quotes are replaced.
    """
    pa = library()
    pc, escape_byte = pa.compute, escape.encode()
    cells = pc.replace_substring(cells, _QUOTE, b'"')
    has_single_escape = pc.match_substring(cells, escape_byte)
    unescaped_cells = pc.replace_substring(cells, _ESCAPE, escape_byte)
    unchanged_cells = pc.replace_substring(cells, _ESCAPE, escape_byte * 2)
    return pc.if_else(has_single_escape, unchanged_cells, unescaped_cells)
