"""Rules for bytes that turbocql and the reference (scylla-driver) decode differently.

Some rules are about bytes that only one of the drivers refuses.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from . import cells
from .cases import COMPILED, DECODE, Difference
from .normal import normal
from .rule import GIVEN, REFUSED, Rule, compiled, decoding, gives, only_they_read, only_we_read

_DAY = 86_400_000_000_000
_CALENDAR = -62_135_596_800_000, 253_402_300_800_000
"""The milliseconds since 1970 of 0001-01-01 and 10000-01-01."""
_WIDTHS = {
    **{"tinyint": 1, "boolean": 1, "smallint": 2, "int": 4, "float": 4, "date": 4},
    **{"bigint": 8, "counter": 8, "double": 8, "time": 8, "timestamp": 8},
}
_ONE_TWO = struct.pack(">6i", 20, 2, 4, 1, 4, 2)
_TWO_THREE = struct.pack(">6i", 20, 2, 4, 2, 4, 3)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _not_text(d: Difference) -> bool:
    if not only_we_read(d, "text", "ascii"):
        return False
    kept: bool = d.ours.encode("utf-8", "surrogateescape") == d.given
    readable = gives(d.given.decode, "utf-8" if d.kind == "text" else "ascii")
    return kept and not isinstance(readable, str)


def _late(d: Difference) -> bool:
    return only_we_read(d, "time") and _number(d.given) >= _DAY


def _beyond(d: Difference) -> bool:
    first, end = _CALENDAR
    return only_we_read(d, "timestamp") and not first <= _number(d.given) < end


def _signalling(d: Difference) -> bool:
    if d.case.way != COMPILED or d.kind != "float" or len(d.given) != 4:
        return False
    bits = int.from_bytes(d.given, "big")
    quiet, rest = bits & 0x0040_0000, bits & 0x003F_FFFF
    return bits & 0x7F80_0000 == 0x7F80_0000 and not quiet and rest != 0


def _no_digits(d: Difference) -> bool:
    return only_we_read(d, "decimal") and len(d.given) == 4 and d.ours == 0


def _many_digits(d: Difference) -> bool:
    return only_we_read(d, "decimal") and abs(_number(d.given[4:])) >= 10**4300


def _both(d: Difference, *kinds: str) -> tuple[Any, Any] | None:
    """Returns the normal forms of the two values that the drivers decoded.

    Returns `None` if a driver refused the bytes, if the type is not one of `kinds`, or if the case
    is a value to encode.
    """
    if d.encoding or d.kind not in kinds or d.we_refuse or d.they_refuse:
        return None
    return normal(d.shape, d.ours, ours=True), normal(d.shape, d.theirs, ours=False)


def _repeated_keys(d: Difference) -> bool:
    """Returns whether the bytes of a map have the same key more than once.

    The reference keeps each entry. turbocql keeps only the last entry of a key.
    """
    both = _both(d, "map")
    if both is None:
        return False
    entries = d.theirs._items
    keys = [(key, normal(d.shape.parts[0], key, ours=False)) for key, _ in entries]
    repeated = any(
        key == other or form == same
        for i, (key, form) in enumerate(keys)
        for other, same in keys[:i]
    )
    return repeated and len(d.ours) < len(entries)


def _repeated_elements(d: Difference) -> bool:
    """Returns whether the bytes of a set have the same element more than once.

    The reference's set sorts its elements by `<`. Some elements, such as sets, have no total order.
    So the reference may keep several equal elements.
    """
    both = _both(d, "set")
    if both is None:
        return False
    ours, theirs = both
    return set(ours) <= set(theirs) and len(ours) < len(theirs)


def _nothing(d: Difference) -> bool:
    empty = not d.encoding and d.kind in ("tuple", "udt") and d.given == b""
    return empty and d.theirs is None and not d.we_refuse and set(d.ours) == {None}


def _empty_elements(d: Difference) -> bool:
    known = only_we_read(d, "vector") and cells.split(d.shape, d.given)
    return bool(known) and any(cell == b"" for cell in known or ())


def _nulls(d: Difference) -> bool:
    if d.case.way != COMPILED or not only_we_read(d, "list", "set", "map"):
        return False
    return None in (cells.split(d.shape, d.given) or [])


def _long_numbers(d: Difference) -> bool:
    width = _WIDTHS.get(d.kind, 0)
    longer = d.case.way == COMPILED and only_they_read(d, d.kind) and len(d.given) > width > 0
    return longer


def _wide_durations(d: Difference) -> bool:
    if not only_they_read(d, "duration"):
        return False
    parts = d.theirs.months, d.theirs.days
    return not all(-(2**31) <= part < 2**31 for part in parts)


def _fault(d: Difference) -> str:
    """Returns the framing fault of a compound value that only the reference decodes, or ""."""
    if not only_they_read(d, "list", "set", "map", "tuple", "udt", "vector"):
        return ""
    return cells.fault(d.shape, d.given)


DECODED: Sequence[Rule] = [
    Rule(
        "text-that-is-not-its-encoding",
        GIVEN,
        "One such cell would make its whole page unreadable; its bytes are kept.",
        _not_text,
        decoding("text", b"a\xff"),
    ),
    Rule(
        "times-after-the-day",
        GIVEN,
        "One such cell would make its whole page unreadable; the number is kept.",
        _late,
        decoding("time", struct.pack(">q", _DAY)),
    ),
    Rule(
        "timestamps-outside-python-s-calendar",
        GIVEN,
        "One such cell would make its whole page unreadable; the number is kept.",
        _beyond,
        decoding("timestamp", struct.pack(">q", _CALENDAR[1])),
    ),
    Rule(
        "decimals-without-digits",
        GIVEN,
        "The server stores them when it is sent some: a zero of that scale.",
        _no_digits,
        decoding("decimal", b"\0\0\0\2"),
    ),
    Rule(
        "decimals-of-thousands-of-digits-read",
        GIVEN,
        "The type has no such limit; Python's conversion of integers to text has.",
        _many_digits,
        decoding("decimal", b"\0\0\0\2\1" + bytes(3000)),
    ),
    Rule(
        "keys-that-python-finds-equal",
        GIVEN,
        "A dict has one entry per key; the server stores two only for 0.0 and -0.0.",
        _repeated_keys,
        decoding(
            "map<double, boolean>",
            b"\0\0\0\2\0\0\0\x08"
            + bytes(8)
            + b"\0\0\0\1\0\0\0\0\x08\x80"
            + bytes(7)
            + b"\0\0\0\1\1",
        ),
    ),
    Rule(
        "elements-that-have-no-order",
        GIVEN,
        "Sets of sets and of nans are not sorted by <: the reference gives one element twice.",
        _repeated_elements,
        decoding("set<frozen<set<int>>>", struct.pack(">i", 3) + _ONE_TWO + _TWO_THREE + _ONE_TWO),
    ),
    Rule(
        "empty-tuples-and-records",
        GIVEN,
        "It is a value whose every part is missing, and not null.",
        _nothing,
        decoding("tuple<int, text>", b""),
    ),
    Rule(
        "empty-elements-of-vectors",
        GIVEN,
        "They read as everywhere else: null where no value has zero bytes.",
        _empty_elements,
        decoding("vector<tinyint, 2>", b"\1\5\0"),
    ),
    Rule(
        "nulls-in-collections",
        GIVEN,
        "The reference's compiled reader, which is its default, knows none.",
        _nulls,
        compiled("list<int>", b"\0\0\0\1\xff\xff\xff\xff"),
    ),
    Rule(
        "signalling-nans",
        GIVEN,
        "The reference's compiled reader quiets them; its other one does as struct does.",
        _signalling,
        compiled("float", b"\x7f\x80\0\1"),
        since=(3, 14),
    ),
    Rule(
        "bytes-after-a-number",
        REFUSED,
        "The reference's compiled reader takes the first ones and drops the rest.",
        _long_numbers,
        compiled("int", b"\0\0\0\1\2"),
    ),
    Rule(
        "durations-beyond-32-bits",
        REFUSED,
        "Months and days have 32 bits: these bytes are no duration.",
        _wide_durations,
        decoding("duration", b"\xf8\xff\xff\xff\xff\xff\0\0"),
    ),
    Rule(
        "values-that-end-early",
        REFUSED,
        "The reference reads on in what it has: a text becomes shorter, a number null.",
        lambda d: (d.case.way == DECODE or d.kind == "vector") and _fault(d) == "short",
        decoding("list<text>", b"\0\0\0\1\0\0\0\5ab"),
    ),
    Rule(
        "counts-below-zero",
        REFUSED,
        "No collection has a negative number of elements.",
        lambda d: _fault(d) == "count",
        decoding("list<int>", b"\xff\xff\xff\xff"),
    ),
    Rule(
        "bytes-after-the-last-part",
        REFUSED,
        "Something was lost, or the type is not the one that the bytes were written as.",
        lambda d: d.kind != "udt" and _fault(d) == "trailing",
        decoding("list<int>", b"\0\0\0\0\1"),
    ),
]
