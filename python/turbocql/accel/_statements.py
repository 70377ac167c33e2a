"""Statements with parameters in their text, which stay the driver's: they are counted."""

from __future__ import annotations

import sys

from .. import _core
from ._origin import Left, documented, expect_parameters, is_function_of
from ._seams import Driver, Group, Patch
from ._status import ONLY_COUNTED

__all__ = ["CLUSTER", "statement_groups"]

CLUSTER = "cassandra.cluster"
"""What the group here waits for."""


class SimpleStatements(Group):
    """`bind_params`, which makes the parameters of simple statements text, in requests and batches.

    Modules that have imported the function before keep the driver's: `cassandra.metadata` asks for
    schemas with it, which is not the program's doing. So it waits until they have.
    """

    needs = CLUSTER
    names = ("query.bind_params",)

    def patches(self, driver: Driver) -> list[Patch]:
        original = vars(driver.query).get("bind_params")
        if original is None:
            raise Left("the driver has no such function")
        if not is_function_of(driver.query, original):
            raise Left("somebody has replaced it")
        expect_parameters(original, ("query", "params", "encoder"))
        stand_in = _core.CountedStandIn(original)
        ours = stand_in.function(documented(original))
        found = [Patch(driver.query, "bind_params", self.names[0], ours, stand_in.counts)]
        cluster = sys.modules[self.needs]
        if vars(cluster).get("bind_params") is original:
            found.append(
                Patch(cluster, "bind_params", self.names[0], ours, stand_in.counts, is_told=False)
            )
        found[0].why = ONLY_COUNTED
        return found


def statement_groups() -> list[Group]:
    """All there are."""
    return [SimpleStatements()]
