"""Counts simple statements with parameters. The driver formats these; nothing is replaced."""

from __future__ import annotations

import sys

from .. import _core
from ._origin import Left, documented, expect_parameters, is_function_of
from ._patch import Driver, Group, Patch
from ._status import ONLY_COUNTED

__all__ = ["CLUSTER", "statement_groups"]

CLUSTER = "cassandra.cluster"
"""The module that the group here waits for."""


class SimpleStatements(Group):
    """`bind_params`, which formats parameters into the text of simple statements, also in batches.

    The group waits until `cassandra.cluster` is imported, and patches its reference to the function
    too. Other modules that imported the function before keep the driver's function, and their calls
    are not counted. One of these modules is `cassandra.metadata`: it calls the function to read
    schemas, which the program does not ask for.
    """

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
