"""Replaces the functions with which the driver reads pages of rows and makes named rows."""

from __future__ import annotations

import collections
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from .. import _core
from ._arrays import Arrays
from ._origin import NotReplaced, expect_own, expect_parameters
from ._patch import Driver, Group, Patch

__all__ = ["NamedRows", "Results"]


class Results(Group):
    """Patches the function with which one of the driver's protocol handlers reads pages of rows."""

    part = "rows"

    _PARAMETERS = (
        "self",
        "f",
        "protocol_version",
        "user_type_map",
        "result_metadata",
        "column_encryption_policy",
    )

    def __init__(self, handler: str) -> None:
        self._handler = handler
        self.names = (f"protocol.{handler}: recv_results_rows",)

    def patches(self, driver: Driver) -> list[Patch]:
        protocol = driver.protocol
        handler = getattr(protocol, self._handler, None)
        if handler is None:
            raise NotReplaced("the driver has no such handler")
        owner = handler.message_types_by_opcode[protocol.ResultMessage.opcode]
        pure = owner is protocol.ResultMessage
        if self._handler == "_ProtocolHandler" and handler is protocol.ProtocolHandler:
            raise NotReplaced("it is the same as protocol.ProtocolHandler")
        for name in ("recv_results_metadata", "read_type", "recv_body", "recv"):
            expect_own(protocol, protocol.ResultMessage, name)
            if name in vars(owner) and not pure:
                raise NotReplaced(f"its message class overrides {name}")
        original = vars(owner).get("recv_results_rows")
        if original is None:
            raise NotReplaced("the driver has no such function")
        expect_parameters(original, self._PARAMETERS)
        deserializers = None
        if pure:
            expect_own(protocol, owner, "recv_results_rows")
        else:
            if getattr(original, "__module__", None) != "cassandra.row_parser":
                raise NotReplaced("it has been replaced")
            deserializers = importlib.import_module("cassandra.deserializers")
        shape, arrays = "list", None
        finish: Callable[..., Any] = _identity
        if self._handler == "LazyProtocolHandler":
            shape, finish = "lazy", _generated
        elif self._handler == "NumpyProtocolHandler":
            arrays = Arrays(original, owner)
            shape, finish = "arrays", arrays.finish
        plans, describe = driver.plans, protocol.ColDesc

        def plan(metadata: Any) -> _core.ResultPlan:
            if arrays is None:
                return plans.of_result(metadata, deserializers)
            if arrays.are_the_drivers():
                return plans.of_result(metadata, deserializers, arrays.width)
            return _core.ResultPlan(list(metadata), None, [], [])

        stand_in = _core.ResultStandIn(
            original,
            owner,
            plan,
            lambda policy, metadata: plans.of_secrets(policy, metadata, describe, deserializers),
            driver.read_ways(),
            not pure,
            shape,
            finish,
        )
        replacement = stand_in.function()
        counts, learned = stand_in.counts, stand_in.learned
        return [
            Patch(
                owner,
                "recv_results_rows",
                self.names[0],
                replacement,
                counts,
                learned,
                problem=(lambda: arrays.problem) if arrays else str,
            )
        ]


def _identity(rows: Any) -> Any:
    return rows


def _generated(rows: Any) -> Any:
    """Yields the rows. `LazyProtocolHandler` returns a generator, so this function is one too."""
    yield from rows


class NamedRows(Group):
    """Patches `namedtuple` in `cassandra.query`, with which the driver makes the classes of rows.

    With its own `namedtuple`, the driver makes a class for each result. The replacement makes one
    class for all results with the same column names.
    """

    part = "named_rows"
    names = ("query.namedtuple",)
    _MAX_CLASSES = 512

    def patches(self, driver: Driver) -> list[Patch]:
        query = driver.query
        original = vars(query).get("namedtuple")
        if original is not collections.namedtuple:  # noqa: PYI024
            raise NotReplaced("it has been replaced")
        row_classes: dict[tuple[str, ...], Any] = {}
        counts = [0, 0, 0]

        def namedtuple(typename: Any, field_names: Any, *arguments: Any, **options: Any) -> Any:
            if typename != "Row" or arguments or options or isinstance(field_names, str):
                counts[1] += 1
                return collections.namedtuple(typename, field_names, *arguments, **options)  # noqa: PYI024
            names = tuple(field_names)
            row_class = row_classes.get(names)
            if row_class is None:
                counts[2] += 1
                module = sys._getframe(1).f_globals.get("__name__", "__main__")
                cls = collections.namedtuple(typename, names, module=module)  # type: ignore[misc]  # noqa: PYI024
                if len(row_classes) >= self._MAX_CLASSES:
                    row_classes.clear()
                row_class = row_classes[names] = _core.NamedStandIn(cls, len(names)).function()
            else:
                counts[0] += 1
            return row_class

        functools.update_wrapper(namedtuple, original)
        # Pickle looks up a function by its module and name.
        namedtuple.__module__ = query.__name__
        return [
            Patch(
                query,
                "namedtuple",
                self.names[0],
                namedtuple,
                lambda: (counts[0], counts[1]),
                lambda: counts[2],
            )
        ]
