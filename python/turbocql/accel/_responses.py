"""Patches methods of the driver's futures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .. import _core
from ._checked import Checked, loaded
from ._frames import expect_fields
from ._origin import NotReplaced
from ._patch import Driver, Group, Patch
from ._sources import Sources
from ._statements import CLUSTER
from ._thread_events import thread_events

__all__ = ["Responses", "native_responses", "result_sets"]

_SOURCES: dict[str, tuple[str, ...]] = {
    "_start_timer": ("a4fd3cc5d61c",),
    "_cancel_timer": ("da78b04d2bff",),
    "add_callback": ("9628a696959b",),
    "add_errback": ("a71cc4a37ef2",),
    "add_callbacks": ("47375aeeb1ec",),
    "clear_callbacks": ("cc6964d76c0c",),
    "result": ("398a901e2cf7",),
}
"""The replaced methods of `ResponseFuture` whose sources are the same in cassandra-driver and
scylla-driver, and the digests of their known sources."""
_OF_SCYLLA: dict[str, tuple[str, ...]] = {
    "__init__": ("dae7160b7809",),
    "_set_result": ("21c11fbdb9e7",),
    "_set_final_result": ("ba450955b251",),
}
_OF_CASSANDRA: dict[str, tuple[str, ...]] = {
    "__init__": ("fa48a4cbc973",),
    "_set_result": ("358651dab216",),
    "_set_final_result": ("84c38589ac1e",),
}
"""The replaced methods of `ResponseFuture` whose sources differ between the two drivers."""
_USE_MODULE = {"__init__", "_start_timer", "_set_result"}
"""The methods whose native stand-ins check at each call that names of the module
`cassandra.cluster` were not replaced. The stand-ins of all methods check attributes of classes."""
_IMITATED: dict[str, tuple[str, ...]] = {
    "cluster.ResponseFuture._time_remaining": ("fbe4115ebed8",),
    "policies.NoSpeculativeExecutionPlan.next_execution": ("cf59b5678019",),
}
"""Functions that native code does not call, because it does their work itself."""


_RESULT_SET: dict[str, tuple[str, ...]] = {
    "ResultSet.__init__": ("f37e2ab3a721",),
    "ResultSet._set_current_rows": ("1dc97145244b",),
}

_ATTRIBUTES = (
    *("session", "row_factory", "_load_balancer", "message", "query", "timeout", "_retry_policy"),
    *("_metrics", "prepared_statement", "_bound_result_metadata", "_callback_lock", "_start_time"),
    *("_host", "_routing_token", "_control_connection_query_attempted", "_page_generation"),
    *("_retry_aborted", "_spec_execution_plan", "_event", "_errors", "_callbacks", "_errbacks"),
    *("_control_connection_requests", "attempted_hosts", "_continuous_paging_state", "_timer"),
    *("coordinator_host", "_warnings", "_custom_payload", "_paging_state", "_col_names"),
    *("_col_types", "_final_result"),
)
"""The attributes of futures that native code reads or sets in the dict of a future."""


def result_sets(cluster: ModuleType, checked: Checked) -> _core.ResultSets:
    """Returns an object with which native code makes instances of the driver's `ResultSet`.

    Raises: NotReplaced, if turbocql does not know this version of `ResultSet`.
    """
    for name, digests in _RESULT_SET.items():
        checked.expect(cluster, name, digests)
    checked.expect_none(cluster.ResultSet, "__setattr__", "__new__")
    sets = _core.ResultSets(cluster.ResultSet, object.__new__)
    samples: tuple[Any, ...] = (None, [], [(1,)], (), {}, 5)
    for rows in samples:
        own, native = cluster.ResultSet(_Columns, rows), sets.make(_Columns, rows)
        if type(own) is not type(native) or list(vars(own).items()) != list(vars(native).items()):
            raise NotReplaced("it makes result sets that differ from those of turbocql")
    return sets


class _Columns:
    """Imitates a future of the driver, to make sample result sets."""

    _col_names, _col_types = ("a",), (int,)


class Responses(Group):
    """Patches the methods that make futures, add callbacks to them, and set their results."""

    part = "responses"
    needs = CLUSTER
    names = tuple(f"cluster.ResponseFuture.{name}" for name in _SOURCES | _OF_SCYLLA)

    def patches(self, driver: Driver) -> list[Patch]:
        native = native_responses(driver)
        usual, of_classes = native.checked.usual(), native.checked.usual(with_entries=False)
        patches = []
        for name, original in native.originals.items():
            usual_of_method = usual if name in _USE_MODULE else of_classes
            stand_in = _core.ResponseStandIn(original, native.responses, usual_of_method, name)
            replacement = stand_in.function()
            patches.append(
                Patch(
                    loaded("cluster").ResponseFuture,
                    name,
                    f"cluster.ResponseFuture.{name}",
                    replacement,
                    stand_in.counts,
                    problem=native.checked.problem,
                )
            )
        return patches


@dataclass(frozen=True)
class NativeResponses:
    """What the groups that make futures share."""

    responses: _core.Responses
    checked: Checked
    """What `responses` depends on."""
    originals: dict[str, Any]
    """The driver's methods of `ResponseFuture` that are replaced, by their names."""


def native_responses(driver: Driver) -> NativeResponses:
    """Returns the object with which native code makes and ends futures. All groups share it.

    Raises: NotReplaced, if turbocql does not know the driver's futures.
    """
    if driver.responses is None:
        driver.responses = _new_responses(driver)
    native: NativeResponses = driver.responses
    return native


def _new_responses(driver: Driver) -> NativeResponses:
    cluster = loaded("cluster")
    sources = Sources()
    checked = Checked(sources)
    owner = cluster.ResponseFuture
    is_scylla = "_routing_token" in sources.source(cluster, "ResponseFuture.__init__")
    digests = _SOURCES | (_OF_SCYLLA if is_scylla else _OF_CASSANDRA)
    originals = {
        name: checked.expect(cluster, f"ResponseFuture.{name}", digests[name]) for name in digests
    }
    for name, known in _IMITATED.items():
        module, _, function = name.partition(".")
        checked.expect(loaded(module), function, known)
    checked.expect_none(owner, "__setattr__", "__getattribute__", "__getattr__")
    expect_fields(checked, owner, _ATTRIBUTES)
    checked.add_entry(cluster, "time", time)
    checked.add_entry(cluster, "ResultMessage", driver.protocol.ResultMessage)
    checked.add_entry(cluster, "log", cluster.log)
    for name, number in (("RESULT_KIND_VOID", 1), ("RESULT_KIND_ROWS", 2)):
        if vars(cluster).get(name) != number:
            raise NotReplaced(f"cassandra.cluster.{name} has been replaced")
        checked.add_entry(cluster, name, vars(cluster)[name])
    events = thread_events(cluster, checked)
    sets = result_sets(cluster, checked)
    responses = _core.Responses(
        owner,
        events,
        cluster._NOT_SET,
        time,
        loaded("policies").NoSpeculativeExecutionPlan,
        driver.protocol.ResultMessage,
        cluster.log,
        sets,
        is_scylla,
    )
    return NativeResponses(responses, checked, originals)
