"""Patches methods of the executors with which `execute_concurrent` sends requests."""

from __future__ import annotations

import heapq
import threading
from typing import Any

from .. import _core
from ._checked import Checked, loaded
from ._origin import NotReplaced
from ._patch import Driver, Group, Patch
from ._responses import result_sets
from ._sources import Sources
from ._thread_events import thread_events

__all__ = ["CONCURRENT", "concurrent_groups"]

CONCURRENT = "cassandra.concurrent"

_SOURCES: dict[str, tuple[str, ...]] = {
    "_ConcurrentExecutor._execute": ("9d9e339aaeca", "084b1a50ccc4", "34ef2a47b097"),
    "_ConcurrentExecutor._on_success": ("acd8c2260035",),
    "ConcurrentExecutorListResults._put_result": ("9d68da9970fa",),
    "ConcurrentExecutorGenResults._put_result": ("51de5a3d970b",),
}
"""The methods that are replaced, and the digests of their known sources."""
_EXECUTE_NEXT = ("c57ab8641e46",)
_OWN = (
    "_execute_next",
    "_execute",
    "_on_success",
    "_put_result",
    "__setattr__",
    "__getattribute__",
)
"""The two subclasses of `_ConcurrentExecutor` must not define these methods, except the methods
that `_SOURCES` lists for the subclass. `_ConcurrentExecutor` itself must not define the last two
methods, and may define the others."""


def _unpack(pair: Any) -> tuple[Any, Any]:
    statement, parameters = pair
    return statement, parameters


class Concurrent(Group):
    """Patches the methods with which an executor sends requests and stores their results."""

    part = "concurrent"
    needs = CONCURRENT
    names = tuple(f"concurrent.{name}" for name in _SOURCES)

    def patches(self, driver: Driver) -> list[Patch]:
        module, cluster = loaded("concurrent"), loaded("cluster")
        sources = Sources()
        checked = Checked(sources)
        originals = {
            name: checked.expect(module, name, digests) for name, digests in _SOURCES.items()
        }
        checked.expect(module, "_ConcurrentExecutor._execute_next", _EXECUTE_NEXT)
        classes = (module.ConcurrentExecutorListResults, module.ConcurrentExecutorGenResults)
        for owner in (module._ConcurrentExecutor, *classes):
            own = {name.partition(".")[2] for name in _SOURCES if name.startswith(owner.__name__)}
            inherits = owner in classes
            names = [name for name in _OWN if name not in own and (inherits or name[:2] == "__")]
            checked.expect_none(owner, *names)
        result = module.ExecutionResult
        if not issubclass(result, tuple) or result._fields != ("success", "result_or_exc"):
            raise NotReplaced("cassandra.concurrent.ExecutionResult has been replaced")
        for name, value in (
            ("ExecutionResult", result),
            ("ResultSet", cluster.ResultSet),
            ("Condition", threading.Condition),
            ("heappush", heapq.heappush),
        ):
            checked.add_entry(module, name, value)
        sets = result_sets(cluster, checked)
        events = thread_events(cluster, checked)
        source = sources.source(module, "_ConcurrentExecutor._execute")
        executors = _core.Executors(
            *classes,
            checked.usual(),
            events,
            sets,
            result,
            tuple.__new__,
            heapq.heappush,
            enumerate,
            _unpack,
            "_pending_executions" in source,
            "timeout=None" in source,
        )
        patches = []
        for name, original in originals.items():
            owner_name, _, method = name.partition(".")
            stand_in = _core.ExecutorStandIn(original, executors, method)
            patches.append(
                Patch(
                    vars(module)[owner_name],
                    method,
                    f"concurrent.{name}",
                    stand_in.function(),
                    stand_in.counts,
                    problem=checked.problem,
                )
            )
        return patches


def concurrent_groups() -> list[Group]:
    """All groups that patch `cassandra.concurrent`."""
    return [Concurrent()]
