"""Counts simple statements with parameters.

The driver still formats the parameters: the stand-in only counts each call and hands it to the
original.
"""

from __future__ import annotations

import sys

from .. import _core
from ._origin import Left, documented, expect_parameters, is_function_of
from ._patch import Driver, Group, Patch
from ._status import ONLY_COUNTED

__all__ = ["CLUSTER", "statement_groups"]

CLUSTER = "cassandra.cluster"
"""`SimpleStatements` is applied only after this module is imported."""


class SimpleStatements(Group):
    """`bind_params`, which formats parameters into the text of simple statements, also in batches.

    The group waits until `cassandra.cluster` is imported. It patches the function in
    `cassandra.query`, and also the reference to it in `cassandra.cluster`. Other modules that
    imported the function before keep the driver's function, and their calls are not counted. One of
    these modules is `cassandra.metadata`. Its calls are for the driver's own queries of the schema,
    which the program does not ask for.
    """

    part = "simple_statements"
    needs = CLUSTER
    names = ("query.bind_params",)

    def patches(self, driver: Driver) -> list[Patch]:
        original = vars(driver.query).get("bind_params")
        if original is None:
            raise Left("the driver has no such function")
        if not is_function_of(driver.query, original):
            raise Left("it has been replaced")
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
    """All groups that only count statements."""
    return [SimpleStatements()]
