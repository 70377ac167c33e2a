"""Words for the reasons why text files cannot be read, and for what to do about them."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = [
    "HIDDEN",
    "NOT_UTF_8",
    "csv_reason",
    "format_reason",
    "json_reason",
    "shown",
    "utf_8_reason",
]

_CONVERT = "convert the file to UTF-8, such as by iconv -f ISO-8859-1 -t UTF-8"
NOT_UTF_8 = f"expected UTF-8: {_CONVERT}"
HIDDEN = "values_in_errors is off"
"""The text that errors show in place of a value if the session's setting `values_in_errors` is
off."""
_DECOMPRESS = "decompress it first"
_BEGINNINGS = (
    (b"PAR1", "a Parquet file", 'pass format="parquet"'),
    (b"ARROW1", "an Arrow IPC file", 'pass format="arrow"'),
    (b"\xff\xff\xff\xff", "an Arrow IPC stream", 'pass format="arrow"'),
    (
        b"\xff\xfe\0\0",
        "a file in UTF-32",
        "convert it to UTF-8, such as by iconv -f UTF-32 -t UTF-8",
    ),
    (b"\xff\xfe", "a file in UTF-16", "convert it to UTF-8, such as by iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "a file in UTF-16", "convert it to UTF-8, such as by iconv -f UTF-16 -t UTF-8"),
    (b"PK\x03\x04", "a ZIP archive, such as a workbook of Excel", "export or unpack it first"),
    (b"\xd0\xcf\x11\xe0", "a document of Microsoft Office", "export it first"),
    (b"\x28\xb5\x2f\xfd", "a file compressed by zstd", _DECOMPRESS),
    (b"\xfd7zXZ", "a file compressed by xz", _DECOMPRESS),
    (b"\x04\x22\x4d\x18", "a file compressed by lz4", _DECOMPRESS),
    (b"Obj\x01", "an Avro file", "convert it first"),
)
"""For each of several other formats: the first bytes of its files, its description, and the advice
to give."""
_BZIP2 = re.compile(rb"BZh[1-9]1AY")
_UTF_16 = re.compile(rb"([^\0]\0){3}|(\0[^\0]){3}|[^\0]\0\0\0|\0\0\0[^\0]")
_UNEQUAL = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)(?:: (.*))?", re.DOTALL)


def format_reason(beginning: bytes, expected: str) -> str | None:
    """Why a text file with these first bytes cannot be read; `None` if it may be text."""
    for bytes_of_format, description, advice in _BEGINNINGS:
        if beginning.startswith(bytes_of_format):
            return f"expected {expected}, got {description}: {advice}"
    if _BZIP2.match(beginning):
        return f"expected {expected}, got a file compressed by bzip2: {_DECOMPRESS}"
    if _UTF_16.match(beginning):
        return (
            f"expected {expected} in UTF-8, got a file in UTF-16 or UTF-32: convert it, such as by"
            " iconv -f UTF-16LE -t UTF-8"
        )
    return None


def utf_8_reason(error: UnicodeError) -> str:
    """Why text cannot be decoded or encoded."""
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return f"expected UTF-8, got the byte 0x{byte:02x} at byte {error.start + 1}: {_CONVERT}"
    return "half of a surrogate pair, which UTF-8 cannot encode"


def json_reason(error: Exception, line: bytes, *, shows_values: bool) -> str:
    """Why a line is not an object of JSON."""
    hint = "expected JSON, one object in each line"
    if not shows_values:
        return f"{hint} ({HIDDEN})"
    if isinstance(error, RecursionError):
        return "expected JSON: it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return utf_8_reason(error)
    if not isinstance(error, json.JSONDecodeError):
        return f"{hint}: {error}"
    text = line.decode("utf-8", "replace").rstrip()
    if error.pos >= len(text):
        return (
            f"{hint}, got {shown(text)}, which has no end in this line: write each object in one"
            " line, as jq -c . does"
        )
    if error.msg == "Extra data":
        return f"{hint}, got {shown(text[error.pos :].lstrip())} after the object"
    # `msg` is a text such as "Expecting value".
    reason = f"{error.msg[:1].lower()}{error.msg[1:]}"
    return f"{hint}, got {shown(text)}: {reason} at character {error.pos + 1}"


def csv_reason(message: str, *, shows_values: bool) -> tuple[int | None, int, str] | None:
    """Parses pyarrow's error for a row of CSV that has too many or too few cells. Returns the
    number of the row, the number of cells that the row should have, and the reason in words. Rows
    are counted from 1, with the header. The number of the row is `None` if it is not known.

    `message` is the text of the error. Returns `None` if the error has another reason.
    """
    match = _UNEQUAL.search(message)
    if match is None:
        return None
    row = int(match[1]) if match[1] else None
    columns, cells = int(match[2]), int(match[3])
    reason = f"expected {columns} cell{'' if columns == 1 else 's'}, got {cells}"
    if match[4] and shows_values:
        reason += f": {shown(match[4])}"
    if 1 in (columns, cells):
        reason += '. A delimiter other than a comma is an option, csv={"delimiter": ";"}'
    else:
        reason += ". A cell with a delimiter in it is written in quotes"
    return row, columns, reason


def shown(cell: Any) -> str:
    """A value for an error, shortened to 60 characters."""
    text = repr(cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell)
    return text if len(text) <= 60 else f"{text[:60]}..."
