"""Rules for the Python values that turbocql and the reference (scylla-driver) encode differently.

These rules are about collections, tuples, UDTs and vectors.
"""

from __future__ import annotations

from collections import UserString
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from .cases import Difference
from .drivers import Refusal, our_encode
from .rule import TAKEN, Rule, encoding, gives, only_they_take, only_we_take

_ORDERED = ("list", "vector", "tuple")


class Turned(NamedTuple):
    """A named tuple with the fields of `u{a int, b text}` in reverse order."""

    b: str
    a: int


def _is_bytes(value: Any) -> bool:
    if isinstance(value, memoryview):
        return value.itemsize == 1
    return isinstance(value, (bytes, bytearray))


def _is_masked(value: Any) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def _unordered(d: Difference) -> bool:
    if isinstance(d.given, Mapping):
        return only_they_take(d, *_ORDERED, "set")
    return only_they_take(d, *_ORDERED) and isinstance(d.given, (set, frozenset))


def _unindexed(d: Difference) -> bool:
    """Returns whether only the reference encodes a value without `__getitem__` as a tuple.

    An example is a dict view. Sets and mappings have another rule.
    """
    other = isinstance(d.given, (set, frozenset, Mapping)) or hasattr(d.given, "__getitem__")
    return only_they_take(d, "tuple") and not other


def _flat(d: Difference) -> bool:
    if isinstance(d.given, str):
        return only_they_take(d, "vector", "tuple")
    flat = isinstance(d.given, UserString) or _is_bytes(d.given)
    return only_they_take(d, *_ORDERED, "set") and flat


def _masked(d: Difference) -> bool:
    return only_they_take(d, *_ORDERED, "set") and _is_masked(d.given)


def _short(d: Difference) -> bool:
    sequence = isinstance(d.given, (list, tuple)) and not hasattr(d.given, "_fields")
    return only_we_take(d, "udt") and sequence and len(d.given) < len(d.shape.parts)


def _long(d: Difference) -> bool:
    sequence = isinstance(d.given, (list, tuple)) and not hasattr(d.given, "_fields")
    return only_they_take(d, "udt") and sequence and len(d.given) > len(d.shape.parts)


def _by_name(d: Difference) -> bool:
    known = isinstance(d.given, Mapping) and set(d.given) <= set(d.shape.names)
    return only_we_take(d, "udt") and known


def _by_number(d: Difference) -> bool:
    if not only_they_take(d, "udt") or not isinstance(d.given, Mapping):
        return False
    # The reference looks fields up by their number. A `Counter` returns 0 for a missing key, so the
    # reference also encodes a `Counter`.
    found = [gives(d.given.__getitem__, i) for i in range(len(d.shape.names))]
    return not any(isinstance(part, Refusal) for part in found)


def _turned(d: Difference) -> bool:
    """Returns whether the reference encodes a named tuple by position, and turbocql by field name.

    In this case the fields of the tuple are not the fields of the type, or their order differs.
    """
    if not d.encoding or d.kind != "udt" or not isinstance(d.given, tuple):
        return False
    fields = getattr(d.given, "_fields", d.shape.names)
    if fields == d.shape.names:
        return False
    named = {name: getattr(d.given, name) for name in d.shape.names if name in fields}
    ours = our_encode(d.case.shape, named, d.case.protocol)
    return bool(d.ours == ours) or d.we_refuse


def _no_record(d: Difference) -> bool:
    """Returns whether only the reference encodes a value that is not a record as a UDT.

    Scalars, values that have none of the fields, and values with `__getitem__` are not records.
    """
    if not only_they_take(d, "udt") or isinstance(d.given, (list, tuple, Mapping)):
        return False
    named = any(hasattr(d.given, name) for name in d.shape.names)
    scalar = isinstance(d.given, (str, bytes, Number, type))
    return scalar or not named or hasattr(d.given, "__getitem__")


def _null_in_vector(d: Difference) -> bool:
    return only_they_take(d, "vector") and any(part is None for part in d.given)


def _ready(d: Difference) -> bool:
    return only_we_take(d, "vector") and _is_bytes(d.given) and d.ours == bytes(d.given)


COMPOUND: Sequence[Rule] = [
    Rule(
        "sets-and-mappings-as-sequences",
        TAKEN,
        "A set has no order, and of a mapping the values would be lost.",
        _unordered,
        encoding("list<int>", {1, 2}),
    ),
    Rule(
        "views-as-tuples",
        TAKEN,
        "A tuple's components have places; what cannot be indexed has none.",
        _unindexed,
        encoding("tuple<int, int>", {1: 2, 3: 4}.keys()),
    ),
    Rule(
        "text-and-bytes-as-sequences",
        TAKEN,
        "Their characters and bytes would be taken apart.",
        _flat,
        encoding("list<int>", b"ab"),
    ),
    Rule(
        "masked-arrays",
        TAKEN,
        "The reference stores a nan for every number that is hidden.",
        _masked,
        encoding("list<double>", np.ma.masked_array([1.5, 2.5], [False, True])),
    ),
    Rule(
        "short-sequences-as-records",
        TAKEN,
        "Fields at the end that are missing are null, as they are in tuples of both drivers.",
        _short,
        encoding("u{a int, b text}", (1,)),
    ),
    Rule(
        "long-sequences-as-records",
        TAKEN,
        "What is too much would be lost.",
        _long,
        encoding("u{a int, b text}", (1, "x", 2.5)),
    ),
    Rule(
        "mappings-as-records",
        TAKEN,
        "Fields have names, and so have a dict's values.",
        _by_name,
        encoding("u{a int, b text}", {"a": 1}),
    ),
    Rule(
        "mappings-by-number-as-records",
        TAKEN,
        "0 is no field's name.",
        _by_number,
        encoding("u{a int, b text}", {0: 1, 1: "x"}),
    ),
    Rule(
        "named-tuples-of-another-order",
        TAKEN,
        "The value of one field would be stored in another.",
        _turned,
        encoding("u{a int, b text}", Turned("x", 1)),
    ),
    Rule(
        "values-that-are-no-records",
        TAKEN,
        "A record of nulls, or of characters, would be stored.",
        _no_record,
        encoding("u{a int, b text}", 5),
    ),
    Rule(
        "nulls-in-vectors",
        TAKEN,
        "No element of a vector can be null: zero bytes stood for it, which need not be a value.",
        _null_in_vector,
        encoding("vector<frozen<list<int>>, 1>", [None]),
    ),
    Rule(
        "encoded-vectors",
        TAKEN,
        "Bytes of exactly the vector's size can only be the vector, encoded already.",
        _ready,
        encoding("vector<float, 2>", bytes(8)),
    ),
]
