"""Replaces `bind_params`, which formats the parameters of simple statements as CQL literals."""

from __future__ import annotations

import datetime
import decimal
import sys
import types
import uuid
from collections.abc import Sequence
from typing import Any

from .. import _core
from ._origin import NotReplaced, expect_own, expect_parameters, is_function_of
from ._patch import Driver, Group, Patch

__all__ = ["CLUSTER", "statement_groups"]

CLUSTER = "cassandra.cluster"
"""The module that must have been imported before `SimpleStatements` is applied."""

_FUNCTIONS = tuple(
    f"cql_encode_{name}"
    for name in (
        *("none", "str", "object", "float", "bytes", "datetime", "date", "decimal"),
        *("map_collection", "list_collection", "set_collection"),
    )
)
_CALLED_METHODS = ("cql_encode_all_types", "cql_encode_object", "cql_encode_float")
"""The methods of `Encoder` that its other methods call."""
_BEFORE_EPOCH = datetime.datetime(1969, 12, 31, 23, 59, 58, 1)
_SAMPLES: list[Any] = [
    *(None, True, 0, -(10**40), 0.1, -0.0, 1e300, float("inf"), float("-inf"), float("nan")),
    *("", "it's", "''", "\u20ac\U0001f600", b"", b"\x00\xff", bytearray(b"a"), memoryview(b"b")),
    *(uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), decimal.Decimal("1.50"), decimal.Decimal("NaN")),
    *(
        datetime.date(2026, 11, 23),
        datetime.date(999, 1, 1),
        datetime.time(1, 2, 3, 4),
        _BEFORE_EPOCH,
    ),
    *(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    datetime.datetime(2026, 11, 23, 1, 2, 3, 456_789, datetime.timezone.utc),
    *([], [1, "a", [None]], (1, (2.5,)), {1}, frozenset({"a"}), {}, {"a": [1], 2: {"b": b"c"}}),
]


class SimpleStatements(Group):
    """Patches `bind_params`, which formats parameters into the text of simple statements.

    The function is also called for simple statements in batches.

    The group waits until `cassandra.cluster` is imported. It patches the function in
    `cassandra.query`, and also the reference to it in `cassandra.cluster`. Other modules that
    imported the function earlier keep the driver's own. One of them is `cassandra.metadata`, which
    calls the function only for the driver's own queries of the schema.
    """

    part = "simple_statements"
    needs = CLUSTER
    names = ("query.bind_params",)

    def patches(self, driver: Driver) -> list[Patch]:
        original = vars(driver.query).get("bind_params")
        if original is None:
            raise NotReplaced("the driver has no such function")
        if not is_function_of(driver.query, original):
            raise NotReplaced("it has been replaced")
        expect_parameters(original, ("query", "params", "encoder"))
        module = sys.modules["cassandra.encoder"]
        owner = module.Encoder
        for name in _CALLED_METHODS:
            expect_own(module, owner, name)
        originals = {name: vars(owner)[name] for name in _CALLED_METHODS}
        functions = {
            name: expect_own(module, owner, name) for name in _FUNCTIONS if name in vars(owner)
        }

        def problem() -> str:
            for name, function in originals.items():
                if vars(owner).get(name) is not function:
                    return f"cassandra.encoder.Encoder.{name} has been replaced"
            return ""

        stand_in = _core.LiteralsStandIn(
            original,
            owner,
            lambda: not problem(),
            functions,
            (uuid.UUID, decimal.Decimal, types.MethodType),
            owner().cql_encode_datetime(_BEFORE_EPOCH) == "-1999",
        )
        replacement = stand_in.function()
        _expect_same_texts(replacement, original, owner())
        if stand_in.counts()[1]:
            # The replacement has passed a call to the original, perhaps because of only one sample.
            # Then the original has written all samples of the call, so nothing was compared. So
            # the samples are compared again, each in a separate call.
            for sample in _SAMPLES:
                _expect_same_texts(replacement, original, owner(), [sample])
        bind_params_patches = [
            Patch(
                driver.query,
                "bind_params",
                self.names[0],
                replacement,
                stand_in.counts,
                problem=problem,
            )
        ]
        cluster = sys.modules[self.needs]
        if vars(cluster).get("bind_params") is original:
            bind_params_patches.append(
                Patch(
                    cluster,
                    "bind_params",
                    self.names[0],
                    replacement,
                    stand_in.counts,
                    is_listed=False,
                )
            )
        for patch in bind_params_patches:
            patch.count_from_here()
        return bind_params_patches


def _expect_same_texts(
    replacement: Any, original: Any, encoder: Any, samples: Sequence[Any] = _SAMPLES
) -> None:
    """Compares the texts that `replacement` and the driver's `original` write for samples.

    Raises: NotReplaced, with the first sample that they write differently.
    """
    names = [f"n{number}" for number in range(len(samples))]
    text = "\n".join("%s" for _ in samples)
    text_by_name = "\n".join(f"%({name})s" for name in names)
    by_name = dict(zip(names, samples, strict=True))
    for query, parameters in ((text, tuple(samples)), (text, [*samples]), (text_by_name, by_name)):
        ours, theirs = (
            function(query, parameters, encoder) for function in (replacement, original)
        )
        if ours != theirs:
            pairs = zip(samples, ours.split("\n"), theirs.split("\n"), strict=False)
            sample = next((sample for sample, one, other in pairs if one != other), parameters)
            raise NotReplaced(f"it writes {sample!r} differently from turbocql")


def statement_groups() -> list[Group]:
    """The group of simple statements."""
    return [SimpleStatements()]
